"""Writes the tables of README.md and the figure from ablation.jsonl.gz and rows.jsonl.gz.

python evidence/evidence-cbm/page.py [ROWS.jsonl …]    with files: takes rows of run.py into the folder first
"""

import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
Row = dict[str, Any]
KEPT = ("uniform", "center_prior", "mean_region", "mean_cell", "darkness", "color_distance", "token_pca", "perfect")


def read(name: str) -> list[Row]:
    file = HERE / f"{name}.jsonl.gz"
    return [json.loads(line) for line in gzip.open(file, "rt")] if file.exists() else []


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def slim(row: Row) -> Row:
    """Without numbers of single concepts, which would be most of the file."""
    for target in row["places"]["targets"].values():
        target.get("predicted", {}).pop("by_concept", None)
        target.pop("concepts", None)
        target.pop("by_concept", None)
    return row


def keep(rows: list[Row]) -> None:
    found = {(row["data"], row["method"], row["seed"]): slim(row) for row in [*read("rows"), *rows]}
    lines = [json.dumps(rounded(row), ensure_ascii=False) for _, row in sorted(found.items(), key=lambda p: str(p[0]))]
    (HERE / "rows.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))


def number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def estimate(found: Row | None) -> str:
    if not found or found.get("value") is None:
        return "–"
    interval = found.get("interval")
    return number(found["value"]) + (f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else "")


def lines(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def ablation() -> str:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in read("ablation"):
        groups["shapes" if "shapes" in row["data"] else "cells off center", row["variant"]].append(row)
    names = list(dict.fromkeys(variant for _, variant in groups))
    rows = []
    for name in names:
        cells = [name]
        for data in ("cells off center", "shapes"):
            found = groups.get((data, name), [])
            for key in ("auc", "within", "own average_precision", "own pointing"):
                values = [row[key] for row in found if row.get(key) is not None]
                cells.append(f"{np.mean(values):.3f}" if values else "–")
            cells.append(str(len(found)) if found else "–")
        rows.append(cells)
    head = ["variant"]
    for data in ("cells off center", "shapes"):
        head += [f"{data}: AUC", "within class", "precision", "pointing", "seeds"]
    return lines(head, rows)


def shown_target(row: Row) -> str:
    return "part" if "part" in row["places"]["targets"] else "object"


def map_of(row: Row) -> str:
    maps = row["places"]["targets"][shown_target(row)]["predicted"]["maps"]
    return "own" if "own" in maps else "gradcam"


def family() -> str:
    rows = []
    for row in read("rows"):
        kind, said = map_of(row), row["places"]["targets"][shown_target(row)]["predicted"]
        numbers, corrections = row["places"]["numbers"], row["corrections"]
        blind = {measure: said["best_blind"][measure].replace("_", " ") for measure in said["best_blind"]}
        skill = said.get("skill", {}).get(kind) if isinstance(said.get("skill"), dict) else None
        rows.append(
            [
                row["data"],
                row["method"],
                str(row["seed"]),
                number(row["class"]["accuracy"]),
                number(row["concept"]["auc"]),
                number(row["concept"]["auc_within_class"]),
                corrections["verdict"]["outcome"],
                number(corrections.get("truth")),
                f"{shown_target(row)}: {'its own' if kind == 'own' else 'Grad-CAM'}",
                number(numbers["ap"]),
                f"{number(numbers['best_blind_ap'])} ({blind.get('average_precision', '–')})",
                number(numbers["pointing"]),
                f"{number(numbers['best_blind_pointing'])} ({blind.get('pointing', '–')})",
                estimate(skill.get("energy", skill) if isinstance(skill, dict) else None),
                row["places"]["verdict"]["outcome"],
            ]
        )
    head = ["data", "method", "seed", "class", "concept AUC", "within class", "corrections", "told all", "map"]
    return lines([*head, "precision", "best blind", "pointing", "best blind", "skill", "maps"], rows)


def faithfulness() -> str:
    rows = []
    for row in read("rows"):
        found = row.get("faithfulness")
        if not found:
            continue
        kind = "own" if "own" in found["curves"] else "gradcam"
        cells = [row["data"], row["method"], "its own" if kind == "own" else "Grad-CAM", str(found["images"])]
        for order in (kind, "center", "random"):
            cells += [number(found["curves"][order][curve]["value"]) for curve in ("insertion", "deletion")]
        cells += [estimate(found["against_random"][kind][curve]) for curve in ("insertion", "deletion")]
        cells.append((found.get("verdict") or {}).get("outcome", "–"))
        rows.append(cells)
    head = ["data", "method", "map", "images", "insertion", "deletion", "center: insertion", "deletion"]
    head += ["random: insertion", "deletion", "insertion − random", "deletion − random", "verdict"]
    return lines(head, rows)


def figure() -> None:
    """Precision of each method's map, with the best blind map as a line, for each data set."""
    sets = list(dict.fromkeys(row["data"] for row in read("rows")))
    if not sets:
        return
    _, axes = plt.subplots(1, len(sets), figsize=(3.2 * len(sets), 3.4), sharey=True, squeeze=False)
    for axis, data in zip(axes[0], sets, strict=True):
        rows = [row for row in read("rows") if row["data"] == data and row["seed"] == 0]
        names = [row["method"] for row in rows]
        colors = ["#0b6e99" if name == "evidence-cbm" else "#b8b8b8" for name in names]
        axis.bar(range(len(rows)), [row["places"]["numbers"]["ap"] or 0 for row in rows], color=colors)
        axis.axhline(rows[0]["places"]["numbers"]["best_blind_ap"] or 0, color="black", linestyle="--", linewidth=1)
        axis.set_xticks(range(len(rows)), names, rotation=40, ha="right", fontsize=8)
        axis.set_title(data, fontsize=10)
    axes[0][0].set_ylabel("average precision of maps", fontsize=8)
    axes[0][0].figure.suptitle("dashed: the best map that knows no concepts", fontsize=8)
    plt.tight_layout()
    plt.savefig(HERE / "places.webp", dpi=110)


def main() -> None:
    rows = [json.loads(line) for name in sys.argv[1:] for line in Path(name).read_text().splitlines()]
    if rows:
        keep(rows)
    page = HERE / "README.md"
    text = page.read_text("utf-8")
    for name, made in (("ablation", ablation()), ("family", family()), ("faithfulness", faithfulness())):
        start, end = (
            text.index(f"<!-- table {name} -->"),
            text.index("<!-- end -->", text.index(f"<!-- table {name} -->")),
        )
        text = f"{text[:start]}<!-- table {name} -->\n{made}\n{text[end:]}"
    page.write_text(text, "utf-8")
    figure()


if __name__ == "__main__":
    main()
