"""Ranks from starts without the variance-covariance loss: rows of `learning.py` → tables and a figure of README.md."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy import stats

from conceptlens.core.files import read_text, stored, write_bytes
from conceptlens.pages.webp import webp

HERE = Path(__file__).parent
FILE = HERE / "backbones.jsonl"
Row = dict[str, Any]
Setting = tuple[str, str, str]  # encoder, code, data set
CLASS, AUC, KINDS = "class.balanced_accuracy", "concept.auc", ("published", "effective")
ENCODERS = {
    "vit, patches": "ViT distilled, patches taught, without the term",
    "vit, class token": "ViT distilled, class token alone taught",
    "vit, decorrelated": "ViT distilled, patches taught, with the term",
    "vit from scratch": "ViT from scratch",
    "efficientnet-lite0": "EfficientNet-Lite0 (ImageNet)",
    "builtin/vit": "`builtin/vit`",
}
WITHOUT_TERM = ("vit, patches", "vit, class token", "vit from scratch", "efficientnet-lite0")
CODES = {"printed": "`ivq-cbm`, joint", "published": "`ivq-cbm-released`, its own 150 epochs"}
DATA = ("IDRiD", "HAM10000", "blood cells")
REGULARIZERS = {"none": "nothing", "ivq": "IVQ", "l2": "plain L2"}
COLORS = {"none": "#d55e00", "ivq": "#0072b2", "l2": "#009e73"}  # Okabe and Ito's, as in `collect.py`


def read(file: Path = FILE) -> list[Row]:
    """Finished trainings, of the rank experiment and of the starts."""
    place = file if file.exists() else stored(file)
    rows = [json.loads(line) for line in read_text(place).splitlines()] if place.exists() else []
    return [row for row in rows if row["experiment"] in ("rank", "start") and "failed" not in row]


def worth(row: Row) -> float:
    parts = [row["val"][CLASS], row["val"][AUC]]
    return float(np.mean([part for part in parts if part is not None]))


def settings(rows: list[Row]) -> dict[Setting, dict[str, list[Row]]]:
    """The trainings of each setting and regularizer at the weight that validation chose among those of seed 0.

    A regularizer of which a weight's trial is missing was not chosen fairly and is left out.
    """
    found: dict[Setting, dict[str, list[Row]]] = {}
    mine = [row for row in rows if row["experiment"] == "rank" and "pixels" in row]
    for encoder in ENCODERS:
        for code in CODES:
            for data in DATA:
                for name in REGULARIZERS:
                    same = (encoder, code, data, name)
                    tried = [row for row in mine if tuple(row[key] for key in KEYS) == same]
                    trials = [row for row in tried if row["seed"] == 0]
                    if len(trials) < (3 if name != "none" and code == "printed" else 1):
                        continue
                    weight = max(trials, key=worth)["weight"]
                    chosen = sorted((row for row in tried if row["weight"] == weight), key=lambda row: row["seed"])
                    found.setdefault((encoder, code, data), {})[name] = chosen
    return {setting: each for setting, each in found.items() if "none" in each}


KEYS = ("encoder", "code", "data", "regularizer")


def ends(rows: list[Row], kind: str) -> tuple[float, float, list[float]]:
    """Rank before training and the lowest on the way, means over seeds; after training, by seed."""
    curves = np.array([row["rank_by_epoch"][kind] for row in rows])
    return float(curves[:, 0].mean()), float(curves.mean(0).min()), [float(value) for value in curves[:, -1]]


def spread(values: list[float], digits: int) -> str:
    middle = f"{np.mean(values):.{digits}f}"
    return middle if len(values) < 2 else f"{middle} ± {np.std(values, ddof=1):.{digits}f}"


def between(one: list[Row], other: list[Row], value: Any) -> tuple[float, float, float] | None:
    """One less other, paired by seed, with the t interval of the mean; none from fewer than two seeds."""
    right = {row["seed"]: value(row) for row in other}
    each = [value(row) - right[row["seed"]] for row in one if row["seed"] in right]
    if len(each) < 2:
        return None
    middle, error = float(np.mean(each)), float(np.std(each, ddof=1)) / len(each) ** 0.5
    reach = float(stats.t.ppf(0.975, len(each) - 1)) * error
    return middle, middle - reach, middle + reach


def last(kind: str) -> Any:
    return lambda row: row["rank_by_epoch"][kind][-1]


def shown(found: tuple[float, float, float] | None, digits: int = 1) -> str:
    if found is None:
        return "–"
    value, low, high = (f"{each:.{digits}f}".replace("-", "−") for each in found)
    return f"{value} ({low} to {high})"


def lined(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def table(rows: list[Row]) -> str:
    """Each setting at the chosen weights: test scores, and ranks before → after training (lowest on the way)."""
    head = ["start", "data, code", "regularizer", "weight", "seeds", "class bal. acc.", "concept AUC"]
    lines = []
    for (encoder, code, data), each in settings(rows).items():
        for name, mine in each.items():
            weight = "–" if name == "none" else f"{mine[0]['weight']:g}"
            cells = [ENCODERS[encoder], f"{data}, {CODES[code]}", REGULARIZERS[name], weight, str(len(mine))]
            cells += [spread([row["test"][measure] for row in mine], 3) for measure in (CLASS, AUC)]
            for kind in KINDS:
                before, lowest, after = ends(mine, kind)
                cells.append(f"{before:.1f} → {spread(after, 1)} ({lowest:.1f})")
            lines.append(cells)
    return lined([*head, "rank, published", "rank, effective"], lines)


def differences(rows: list[Row]) -> str:
    """IVQ and plain L2 less nothing: rank after training, and scores of test images in points."""
    head = ["start", "data, code", "less nothing", "published", "effective", "class, points", "concept AUC, points"]
    lines = []
    for (encoder, code, data), each in settings(rows).items():
        for name in ("ivq", "l2"):
            if name not in each or between(each[name], each["none"], last("published")) is None:
                continue
            cells = [ENCODERS[encoder], f"{data}, {CODES[code]}", REGULARIZERS[name]]
            cells += [shown(between(each[name], each["none"], last(kind))) for kind in KINDS]
            for measure in (CLASS, AUC):
                cells.append(shown(between(each[name], each["none"], score(measure))))
            lines.append(cells)
    return lined(head, lines)


def trials(rows: list[Row]) -> str:
    """What validation chose among: seed 0, mean of class and concept score in percent, and rank after training."""
    head = [
        "start",
        "data",
        *(f"{REGULARIZERS[name]} {weight:g}" for name in ("ivq", "l2") for weight in (0.01, 0.1, 1)),
    ]
    lines: dict[tuple[str, str], dict[tuple[str, float], str]] = {}
    for row in rows:
        tried = row["experiment"] == "rank" and row.get("pixels") and row["code"] == "printed" and row["seed"] == 0
        if tried and row["regularizer"] != "none":
            ranks = ", ".join(f"{row['rank_by_epoch'][kind][-1]:.0f}" for kind in KINDS)
            place = lines.setdefault((row["encoder"], row["data"]), {})
            place[row["regularizer"], row["weight"]] = f"{100 * worth(row):.1f} ({ranks})"
    made = []
    for (encoder, data), cells in lines.items():
        keys = [(name, weight) for name in ("ivq", "l2") for weight in (0.01, 0.1, 1.0)]
        made.append([ENCODERS[encoder], data, *(cells.get(key, "–") for key in keys)])
    return lined(["start", "data", *head[2:]], made)


def starts(rows: list[Row]) -> str:
    """How the three starts were made: the losses at the end, of those that were asked for."""
    head = ["start", "steps", "training images", "1 − cosine, image vector", "1 − cosine, patches", "likeness of pairs"]
    head += ["variance-covariance", "rank, published", "rank, effective"]
    lines = []
    for row in rows:
        if row["experiment"] != "start":
            continue
        end = dict(zip(row["terms"], row["curve"][-1][1:], strict=True))
        cells = [ENCODERS[f"vit, {row['start']}"], f"{row['steps']:,}", f"{row['images']:,}"]
        for name in ("feature", "patch", "relation", "diversity"):
            cells.append(f"{end[name]:.3f}" if name in end else "–")
        lines.append([*cells, *(f"{end[kind]:.1f}" for kind in KINDS)])
    return lined(head, lines)


def earlier(rows: list[Row]) -> str:
    """The six trainings of an earlier session, from small copies of the images; ranks of 32 validation images."""
    lines = []
    for row in rows:
        if row["experiment"] == "rank" and "pixels" not in row:
            cells = [REGULARIZERS[row["regularizer"]], f"{row['weight']:g}" if row["weight"] else "–"]
            cells += [f"{row['test'][measure]:.3f}" for measure in (CLASS, AUC)]
            for kind in KINDS:
                curve = row["rank_by_epoch"][kind]
                cells.append(f"{curve[0]:.1f} → {curve[-1]:.1f} ({min(curve):.1f})")
            lines.append(cells)
    return lined(
        ["regularizer", "weight", "class bal. acc.", "concept AUC", "rank, published", "rank, effective"], lines
    )


TABLES = {
    "backbones": table,
    "differences": differences,
    "trials": trials,
    "starts": starts,
    "backbones-earlier": earlier,
}


def told(rows: list[Row]) -> dict[str, list[str]]:
    """Pieces of sentences of README.md and docs/findings.md, by setting: each regularizer's ranks, both kinds."""
    made: dict[str, list[str]] = {}
    for setting, each in settings(rows).items():
        pieces = []
        for mine in each.values():
            words = []
            for kind in KINDS:
                before, _, after = ends(mine, kind)
                words.append(f"{kind} {before:.0f} → {spread(after, 0)}")
            pieces.append(", ".join(words))
        made[" | ".join(setting)] = pieces
    return made


