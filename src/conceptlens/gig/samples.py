"""The PFV-iERF data set: of each image and layer a few vectors, chosen by what they contribute, with what they saw.

GIG paper, Sec. 3.1 and Appendix C. Of all positions of a layer, most see background. A position is therefore drawn with
a probability proportional to its (positive) contribution to the image's output, by sharing ratios (Eq. 10) or by
gradient × input; the paper draws one an image. Its effective receptive field is kept as a small map, if asked for: the
pixels that made this vector (see `srd.Graph.receptive_field`), of which `receptive_field_crops.draw_crop` makes a crop.

Images stream through in shards of some dozens. A shard is one file, written whole or not at all; those that are there
are not made again, and what is drawn depends on seed, image and layer alone, so that a run that was stopped, or shared
out to several processes, ends in the same data. `samples.json` says what they were made of. Nothing but one shard is
ever in memory.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, remove_leftovers, write_bytes, write_json
from conceptlens.encoders.freezing import weights_hash
from conceptlens.gig.attribution.srd import Graph, Rule
from conceptlens.gig.network import Network

SHARD = 64
BATCH = 8
HEADER = 4096  # bytes of names and shapes in a shard, at most, for each layer
Dtype = Literal["float16", "float32"]


class Images(Protocol):
    """Images by number; pixels when asked for."""

    def __len__(self) -> int: ...

    def batches(self, size: int, indices: Sequence[int]) -> Iterator[tuple[list[int], Tensor]]:
        """Numbers and pixels (B, 3, S, S), as the model takes them."""
        ...

    @property
    def fingerprint(self) -> str: ...


@dataclass(frozen=True)
class Samples:
    """Samples of one layer, in the order of their images: N = images · per_image, unless some images are left out."""

    layer: str
    image: Tensor  # (N,) number of the image
    position: Tensor  # (N,) in the layer, its prefix counted
    contribution: Tensor  # (N,) to the output
    files: tuple[Path, ...]
    rows: Tensor | None = None  # (N,) which of those in the files, ascending; None for all

    def __len__(self) -> int:
        return len(self.image)

    def without(self, images: Sequence[int]) -> "Samples":
        """Those of the other images."""
        left = torch.nonzero(~torch.isin(self.image, torch.tensor(list(images), dtype=self.image.dtype))).flatten()
        rows = left if self.rows is None else self.rows[left]
        kept = (self.image[left], self.position[left], self.contribution[left])
        return Samples(self.layer, *kept, self.files, rows)

    def features(self) -> Tensor:
        """(N, C), in memory."""
        return self._read("features").float()

    def chunks(self, rows: int = 16384) -> Iterator[tuple[int, Tensor]]:
        """First row and vectors (n, C), part by part: files are mapped, and only one part is in memory."""
        start, held, number = 0, [], 0
        before = 0
        for file in self.files:
            part = _open(file, [f"features {self.layer}"])[0]
            if self.rows is not None:
                mine = self.rows[(self.rows >= before) & (self.rows < before + len(part))]
                before, part = before + len(part), part[mine - before]
            held.append(part)
            number += len(held[-1])
            if number >= rows or file == self.files[-1]:
                yield start, torch.cat(held).float()
                start, held, number = start + number, [], 0

    def take(self, rows: Tensor) -> Tensor:
        """(n, C) of some samples, in the order asked for; nothing else is read."""
        a_file = len(_open(self.files[0], [f"image {self.layer}"])[0])  # samples of each file but the last
        rows = rows if self.rows is None else self.rows[rows]
        order = rows.argsort()
        parts = []
        for number in torch.unique(rows // a_file).tolist():
            mine = rows[order][rows[order] // a_file == number] - number * a_file
            parts.append(_open(self.files[number], [f"features {self.layer}"])[0][mine])
        taken = torch.cat(parts).float()
        return torch.empty_like(taken).index_copy_(0, order, taken)

    def fields(self) -> Tensor | None:
        """(N, s, s) receptive fields, 0 to 1, where they were kept."""
        found = self._read("field")
        return None if found.numel() == 0 else found.float() / 255

    def _read(self, what: str) -> Tensor:
        found = torch.cat([_open(file, [f"{what} {self.layer}"])[0] for file in self.files])
        return found if self.rows is None or not len(found) else found[self.rows]


def collect(
    network: Network,
    images: Images,
    folder: Path,
    per_image: int = 1,
    rule: Rule = "srd",
    seed: int = 0,
    note: Callable[[str], object] = lambda text: None,
    *,
    targets: Sequence[int] | None = None,
    field_side: int = 0,
    dtype: Dtype = "float16",
    share: tuple[int, int] = (0, 1),
    batch: int = BATCH,
    seen: Callable[[list[int], Tensor], object] = lambda numbers, outputs: None,
) -> dict[str, Samples]:
    """Sample every layer of every image; shards that are there are kept.

    Args:
        network: An opened network: all its layers are sampled.
        images: What streams through.
        folder: Where shards are kept.
        per_image: Vectors of each image and layer; fewer where a layer has fewer positions.
        rule: How contributions are found.
        seed: Of the drawing.
        note: Told how far it is.
        targets: The output of each image that counts; by default the largest.
        field_side: Side of the receptive fields' maps; 0 keeps none.
        dtype: In which vectors are kept.
        share: This process's number and how many there are; each makes its part of the shards.
        batch: Images at a time.
        seen: Given the numbers of images and the model's outputs (B, classes) for them, which come on the way; not of
            shards that were there.

    Returns:
        Samples of each layer; empty if other processes still have shards to make.

    Raises:
        UserError: The folder holds samples of something else, or the disk is too small for them.
    """
    if per_image < 1:
        raise UserError(f"Samples: expected one vector an image or more, got {per_image}.")
    if targets is not None and len(targets) != len(images):
        raise UserError(f"Samples: {len(targets)} targets for {len(images)} images.")
    if len(images) == 0:
        raise UserError("Samples: there are no images.")
    _begin(folder, _made_of(network, images, per_image, rule, seed, targets, field_side, dtype))
    shards = shards_of(len(images))
    files = [folder / f"{shard.start:08d}.safetensors" for shard in shards]
    _check_disk(
        network, folder, per_image, field_side, dtype, [s for s, f in zip(shards, files, strict=True) if not f.exists()]
    )
    for shard in shards_of(len(images), share):
        file = files[shard.start // SHARD]
        if file.exists():
            continue
        parts: dict[str, list[Tensor]] = {}
        for some, pixels in images.batches(batch, list(shard)):
            chosen = None if targets is None else torch.tensor([targets[number] for number in some])
            drawn, outputs = _draw(network, pixels, some, chosen, per_image, rule, seed, field_side)
            seen(some, outputs)
            for name, value in drawn.items():
                parts.setdefault(name, []).append(value)
        write_bytes(file, save({name: _kept(name, torch.cat(values), dtype) for name, values in parts.items()}))
        note(f"samples: {shard.stop} of {len(images)} images")
    if not all(file.exists() for file in files):
        return {}
    return {layer: _samples(layer, files) for layer in network.layers}


def shards_of(images: int, share: tuple[int, int] = (0, 1)) -> list[range]:
    """Numbers of the images in each shard, or in those that one of several processes makes."""
    return [range(start, min(start + SHARD, images)) for start in range(0, images, SHARD)][share[0] :: share[1]]


def _draw(
    network: Network,
    pixels: Tensor,
    numbers: list[int],
    targets: Tensor | None,
    per_image: int,
    rule: Rule,
    seed: int,
    field_side: int,
) -> tuple[dict[str, Tensor], Tensor]:
    """Samples of a batch, all layers, and its outputs: one forward pass, one backward pass, one for each field."""
    layers = list(network.layers)
    graph = Graph(network, pixels, layers, rule)
    wanted = graph.logits.argmax(1) if targets is None else targets.to(graph.logits.device)
    shares = graph.down(graph.logits.gather(1, wanted[:, None]), layers, pixels=False)
    found: dict[str, Tensor] = {}
    for place, layer in enumerate(layers):
        point = network.hook_point(layer)
        chosen = _positions(shares[layer].detach().cpu(), point.prefix, per_image, (seed, place), numbers)
        rows = torch.arange(len(numbers))[:, None]
        there = graph.raw[layer].device  # picked where they are: a few vectors of thousands cross to the host
        vectors = point.vectors(graph.raw[layer].detach())[rows.to(there), chosen.to(there)].cpu()
        count = chosen.shape[1]
        maps = [_field(graph, layer, chosen[:, i], field_side) for i in range(count if field_side else 0)]
        found |= {
            f"features {layer}": vectors.flatten(0, 1),
            f"image {layer}": torch.tensor(numbers, dtype=torch.int32).repeat_interleave(count),
            f"position {layer}": chosen.flatten().to(torch.int32),
            f"contribution {layer}": shares[layer].detach().cpu()[rows, chosen].flatten().float(),
            f"field {layer}": torch.stack(maps, 1).flatten(0, 1) if maps else torch.empty(0, dtype=torch.uint8),
        }
    return found, graph.logits.detach()


def _positions(shares: Tensor, prefix: int, number: int, seed: tuple[int, int], images: list[int]) -> Tensor:
    """Draw positions (B, number) without repeats, with probabilities ∝ the positive shares (B, P)."""
    weight = shares[:, prefix:].double().clamp_min(0).numpy()
    number = min(number, weight.shape[1])
    chosen = np.empty((len(weight), number), dtype=np.int64)
    for row, image in enumerate(images):
        p = weight[row]
        p = p / p.sum() if np.isfinite(p).all() and p.sum() > 0 else np.full(len(p), 1 / len(p))
        p = (p + 1e-9) / (p + 1e-9).sum()  # so many can always be drawn
        chosen[row] = np.random.default_rng((*seed, image)).choice(len(p), number, replace=False, p=p)
    return torch.from_numpy(chosen) + prefix


def _field(graph: Graph, layer: str, positions: Tensor, side: int) -> Tensor:
    """Receptive fields (B, s, s) of one vector an image, as bytes: their positive part, the largest 255."""
    whole = graph.receptive_field(layer, positions).detach()
    small = torch.nn.functional.adaptive_avg_pool2d(whole[:, None], side)[:, 0].clamp_min(0)
    top = small.amax((1, 2), keepdim=True).clamp_min(torch.finfo(small.dtype).tiny)
    return (small / top * 255).round().to(torch.uint8).cpu()


def _kept(name: str, value: Tensor, dtype: Dtype) -> Tensor:
    if not name.startswith("features "):
        return value.contiguous()
    small = value.to(getattr(torch, dtype)).contiguous()
    if not bool(small.isfinite().all()):
        raise UserError(
            f"Samples: vectors of layer {name.removeprefix('features ')!r} do not fit in {dtype}. Use dtype='float32'; "
            "if they do not fit there, the model's numbers are not finite."
        )
    return small


def _samples(layer: str, files: Sequence[Path]) -> Samples:
    names = [f"{what} {layer}" for what in ("image", "position", "contribution")]
    image, position, contribution = (torch.cat(part) for part in zip(*(_open(f, names) for f in files), strict=True))
    return Samples(layer, image.long(), position.long(), contribution, tuple(files))


def _open(file: Path, names: Sequence[str]) -> list[Tensor]:
    try:
        manifest.check(file)
        with safe_open(file, "pt") as opened:
            return [opened.get_tensor(name) for name in names]
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: expected a shard of samples, but {error}. Delete it and run again.") from None


def _made_of(
    network: Network,
    images: Images,
    per_image: int,
    rule: str,
    seed: int,
    targets: Sequence[int] | None,
    field_side: int,
    dtype: str,
) -> dict[str, Any]:
    """What samples depend on: with anything else, they are others."""
    return {
        "weights": weights_hash(network.model),
        "layers": list(network.layers),
        "images": images.fingerprint,
        "number": len(images),
        "per_image": per_image,
        "rule": rule,
        "seed": seed,
        "targets": None if targets is None else [int(target) for target in targets],
        "field_side": field_side,
        "dtype": dtype,
        "shard": SHARD,
    }


def _begin(folder: Path, made_of: dict[str, Any]) -> None:
    """Make the folder, or see that what is in it was made of the same."""
    path = folder / "samples.json"
    if not path.exists():
        write_json(path, made_of)
        return
    remove_leftovers(folder)
    found = read_json(path)
    for name, value in made_of.items():
        if found.get(name) != value:
            raise UserError(
                f"{folder}: these samples were made with other {name.replace('_', ' ')} than now. "
                "Name another folder, or delete this one."
            )


def _check_disk(
    network: Network, folder: Path, per_image: int, field_side: int, dtype: str, missing: Sequence[range]
) -> None:
    """Too small a disk is told before the work, not after."""
    width = 2 if dtype == "float16" else 4
    needed = 0
    for layer in network.layers:
        point = network.hook_point(layer)
        samples = sum(len(shard) for shard in missing) * min(per_image, point.positions - point.prefix)
        needed += samples * (point.channels * width + 12 + field_side**2) + HEADER * len(missing)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UserError(
            f"{folder}: samples need {needed / 1e9:.2f} GB, but {free / 1e9:.2f} GB are free. Take fewer images, "
            "layers or vectors an image, or another disk."
        )
