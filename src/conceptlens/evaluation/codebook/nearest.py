"""The patches nearest to each code, one an image, kept while images pass."""

import torch
from torch import Tensor


class NearestPatches:
    """The n nearest patches of each of M codes; memory does not grow with the images.

    Attributes:
        distance: (M, n) squared, rising; infinite where fewer have been seen.
        image: (M, n) the image's position.
        patch: (M, n) the patch's position in it.
    """

    def __init__(self, codes: int, n: int) -> None:
        self.distance = torch.full((codes, n), torch.inf)
        self.image = torch.full((codes, n), -1, dtype=torch.int64)
        self.patch = torch.full((codes, n), -1, dtype=torch.int64)

    def update(self, images: Tensor, codes: Tensor, distances: Tensor) -> None:
        """Take in a batch: positions (B,), nearest codes (B, L) and squared distances to them (B, L)."""
        batch, length = codes.shape
        # Of each image only the best patch of a code may stand: neighbors of it would fill the sheet. Sorted by
        # distance, the first of each (image, code) is that one.
        order = distances.flatten().argsort(stable=True)
        key = (
            torch.arange(batch, device=codes.device).repeat_interleave(length) * len(self.distance)
        ) + codes.flatten()
        ranked = key[order]
        first = torch.full((batch * len(self.distance),), batch * length, device=codes.device, dtype=torch.int64)
        place = torch.arange(batch * length, device=codes.device)
        first.scatter_reduce_(0, ranked, place, "amin")
        seen = first < batch * length
        chosen = order[first.clamp_max(batch * length - 1)]
        best = torch.where(seen, distances.flatten()[chosen], torch.inf).view(batch, -1).T.cpu()  # (M, B)
        patch = (chosen % length).view(batch, -1).T.cpu()
        self._take(best, images.cpu().expand(len(best), -1), patch)

    def add(self, other: "NearestPatches") -> None:
        """Take in those of images that passed elsewhere."""
        self._take(other.distance, other.image, other.patch)

    def _take(self, distance: Tensor, image: Tensor, patch: Tensor) -> None:
        together = torch.cat([self.distance, distance], dim=1)
        keep = together.argsort(dim=1, stable=True)[:, : self.distance.shape[1]]
        self.distance = together.gather(1, keep)
        self.image = torch.cat([self.image, image], dim=1).gather(1, keep)
        self.patch = torch.cat([self.patch, patch], dim=1).gather(1, keep)

    def of(self, code: int) -> list[tuple[int, int, float]]:
        """(image, patch, squared distance) of a code, nearest first."""
        rows = zip(self.image[code].tolist(), self.patch[code].tolist(), self.distance[code].tolist(), strict=True)
        return [row for row in rows if row[2] != float("inf")]
