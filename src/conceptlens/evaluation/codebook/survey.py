"""One pass over an image set's tokens: everything the audit of a codebook needs, in memory that does not grow with it.

Sums are of all images. A row of counts (patches of every code) is kept of the first hundred thousand only; as images
pass in a random order, these are a sample of them all. Surveys of chunks of the images are added up in their order.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.evaluation.codebook.nearest import NearestPatches
from conceptlens.nn.quantization.clusters import squared_distances

NEAREST = 9  # a square of pictures
SAMPLE = 1500  # patches kept for the picture of tokens and codes
ROWS = 100_000  # images of which a row of counts is kept
ROLLS = 39  # tables in which codes of one image meet the assignment of another
Pairs = list[tuple[Tensor, Tensor]]  # patches and their codes


class Survey:
    """Adds up what patches do with the codes of a codebook (M, D).

    Attributes:
        counts: A row (M,) for each of the first images, in the order seen: its patches of each code.
        images: (M,) how many images have a patch of each code.
        places: (M, L) patches of each code at each place of the grid.
        second: (M, M) how often code j is the second nearest of patches of code i.
        mass: (M, S) the assignment of a code's patches to slots, or None.
        permuted: (R, M, S) the same with the assignment of another image: what places alone explain.
    """

    def __init__(self, codebook: Tensor, *, nearest: int = NEAREST, rolls: int = ROLLS, seed: int = 0) -> None:
        self.codebook = codebook.detach().float()
        size = len(self.codebook)
        self.nearest = NearestPatches(size, nearest)
        self.distance = torch.zeros(size, dtype=torch.float64)  # Σ of squared distances to the nearest code
        self.images = torch.zeros(size, dtype=torch.int64)
        self.second = torch.zeros(size, size, dtype=torch.int64)
        self.places: Tensor | None = None
        self.mass: Tensor | None = None
        self.permuted: Tensor | None = None
        self.total = torch.zeros(self.codebook.shape[1], dtype=torch.float64)  # Σ of tokens
        self.squares = 0.0
        self.patches = 0
        self._counts: list[npt.NDArray[np.int32]] = []
        self._rows = 0  # kept in `_counts`
        self._rolls = rolls
        self._generator = torch.Generator().manual_seed(seed)
        self._sample: Pairs = []
        self._halved = 0  # how often half of it was let go

    @torch.no_grad()
    def update(self, images: Tensor, patches: Tensor, assignment: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Take in a batch.

        Args:
            images: (B,) positions.
            patches: (B, L, D).
            assignment: (B, L, S), rows summing to one, where patches are shared among slots.

        Returns:
            Squared distances to the nearest codes, and those codes, (B, L) each.
        """
        z = patches.float()
        batch, length, _ = z.shape
        distances = squared_distances(z, self.codebook.to(z.device))
        best, which = (
            distances.topk(2, dim=-1, largest=False) if len(self.codebook) > 1 else distances.topk(1, largest=False)
        )
        codes, own = which[..., 0], best[..., 0]
        size = len(self.codebook)
        flat = codes.flatten()
        row = torch.arange(batch, device=z.device).repeat_interleave(length) * size
        counts = torch.bincount(row + flat, minlength=batch * size).view(batch, size).cpu()
        self.images += (counts > 0).sum(0)
        self._keep_rows(counts.numpy().astype(np.int32))
        if which.shape[-1] > 1:
            self.second += torch.bincount(flat * size + which[..., 1].flatten(), minlength=size**2).view(size, -1).cpu()
        self.distance += torch.bincount(flat, own.flatten().double(), minlength=size).cpu()
        place = torch.arange(length, device=z.device).repeat(batch)
        at = torch.bincount(flat * length + place, minlength=size * length).view(size, length).cpu()
        self.places = at if self.places is None else self.places + at
        self.total += z.sum(0).sum(0, dtype=torch.float64).cpu()
        self.squares += float(torch.dot(z.flatten(), z.flatten()))
        self.patches += batch * length
        self.nearest.update(images, codes, own)
        if assignment is not None:
            self._share(codes, assignment.float())
        self._keep(z.flatten(0, 1), flat)
        return own, codes

    def _share(self, codes: Tensor, assignment: Tensor) -> None:
        """Add the assignment of each code's patches, as it is and as it is permuted among the batch's images."""
        size, batch = len(self.codebook), len(codes)
        chosen = (codes.flatten().unsqueeze(0) == torch.arange(size, device=codes.device).unsqueeze(1)).float()
        mass = (chosen @ assignment.flatten(0, 1)).double().cpu()
        self.mass = mass if self.mass is None else self.mass + mass
        if self.permuted is None:
            self.permuted = torch.zeros(self._rolls, *mass.shape, dtype=torch.float64)
        if batch < 2:
            return
        # Shifts by 1 to B − 1 images; a small batch repeats some, and their tables are the less independent.
        shifts = torch.randint(1, batch, (self._rolls,), generator=self._generator)
        by_image = chosen.view(size, batch, -1)
        for shift in torch.unique(shifts).tolist():
            permuted = (by_image.roll(shift, 1).flatten(1) @ assignment.flatten(0, 1)).double().cpu()
            self.permuted[shifts == shift] += permuted

    def _keep_rows(self, counts: npt.NDArray[np.int32]) -> None:
        if self._rows < ROWS:
            self._counts.append(counts[: ROWS - self._rows].copy())
            self._rows += len(self._counts[-1])

    def _keep(self, rows: Tensor, codes: Tensor) -> None:
        """A few patches of every batch; as they become many, half are let go and fewer taken from then on."""
        most = max(1, (SAMPLE // 8) >> self._halved)
        few = torch.randperm(len(rows), generator=self._generator)[:most].to(rows.device)
        self._sample.append((rows[few].cpu(), codes[few].cpu()))
        if most > 1 and self._kept > 4 * SAMPLE:
            self._sample = _halves(self._sample)
            self._halved += 1

    @property
    def _kept(self) -> int:
        return sum(len(part[0]) for part in self._sample)

    def add(self, other: "Survey") -> None:
        """Take in the survey of the images that come after these."""
        self.nearest.add(other.nearest)
        self.images += other.images
        self.distance += other.distance
        self.second += other.second
        self.places = _sum(self.places, other.places)
        self.mass = _sum(self.mass, other.mass)
        self.permuted = _sum(self.permuted, other.permuted)
        self.total += other.total
        self.squares += other.squares
        self.patches += other.patches
        for counts in other._counts:
            self._keep_rows(counts)
        ours, theirs = _whole(self._sample), _whole(other._sample)
        for _ in range(other._halved - self._halved):
            ours = _halves(ours)
        for _ in range(self._halved - other._halved):
            theirs = _halves(theirs)
        self._sample, self._halved = _whole([*ours, *theirs]), max(self._halved, other._halved)
        while self._kept > 4 * SAMPLE:
            self._sample = _halves(self._sample)
            self._halved += 1

    def to_tensors(self) -> dict[str, Tensor]:
        """Everything but the codebook, to be read by `from_tensors`."""
        sums = {name: getattr(self, name) for name in _SUMS}
        near = {f"nearest {name}": getattr(self.nearest, name) for name in _NEAREST}
        numbers = {"patches": torch.tensor(self.patches), "squares": torch.tensor(self.squares, dtype=torch.float64)}
        kept = {"counts": torch.from_numpy(self.counts), "halved": torch.tensor(self._halved)}
        for rows, codes in _whole(self._sample):
            kept |= {"sample": rows, "sample codes": codes}
        every = {**sums, **near, **numbers, **kept}
        return {name: value.contiguous() for name, value in every.items() if value is not None}

    @classmethod
    def from_tensors(cls, codebook: Tensor, values: Mapping[str, Tensor]) -> "Survey":
        """What `to_tensors` gave, of the same codebook. It takes in no more batches, only surveys."""
        survey = cls(codebook, nearest=values["nearest image"].shape[1])
        for name in _SUMS:
            setattr(survey, name, values.get(name))
        for name in _NEAREST:
            setattr(survey.nearest, name, values[f"nearest {name}"])
        survey.patches, survey.squares = int(values["patches"]), float(values["squares"])
        survey._halved = int(values["halved"])
        survey._keep_rows(values["counts"].numpy())
        if "sample" in values:
            survey._sample = [(values["sample"], values["sample codes"])]
        return survey

    def sample(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Some patches (n, D) and their codes (n,)."""
        if not self._sample:
            return np.zeros((0, self.codebook.shape[1]), np.float32), np.zeros(0, np.int64)
        rows, codes = (torch.cat(column) for column in zip(*self._sample, strict=True))
        keep = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:SAMPLE]
        return rows[keep].numpy(), codes[keep].numpy()

    @property
    def codes(self) -> int:
        """M"""
        return len(self.codebook)

    @property
    def counts(self) -> npt.NDArray[np.int32]:
        """(n, M)"""
        return np.concatenate(self._counts) if self._counts else np.zeros((0, len(self.codebook)), np.int32)

    @property
    def explained(self) -> float | None:
        """Share of the tokens' variance that the codes explain: 1 − Σ‖z − c‖² / Σ‖z − z̄‖²; negative if none."""
        if not self.patches:
            return None
        mean = self.total / self.patches
        variance = self.squares - self.patches * float(mean.square().sum())
        return float(1 - self.distance.sum() / variance) if variance > 0 else None


_SUMS = ("images", "distance", "second", "places", "mass", "permuted", "total")
_NEAREST = ("distance", "image", "patch")


def _sum(ours: Tensor | None, theirs: Tensor | None) -> Tensor | None:
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    return ours + theirs


def _whole(parts: Pairs) -> Pairs:
    """One part of all."""
    return [tuple(torch.cat(column) for column in zip(*parts, strict=True))] if parts else []  # type: ignore[list-item]


def _halves(parts: Pairs) -> Pairs:
    """Every other row; cloned, as a slice would hold on to the memory of what it was cut from."""
    return [(rows[::2].clone(), codes[::2].clone()) for rows, codes in parts]
