"""Tables, verdicts and figures from what run.py, leak.py and collapse.py wrote.

    python evidence/pf-cbm/leak.py --rows OUT
    python evidence/pf-cbm/tables.py --rows OUT --out evidence/pf-cbm

Writes tables.md, verdicts.json and figures. Numbers are means over seeds ± their standard deviation. A difference has
an interval of 95 %: images are drawn again, each with the mean of its seeds, in both conditions alike.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import equal
import numpy as np
from choice import FAMILIES, worth
from conditions import known_rows, page_table
from draw import conditions, ellipses, panel, sweep

from conceptlens.core.files import read_text, stored, write_json, write_text
from trainings import Results, pairs

sys.path.insert(0, str(Path(__file__).parents[1]))

from raw_rows import fill, spread, table  # a neighbor

Tree = dict[str, Any]
Row = dict[str, Any]
MEASURES = ("pointing_patch", "pointing_tenth", "correct")
TABLE2 = (
    "pfcbm",
    "spatial_prior",
    "no_bbox_pca",
    "no_bbox_pca_tight",
    "no_bbox_spatial_prior",
    "no_bbox_no_kp",
    "pseudo_kp",
    "pseudo_kp_tight",
)
PAPER = (36.38, 52.18, 59.16, 59.74, 69.50, 2.93, 10.78, 21.40)
COLUMNS: dict[str, Callable[[Row], float | None]] = {
    "top-1": lambda row: row["test"]["top1"],
    "top-5": lambda row: row["test"]["top5"],
    "concept AUC": lambda row: row["test"]["auc"],
    "pointing, next cell": lambda row: pairs(row, "pointing_cells"),
    "pointing, 1 patch": lambda row: pairs(row, "pointing_patch"),
    "pointing, 0.1 of the object": lambda row: pairs(row, "pointing_tenth"),
    "other parts' maps, 1 patch": lambda row: pairs(row, "pointing_other"),
    "centroid distance, patches": lambda row: pairs(row, "distance_patches"),
    "energy, 0.1 around the point": lambda row: pairs(row, "energy"),
    "energy in the box": lambda row: pairs(row, "energy_object"),
}


def table2(results: Results, section: str, bank: str) -> str:
    rows = []
    for condition, paper in zip(TABLE2, PAPER, strict=True):
        found = results.rows.get((section, bank, condition), [])
        if found:
            cells = [spread([column(row) for row in found]) for column in COLUMNS.values()]
            rows.append([f"`{condition}`", *cells, f"{paper / 100:.3f}"])
    for name, found in results.blind.get(bank, {}).items():
        keys = (
            *("pointing_cells", "pointing_patch", "pointing_tenth", "pointing_other"),
            *("distance_patches", "energy", "energy_object"),
        )
        rows.append([f"{name}, sees no image", "", "", "", *(f"{found['pairs'][key]:.3f}" for key in keys), ""])
    return table(["condition", *COLUMNS, "the paper's pointing"], rows) if rows else ""


def simple(results: Results, section: str, bank: str) -> str:
    """Every condition of a section."""
    rows = [
        [condition, *(spread([column(row) for row in found]) for column in COLUMNS.values())]
        for (each, where, condition), found in sorted(results.rows.items(), key=lambda item: item[0])
        if each == section and where == bank
    ]
    return table(["condition", *COLUMNS], rows) if rows else ""


def attributes(results: Results) -> str:
    """Joint and sequential training, all attributes and fewer: what the class head reads, and what corrections do."""
    columns: dict[str, Callable[[Row], float | None]] = {
        **{name: COLUMNS[name] for name in ("top-1", "concept AUC", "pointing, 1 patch", "centroid distance, patches")},
        "F1": lambda row: row["test"]["f1"],
        "ECE": lambda row: row["test"]["ece"],
        "top-1, half wrong": lambda row: row["test"]["half_wrong"],
        "top-1, all corrected": lambda row: row["test"]["corrected"]["all"],
    }
    found = {"joint-312": results.rows.get(("table2", "cub-full", "no_bbox_spatial_prior"), [])}
    for name in ("sequential-312", "joint-112", "sequential-112"):
        found[name] = results.rows.get(("attributes", "cub-full", name), [])
    rows = [
        [name, *(spread([column(row) for row in some]) for column in columns.values())]
        for name, some in found.items()
        if some
    ]
    return table(["condition", *columns], rows) if len(rows) > 1 else ""


def settings(results: Results, bank: str) -> str:
    """What was chosen among, on validation images: a share of the schedule, and the whole of it."""
    rows = []
    for section, where, condition in sorted(results.rows):
        if section == "choice" and where == bank:
            cells = []
            for each in ("choice", "choice-full"):
                found = results.rows.get((each, bank, condition))
                if found:
                    val = found[0]["val"]
                    cells += [val["top1"], val["places"]["pairs"]["pointing_patch"], worth(found[0])]
                else:
                    cells += [None] * 3
            rows.append([condition, *(f"{cell:.3f}" if cell is not None else "–" for cell in cells)])
    header = [
        f"{name}, {when}" for when in ("short", "whole") for name in ("top-1", "pointing, 1 patch", "mean of both")
    ]
    return table(["setting", *header], rows) if rows else ""


def parts_table(results: Results, bank: str) -> str:
    """Pointing part by part, beside the blind predictor."""
    conditions = [name for name in TABLE2 if results.rows.get(("table2", bank, name))]
    blind = results.blind.get(bank, {}).get("blind", {}).get("parts", {})
    rows = []
    for part, there in blind.items():
        cells = [
            spread(
                [row["test"]["places"]["parts"][part]["pointing_patch"] for row in results.rows["table2", bank, name]]
            )
            for name in conditions
        ]
        rows.append([part, *cells, f"{there['pointing_patch']:.3f}"])
    return table(["part", *(f"`{name}`" for name in conditions), "blind"], rows) if rows else ""


def table3(folder: Path) -> str:
    file = stored(folder / "leak.jsonl")
    if not file.exists():
        return ""
    groups = defaultdict(list)
    for line in read_text(file).splitlines():
        row = json.loads(line)
        groups[row["bank"], row["condition"]].append(row)
    keys = (
        "top1",
        "auc",
        "auc_within_class",
        "ece",
        "information",
        "information_of_labels",
        "information_beyond_labels",
    )
    wrong = "half of the concepts wrong"
    rows = []
    for (bank, condition), found in groups.items():
        halves = [next((value for name, value in row["findings"].items() if wrong in name), None) for row in found]
        leaks = sum(row["leaks"] is True for row in found)
        rows.append(
            [
                bank,
                condition,
                *(spread([row[key] for row in found]) for key in keys),
                spread(halves),
                f"{leaks} of {len(found)}",
            ]
        )
    words = ("top-1", "concept AUC", "AUC within class", "ECE", "MI, nats", "MI of labels", "MI beyond labels")
    return table(["data", "condition", *words, "top-1, half wrong", "leaks"], rows)


def verdicts(results: Results) -> Tree:
    """The paper's claims as questions, each with the numbers that answer it."""
    found: Tree = {}

    def ask(name: str, ours: tuple[str, str, str], theirs: tuple[str, str, str], *, least: float = 0.0) -> None:
        for measure in MEASURES:
            gap = results.difference(ours, theirs, measure)
            if gap is not None:
                low, high = gap["interval"]
                verdict = "yes" if low > -least else "no" if high < -least else "cannot be told"
                found.setdefault(name, {})[measure] = {**gap, "verdict": verdict}

    for bank, prior, points in (
        ("cub-box", "spatial_prior", "pfcbm"),
        ("cub-full", "no_bbox_spatial_prior", "no_bbox_pca"),
        ("cub-full", "spatial_prior", "pfcbm"),
        ("cub-box", "no_bbox_spatial_prior", "no_bbox_pca"),
    ):
        ask(f"{bank}: {prior} beats {points}", ("table2", bank, prior), ("table2", bank, points))
    whole = ("table2", "cub-full", "no_bbox_spatial_prior")
    for fraction in (0.001, 0.005, 0.01):
        some = ("sweep", "cub-full", f"no_bbox_spatial_prior {fraction:g}")
        ask(f"{fraction:.1%} of the points is as good as all (within 0.01)", some, whole, least=0.01)
    ask("without points and prior it is as good", ("table2", "cub-full", "no_bbox_no_kp"), whole)
    for condition in ("diagonal", "full", "object frame", "mirrored frame", "mirrored frame, full"):
        ask(f"{condition} beats the paper's Gaussians", ("beyond", "cub-full", condition), whole)
    for condition in ("sequential-312", "joint-112"):
        ask(f"{condition} is as good as joint-312", ("attributes", "cub-full", condition), whole)
    fewer = [("attributes", "cub-full", f"{kind}-112") for kind in ("sequential", "joint")]
    ask("sequential-112 is as good as joint-112", *fewer)
    cut = ("table2", "cub-box", "spatial_prior")
    for fraction in (0.001, 0.005):
        some = ("sweep-box", "cub-box", f"spatial_prior {fraction:g}")
        ask(f"cub-box: {fraction:.1%} of the points is as good as all (within 0.01)", some, cut, least=0.01)
    alike = ("table2", "cub-box", "no_bbox_spatial_prior")
    ask("cub-box: without points and prior it is as good", ("table2", "cub-box", "no_bbox_no_kp"), alike)
    lab = {name: ("resnet50", "cub-full-resnet50", name) for name in TABLE2}
    for prior, points in (("no_bbox_spatial_prior", "no_bbox_pca"), ("spatial_prior", "pfcbm")):
        ask(f"cub-full-resnet50: {prior} beats {points}", lab[prior], lab[points])
    without = "cub-full-resnet50: without points and prior it is as good"
    ask(without, lab["no_bbox_no_kp"], lab["no_bbox_spatial_prior"])
    for bank in ("cub-full", "cub-box", "cub-full-resnet50"):
        section = "resnet50" if "resnet50" in bank else "table2"
        there = results.blind.get(bank, {}).get("blind", {}).get("pairs", {})
        for condition in TABLE2:
            rows = results.rows.get((section, bank, condition), [])
            if rows and there:
                gain = float(np.mean([pairs(row, "pointing_patch") or 0.0 for row in rows])) - there["pointing_patch"]
                found.setdefault(f"{bank}: pointing beyond the blind predictor", {})[condition] = gain
    return found


