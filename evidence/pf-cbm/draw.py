"""The figures: pointing by condition and by annotated share, the Gaussians before and after, maps of drawn parts."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from conceptlens.core.files import write_bytes
from conceptlens.data.sources.shapes import Shapes
from conceptlens.pages.webp import webp
from conceptlens.recipes import ShapesConfig

if TYPE_CHECKING:
    from trainings import Results

FRACTIONS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
BLIND = {"blind": "--", "center": ":"}


def sweep(results: "Results", path: Path) -> None:
    """Pointing and accuracy against the share of annotated images, three seeds."""
    figure = Figure(figsize=(7.5, 3.2), layout="constrained")
    near, right = figure.subplots(1, 2)
    shown = False
    for axes, words, read in ((near, "pointing within one patch", _pointing), (right, "top-1", _accuracy)):
        x, y, low = [], [], []
        for fraction in FRACTIONS:
            rows = (
                results.rows.get(("table2", "cub-full", "no_bbox_spatial_prior"), [])
                if fraction == 1
                else results.rows.get(("sweep", "cub-full", f"no_bbox_spatial_prior {fraction:g}"), [])
            )
            if rows:
                values = [read(row) for row in rows]
                x.append(100 * fraction)
                y.append(float(np.mean(values)))
                low.append(float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)
        if x:
            axes.errorbar(x, y, yerr=low, marker="o", markersize=4, capsize=3, color="#2a6f97", label="Gaussian prior")
            shown = len(x) > 1
        axes.set_xscale("log")
        axes.set_xlabel("annotated training images, %")
        axes.set_ylabel(words)
    for condition, color in (("no_bbox_pca", "#bc4749"), ("no_bbox_no_kp", "#6a994e")):
        rows = results.rows.get(("table2", "cub-full", condition), [])
        if rows:
            words = "points of every image" if condition == "no_bbox_pca" else "neither prior nor points"
            near.axhline(np.mean([_pointing(row) for row in rows]), color=color, label=words)
            right.axhline(np.mean([_accuracy(row) for row in rows]), color=color)
    for name, line in BLIND.items():
        found = results.blind.get("cub-full", {}).get(name)
        if found:
            words = "blind: peak at the mean point" if name == "blind" else "blind: the middle"
            near.axhline(found["pairs"]["pointing_patch"], color="#555", linestyle=line, label=words)
    if shown:
        near.set_ylim(0, 0.5)
        right.set_ylim(0, 0.35)
        near.legend(fontsize=7, loc="center right", bbox_to_anchor=(1, 0.62))
        write_bytes(path, webp(figure))


def conditions(results: "Results", names: Sequence[str], paper: Sequence[float], path: Path) -> None:
    """Pointing within one patch of Table 2's rows, three seeds, beside those who see no image and the paper's rows."""
    panels = [
        (words, section, bank)
        for words, section, bank in (
            ("whole images, built-in encoder", "table2", "cub-full"),
            ("cut to the box, built-in encoder", "table2", "cub-box"),
            ("whole images, ResNet50", "resnet50", "cub-full-resnet50"),
        )
        if any(results.rows.get((section, bank, name)) for name in names)
    ]
    if not panels:
        return
    figure = Figure(figsize=(3.3 * len(panels) + 1.2, 3.2), layout="constrained")
    every = np.atleast_1d(figure.subplots(1, len(panels), sharex=True, sharey=True))
    for axes, (words, section, bank) in zip(every, panels, strict=True):
        for place, (name, theirs) in enumerate(zip(names, paper, strict=True)):
            rows = results.rows.get((section, bank, name), [])
            values = [_pointing(row) for row in rows]
            first = place == 0
            axes.plot(
                theirs / 100, place, "x", color="#aaa", markersize=5, label="the paper, DINOv3" if first else None
            )
            if values:
                mean, sd = float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
                color = "#2a6f97" if "prior" in name else "#bc4749"
                axes.errorbar(mean, place, xerr=sd, fmt="o", markersize=5, capsize=3, color=color)
        for name, line in (("blind", "--"), ("mean region", ":")):
            found = results.blind.get(bank, {}).get(name)
            if found:
                label = "Gaussians at mean points, no image" if name == "blind" else "mean region, no image"
                axes.axvline(found["pairs"]["pointing_patch"], color="#555", linestyle=line, linewidth=1, label=label)
        axes.set_title(words, fontsize=9)
        axes.set_xlabel("pointing within one patch")
    every[0].set_yticks(range(len(names)), names, fontsize=8)
    every[0].set_xlim(0, 0.75)
    every[0].invert_yaxis()
    figure.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    write_bytes(path, webp(figure))


def _pointing(row: dict[str, Any]) -> float:
    return float(row["test"]["places"]["pairs"]["pointing_patch"])


def _accuracy(row: dict[str, Any]) -> float:
    return float(row["test"]["top1"])


def ellipses(results: "Results", path: Path) -> None:
    """One standard deviation of each part's Gaussian, dashed where it began."""
    chosen = [
        (words, rows[0])
        for words, key in (
            ("as the paper", ("table2", "cub-full", "no_bbox_spatial_prior")),
            ("cut to the box", ("table2", "cub-box", "spatial_prior")),
            ("any ellipse", ("beyond", "cub-full", "full")),
        )
        if (rows := [row for row in results.rows.get(key, []) if "prior" in row])
    ]
    if not chosen:
        return
    figure = Figure(figsize=(3.4 * len(chosen), 3.5), layout="constrained")
    colors = mpl.colormaps["tab20"].colors  # type: ignore[attr-defined]
    for axes, (words, row) in zip(np.atleast_1d(figure.subplots(1, len(chosen))), chosen, strict=True):
        prior = row["prior"]
        for at in range(len(prior["parts"])):
            mean, start = prior["means"][at], prior["start_means"][at]
            first = prior["start_scale"][at]
            axes.add_patch(
                _ellipse(start, np.diag(np.square(first)), edgecolor=colors[at], linestyle="--", linewidth=0.6)
            )
            axes.add_patch(_ellipse(mean, np.array(prior["covariances"][at]), edgecolor=colors[at], linewidth=1.4))
            axes.plot([start[1], mean[1]], [start[0], mean[0]], color=colors[at], linewidth=0.8)
        _name(axes, prior)
        side = {144: 18, 256: 32}.get(256 if "256" in row["bank"] else 144, 18)
        axes.set(xlim=(0, side), ylim=(side, 0), aspect="equal", title=words)
    write_bytes(path, webp(figure))


