"""Groups of images from columns of metadata: words as they are, numbers in bands, names of single images not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError, unknown_name

Indices = npt.NDArray[np.int64]
MOST = 12  # groups of a column of words; rarer words are put together
NUMBERS = 8  # distinct numbers up to which a column of numbers is taken as words, such as a grade
BANDS = 4
MISSING = ("", "nan", "none", "unknown", "n/a", "na")


@dataclass(frozen=True)
class Column:
    """A column, cut into groups."""

    name: str
    groups: tuple[str, ...]
    member: Indices  # (N,): the group of each image; −1 where the column says nothing


def make_columns(
    metadata: Mapping[str, Sequence[str]], by: Sequence[str] | None = None
) -> tuple[list[Column], dict[str, str]]:
    """Columns that cut images into groups, and why the others do not.

    Args:
        metadata: Column: a word for each image.
        by: Columns to use, all by default; `age=40,60` cuts a column of numbers at these places.

    Raises:
        UserError: A column was asked for by name and does not exist or cannot be cut.
    """
    found: list[Column] = []
    skipped: dict[str, str] = {}
    for word in metadata if by is None else by:
        name, equals, cuts = (part.strip() for part in word.partition("=")) if by is not None else (word, "", "")
        if name not in metadata:
            raise unknown_name("column of metadata", name, metadata)
        made = _column(name, metadata[name], _numbers(cuts.split(","), f"--by {word}") if equals else None)
        if isinstance(made, Column):
            found.append(made)
        elif by is None:
            skipped[name] = made
        else:
            raise UserError(f"--by {word}: {made}.")
    return found, skipped


def _column(name: str, words: Sequence[str], cuts: list[float] | None) -> Column | str:
    """The column, or why it makes no groups."""
    texts = [str(word).strip() for word in words]
    known = np.array([text.lower() not in MISSING for text in texts], dtype=bool)
    distinct = sorted({text for text, there in zip(texts, known, strict=True) if there})
    if len(distinct) < 2:
        return "it says the same of every image" if distinct else "it says nothing"
    try:
        numbers = np.array([float(text) if there else np.nan for text, there in zip(texts, known, strict=True)])
    except ValueError:
        numbers = None
    if numbers is not None and np.isinf(numbers).any():
        numbers = None
    if cuts is not None and numbers is None:
        return "it does not hold numbers, so it cannot be cut at numbers"
    if numbers is not None and (cuts is not None or len(distinct) > NUMBERS):
        return _bands(name, numbers, known, cuts)
    if len(distinct) > max(MOST, 0.5 * known.sum()):
        return f"it has {len(distinct)} different words in {int(known.sum())} images, as a name would"
    return _words(name, texts, known, distinct)


def _bands(
    name: str, numbers: npt.NDArray[np.float64], known: npt.NDArray[np.bool_], cuts: list[float] | None
) -> Column:
    """Quarters of the images, or bands between the given places."""
    if cuts is None:
        shares = np.arange(1, BANDS) / BANDS
        cuts = np.unique(np.quantile(numbers[known], shares, method="nearest")).tolist()
        most = numbers[known].max()
        cuts = [cut for cut in cuts if cut < most] or [numbers[known & (numbers < most)].max()]
    edges = sorted(set(cuts))
    member = np.where(known, np.searchsorted(edges, np.where(known, numbers, 0.0), side="left"), -1).astype(np.int64)
    words = [f"up to {edges[0]:g}", *(f"above {low:g} to {high:g}" for low, high in pairwise(edges))]
    return Column(name, (*words, f"above {edges[-1]:g}"), member)


def _words(name: str, texts: list[str], known: npt.NDArray[np.bool_], distinct: list[str]) -> Column:
    counts = {word: texts.count(word) for word in distinct}
    kept = sorted(distinct, key=lambda word: (-counts[word], word))
    groups = kept if len(kept) <= MOST else [*kept[: MOST - 1], f"{len(kept) - MOST + 1} others"]
    place = {word: min(at, len(groups) - 1) for at, word in enumerate(kept)}
    member = [place[text] if there else -1 for text, there in zip(texts, known, strict=True)]
    return Column(name, tuple(groups), np.array(member, dtype=np.int64))


def _numbers(words: Sequence[str], where: str) -> list[float]:
    try:
        found = [float(word) for word in words]
    except ValueError:
        raise UserError(f"{where}: expected numbers to cut at, as age=40,60.") from None
    if not np.isfinite(found).all():
        raise UserError(f"{where}: expected finite numbers to cut at, as age=40,60.")
    return found
