"""Statistics of any number of values in little memory: made piece by piece, merged in any order, kept as JSON."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
BINS = 1000
EXAMPLES = 8


@dataclass
class Moments:
    """Number, mean and variance (Chan, Golub and LeVeque 1979)."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0  # sum of squared differences from the mean

    @classmethod
    def of(cls, values: Floats) -> "Moments":
        if not len(values):
            return cls()
        exact = np.asarray(values, np.float64)
        return cls(len(exact), float(exact.mean()), float(((exact - exact.mean()) ** 2).sum()))

    def merge(self, other: "Moments") -> "Moments":
        n = self.n + other.n
        if not n:
            return Moments()
        step = other.mean - self.mean
        squares = self.squares + other.squares + step**2 * self.n * other.n / n
        return Moments(n, self.mean + step * other.n / n, squares)

    @property
    def std(self) -> float | None:
        """Of a sample; None of fewer than two values."""
        return (self.squares / (self.n - 1)) ** 0.5 if self.n > 1 else None


@dataclass
class UnitHistogram:
    """Quantiles of values from 0 to 1, each to within one of a thousand bins."""

    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))

    @classmethod
    def of(cls, values: Floats) -> "UnitHistogram":
        places = np.clip((np.asarray(values, np.float64) * BINS).astype(np.int64), 0, BINS - 1)
        return cls(np.bincount(places, minlength=BINS))

    def merge(self, other: "UnitHistogram") -> "UnitHistogram":
        return UnitHistogram(self.counts + other.counts)

    def quantile(self, share: float) -> float | None:
        """The middle of the bin in which this share of the values is reached; None without values."""
        total = int(self.counts.sum())
        if not total:
            return None
        place = int(np.searchsorted(np.cumsum(self.counts), max(share * total, 1)))
        return (min(place, BINS - 1) + 0.5) / BINS


@dataclass
class Reservoir:
    """A random sample of names: those with the smallest hashes, so any order and any division give the same sample."""

    names: list[str] = field(default_factory=list)
    size: int = EXAMPLES

    @classmethod
    def of(cls, names: Iterable[str], size: int = EXAMPLES) -> "Reservoir":
        return cls(sorted(set(names), key=_rank)[:size], size)

    def merge(self, other: "Reservoir") -> "Reservoir":
        return Reservoir.of([*self.names, *other.names], self.size)


def _rank(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()


@dataclass
class Summary:
    """Of the answers to many images.

    Args:
        images: How many were read.
        errors: How many could not be.
        unlike: How many are unlike the training images; None where that is not known.
        classes: Predicted class → number of images.
        examples: Predicted class → some images.
        scores: Column of probabilities → its moments and quantiles.
    """

    images: int = 0
    errors: int = 0
    unlike: int | None = None
    classes: dict[str, int] = field(default_factory=dict)
    examples: dict[str, Reservoir] = field(default_factory=dict)
    scores: dict[str, tuple[Moments, UnitHistogram]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        predicted: Sequence[str],
        scores: Mapping[str, Floats],
        unlike: Sequence[bool] | None,
        errors: int = 0,
    ) -> "Summary":
        by_class: dict[str, list[str]] = {}
        for name, word in zip(names, predicted, strict=True):
            by_class.setdefault(word, []).append(name)
        return cls(
            len(names),
            errors,
            None if unlike is None else int(sum(unlike)),
            {word: len(own) for word, own in by_class.items()},
            {word: Reservoir.of(own) for word, own in by_class.items()},
            {column: (Moments.of(values), UnitHistogram.of(values)) for column, values in scores.items()},
        )

    def merge(self, other: "Summary") -> "Summary":
        words = list(dict.fromkeys([*self.classes, *other.classes]))
        columns = list(dict.fromkeys([*self.scores, *other.scores]))
        nothing = Moments(), UnitHistogram()
        pairs = {name: (self.scores.get(name, nothing), other.scores.get(name, nothing)) for name in columns}
        return Summary(
            self.images + other.images,
            self.errors + other.errors,
            other.unlike if self.unlike is None else self.unlike + (other.unlike or 0),
            {word: self.classes.get(word, 0) + other.classes.get(word, 0) for word in words},
            {word: self.examples.get(word, Reservoir()).merge(other.examples.get(word, Reservoir())) for word in words},
            {name: (one[0].merge(two[0]), one[1].merge(two[1])) for name, (one, two) in pairs.items()},
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "images": self.images,
            "errors": self.errors,
            "unlike": self.unlike,
            "classes": self.classes,
            "examples": {word: sample.names for word, sample in self.examples.items()},
            "scores": {
                name: {"n": moments.n, "mean": moments.mean, "squares": moments.squares, "bins": bins.counts.tolist()}
                for name, (moments, bins) in self.scores.items()
            },
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Summary":
        return cls(
            value["images"],
            value["errors"],
            value["unlike"],
            value["classes"],
            {word: Reservoir(names) for word, names in value["examples"].items()},
            {
                name: (
                    Moments(entry["n"], entry["mean"], entry["squares"]),
                    UnitHistogram(np.array(entry["bins"], np.int64)),
                )
                for name, entry in value["scores"].items()
            },
        )