FALLS = ("vit, class token", "printed", "HAM10000")  # where a rank falls and all three seeds were trained


def counts(rows: list[Row]) -> list[str]:
    """How often a rank falls without a regularizer, and what IVQ and plain L2 change from starts without the term."""
    made = [f"{sum(row['experiment'] == 'rank' and 'pixels' in row for row in rows)} trainings"]
    found = {setting: each for setting, each in settings(rows).items() if setting[0] in WITHOUT_TERM}
    for kind in KINDS:
        every = [ends(each["none"], kind) for each in found.values()]
        change = [100 * (float(np.mean(after)) / before - 1) for before, _, after in every]
        lower = sum(value < -5 for value in change)
        span = f"({min(change):+.0f} to {max(change):+.0f} %)".replace("-", "−")
        made.append(f"{kind} rank ends more than 5 % lower in {lower} of {len(change)} {span}")
    for name in ("ivq", "l2"):
        added = []
        for kind in KINDS:
            each = [between(one[name], one["none"], last(kind)) for one in found.values() if name in one]
            known = [value for value in each if value is not None]
            up, down = sum(low > 0 for _, low, _ in known), sum(high < 0 for *_, high in known)
            made.append(f"{REGULARIZERS[name]} raises the {kind} rank in {up} and lowers it in {down} of {len(known)}")
            values = [value for value, *_ in known]
            added.append(f"{min(values):.0f} to {max(values):.0f} {kind}" if values else "")
        made.append(f"{REGULARIZERS[name]} adds {' and '.join(added)}")
    if FALLS in found:
        each = found[FALLS]
        lowest = [ends(each["none"], kind)[1] for kind in KINDS]
        made.append(f"lowest {lowest[0]:.0f} and {lowest[1]:.0f}")
        for name in ("ivq", "l2"):
            points = [between(each[name], each["none"], score(measure)) for measure in (CLASS, AUC)]
            made.append(f"class {shown(points[0])}, concept AUC {shown(points[1])}")
    return made