def _name(axes: Any, prior: dict[str, Any]) -> None:
    """Names beside the Gaussians, every other one to the left, none on top of another."""
    order = sorted(range(len(prior["parts"])), key=lambda at: prior["means"][at][0])
    last = [-1.0, -1.0]
    for place, at in enumerate(order):
        row, column = prior["means"][at]
        reach, side = 1.15 * float(np.sqrt(prior["covariances"][at][1][1])), 1 if place % 2 else -1
        height = last[place % 2] = max(row, last[place % 2] + 0.9)
        axes.annotate(
            prior["parts"][at],
            (column, row),
            (column + side * (reach + 1), height),
            fontsize=7,
            ha="left" if side > 0 else "right",
            va="center",
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": "#888"},
        )


def _ellipse(mean: Sequence[float], covariance: Any, **look: Any) -> Ellipse:
    """One standard deviation; rows are y."""
    values, vectors = np.linalg.eigh(np.asarray(covariance)[::-1, ::-1])
    angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
    width, height = 2 * np.sqrt(values[::-1])
    return Ellipse((mean[1], mean[0]), width, height, angle=angle, fill=False, **look)


def panel(folder: Path, path: Path) -> None:
    """Drawn creatures and where each part's attention lies, with the gate."""
    file = folder / "maps" / "table3-joint-shapes-0.npz"
    if not file.exists():
        return
    held = np.load(file, allow_pickle=False)
    source, parts, grid = Shapes(ShapesConfig()), held["parts"].tolist(), tuple(held["grid"].tolist())
    few = min(5, len(held["rows"]))
    figure = Figure(figsize=(1.3 * (len(parts) + 2), 1.4 * few), layout="constrained")
    for line, axes in enumerate(np.atleast_2d(figure.subplots(few, len(parts) + 2))):
        image = np.asarray(source.read(int(held["rows"][line])))
        maps = [held["gate"][line], *held["attention"][line]]
        for place, (each, words) in enumerate(zip(axes, ["image", "gate", *parts], strict=True)):
            each.imshow(image)
            if place:
                shown = maps[place - 1].astype(np.float32).reshape(grid)
                height, width = image.shape[:2]
                each.imshow(
                    shown / shown.max(),
                    cmap="inferno",
                    alpha=0.65,
                    extent=(0, width, height, 0),
                    interpolation="nearest",
                )
            each.set_axis_off()
            if not line:
                each.set_title(words, fontsize=9)
    figure.savefig(path, dpi=80, pil_kwargs={"quality": 70, "method": 6})
