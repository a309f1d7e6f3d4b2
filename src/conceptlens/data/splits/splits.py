"""Which images are for training, which choose the model, which test it.

Splits that the data brings are respected. What must be drawn is drawn with a seed: stratified by class, whole groups (a
patient, a lesion) on one side, and independent of the order in which the images are listed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint
from conceptlens.data.dataset import SPLITS, Examples, Task
from conceptlens.data.splits.stratify import divide, thin_out
from conceptlens.recipes.schema import SplitConfig

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Splits:
    """Positions of the images on each side, in ascending order."""

    train: Indices
    val: Indices
    test: Indices
    seed: int
    how: str  # "given", "drawn", or which of them
    ids: tuple[str, ...] = field(repr=False)  # of all images of the source
    warnings: tuple[str, ...] = ()

    def __getitem__(self, side: str) -> Indices:
        return {"train": self.train, "val": self.val, "test": self.test}[side]

    @property
    def hash(self) -> str:
        """Equal for equal sets of images on each side, in whatever order the source lists them."""
        return _hash({side: [self.ids[index] for index in self[side].tolist()] for side in SPLITS})

    def to_json(self) -> dict[str, Any]:
        """For splits.json: the names of the images on each side, and hashes to notice any change."""
        return {
            "how": self.how,
            "seed": self.seed,
            "hash": self.hash,
            "data": fingerprint(*sorted(self.ids)),
            "warnings": list(self.warnings),
            "splits": {side: [self.ids[index] for index in self[side].tolist()] for side in SPLITS},
        }

    @classmethod
    def from_json(cls, value: Any, ids: tuple[str, ...], *, where: str = "splits.json") -> "Splits":
        """Splits that were stored, for a source that now has these ids.

        Raises:
            UserError: The file is not what `to_json` wrote, or the data has changed since.
        """
        try:
            named = {side: [str(name) for name in value["splits"][side]] for side in SPLITS}
            how, seed, stored, data = str(value["how"]), int(value["seed"]), value["hash"], value["data"]
            warnings = tuple(str(warning) for warning in value["warnings"])
        except (KeyError, TypeError, ValueError):
            raise UserError(
                f"{where}: expected how, seed, hash, data, warnings and splits (train, val, test)."
            ) from None
        if _hash(named) != stored:
            raise UserError(f"{where}: the images listed are not those it was written with; it was edited or damaged.")
        position = {name: index for index, name in enumerate(ids)}
        gone = [name for side in SPLITS for name in named[side] if name not in position]
        if gone or fingerprint(*sorted(ids)) != data:
            what = (
                f"{len(gone):,} of its images are gone, such as {gone[0]}" if gone else "images were added or removed"
            )
            raise UserError(
                f"{where}: the data has changed since the split was made: {what}. "
                "Bring the same data back, or start a new run."
            )
        sides = {side: np.array(sorted(position[name] for name in named[side]), dtype=np.int64) for side in SPLITS}
        return cls(**sides, seed=seed, how=how, ids=ids, warnings=warnings)


def _hash(named: Mapping[str, Sequence[str]]) -> str:
    return fingerprint(*(part for side in SPLITS for part in (f"side {side}", *sorted(named[side]))))


def make_splits(
    examples: Examples, config: SplitConfig, task: Task, *, classes: Sequence[str] = (), limit: int | None = None
) -> Splits:
    """Respect the given splits, draw what is missing.

    Args:
        examples: Ids, class labels, and where there are any, given splits and groups.
        config: Shares and seed of what is drawn. Where one side is missing, it is drawn from the training images in the
            proportion it would have had to them.
        task: `multilabel` stratifies by all labels of an image.
        classes: Class names, for the warnings.
        limit: At most so many images per side, stratified by class.

    Raises:
        UserError: There are too few images or groups to divide, or a given split has nothing to train on.
    """
    if not (0 < config.val < 1 and 0 <= config.test < 1 and config.val + config.test < 1):
        raise UserError(
            "data.split: expected val above 0, test from 0, together below 1; "
            f"found val {config.val}, test {config.test}."
        )
    strata = _strata(examples, task)
    given = examples.split or ("train",) * len(examples)
    if config.folds:
        folded = _fold([index for index, name in enumerate(given) if name], config, examples, strata)
        return _finished(folded, f"fold {config.fold + 1} of {config.folds}", examples, strata, config, classes, limit)
    sides = {side: [index for index, name in enumerate(given) if name == side] for side in SPLITS}
    if not sides["train"]:
        raise UserError(
            "None of the images is in the split `train`. Name the training images, or leave the splits out."
        )
    missing = {side: share for side, share in (("val", config.val), ("test", config.test)) if share and not sides[side]}
    if missing:
        rest = 1 - config.val - config.test
        whole = rest + sum(missing.values())
        shares = {"train": rest / whole, **{side: share / whole for side, share in missing.items()}}
        sides |= divide(sides["train"], shares, examples, strata, config.seed)
    there = [side for side in SPLITS if sides[side] and side not in missing]
    drawn = "drawn" if there == ["train"] else f"given {'+'.join(there)}, {next(iter(missing), '')} drawn"
    return _finished(sides, drawn if missing else "given", examples, strata, config, classes, limit)


def _fold(
    pool: list[int], config: SplitConfig, examples: Examples, strata: Sequence[tuple[int, ...]]
) -> dict[str, list[int]]:
    """Cross-validation: one of the folds is the test, validation is drawn from the others."""
    names = [f"fold {number}" for number in range(config.folds)]
    drawn = divide(pool, dict.fromkeys(names, 1 / config.folds), examples, strata, config.seed)
    test = drawn.pop(names[config.fold])
    val = config.val / (1 - 1 / config.folds)
    rest = [index for name in drawn for index in drawn[name]]
    return {**divide(rest, {"train": 1 - val, "val": val}, examples, strata, config.seed), "test": test}


def _finished(
    sides: dict[str, list[int]],
    how: str,
    examples: Examples,
    strata: Sequence[tuple[int, ...]],
    config: SplitConfig,
    classes: Sequence[str],
    limit: int | None,
) -> Splits:
    """Thinned out where few are wanted, sorted, with warnings."""
    if limit is not None:
        sides = {side: thin_out(indices, limit, examples.ids, strata, config.seed) for side, indices in sides.items()}
    arrays = {side: np.array(sorted(sides[side]), dtype=np.int64) for side in SPLITS}
    torn = torn_groups(examples, arrays)
    warnings = (*([torn_warning(torn)] if torn else []), *_thin_classes(arrays, strata, classes))
    return Splits(**arrays, seed=config.seed, how=how, ids=examples.ids, warnings=warnings)


def _strata(examples: Examples, task: Task) -> list[tuple[int, ...]]:
    """What each image counts towards: its classes; -1 if it has no label, -2 if it is known to have none of them."""
    if task != "multilabel":
        return [(label,) for label in examples.labels.tolist()]
    strata: list[tuple[int, ...]] = []
    for row in examples.labels:
        present = tuple(np.flatnonzero(row == 1).tolist())
        strata.append(present or ((-2,) if (row >= 0).any() else (-1,)))
    return strata


def torn_groups(examples: Examples, sides: Mapping[str, Indices] | Splits) -> list[str]:
    """Groups that a given split has put on more than one side."""
    if examples.group is None:
        return []
    home: dict[str, str] = {}
    torn: dict[str, None] = {}
    for side in SPLITS:
        for index in sides[side].tolist():
            group = examples.group[index]
            if group and home.setdefault(group, side) != side:
                torn[group] = None
    return list(torn)


def torn_warning(torn: Sequence[str]) -> str:
    shown = ", ".join(torn[:3])
    return (
        f"{len(torn):,} groups are on more than one side of the split (such as {shown}): the test is not independent."
    )


def _thin_classes(sides: Mapping[str, Indices], strata: Sequence[tuple[int, ...]], classes: Sequence[str]) -> list[str]:
    """Classes that have images, but none on some side."""
    present = {side: {stratum for index in sides[side].tolist() for stratum in strata[index]} for side in SPLITS}
    known = sorted({stratum for found in present.values() for stratum in found if stratum >= 0})
    warnings = []
    for side in SPLITS:
        names = {number: classes[number] if number < len(classes) else f"class {number}" for number in known}
        absent = [name for number, name in names.items() if number not in present[side]]
        if absent and len(sides[side]):
            warnings.append(f"No image in {side} of: {', '.join(absent[:8])}{' …' if len(absent) > 8 else ''}.")
    return warnings
