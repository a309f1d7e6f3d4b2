"""`rows.json.gz`: every training of the comparison, a line each, with its settings, scores and rank by epoch.

python evidence/ivq-ablations/collect.py --runs runs/ivq-ablations

A run that is not in the folder any more keeps the line it has.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from conceptlens.core.files import read_json, read_yaml, write_text
from conceptlens.reports.material import value_of

FILE = Path(__file__).parent / "rows.json.gz"
SCORES = (
    "class.accuracy",
    "class.balanced_accuracy",
    "concept.balanced_accuracy",
    "concept.auc",
    "concept.auc_within_class",
    "rank.effective",
    "rank.published",
)


def row(run: Path) -> dict[str, Any]:
    """What is kept of a run: trials have no test scores, as they do not look."""
    recipe: Any = read_yaml(run / "recipe.yaml")
    splits = read_json(run / "metrics.json")["splits"]
    told = {
        "run": run.name[: -len("-0123456789")],
        "regularizer": recipe["regularizer"],
        "aggregate": recipe["method"]["aggregate"],
        "learning_rate": recipe["training"]["learning_rate"],
        "concept_weight": recipe["training"]["loss"]["concept_weight"],
    }
    for split in ("val", "test"):
        if split in splits:
            scores = {name: value_of(splits[split], name) for name in SCORES}
            told[split] = {name: value for name, value in scores.items() if value is not None}
    lines = _history(run)
    if lines:
        ranks = [line["rank.effective"] for line in lines if line["split"] == "val" and "rank.effective" in line]
        told |= {"rank_by_epoch": [round(rank, 2) for rank in ranks], "seconds": lines[-1].get("time")}
    return told


def _history(run: Path) -> list[dict[str, Any]]:
    file = run / "history.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the comparison's folder")
    given = parser.parse_args()
    known = {each["run"]: each for each in (read_json(FILE)["rows"] if FILE.exists() else [])}
    found = [row(file.parent) for file in sorted((given.runs / "runs").glob("*/metrics.json"))]
    known |= {each["run"]: each for each in found if "rank_by_epoch" in each or each["run"] not in known}
    lines = [json.dumps(known[name]) for name in sorted(known)]
    write_text(FILE, '{"schema": 1, "rows": [\n' + ",\n".join(lines) + "\n]}\n")
    print(f"{len(found)} runs, {len(lines)} rows")


if __name__ == "__main__":
    main()
