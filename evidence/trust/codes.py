"""Is a dormant code a bad concept? Codes of runs, the concept that each is matched with, and how that one is read.

The paper's Appendix K.3 takes a prototype that few patches are assigned to for a sign that its concept is not visible.
Here the match is computed (Hungarian method, with its p-value), and on drawn creatures some concepts are invisible by
construction: labels that are drawn at random and leave no trace in the image. The runs are those of `regularizers`.
"""

from pathlib import Path
from typing import Any

from results import Results, short
from train import run as train_all

from conceptlens.runs.opened import OpenedRun
from conceptlens.workflows.audit.audit import audit_run, save_audit


def measure(path: Path, out: Path) -> dict[str, Any]:
    audit = audit_run(OpenedRun.open(path))
    out.mkdir(parents=True, exist_ok=True)
    save_audit(audit, out)
    book = audit.codebook
    if book is None:
        return {"refused": audit.no_codebook}
    by_name = {each.concept: each for each in audit.concepts}
    share = {each.code: short(each.share.value, 6) for each in book.codes}
    return {
        "data": audit.data,
        "images": audit.images,
        "codes": book.size,
        "even_share": short(book.even_share, 6),
        "perplexity": short(book.perplexity),
        "dormant": [each.code for each in book.codes if "dormant" in each.kinds],
        "says": book.dormant_and_bad,
        "concepts": {
            each.concept: {
                "auc": short(each.auc),
                "holds": short(each.holds),
                "influence": short(each.influence),
                "kinds": each.kinds,
            }
            for each in audit.concepts
        },
        "matchings": {
            matching.kind: {
                "p": matching.p,
                "matches": [
                    {
                        "code": each.code,
                        "concept": each.concept,
                        "share": share[each.code],
                        "p": short(each.p),
                        "sure": each.sure,
                    }
                    for each in matching.matches
                    if each.concept in by_name
                ],
            }
            for matching in book.matchings
        },
    }


def run(work: Path, seeds: int, seconds: float, runs: list[Path]) -> None:
    """Runs with planted invisible concepts, and others that are there."""
    results = Results("codes.json.gz", seconds)
    found = {path.name: path for path in runs}
    train_all(work, seeds, seconds, tuned=True, only="IVQ")
    found |= {path.parent.name: path.parent for path in sorted((work / "tuned").glob("IVQ-s*/predictions"))}
    for name in results.missing(found):
        results.put(name, measure(found[name], work / "audits" / name))
