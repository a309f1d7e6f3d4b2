"""Patch tokens to look at: similarity to one patch and the first principal components, of images of different sets.

    python -m pretraining.probe.picture --teachers TEACHERS --data NAME=PATH … [--weights vit.safetensors]
        [--out evidence/builtin-encoder/patches.webp] [--photos FOLDER]

Blood cells and fundus photographs may be shown (CC BY 4.0); of all other sets the repository shows the maps alone.
`--photos` writes a version with every photograph to a folder of your own.
"""

import argparse
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.files import write_bytes
from conceptlens.data.images.read import open_image
from pretraining.command import command
from pretraining.imagenet import NAMES as NAMES_OF_WNIDS
from pretraining.imagenet import WNIDS
from pretraining.probe.models import Model, student, teacher
from pretraining.probe.patches import border
from pretraining.probe.sets import ImageSet, load_sets, parse_places

# How many test images of each set, and whether its license lets the repository show them.
CHOICE = {
    "imagenette": (3, False),
    "unseen": (1, False),
    "blood": (2, True),
    "idrid": (1, True),
    "ham": (1, False),
    "cub": (2, False),
}
NAMES = {
    "imagenette": "Imagenette",
    "unseen": "unseen class,\nTiny-ImageNet",
    "blood": "blood cells",
    "idrid": "IDRiD, grade",
    "ham": "HAM10000",
    "cub": "CUB",
}
MOST_BYTES = 200_000


@dataclass(frozen=True)
class Example:
    """An image, where it comes from, and whether it may be shown."""

    name: str
    image: Image.Image
    free: bool


def choose(sets: dict[str, ImageSet], seed: int) -> list[Example]:
    """Random test images of each set, of different classes."""
    examples = []
    for name, (count, free) in CHOICE.items():
        if name not in sets:
            continue
        images, generator = sets[name], np.random.default_rng(seed)
        labels, taken = images.questions[0].labels, set[int]()
        for index in generator.permutation(images.where("test")):
            if len(taken) < count and int(labels[index]) not in taken:
                taken.add(int(labels[index]))
                file = images.files[index]
                label = f"{NAMES[name]}\n{readable(images.questions[0].values[labels[index]])}"
                examples.append(Example(label, open_image(images.root / file, name=file), free))
    return examples


def readable(value: str) -> str:
    """A class as a person would call it: ImageNet's by its name, CUB's without number and underscores."""
    names = dict(zip(WNIDS, NAMES_OF_WNIDS, strict=True))
    return names.get(value, value.rpartition(".")[2].replace("_", " "))


def similarity(grid: Tensor) -> Tensor:
    """Cosine of every patch with the one in the middle, (h, w), from (h, w, C) centered by the image's mean."""
    unit = F.normalize(grid - grid.mean((0, 1)), dim=-1)
    return unit @ unit[grid.shape[0] // 2, grid.shape[1] // 2]


def components(grid: Tensor) -> Tensor:
    """The first three principal components of the patches as colors, (h, w, 3) from 0 to 1."""
    tokens = grid.flatten(0, 1).double()
    left, sigma, _ = torch.linalg.svd(tokens - tokens.mean(0), full_matrices=False)
    scores = (left[:, :3] * sigma[:3]).view(*grid.shape[:2], 3)
    scores = scores * (1 - 2 * (scores[border(grid.shape[0])].sum(0) > 0).double())  # background dark in each
    low, high = scores.flatten(0, 1).quantile(0.02, 0), scores.flatten(0, 1).quantile(0.98, 0)
    colors: Tensor = ((scores - low) / (high - low).clamp(min=1e-9)).clamp(0, 1)
    return colors


def draw(examples: Sequence[Example], models: dict[str, Model], *, photos: bool, dpi: int) -> bytes:
    """The picture as WebP: two blocks of rows; photograph, then similarity and components of each network."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows, columns = -(-len(examples) // 2), 1 + 2 * len(models)
    widths = [1.0] * columns + [0.15] + [1.0] * columns  # a gap between the two blocks
    figure, axes = plt.subplots(
        rows,
        len(widths),
        figsize=(sum(widths), rows * 1.02 + 0.3),
        squeeze=False,
        layout="constrained",
        gridspec_kw={"width_ratios": widths},
    )
    for axis in axes.flat:
        axis.set_axis_off()
    for index, example in enumerate(examples):
        row, first = index % rows, (index // rows) * (columns + 1)
        panels = axes[row, first : first + columns]
        _show_photo(panels[0], example, shown=photos or example.free)
        for place, (name, model) in enumerate(models.items()):
            grid = model.see(model.pixels(example.image)[None]).grid[0].float()
            likeness, colors = panels[1 + 2 * place], panels[2 + 2 * place]
            likeness.imshow(similarity(grid), cmap="viridis", vmin=-1, vmax=1)
            likeness.plot(grid.shape[1] // 2, grid.shape[0] // 2, "s", ms=4, mec="white", mfc="none", mew=1)
            colors.imshow(components(grid))
            if row == 0:
                likeness.set_title(f"{name}\nsimilarity", fontsize=6)
                colors.set_title(f"{name}\ncomponents", fontsize=6)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dpi, format="webp", pil_kwargs={"quality": 70, "method": 6})
    plt.close(figure)
    return buffer.getvalue()


def _show_photo(axis: Any, example: Example, *, shown: bool) -> None:
    if shown:
        axis.imshow(example.image.resize((144, 144), Image.Resampling.BICUBIC))
        paper = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1}
        axis.text(0.03, 0.03, example.name, fontsize=5, color="0.1", transform=axis.transAxes, va="bottom", bbox=paper)
        return
    axis.imshow(np.full((8, 8, 3), 0.93))
    axis.text(0.5, 0.5, f"{example.name}\n\n(photo not\nours to show)", fontsize=5.5, color="0.3", ha="center",
              va="center", transform=axis.transAxes)  # fmt: skip


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, help="of builtin/vit; the package's own if not given")
    parser.add_argument("--teachers", type=Path, required=True)
    parser.add_argument("--data", nargs="+", required=True, metavar="NAME=PATH")
    parser.add_argument("--out", type=Path, default=Path("evidence/builtin-encoder/patches.webp"))
    parser.add_argument("--photos", type=Path, help="a folder outside the repository")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    examples = choose(load_sets(parse_places(args.data)), args.seed)
    models: dict[str, Model] = {"builtin/vit": student("builtin/vit", args.weights)}
    models["ResNet50"] = teacher("resnet50", args.teachers)
    for dpi in (170, 140, 110, 80):
        picture = draw(examples, models, photos=False, dpi=dpi)
        if len(picture) <= MOST_BYTES:
            break
    write_bytes(args.out, picture)
    if args.photos:
        write_bytes(args.photos / args.out.name, draw(examples, models, photos=True, dpi=170))
    print(f"{args.out}: {len(picture) / 1000:.0f} kB")


if __name__ == "__main__":
    sys.exit(main())
