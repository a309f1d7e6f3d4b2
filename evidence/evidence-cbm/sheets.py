"""Maps to look at: one figure of all methods side by side, and a sheet of each method, from finished runs of family.py.

    python evidence/evidence-cbm/sheets.py WORK [--seed 0] [--out FOLDER] [--only WORD]

Shown is the map of a value that the model says, of one group for each image, the same group for all methods. Red speaks
for it, blue against it (evidence is signed; attention and Grad-CAM have red alone); the cells of the grid that the part
covers are outlined. The number is the map's average precision. In the figure, columns are test images at fixed ranks of
evidence-cbm's own precision, from its best to its worst, so that failures are in it; sheets have images evenly spread
over the split. OUT gets maps-<data>.webp and sheets/<data>-<method>.webp.
"""

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import torch

sys.path[:0] = [str(Path(__file__).parent)]

from family import METHODS, NO_CONCEPTS, sets  # noqa: E402  # a neighbor

from conceptlens.data.loading.loader import PixelReader  # noqa: E402
from conceptlens.data.regions.regions import Regions, read_regions  # noqa: E402
from conceptlens.data.splits.spread import spread  # noqa: E402
from conceptlens.evaluation.images import judged_images  # noqa: E402
from conceptlens.evaluation.localization.concept_parts import concept_parts  # noqa: E402
from conceptlens.evaluation.localization.precision import average_precision  # noqa: E402
from conceptlens.explanations.maps.concept_maps import GRADCAM, OWN, concept_maps  # noqa: E402
from conceptlens.nn.heads.probabilities import concept_labels_of  # noqa: E402
from conceptlens.runs.opened import OpenedRun  # noqa: E402

Floats = npt.NDArray[np.float32]
RANKS = (0.95, 0.7, 0.45, 0.2, 0.02)  # of evidence-cbm's precision: the columns of the figure
SHEET = (6, 8)  # rows and columns
REFERENCE = "evidence-cbm"


@dataclass(frozen=True)
class Shown:
    """What one method says of N images."""

    images: npt.NDArray[np.uint8]  # (N, H, W, 3)
    maps: Floats  # (N, h, w), of the value said
    cover: Floats  # (N, h, w), of its part
    words: list[str]  # the value said, and whether it is right
    precision: Floats  # (N,)
    kind: str
    indices: npt.NDArray[np.int64]


def group_of(row: int, run: OpenedRun, regions: Regions, parts: npt.NDArray[np.int64]) -> int | None:
    """The group whose map is shown of an image: one whose part is seen, another one from image to image."""
    seen = [
        number
        for number, group in enumerate(run.concepts.groups)
        if group.kind == "exclusive" and regions.seen[row, max(parts[group.concepts][0], 0)]
    ]
    return seen[row % len(seen)] if seen else None


def shown(run: OpenedRun, judged: dict[str, Any] | None, n: int) -> Shown:
    """The maps of at most n test images."""
    found = judged_images(run, judged, None)
    found = replace(found, indices=spread(found.indices, n))
    card, concepts = run.card, run.concepts
    grid = run.pipeline.encoder.grid(card.image_size, card.image_size)
    regions = read_regions(found.source, found.indices, size=card.image_size, fit=card.fit, grid=grid)
    parts = concept_parts(concepts, regions.parts, found.config.regions.concepts)
    kinds = (OWN,) if run.pipeline.model.has_attention or run.pipeline.model.has_evidence else (GRADCAM,)
    pictures, maps, covers, words, kept = [], [], [], [], []
    with PixelReader(found.source, card.image_size, card.fit, cache_mb=0) as reader:
        for start in range(0, len(found.indices), 16):
            batch = found.indices[start : start + 16]
            pixels = reader.batch(batch)
            made = concept_maps(run.pipeline, pixels.to(run.device), kinds)
            said = (concept_labels_of(made.concept_logits.double().cpu().numpy(), concepts) == 1) & ~concepts.placeless
            values = made.maps[kinds[0]].cpu().numpy()
            labels = found.source.examples.concepts[batch]
            for place in range(len(batch)):
                number = group_of(start + place, run, regions, parts)
                if number is None:
                    continue
                columns = range(len(concepts))[concepts.groups[number].concepts]
                chosen = [column for column in columns if said[place, column]]
                if not chosen:  # a value without a place
                    continue
                concept = chosen[0]
                right = {1: "right", 0: "wrong"}.get(int(labels[place, concept]), "not labeled")
                pictures.append(pixels[place].permute(1, 2, 0).numpy())
                maps.append(values[place, concept].reshape(grid))
                covers.append(regions.cover[start + place, max(parts[concept], 0)].reshape(grid))
                words.append(f"{concepts.names[concept].replace(': ', chr(10))} ({right})")
                kept.append(int(batch[place]))
    cover, stacked = (np.stack(each).astype(np.float32) for each in (covers, maps))
    precision = average_precision(torch.from_numpy(stacked).flatten(1), torch.from_numpy(cover).flatten(1)).numpy()
    return Shown(np.stack(pictures), stacked, cover, words, precision, kinds[0], np.asarray(kept))


