"""Writes the tables of README.md and the figure from ablation, tune and rows (`.jsonl.gz`).

python evidence/evidence-cbm/page.py [tune.jsonl …]    with files (tune, rows, paired): takes their rows first
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from raw_rows import Row, fill, keep, outcomes, read, spread, table  # a neighbor

HERE = Path(__file__).parent
KEYS = {"tune": ("data", "method", "seed", "rate"), "rows": ("data", "method", "seed"), "paired": ("data", "other")}
METHODS = (  # in the order of the table
    "evidence-cbm",
    "evidence-cbm, last layer",
    "evidence-cbm, larger images",
    "evidence-cbm, last block learns",
    "evidence-cbm, whole encoder learns",
    "evidence-cbm, points",
    "cbm",
    "cbm, last block learns",
    "explicd",
    "ivq-cbm",
    "dot-cbm",
    "sl-cbm",
    "salf-cbm",
    "pf-cbm, points",
    "additive-mil",
    "black-box",
)


def slim(row: Row) -> Row:
    """Without numbers of single concepts, which would be most of the file."""
    for target in row.get("places", {}).get("targets", {}).values():
        target.get("predicted", {}).pop("by_concept", None)
        target.pop("concepts", None)
        target.pop("by_concept", None)
    return row


def at_tuned_rates(row: Row) -> Row:
    """Earlier rows of `shapes anywhere` have the presets' own rates; those of tuned rates stand apart from them."""
    tuned = row["data"] == "shapes anywhere" and ("other" in row or ("places" in row and row.get("rate") is not None))
    return {**row, "data": "shapes anywhere, tuned"} if tuned else row


def number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def estimate(found: Row | None) -> str:
    if not found or found.get("value") is None:
        return "–"
    interval = found.get("interval")
    return number(found["value"]) + (f" ({interval[0]:.2f} to {interval[1]:.2f})" if interval else "")


def ablation() -> str:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in read(HERE / "ablation.jsonl.gz"):
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
    return table(head, rows)


def shown_target(row: Row) -> str:
    return "part" if "part" in row["places"]["targets"] else "object"


def map_of(row: Row) -> str:
    maps = row["places"]["targets"][shown_target(row)]["predicted"]["maps"]
    return "own" if "own" in maps else "gradcam"


