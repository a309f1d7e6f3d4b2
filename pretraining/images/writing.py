"""Write shards: images in a mixed order, many to a sheet, as many sheets to a shard as its limit allows."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from tqdm import tqdm

from conceptlens.core.files import fingerprint, new_folder, read_json, remove_leftovers, write_bytes, write_json
from pretraining.images.collect import Listed, Listing
from pretraining.images.shards import INDEX, sheet_name
from pretraining.images.sheets import cut, decode, encode, lay_out, read_square


@dataclass(frozen=True)
class Form:
    """How the images of a source are packed."""

    side: int  # pixels
    columns: int  # a sheet has as many rows
    quality: int  # WebP's, 0 to 100

    @property
    def per_sheet(self) -> int:
        return self.columns**2


def in_packing_order(images: Sequence[Listed]) -> list[Listed]:
    """Mixed by a hash of the name: the same on every machine, and little changed when an image is left out."""
    return sorted(images, key=lambda image: sha256(image.name.encode()).digest())


def write_shards(listing: Listing, out: Path, form: Form, *, limit: int, workers: int = 1) -> list[Path]:
    """Pack a source into `out/SOURCE-0`, `out/SOURCE-1`, … of at most `limit` bytes of sheets each.

    A shard appears whole or not at all; run again, those already there are kept if they hold the same images in the
    same form, and removed if they do not.
    """
    images = in_packing_order(listing.images)
    plan = fingerprint(repr((form, limit, listing.axes)), *(repr((i.name, i.label, i.attributes)) for i in images))
    shards, done = _kept(listing.source, out, plan)
    batches = [images[start : start + form.per_sheet] for start in range(done, len(images), form.per_sheet)]
    written: list[Listed] = []
    sheets: list[bytes] = []
    noise: list[float] = []

    def flush() -> None:
        path = out / f"{listing.source}-{len(shards)}"
        quality = {
            "psnr": round(float(np.mean(noise)), 2),
            "psnr_5th_percentile": round(float(np.percentile(noise, 5)), 2),
        }
        with new_folder(path) as folder:
            for position, sheet in enumerate(sheets):
                write_bytes(folder / sheet_name(position), sheet)
            write_json(folder / INDEX, _index(listing, len(shards), plan, form, written, sheets) | quality)
        shards.append(path)
        written.clear()
        sheets.clear()
        noise.clear()

    with (
        ThreadPoolExecutor(workers, "pack") as pool,
        tqdm(total=len(images), initial=done, desc=f"packing {listing.source}", unit="image", disable=None) as progress,
    ):
        for batch, (sheet, psnr) in zip(batches, pool.map(lambda batch: _pack(batch, form), batches), strict=True):
            if sheets and sum(map(len, sheets)) + len(sheet) > limit:
                flush()
            written += batch
            sheets.append(sheet)
            noise += psnr
            progress.update(len(batch))
        if sheets:
            flush()
    return shards


def _pack(images: Sequence[Listed], form: Form) -> tuple[bytes, list[float]]:
    """A sheet of images, and the peak signal-to-noise ratio of each in decibels."""
    originals = [read_square(image.path, form.side) for image in images]
    sheet = encode(lay_out(originals, form.columns), form.quality)
    decoded = cut(decode(sheet), form.side, len(images)).transpose(0, 2, 3, 1)
    error = ((decoded.astype(np.float32) - np.stack(originals)) ** 2).mean((1, 2, 3))
    return sheet, [float(value) for value in 10 * np.log10(255**2 / np.maximum(error, 1e-2))]


def _index(
    listing: Listing, shard: int, plan: str, form: Form, images: Sequence[Listed], sheets: Sequence[bytes]
) -> dict[str, Any]:
    classes = sorted({image.label for image in listing.images})
    position = {label: index for index, label in enumerate(classes)}
    return {
        "source": listing.source,
        "shard": shard,
        "plan": plan,
        "number": len(images),
        "side": form.side,
        "columns": form.columns,
        "quality": form.quality,
        "bytes": sum(map(len, sheets)),
        "sheets": [sha256(sheet).hexdigest() for sheet in sheets],
        "classes": classes,
        "axes": {axis: list(values) for axis, values in listing.axes.items()},
        "names": [image.name for image in images],
        "labels": [position[image.label] for image in images],
        # A line per image: as lists, eleven numbers would take eleven lines.
        "attributes": [" ".join(map(str, image.attributes)) for image in images] if listing.axes else [],
    }


def _kept(source: str, out: Path, plan: str) -> tuple[list[Path], int]:
    """Shards of an earlier run that can stay, and how many images they hold; all others of this source are removed."""
    out.mkdir(parents=True, exist_ok=True)
    remove_leftovers(out)
    found = {path: read_json(path / INDEX) for path in out.glob(f"{source}-*") if (path / INDEX).is_file()}
    kept: list[Path] = []
    while (path := out / f"{source}-{len(kept)}") in found and found[path]["plan"] == plan:
        kept.append(path)
    for path in found.keys() - set(kept):
        rmtree(path)
    return kept, sum(found[path]["number"] for path in kept)
