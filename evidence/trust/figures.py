"""One figure a question, from the JSON files of this folder alone."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from alarms import SIZES
from matplotlib.figure import Figure
from results import HERE
from scipy.stats import binomtest

from conceptlens.core.files import read_json, write_bytes
from conceptlens.data.sources.shapes import HIDDEN
from conceptlens.pages.webp import webp

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")  # Okabe and Ito
GAINED = "gained by the head from the class in scores beyond labels"
BEYOND = "of a score beyond its own label"
JOINT = {"cbm": "joint", "cbm-sequential": "sequential", "cbm-independent": "independent"}


def rows(name: str) -> dict[str, Any]:
    path = HERE / name
    return read_json(path)["rows"] if path.exists() else {}


def figure(width: float, height: float, columns: int) -> tuple[Figure, Any]:
    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(1, columns, squeeze=False)[0]


def save(made: Figure, name: str) -> None:
    write_bytes(HERE / name, webp(made))
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


LEAKS = {
    "blood.json.gz": "built-in blood cells, frozen tokens",
    "shapes.json.gz": "shapes, frozen tokens",
    "full.json.gz": "all blood cells, fine-tuned",
}


def which_leak() -> None:
    """The class that the head takes from scores beyond their labels."""
    made, axes = figure(14, 5, 3)
    for place, (file, title) in enumerate(LEAKS.items()):
        found = by_label(file)
        order = sorted(found, key=lambda label: mean(found[label], GAINED))
        for height, label in enumerate(order):
            axes[place].barh(height, mean(found[label], GAINED), color=COLORS[place], height=0.65, alpha=0.6)
            for step, row in enumerate(found[label]):
                each, at = row["findings"][GAINED], height + 0.5 * ((step + 1) / (len(found[label]) + 1) - 0.5)
                axes[place].plot(each["excess"][1:], [at] * 2, color="black", linewidth=0.8)
                axes[place].plot(each["excess"][0], at, ".", color="black", markersize=4)
                axes[place].plot(
                    each["permuted"][1:], [height - 0.4] * 2, color="#888888", linewidth=2, solid_capstyle="butt"
                )
        axes[place].set_yticks(range(len(order)), order, fontsize=8)
        axes[place].axvline(0, color="black", linewidth=0.8)
        axes[place].set_title(title, fontsize=10)
    made.supxlabel(
        "accuracy that the head gains from the class in single scores beyond their labels\n"
        "(bar: mean over seeds; dots: each seed with its 95 % interval; gray: where permutations lie)",
        fontsize=9,
    )
    save(made, "leak.webp")


def around() -> None:
    """Joint, sequential and independent training: what they lose with wrong concepts, and corrected ones."""
    made, axes = figure(11, 4.4, 2)
    for place, (file, title) in enumerate((("blood.json.gz", "built-in blood cells"), ("shapes.json.gz", "shapes"))):
        found = by_label(file)
        for color, (label, name) in zip(
            COLORS, {**JOINT, "ivq-cbm": "ivq-cbm", "cem": "cem", "pcbm": "pcbm"}.items(), strict=False
        ):
            if label not in found:
                continue
            curves = [row["interventions"] for row in found[label]]
            right = np.mean([each["right"]["chance"] for each in curves], axis=0)
            wrong = np.mean([each["wrong"]["chance"] for each in curves], axis=0)
            axes[place].plot(right, color=color, marker="o", markersize=3, label=name)
            axes[place].plot(wrong, color=color, linestyle=":", linewidth=1)
            ceiling = curves[0]["ceiling"][0]
            axes[place].axhline(ceiling, color="black", linestyle="--", linewidth=0.8)
        axes[place].set_title(f"{title} (dashed: label → class ceiling)", fontsize=10)
        axes[place].set_xlabel("groups corrected, in random order (dotted: set to a wrong answer)")
        axes[place].set_ylabel("class accuracy")
        axes[place].set_ylim(0, 1.02)
        axes[place].legend(fontsize=8, loc="lower left")
    save(made, "around.webp")


def headroom() -> None:
    """Corrections where there is something to gain: all four orders, mean over seeds."""
    found = defaultdict(list)
    for name, row in rows("headroom.json.gz").items():
        found[tuple(name.rsplit(" ", 2)[:2])].append(row)
    if not found:
        return
    worlds, methods = (list(dict.fromkeys(key[place] for key in found)) for place in (0, 1))
    made = Figure(figsize=(2.4 * len(methods), 2.6 * len(worlds)), layout="constrained")
    axes = made.subplots(len(worlds), len(methods), squeeze=False, sharex=True, sharey=True)
    for (world, method), members in found.items():
        panel = axes[worlds.index(world)][methods.index(method)]
        for color, policy in zip(COLORS, members[0]["right"], strict=False):
            right = np.mean([[point[0] for point in row["right"][policy]] for row in members], axis=0)
            panel.plot(right, color=color, linewidth=1.3, label=policy)
            if policy == "chance":
                wrong = np.mean([[point[0] for point in row["wrong"][policy]] for row in members], axis=0)
                panel.plot(wrong, color=color, linestyle=":", linewidth=1)
        panel.axhline(members[0]["ceiling"][0], color="black", linestyle="--", linewidth=0.8)
        panel.set_title(f"{method}, {world}", fontsize=9)
        panel.set_ylim(0, 1.02)
    axes[0][0].legend(fontsize=7, title="order", title_fontsize=7, loc="lower left")
    made.supxlabel(
        "groups corrected (dotted: set to a wrong answer by chance; dashed: label → class ceiling)", fontsize=9
    )
    made.supylabel("class accuracy", fontsize=9)
    save(made, "headroom.webp")


def where_maps_lie() -> None:
    """Energy of maps on their regions, less that of a center prior."""
    found = rows("maps.json.gz")
    if not found:
        return
    panels = list(
        dict.fromkeys((name.split(" ")[0], target) for name, row in found.items() for target in row["targets"])
    )
    made, axes = figure(2.9 * len(panels), 3.6, len(panels))
    for place, (data, target) in enumerate(panels):
        names: list[str] = []
        for name, row in found.items():
            if name.split(" ")[0] != data or target not in row["targets"]:
                continue
            one, height = row["targets"][target], len(names)
            names.append(name.split(" ", 1)[1].rpartition(" ")[0])
            for color, kind, shift in ((COLORS[0], "own", 0.15), (COLORS[1], "gradcam", -0.15)):
                difference = one["against"].get(f"{kind} - center_prior")
                if difference is None or difference[0] is None:
                    continue
                axes[place].plot(difference[1:], [height + shift] * 2, color=color, linewidth=1.2)
                axes[place].plot(difference[0], height + shift, "o", color=color, markersize=4, label=kind)
        axes[place].axvline(0, color="black", linewidth=0.8)
        axes[place].set_yticks(range(len(names)), names, fontsize=8)
        axes[place].tick_params(axis="x", labelsize=7)
        axes[place].set_title(f"{data}: {target}", fontsize=9)
    handles = dict(zip(*reversed(axes[0].get_legend_handles_labels()), strict=True))
    axes[0].legend(handles.values(), handles.keys(), fontsize=7)
    made.supxlabel(
        "share of the map on its region, less a center prior's (95 % interval; above 0 is better)", fontsize=9
    )
    save(made, "maps.webp")


def refined() -> None:
    """Table 9: what a change of words does, beside the same words for a concept chosen at random."""
    path = HERE / "refine.json"
    if not path.exists():
        return
    found = read_json(path)
    made, (axes,) = figure(8, 3.4, 1)
    for place, row in enumerate(found["rows"]):
        for color, shift, contrast in zip(COLORS, (0.2, 0, -0.2), row["contrasts"], strict=False):
            estimate = contrast["estimate"]
            axes.plot(estimate["interval"], [place + shift] * 2, color=color, linewidth=1.5)
            axes.plot(
                estimate["value"], place + shift, "o", color=color, markersize=4,
                label=contrast["name"] if not place else None,
            )  # fmt: skip
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(found["rows"])), [row["name"] for row in found["rows"]], fontsize=8)
    axes.invert_yaxis()
    axes.legend(fontsize=8)
    axes.set_xlabel(f"difference, 95 % interval over images and {len(found['seeds'])} seeds")
    axes.set_title(f"{found['chosen']['concept']} → “{found['words']}”", fontsize=10)
    save(made, "refine.webp")


def faithful() -> None:
    """IVQ, plain L2 or nothing in training: accuracy, where maps lie, and what they are worth."""
    found = defaultdict(list)
    for row in rows("regularizers.json.gz").values():
        found[row["regularizer"]].append(row)
    if not found:
        return
    made, (axes,) = figure(11, 4, 1)
    for place, (name, members) in enumerate(sorted(found.items())):
        for column, take in enumerate(FAITHFUL.values()):
            for step, (value, low, high) in enumerate(take(row) for row in members):
                x = column + (place - 1) * 0.24 + (step - (len(members) - 1) / 2) * 0.06
                if low is not None:
                    axes.plot([x, x], [low, high], color=COLORS[place], linewidth=1, alpha=0.7)
                label = name if not column and not step else None
                axes.plot(x, value, "o", color=COLORS[place], markersize=4, label=label)
    axes.set_xticks(range(len(FAITHFUL)), list(FAITHFUL), fontsize=8)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.legend(fontsize=8, title="regularizer (a dot each seed)", title_fontsize=8, loc="upper center")
    save(made, "faithful.webp")


def _less(estimate: Sequence[float | None]) -> list[float | None]:
    """An estimate with the other sign."""
    value, low, high = (None if each is None else -each for each in estimate)
    return [value, high, low]


FAITHFUL: dict[str, Callable[[dict[str, Any]], Sequence[float | None]]] = {
    "class bal. acc.": lambda row: [row["class_balanced_accuracy"], None, None],
    "concept bal. acc.": lambda row: [row["concept_balanced_accuracy"], None, None],
    "own map: energy\non its part": lambda row: row["targets"]["part"]["maps"]["own"]["energy"],
    "Grad-CAM: energy\non its part": lambda row: row["targets"]["part"]["maps"]["gradcam"]["energy"],
    "insertion\nless random": lambda row: row["faithfulness"]["against_random"]["own"]["insertion"],
    "random less\ndeletion": lambda row: _less(row["faithfulness"]["against_random"]["own"]["deletion"]),
    "own part moves\nit more (wins)": lambda row: row["faithfulness"]["occlusion"]["wins"],
}


def dormant() -> None:
    """Use of a code against how its concept is read, and whether either finds the invisible concepts."""
    found = rows("codes.json.gz")
    if not found:
        return
    made, axes = figure(13, 4.2, 3)
    for place, kind in enumerate(("co-assignment", "text")):
        for color, name in zip(COLORS, ("blood-cells", "shapes"), strict=False):
            for row in (row for row in found.values() if row.get("data") == name):
                for each in row["matchings"].get(kind, {"matches": []})["matches"]:
                    auc = row["concepts"][each["concept"]]["auc"]
                    if auc is None:
                        continue
                    hidden = each["concept"].startswith(HIDDEN)
                    axes[place].plot(
                        max(each["share"] / row["even_share"], 3e-4), auc, "x" if hidden else "o",
                        color=COLORS[3] if hidden else color, markersize=5, alpha=0.7,
                    )  # fmt: skip
        axes[place].set_xscale("log")
        axes[place].axvline(0.05, color="black", linestyle="--", linewidth=0.8)
        axes[place].axhline(0.5, color="#888888", linestyle=":", linewidth=0.8)
        axes[place].set_xlabel("patches of the code, over an even share (dashed: dormant)", fontsize=9)
        axes[place].set_ylabel("AUC of the concept it is matched with", fontsize=9)
        axes[place].set_title(f"matched by {kind}\n(blue: blood cells, orange: shapes, ×: invisible)", fontsize=9)
    for color, (name, (hidden, values)) in zip(COLORS, detectors().items(), strict=False):
        wrong, right = roc(hidden, values)
        axes[2].plot(wrong, right, color=color, label=f"{name}: {np.trapezoid(right, wrong):.2f}")
    axes[2].plot([0, 1], [0, 1], color="#888888", linestyle=":", linewidth=0.8)
    axes[2].set_xlabel("visible concepts called invisible", fontsize=9)
    axes[2].set_ylabel("invisible concepts found", fontsize=9)
    axes[2].set_title("who finds the invisible concepts? (area under the curve)", fontsize=9)
    axes[2].legend(fontsize=8, loc="lower right")
    save(made, "dormant.webp")


def detectors() -> dict[str, tuple[list[bool], list[float]]]:
    """What may find invisible concepts: whether each is one, and a number that is large where it is thought to be."""
    found: dict[str, tuple[list[bool], list[float]]] = defaultdict(lambda: ([], []))
    for row in (row for row in rows("codes.json.gz").values() if row.get("data") == "shapes"):
        for kind, matching in row["matchings"].items():
            for each in matching["matches"]:
                hidden, values = found[f"little used code (by {kind})"]
                hidden.append(each["concept"].startswith(HIDDEN))
                values.append(-each["share"])
        for name, concept in row["concepts"].items():
            if concept["auc"] is not None:
                hidden, values = found["low AUC of the concept"]
                hidden.append(name.startswith(HIDDEN))
                values.append(-concept["auc"])
    return dict(found)


def roc(hidden: Sequence[bool], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Shares of the others called so, and of the hidden found, at every threshold."""
    truth, scores = np.array(hidden), np.array(values)
    cuts = [np.inf, *sorted(set(values), reverse=True)]
    return [float((scores[~truth] >= cut).mean()) for cut in cuts], [
        float((scores[truth] >= cut).mean()) for cut in cuts
    ]