def draw(axis: Any, one: Shown, row: int | None, title: str = "", *, plain: bool = False) -> None:
    axis.set_xticks([])
    axis.set_yticks([])
    if row is None:  # the method says a value without a place, and no map is drawn
        axis.text(
            0.5, 0.5, "says a value\nwithout a place", ha="center", va="center", fontsize=7, transform=axis.transAxes
        )
        return
    picture, values, cover = one.images[row], one.maps[row], one.cover[row]
    side = picture.shape[:2]
    extent = (0, side[1], side[0], 0)
    gray = picture.mean(-1) if not plain else picture
    axis.imshow(gray, cmap="gray", extent=extent)
    if not plain:
        largest = float(np.abs(values).max()) or 1.0
        signed = bool((values < 0).any())  # small amounts of many patches add up, and must be seen
        strength = np.clip(np.abs(values) / largest, 0, 1) ** (0.6 if signed else 1)
        color = np.where((values >= 0)[..., None], (0.85, 0.1, 0.1), (0.1, 0.3, 0.9))
        axis.imshow(np.dstack([color, 0.75 * strength]), extent=extent, interpolation="bilinear")
    inside = np.kron(cover > 0, np.ones((side[0] // cover.shape[0], side[1] // cover.shape[1])))
    if inside.any() and not inside.all():
        axis.contour(
            inside,
            levels=[0.5],
            colors="yellow" if not plain else "black",
            linewidths=1.0,
            extent=(0, side[1], 0, side[0]),
        )
    axis.set_title(title, fontsize=7)


def figure(name: str, every: dict[str, Shown], file: Path) -> None:
    """Rows are methods, columns images from the best to the worst precision of the reference."""
    reference = every.get(REFERENCE) or next(iter(every.values()))
    order = np.argsort(reference.precision)
    columns = list(dict.fromkeys(int(order[round(rank * (len(order) - 1))]) for rank in RANKS))
    places = [{int(index): row for row, index in enumerate(one.indices)} for one in every.values()]
    size = (1.55 * len(columns) + 0.6, 1.95 * (len(every) + 1))
    made, axes = plt.subplots(len(every) + 1, len(columns), figsize=size, squeeze=False)
    for column, row in enumerate(columns):
        index = int(reference.indices[row])
        draw(axes[0][column], reference, row, reference.words[row].split("\n")[0], plain=True)
        for line, (method, one) in enumerate(every.items()):
            axis, at = axes[line + 1][column], places[line].get(index)
            title = "" if at is None else f"{one.words[at].split(chr(10))[-1]}\n{one.precision[at]:.2f}"
            draw(axis, one, at, title)
            if not column:
                note = "" if one.kind == OWN else "\n(Grad-CAM)"
                axis.set_ylabel(f"{method.replace(', ', chr(10))}{note}", fontsize=8)
    axes[0][0].set_ylabel("image and part", fontsize=8)
    made.suptitle(f"{name}: the map of the value said, and its average precision", fontsize=9)
    made.tight_layout()
    made.savefig(file, dpi=110)
    plt.close(made)


def sheet(name: str, method: str, one: Shown, file: Path) -> None:
    columns = SHEET[1]
    rows = min(-(-len(one.words) // columns), SHEET[0])
    made, axes = plt.subplots(rows, columns, figsize=(1.6 * columns, 2.05 * rows), squeeze=False)
    for place, axis in enumerate(axes.flat):
        if place < len(one.words):
            draw(axis, one, place, f"{one.words[place]}\n{one.precision[place]:.2f}")
        else:
            axis.axis("off")
    made.suptitle(
        f"{name}, {method}: mean average precision {one.precision.mean():.3f} of {len(one.words)} images", fontsize=10
    )
    made.tight_layout()
    made.savefig(file, dpi=90)
    plt.close(made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="WORK by default")
    parser.add_argument("--only", default="", help="data sets that contain this; several by |")
    parser.add_argument("--n", type=int, default=120, help="images among which those of the figure are chosen")
    options = parser.parse_args()
    out = options.out or options.work
    (out / "sheets").mkdir(parents=True, exist_ok=True)
    for name, one in sets(options.work).items():
        if not any(word in name for word in options.only.split("|")):
            continue
        every: dict[str, Shown] = {}
        for method in METHODS:
            folder = options.work / "runs" / f"{name}-{method}-{options.seed}".replace(" ", "-")
            if method in NO_CONCEPTS or not (folder / "model" / "model.json").exists():
                continue
            every[method] = shown(OpenedRun.open(folder), one.get("judged"), options.n)
            short = f"{name}-{method}".replace(" ", "-").replace(",", "")
            sheet(name, method, every[method], out / "sheets" / f"{short}.webp")
            print(name, method, f"{every[method].precision.mean():.3f}", flush=True)
        if every:
            figure(name, every, out / f"maps-{name.replace(' ', '-')}.webp")


if __name__ == "__main__":
    main()
