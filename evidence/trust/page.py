"""Writes the tables and the figure of README.md from verdicts.jsonl.gz.

python evidence/trust/page.py [verdicts.jsonl]    with a file: takes its rows into the folder first
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from verdicts import OURS, PUBLISHED

sys.path.insert(0, str(Path(__file__).parents[1]))

from raw_rows import Row, fill, keep, outcomes, read, spread, table  # a neighbor

HERE = Path(__file__).parent
ROWS = HERE / "verdicts.jsonl.gz"
SIDES = ("corrections", "leakage", "maps", "faithfulness", "calibration", "subgroups")
COLORS = {"pass": "#2a9d8f", "finding": "#d1495b", "unmeasured": "#d9d9d9", "mixed": "#edae49"}
NUMBERS = (  # the examination, its number, the column's head
    ("corrections", "untouched", "untouched"),
    ("corrections", "sham", "sham"),
    ("corrections", "truth", "truth"),
    ("corrections", "wrong", "all wrong"),
    ("corrections", "ceiling", "ceiling"),
    ("corrections", "area", "area"),
    ("leakage", "excess", "leak beyond a class-free reader (nats)"),
    ("leakage", "above_ceiling", "above the ceiling"),
    ("maps", "ap", "precision of maps"),
    ("maps", "best_blind_ap", "best blind map"),
    ("calibration", "class_ece", "class ECE"),
    ("calibration", "concept_ece", "concept ECE"),
)


def groups(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """Seeds of each preset on each data set: ours first, each in its order."""
    order = {name: place for place, name in enumerate((*OURS, *PUBLISHED))}
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["data"], order[row["preset"]], row["seed"])):
        found[row["data"], row["preset"]].append(row)
    return found


def outcome(rows: list[Row], side: str) -> str:
    """What the seeds say: one word where they agree, else how many say what. Only seeds that measured it count."""
    found = [row["verdicts"][side]["outcome"] for row in rows]
    measured = [word for word in found if word != "unmeasured"] or found
    return outcomes(measured)


def verdicts(rows: list[Row]) -> str:
    lines = [
        [data, preset, str(len(some)), "ours" if preset in OURS else "as published"]
        + [outcome(some, side) for side in SIDES]
        for (data, preset), some in groups(rows).items()
    ]
    return table(["data", "preset", "seeds", "bottleneck", *SIDES], lines)


def numbers(rows: list[Row]) -> str:
    lines = []
    for (data, preset), some in groups(rows).items():
        cells = [spread(row["class"]["accuracy"] for row in some), spread(row["concept"]["auc"] for row in some)]
        cells += [spread(row["numbers"][side][name] for row in some) for side, name, _ in NUMBERS]
        lines.append([data, preset, str(len(some)), *cells])
    return table(["data", "preset", "seeds", "class", "concept AUC", *(head for _, _, head in NUMBERS)], lines)


def figure(rows: list[Row]) -> None:
    """Presets by examinations, ours above the line: passed, a finding, seeds that disagree, not measured."""
    found = groups(rows)
    sets = list(dict.fromkeys(data for data, _ in found))
    presets = [name for name in (*OURS, *PUBLISHED) if any((data, name) in found for data in sets)]
    size = (2.2 + 3.1 * len(sets), 1.2 + 0.26 * len(presets))
    _, axes = plt.subplots(1, len(sets), figsize=size, squeeze=False, sharey=True)
    for axis, data in zip(axes[0], sets, strict=True):
        for y, preset in enumerate(presets):
            for x, side in enumerate(SIDES):
                word = outcome(found[data, preset], side) if (data, preset) in found else "unmeasured"
                axis.add_patch(Rectangle((x, y), 0.94, 0.9, color=COLORS.get(word, COLORS["mixed"])))
        axis.axhline(sum(name in OURS for name in presets) - 0.05, color="black", linewidth=1)
        axis.set(xlim=(0, len(SIDES)), ylim=(len(presets), 0), title=data)
        axis.set_xticks(np.arange(len(SIDES)) + 0.5, SIDES, rotation=40, ha="right", fontsize=8)
        axis.set_yticks(np.arange(len(presets)) + 0.45, presets, fontsize=8)
        axis.tick_params(length=0)
        for spine in axis.spines.values():
            spine.set_visible(False)
    names = {"pass": "passed", "finding": "finding", "mixed": "seeds disagree", "unmeasured": "not measured"}
    handles = [Rectangle((0, 0), 1, 1, color=COLORS[word]) for word in names]
    axes[0][0].figure.legend(handles, list(names.values()), loc="lower center", ncols=4, fontsize=8, frameon=False)
    plt.tight_layout(rect=(0, 0.05, 1, 1))
    plt.savefig(HERE / "verdicts.webp", dpi=110)


def main() -> None:
    for file in map(Path, sys.argv[1:]):
        keep(ROWS, [json.loads(line) for line in file.read_text().splitlines()], ("data", "preset", "seed"))
    rows = read(ROWS)
    fill(HERE / "README.md", {"verdicts": verdicts(rows), "numbers": numbers(rows)})
    figure(rows)


if __name__ == "__main__":
    main()