def ranks_alike(results: Results) -> Tree:
    """Spearman's correlation over settings of what short and whole trials are worth on validation.

    Apart for each bank and family: points are worth more than Gaussians in any trial, which alone would look like rank.
    """
    found: Tree = {}
    for bank, family in product(("cub-full", "cub-box"), FAMILIES):
        pairs_ = {
            condition: (worth(short[0]), worth(whole[0]))
            for (section, where, condition), short in results.rows.items()
            if section == "choice" and where == bank and condition.startswith(f"{family}:")
            if (whole := results.rows.get(("choice-full", bank, condition)))
        }
        if len(pairs_) > 2:
            ranks = np.argsort(np.argsort(np.array(list(pairs_.values())), axis=0), axis=0)
            best = [max(pairs_, key=lambda name, at=at: pairs_[name][at]) for at in (0, 1)]  # type: ignore[misc]
            found[f"{bank}, {family}"] = {
                "settings": len(pairs_),
                "correlation": float(np.asarray(np.corrcoef(ranks.T))[0, 1]),
                "best, short": best[0],
                "best, whole": best[1],
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pack", type=Path, help="put the numbers of single images into one file, too")
    given = parser.parse_args()
    results = Results(given.rows)
    given.out.mkdir(parents=True, exist_ok=True)
    pieces = []
    for section, bank, words in (
        ("table2", "cub-full", "Table 2 on whole images, built-in encoder"),
        ("table2", "cub-box", "Table 2 on images cut to the box, built-in encoder"),
        ("resnet50", "cub-full-resnet50", "Table 2 on whole images, ImageNet ResNet50"),
        ("resnet50-box", "cub-box-resnet50", "Table 2 on images cut to the box, ImageNet ResNet50"),
    ):
        pieces.append((words, table2(results, section, bank)))
    pieces.append(("Pointing within one patch by part, whole images", parts_table(results, "cub-full")))
    for section, bank, words in (
        ("sweep", "cub-full", "Share of the training images whose points place the Gaussians"),
        ("sweep-box", "cub-box", "The same on images cut to the box"),
        ("beyond", "cub-full", "Beyond the paper"),
        ("fine-grid", "cub-full-256", "A grid of 32 × 32"),
    ):
        pieces.append((words, simple(results, section, bank)))
    pieces.append(("Attributes and sequential training on whole images of CUB", attributes(results)))
    pieces.append(("Table 3 on blood cells and shapes", table3(given.rows)))
    pieces.append(("Settings, one seed, validation images, whole images", settings(results, "cub-full")))
    pieces.append(("Settings, one seed, validation images, images cut to the box", settings(results, "cub-box")))
    text = "\n\n".join(f"## {words}\n\n{found}" for words, found in pieces if found)
    if results.failed:
        text += "\n\n## Not trained\n\n" + "\n".join(
            f"- {row['section']}, {row['condition']}, {row['bank']}, seed {row['seed']}: {row['failed']}"
            for row in results.failed
        )
    write_text(given.out / "tables.md", text + "\n")
    page, rows, again = given.out / "README.md", known_rows(), equal.known()
    if page.exists() and rows:
        made = {"conditions": page_table(rows)}
        if again:
            made["equal"] = equal.equal_table(again)
        if any(row["trial"] == "order" for row in again):
            made["order"] = equal.order_table(again)
        fill(page, made)
    answers, alike = verdicts(results), ranks_alike(results)
    write_json(given.out / "verdicts.json", answers | ({"short trials rank as whole ones": alike} if alike else {}))
    if given.pack:
        results.pack(given.pack)
    conditions(results, TABLE2, PAPER, given.out / "table2.webp")
    sweep(results, given.out / "sweep.webp")
    ellipses(results, given.out / "prior.webp")
    panel(given.rows, given.out / "parts.webp")
    print(text)


if __name__ == "__main__":
    main()
