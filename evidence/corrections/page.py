"""Writes the tables of README.md from choose, rates, headrates, test, epsilon, few, learn and heads (`.jsonl.gz`).

python evidence/corrections/page.py [ROWS.jsonl …]    with files: takes their rows into the folder first
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from raw_rows import Row, fill, keep, percent, read, table  # a neighbor

HERE = Path(__file__).parent
KEYS = ("data", "method", "setting", "seed", "split", "head")
DEFAULT = "log-probabilities, RandInt uniform"
ORDERS = ("uncertainty", "influence")  # no order looks at the truth of what is not yet told
FINAL = "head_rate 5"  # rows of the presets as they are now; others were made before and are marked in the table
CHANGED = dict.fromkeys(("explicd", "cbm-sequential", "cbm-independent"), "head at 0.005")  # later than the others


def told(rows: list[Row], pixels: int) -> str:
    """Accuracy with 0, 1, 3 and 6 groups told."""
    curves = [row["curves"][str(pixels)] for row in rows]
    counts = [count for count in (0, 1, 3, 6) if count < len(curves[0])]
    return " / ".join(f"{100 * np.mean([curve[count] for curve in curves]):.0f}" for count in counts)


def settings_table(rows: list[Row], by: tuple[str, ...]) -> str:
    head = [*by, "seeds", "class", "concept AUC", "sham", "truth", "all wrong", "ceiling", "area"]
    head += [
        "blurred to 10 px, groups told 0 / 1 / 3 / 6",
        "leak beyond a class-free reader (nats)",
        "corrections",
        "leakage",
    ]
    lines = []
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(str(row[key]) for key in by)].append(row)
    for names, some in groups.items():
        leak = [(row["leak"] or {}).get("excess") for row in some]
        numbers = [
            percent([row[key] for row in some])
            for key in ("untouched", "concept_auc", "sham", "truth", "wrong", "ceiling", "area")
        ]
        excess = "–" if None in leak else f"{np.mean(np.array(leak, dtype=float)):.3f}"
        outcomes = [" / ".join(sorted({row[key]["outcome"] for row in some})) for key in ("verdict", "leakage")]
        lines.append([*names, len(some), *numbers, told(some, 10), excess, *outcomes])
    return table(head, lines)


def current(row: Row) -> bool:
    return bool(row.get("presets") == CHANGED.get(row["method"], FINAL))


def marked(rows: list[Row]) -> list[Row]:
    """Rows of earlier presets get a dagger; where a method was made again, they are left out."""
    again = {row["method"] for row in rows if current(row)}
    kept = [row for row in rows if current(row) or row["method"] not in again]
    return [row if current(row) else {**row, "method": f"{row['method']} †"} for row in kept]


def heads_table(rows: list[Row]) -> str:
    """Area of four heads on the same concepts, and how far the default is from the best of the other three."""
    heads = sorted({row["head"] for row in rows if "ε" not in row["head"]}, key=lambda head: (head != DEFAULT, head))
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        some = [row for row in rows if row["method"] == method]
        areas = {head: [row["area"] for row in some if row["head"] == head] for head in heads}
        best = np.max([areas[head] for head in heads[1:]], axis=0)
        gap = 100 * (np.array(areas[heads[0]]) - best)
        cells = [percent(list(areas[head])) for head in heads]
        worst = f"{gap.mean():+.1f} ({gap.min():+.1f} to {gap.max():+.1f})"
        lines.append([method, len(best), *cells, worst])
    return table(["method", "seeds", *heads, "default − best reference"], lines)


def rates_table(rows: list[Row], by: tuple[str, ...]) -> str:
    keys = ("untouched", "concept_auc", "sham", "truth", "ceiling", "area")
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in by)].append(row)
    lines = [
        [*names, len(some), *(percent([row[key] for row in some]) for key in keys)] for names, some in groups.items()
    ]
    return table([*by, "seeds", "class", "concept AUC", "sham", "truth", "ceiling", "area"], lines)


def epsilon_table(test: list[Row], epsilon: list[Row], heads: list[Row]) -> str:
    """evidence-cbm with its own head, and with heads that learned from its finished concepts, by ε."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in [*test, *epsilon]:
        if row["method"] == "evidence-cbm" and "split" in row:
            groups["its own", row["setting"].replace("preset", "ε 0.003")].append(row)
    for row in heads:
        if row["method"] == "evidence-cbm" and row["head"].startswith(DEFAULT):
            groups["learned from finished concepts", row["head"][len(DEFAULT) + 2 :] or "ε 0.003"].append(row)
    lines = []
    for (head, setting), some in sorted(groups.items(), key=lambda pair: (pair[0][0], float(pair[0][1][2:]))):
        clean = [row["curves"]["0"] for row in some]
        ends = [percent([curve[place] for curve in clean]) for place in (0, -1)]
        blurred = [told(some, pixels) for pixels in (20, 10)]
        lines.append([head, setting[2:], len(some), *ends, *blurred, percent([row["area"] for row in some])])
    columns = [
        "head",
        "ε",
        "seeds",
        "class",
        "truth",
        "blurred to 20 px, groups told 0 / 1 / 3 / 6",
        "to 10 px",
        "area",
    ]
    return table(columns, lines)