def by_method() -> dict[tuple[str, str], list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in read(HERE / "rows.jsonl.gz"):
        groups[row["data"], row["method"]].append(row)
    order = [*METHODS, *(method for _, method in groups if method not in METHODS)]
    return dict(sorted(groups.items(), key=lambda pair: (pair[0][0], order.index(pair[0][1]))))


def family() -> str:
    rows = []
    for (data, method), some in by_method().items():
        cells = [data, method, str(len(some)), spread([row["class"]["accuracy"] for row in some])]
        cells.append(spread([row["class"]["balanced_accuracy"] for row in some]))
        concept = [row.get("concept") or {} for row in some]
        cells += [spread([each.get(key) for each in concept]) for key in ("auc", "auc_within_class")]
        if "places" not in some[0]:
            rows.append([*cells, *["–"] * 9])
            continue
        corrections, placed = [row["corrections"] for row in some], [row["places"] for row in some]
        cells += [spread([each.get(key) for each in corrections]) for key in ("truth", "area")]
        cells.append(outcomes([each["verdict"]["outcome"] for each in corrections]))
        kind = map_of(some[0])
        cells.append(f"{shown_target(some[0])}: {'its own' if kind == 'own' else 'Grad-CAM'}")
        for measure, short in (("average_precision", "ap"), ("pointing", "pointing")):
            blind = {predicted(row)["best_blind"][measure].replace("_", " ") for row in some}
            cells.append(spread([each["numbers"][short] for each in placed]))
            cells.append(
                f"{spread([each['numbers'][f'best_blind_{short}'] for each in placed])} ({', '.join(sorted(blind))})"
            )
        cells += [spread([skill_of(row) for row in some], 2), outcomes([each["verdict"]["outcome"] for each in placed])]
        rows.append(cells)
        if kind != "own":
            rows += [[data, method, *["–"] * 8, *other_map(some, name)] for name in others(some[0], kind)]
    head = ["data", "method", "seeds", "class", "balanced", "concept AUC", "within class", "told all", "area"]
    head += ["corrections", "map", "precision", "best blind", "pointing", "best blind", "skill", "maps"]
    return table(head, rows)


def others(row: Row, kind: str) -> list[str]:
    return [name for name in row["places"].get("map_verdicts", {}) if name != kind]


def other_map(some: list[Row], kind: str) -> list[str]:
    """The last cells of a row, for a second kind of map of a method without one of its own."""
    cells = [f"{shown_target(some[0])}: {kind}"]
    for measure in ("average_precision", "pointing"):
        blind = {predicted(row)["best_blind"][measure] for row in some}
        for names in ({kind}, blind):
            values = [predicted(row)["maps"][name][measure]["value"] for row in some for name in names]
            named = f" ({', '.join(sorted(name.replace('_', ' ') for name in blind))})" if names == blind else ""
            cells.append(spread(values) + named)
    skills = [(predicted(row).get("skill") or {}).get(kind) or {} for row in some]
    verdicts = [row["places"]["map_verdicts"][kind]["outcome"] for row in some]
    return [*cells, spread([skill.get("value") for skill in skills], 2), outcomes(verdicts)]


def predicted(row: Row) -> Row:
    found: Row = row["places"]["targets"][shown_target(row)]["predicted"]
    return found


def skill_of(row: Row) -> float | None:
    skill = (predicted(row).get("skill") or {}).get(map_of(row))
    found = skill.get("energy", skill) if isinstance(skill, dict) else None
    return found.get("value") if found else None


def paired() -> str:
    """evidence-cbm less each other method on the same test images."""
    names = ("class.accuracy", "class.balanced_accuracy", "concept.auc", "concept.auc_within_class", "corrections.area")

    def cell(found: Row | None) -> str:
        if not found:
            return "–"
        low, high = found["interval"]
        return f"{100 * found['difference']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"

    rows = sorted(read(HERE / "paired.jsonl.gz"), key=lambda row: (row["data"], METHODS.index(row["other"])))
    lines = [
        [row["data"], row["other"], len(row["seeds"]), row["images"], *(cell(row.get(name)) for name in names)]
        for row in rows
    ]
    head = ["data", "evidence-cbm less", "seeds", "images", "class", "balanced", "concept AUC", "within class"]
    return table([*head, "area of corrections"], lines)


def tuning() -> str:
    """The setting that validation chose for each method: a rate, or how regions are marked."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in read(HERE / "tune.jsonl.gz"):
        groups[row["data"], row["method"]].append(row)
    rows = []
    for (data, method), some in groups.items():
        scores = {f"{row['rate']}": row["score"] for row in sorted(some, key=lambda row: str(row["rate"]))}
        best = max(scores, key=lambda setting: scores[setting])
        cells = [f"{setting}: {score:.3f}" for setting, score in scores.items()]
        cells = [f"**{cell}**" if cell.startswith(f"{best}:") else cell for cell in cells]
        rows.append([data, method, ", ".join(cells)])
    return table(["data", "method", "mean of class accuracy (balanced) and concept AUC, by setting"], rows)


def faithfulness() -> str:
    rows = []
    for row in read(HERE / "rows.jsonl.gz"):
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
    return table(head, rows)


def figure() -> None:
    """Precision of each method's map, with the best blind map as a line, for each data set."""
    sets: dict[str, dict[str, list[Row]]] = defaultdict(dict)
    for (data, method), some in by_method().items():
        if "places" in some[0]:
            sets[data][method] = some
    if not sets:
        return
    figure, axes = plt.subplots(2, -(-len(sets) // 2), figsize=(11, 5.4), layout="constrained")
    for axis in axes.flat[len(sets) :]:
        axis.axis("off")
    for axis, (data, methods) in zip(axes.flat, sets.items(), strict=False):
        values = [[row["places"]["numbers"]["ap"] or 0 for row in some] for some in methods.values()]
        colors = ["#0b6e99" if name == "evidence-cbm" else "#b8b8b8" for name in methods]
        axis.barh(range(len(values)), [np.mean(each) for each in values], color=colors)
        for place, each in enumerate(values):
            axis.plot(each, [place] * len(each), ".", color="black", markersize=3)
        blind = [row["places"]["numbers"]["best_blind_ap"] or 0 for some in methods.values() for row in some]
        axis.axvline(float(np.mean(blind)), color="black", linestyle="--", linewidth=1)
        axis.set_yticks(range(len(values)), [name.replace("evidence-cbm, ", "– ") for name in methods], fontsize=8)
        axis.invert_yaxis()
        axis.set_title(data, fontsize=10)
    figure.supxlabel(
        "average precision of maps (dots: seeds; dashed: best map that knows no concepts); – : forms of evidence-cbm",
        fontsize=8,
    )
    plt.savefig(HERE / "places.webp", dpi=110)


def main() -> None:
    for file in map(Path, sys.argv[1:]):
        rows = [at_tuned_rates(slim(json.loads(line))) for line in file.read_text().splitlines()]
        keep(HERE / f"{file.stem}.jsonl.gz", rows, KEYS[file.stem])
    made = {"ablation": ablation(), "tuning": tuning(), "family": family(), "faithfulness": faithfulness()}
    made["paired"] = paired()
    fill(HERE / "README.md", made)
    figure()


if __name__ == "__main__":
    main()
