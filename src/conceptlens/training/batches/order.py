"""Which images make up which batch: a pure function of seed, epoch and step, so that a resumed run and a run on more
processes see the same batches."""

from collections.abc import Iterator, Sized
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError

Indices = npt.NDArray[np.int64]
TOGETHER = 8  # blocks whose images are mixed


@dataclass(frozen=True)
class Order:
    """Batches of the training images. An epoch's last, incomplete batch is left out; the next epoch's order differs."""

    indices: Indices
    batch_size: int
    seed: int
    blocks: Indices | None = None  # where pieces of the data begin that are cheap to read together

    @classmethod
    def plan(cls, indices: Indices, batch_size: int, pieces: int, seed: int, blocks: Indices | None = None) -> "Order":
        """`pieces`: processes × accumulation steps; each gets an equal part of every batch."""
        if batch_size % pieces:
            raise UserError(
                f"training.batch_size: {batch_size} images cannot be shared equally by {pieces} processes and "
                f"accumulation steps; choose a multiple of {pieces}."
            )
        fitting = min(batch_size, len(indices) // pieces * pieces)
        if fitting == 0:
            raise UserError(
                f"{len(indices)} training images are too few for {pieces} processes and accumulation steps."
            )
        return cls(indices, fitting, seed, blocks)

    @property
    def steps(self) -> int:
        return len(self.indices) // self.batch_size

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Indices]:
        """The batches of an epoch, from step `start` on."""
        generator = np.random.default_rng([self.seed, epoch])
        if self.blocks is None:
            shuffled = generator.permutation(self.indices)
        else:
            shuffled = shuffle_blocks(self.indices, self.blocks, generator)
        for step in range(start, self.steps):
            yield shuffled[step * self.batch_size : (step + 1) * self.batch_size]


def shuffle_blocks(indices: Indices, blocks: Indices, generator: np.random.Generator) -> Indices:
    """Blocks in random order, and the images of every few blocks mixed: all of an epoch reads each block once."""
    rank = generator.permutation(len(blocks))
    window = rank[np.searchsorted(blocks, indices, side="right") - 1] // TOGETHER
    return indices[np.lexsort((generator.random(len(indices)), window))]


def piece(batch: Sized, index: int, pieces: int) -> slice:
    """The slice of a batch that belongs to one process and accumulation step."""
    size = len(batch) // pieces
    return slice(index * size, (index + 1) * size)