def gain_from_half(curve: list[float]) -> float:
    """The least that is gained with half of the groups told, or more."""
    half = -(-(len(curve) - 1) // 2)
    return min(curve[half:]) - curve[0]


def few_table(rows: list[Row]) -> str:
    """What telling brings: accuracy with none, half and all of the groups told, clean images."""
    head = ["data", "method", "seeds", "concept AUC", "untouched", "sham", "half of the groups told", "all told"]
    head += ["all wrong", "ceiling", "gain from half", "least certain first", "most influential first", "gain from all"]
    head += ["corrections", "leakage"]
    lines = []
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["data"], row["method"]].append(row)
    for names, some in groups.items():
        curves = [row["curves"]["0"] for row in some]
        half, full = ([curve[-(-(len(curve) - 1) // share)] for curve in curves] for share in (2, 1))
        start = [row["untouched"] for row in some]
        cells = [percent([row[key] for row in some]) for key in ("concept_auc", "untouched", "sham")]
        cells += [percent(half), percent(full)]
        cells += [percent([row[key] for row in some]) for key in ("wrong", "ceiling")]
        ordered = {order: [gain_from_half(row["orders"][order]) for row in some if "orders" in row] for order in ORDERS}
        cells += [f"{100 * np.mean(np.array(half) - start):+.1f}"]
        cells += [f"{100 * np.mean(gains):+.1f} ({len(gains)})" if gains else "–" for gains in ordered.values()]
        cells += [f"{100 * np.mean(np.array(full) - start):+.1f}"]
        cells += [" / ".join(sorted({row[key]["outcome"] for row in some})) for key in ("verdict", "leakage")]
        lines.append([*names, len(some), *cells])
    return table(head, lines)


def figure(rows: list[Row]) -> None:
    """Clean and blurred images: accuracy against told groups, as published and as ours."""
    shown = {
        "cbm-released": "cbm-released (joint, logits)",
        "cbm": "cbm",
        "ivq-cbm": "ivq-cbm",
        "explicd": "explicd",
        "evidence-cbm": "evidence-cbm",
    }
    axes = plt.figure(figsize=(10, 3.4), layout="constrained").subplots(1, 3, sharey=True)
    for axis, pixels, title in zip(
        axes, (0, 20, 10), ("clean", "blurred to 20 pixels", "blurred to 10 pixels"), strict=True
    ):
        for name, label in shown.items():
            some = [row["curves"][str(pixels)] for row in rows if row["method"] == name]
            if some:
                style = "--" if name == "cbm-released" else "-"
                axis.plot(100 * np.mean(some, axis=0), style, marker=".", label=label)
        axis.axhline(100 * np.mean([row["ceiling"] for row in rows]), color="gray", lw=0.8, label="labels → class")
        axis.set(title=title, xlabel="groups told")
    axes[0].set_ylabel("accuracy, %")
    axes[0].legend(fontsize=8, loc="lower left")
    axes[0].figure.savefig(HERE / "curves.webp", dpi=110, pil_kwargs={"quality": 80})


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        new = [json.loads(line) for line in file.read_text().splitlines()]
        if file.stem == "test":
            new = [{**row, "presets": CHANGED.get(row["method"], FINAL)} for row in new]
        keep(HERE / f"{file.stem}.jsonl.gz", new, KEYS)
    names = ("choose", "test", "heads", "rates", "headrates", "epsilon", "few", "learn")
    choose, test, heads, rates, head_rates, epsilon, few, learn = (read(HERE / f"{name}.jsonl.gz") for name in names)
    order = {name: place for place, name in enumerate(("blood cells", "blood cells, few", "shapes", "shapes, few"))}
    choose.sort(key=lambda row: (order[row["data"]], row["method"]))
    tables = {
        "choose": settings_table(choose, ("data", "method", "setting")),
        "test": settings_table(marked(test), ("method",)),
    }
    tables |= {
        "learn": settings_table(learn, ("method",)),
        "heads": heads_table(heads),
        "rates": rates_table(rates, ("method", "setting")),
        "headrates": rates_table(head_rates, ("data", "method", "setting")),
        "epsilon": epsilon_table([row for row in test if row.get("presets") == FINAL], epsilon, heads),
        "few": few_table(few),
    }
    fill(HERE / "README.md", tables)
    figure([row for row in test if row.get("presets") == FINAL])
