"""One figure a question, from the JSON files of this folder alone."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from alarms import CLEAN, SIZES
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from results import HERE

from conceptlens.files import read_json

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")  # Okabe and Ito
GAINED = "gained by the head from the class in scores beyond labels"
BEYOND = "of a score beyond its own label"
JOINT = {"cbm": "joint", "cbm-sequential": "sequential", "cbm-independent": "independent"}


def rows(name: str) -> dict[str, Any]:
    path = HERE / name
    return read_json(path)["rows"] if path.exists() else {}


def figure(width: float, height: float, columns: int) -> tuple[Figure, Any]:
    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(made)
    return made, made.subplots(1, columns, squeeze=False)[0]


def save(made: Figure, name: str) -> None:
    made.savefig(HERE / name, metadata={"Date": None})
    print(name)


def by_label(name: str) -> dict[str, list[dict[str, Any]]]:
    """Runs of a file by what they are called without data and seed; those that read no concepts are left out."""
    found = defaultdict(list)
    for run, row in rows(name).items():
        if "refused" not in row and "random-text" not in run:
            label = run.removeprefix("blood-cells-").rpartition("-s")[0]
            found[label].append(row)
    return dict(found)


def mean(found: Sequence[dict[str, Any]], finding: str, key: str = "excess") -> float:
    return statistics.mean((row["findings"][finding][key] or [0])[0] or 0.0 for row in found)


def which_leak() -> None:
    """The class that the head takes from scores beyond their labels."""
    made, axes = figure(11, 5, 2)
    for place, (file, title) in enumerate((("blood.json", "built-in blood cells"), ("shapes.json", "shapes"))):
        found = by_label(file)
        order = sorted(found, key=lambda label: mean(found[label], GAINED))
        for height, label in enumerate(order):
            values = [row["findings"][GAINED] for row in found[label]]
            axes[place].barh(height, mean(found[label], GAINED), color=COLOURS[place], height=0.65)
            for each in values:
                axes[place].plot(each["excess"][1:], [height] * 2, color="black", linewidth=0.8, alpha=0.6)
                axes[place].plot(
                    each["twins"][1:], [height - 0.38] * 2, color="#888888", linewidth=3, solid_capstyle="butt"
                )
        axes[place].set_yticks(range(len(order)), order, fontsize=8)
        axes[place].axvline(0, color="black", linewidth=0.8)
        axes[place].set_title(title, fontsize=10)
        axes[place].set_xlabel(
            "accuracy that the head gains from the class in single scores\nbeyond their labels (grey: where twins lie)"
        )
    save(made, "leak.svg")


def around() -> None:
    """Joint, sequential and independent training: what they lose with wrong concepts, and corrected ones."""
    made, axes = figure(11, 4.4, 2)
    for place, (file, title) in enumerate((("blood.json", "built-in blood cells"), ("shapes.json", "shapes"))):
        found = by_label(file)
        for colour, (label, name) in zip(COLOURS, {**JOINT, "ivq-cbm": "ivq-cbm", "cem": "cem"}.items(), strict=False):
            if label not in found:
                continue
            curves = [row["interventions"] for row in found[label]]
            right = np.mean([each["right"]["chance"] for each in curves], axis=0)
            wrong = np.mean([each["wrong"]["chance"] for each in curves], axis=0)
            axes[place].plot(right, color=colour, marker="o", markersize=3, label=name)
            axes[place].plot(wrong, color=colour, linestyle=":", linewidth=1)
            ceiling = curves[0]["ceiling"][0]
            axes[place].axhline(ceiling, color="black", linestyle="--", linewidth=0.8)
        axes[place].set_title(f"{title} (dashed: label → class ceiling)", fontsize=10)
        axes[place].set_xlabel("groups corrected, in random order (dotted: set to a wrong answer)")
        axes[place].set_ylabel("class accuracy")
        axes[place].set_ylim(0, 1.02)
        axes[place].legend(fontsize=8, loc="lower left")
    save(made, "around.svg")


def faithful() -> None:
    """IVQ, plain L2 or nothing in training: accuracy, where maps lie, and what they are worth."""
    found = defaultdict(list)
    for row in rows("regularisers.json").values():
        found[row["regulariser"]].append(row)
    if not found:
        return
    measures = {
        "class bal. acc.": lambda row: row["class_balanced_accuracy"],
        "concept bal. acc.": lambda row: row["concept_balanced_accuracy"],
        "own map: energy\non its part": lambda row: row["targets"]["part"]["maps"]["own"]["energy"][0],
        "own map:\npointing": lambda row: row["targets"]["part"]["maps"]["own"]["pointing"][0],
        "insertion\nless random": lambda row: row["faithfulness"]["against_random"]["own"]["insertion"][0],
        "random less\ndeletion": lambda row: -row["faithfulness"]["against_random"]["own"]["deletion"][0],
        "own part moves\nit more (wins)": lambda row: row["faithfulness"]["occlusion"]["wins"][0],
    }
    made, (axes,) = figure(11, 4, 1)
    for place, (name, members) in enumerate(sorted(found.items())):
        for column, take in enumerate(measures.values()):
            values = [take(row) for row in members]
            x = column + (place - 1) * 0.22
            axes.plot([x] * len(values), values, "o", color=COLOURS[place], markersize=4, alpha=0.6)
            axes.plot(
                [x - 0.08, x + 0.08],
                [statistics.mean(values)] * 2,
                color=COLOURS[place],
                linewidth=2,
                label=name if not column else None,
            )
    axes.set_xticks(range(len(measures)), list(measures), fontsize=8)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.legend(fontsize=8, title="regulariser")
    save(made, "faithful.svg")


def dormant() -> None:
    """Use of a code against how its concept is read."""
    found = rows("codes.json")
    if not found:
        return
    made, axes = figure(11, 4.4, 2)
    for place, kind in enumerate(("co-assignment", "text")):
        for colour, name in zip(COLOURS, ("blood-cells", "shapes"), strict=False):
            for row in (row for row in found.values() if row.get("data") == name):
                for each in row["matchings"].get(kind, {"matches": []})["matches"]:
                    auc = row["concepts"][each["concept"]]["auc"]
                    if auc is None:
                        continue
                    hidden = each["concept"].startswith("hidden trait")
                    axes[place].plot(
                        max(each["share"] / row["even_share"], 3e-4), auc, "x" if hidden else "o",
                        color=COLOURS[3] if hidden else colour, markersize=5, alpha=0.7,
                    )  # fmt: skip
        axes[place].set_xscale("log")
        axes[place].axvline(0.05, color="black", linestyle="--", linewidth=0.8)
        axes[place].axhline(0.5, color="#888888", linestyle=":", linewidth=0.8)
        axes[place].set_xlabel("patches of the code, over an even share (dashed: dormant)")
        axes[place].set_ylabel("AUC of the concept it is matched with")
        axes[place].set_title(f"matched by {kind} (× : invisible by construction)", fontsize=10)
    save(made, "dormant.svg")


def accused() -> dict[str, tuple[int, int]]:
    """World: how often accused, of how many."""
    found: dict[str, list[bool]] = defaultdict(list)
    for name, draws in rows("alarms.json").items():
        found[name.rpartition(" #")[0]] += [bool(each["leaks"]) for each in draws]
    return {name: (sum(each), len(each)) for name, each in found.items()}


def alarms() -> None:
    """False alarms, and power."""
    found = accused()
    made, (left, right) = figure(11, 4, 2)
    clean = [name for name in found if "leak" not in name]
    for height, name in enumerate(clean):
        hit, of = found[name]
        share = hit / of
        half = 1.96 * (max(share * (1 - share), 1 / of / 4) / of) ** 0.5
        left.barh(height, share, color=COLOURS[0] if "wrong" not in name else COLOURS[1], height=0.6)
        left.plot([max(share - half, 0), share + half], [height] * 2, color="black", linewidth=1)
    left.axvline(0.05, color="black", linestyle="--", linewidth=0.8)
    left.set_yticks(range(len(clean)), [f"{name} ({found[name][1]})" for name in clean], fontsize=8)
    left.set_xlabel(f"share accused (dashed: 5 %; up to {CLEAN} draws)")
    for colour, kind in zip(
        COLOURS, ("settled, leak in all scores", "settled, leak in one score", "open, leak in all scores"), strict=False
    ):
        points = [(size, *found[f"{kind} {size:g}"]) for size in SIZES if f"{kind} {size:g}" in found]
        right.plot(
            [size for size, _, _ in points],
            [hit / of for _, hit, of in points],
            color=colour,
            marker="o",
            markersize=4,
            label=kind,
        )
    right.axhline(0.05, color="black", linestyle="--", linewidth=0.8)
    right.set_xlabel("size of the planted leak, in deviations of the scores' noise")
    right.set_ylabel("share found")
    right.legend(fontsize=8)
    save(made, "alarms.svg")


def run() -> None:
    for draw in (alarms, which_leak, around, faithful, dormant):
        draw()