def score(measure: str) -> Any:
    return lambda row: 100 * row["test"][measure]


def draw(rows: list[Row]) -> None:
    """Rank by epoch at the chosen weights, a panel a setting: seeds thin, their mean thick."""
    found = settings(rows)
    if not found:
        return
    columns = 4
    made = Figure(figsize=(3.1 * columns, 2.5 * -(-len(found) // columns) * 2), layout="constrained")
    panels = made.subplots(2 * -(-len(found) // columns), columns, squeeze=False)
    for panel in panels.flat:
        panel.set_axis_off()
    for number, ((encoder, code, data), each) in enumerate(found.items()):
        for half, kind in enumerate(KINDS):
            panel = panels[2 * (number // columns) + half][number % columns]
            panel.set_axis_on()
            for name, mine in each.items():
                epochs = [point[0] for point in mine[0]["epoch_scores"]]
                curves = np.array([row["rank_by_epoch"][kind] for row in mine])
                panel.plot(epochs, curves.T, COLORS[name], lw=0.5, alpha=0.4)
                panel.plot(epochs, curves.mean(0), COLORS[name], lw=1.8, label=REGULARIZERS[name])
            words = "" if half else f"{ENCODERS[encoder].replace('`', '')}\n{data}, {code}"
            panel.set_title(words, fontsize=7)
            panel.set_ylabel(f"{kind} rank", fontsize=7)
            panel.set_ylim(0, None)
            panel.tick_params(labelsize=6)
            panel.grid(alpha=0.25)
    made.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    write_bytes(HERE / "backbones.webp", webp(made))