def accused() -> dict[str, tuple[int, int]]:
    """World: how often accused, of how many."""
    found: dict[str, list[bool]] = defaultdict(list)
    for name, draws in rows("alarms.json.gz").items():
        found[name.rpartition(" #")[0]] += [bool(each["leaks"]) for each in draws]
    return {name: (sum(each), len(each)) for name, each in found.items()}


def alarms() -> None:
    """False alarms, and power."""
    found = accused()
    made, (left, right) = figure(11, 4, 2)
    clean = [name for name in found if "leak" not in name]
    for height, name in enumerate(clean):
        hit, of = found[name]
        left.barh(height, hit / of, color=COLORS[0] if "wrong" not in name else COLORS[1], height=0.6)
        left.plot(list(binomtest(hit, of).proportion_ci()), [height] * 2, color="black", linewidth=1)
    left.axvline(0.05, color="black", linestyle="--", linewidth=0.8)
    left.set_yticks(range(len(clean)), [f"{name} ({found[name][1]})" for name in clean], fontsize=8)
    left.set_xlabel("share accused, 95 % interval (dashed: 5 %; draws in brackets)")
    for color, kind in zip(
        COLORS, ("settled, leak in all scores", "settled, leak in one score", "open, leak in all scores"), strict=False
    ):
        points = [(size, *found[f"{kind} {size:g}"]) for size in SIZES if f"{kind} {size:g}" in found]
        right.plot(
            [size for size, _, _ in points],
            [hit / of for _, hit, of in points],
            color=color,
            marker="o",
            markersize=4,
            label=kind,
        )
    right.axhline(0.05, color="black", linestyle="--", linewidth=0.8)
    right.set_xlabel("size of the planted leak, in deviations of the scores' noise")
    right.set_ylabel("share found")
    right.legend(fontsize=8, loc="center right")
    save(made, "alarms.webp")


def run() -> None:
    for draw in (alarms, which_leak, around, headroom, where_maps_lie, faithful, dormant, refined):
        draw()
