"""Cross-validation: each image tests once, groups stay whole, classes keep their shares."""

import numpy as np
import pytest

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Examples, no_concepts
from conceptlens.data.splits.splits import make_splits
from conceptlens.recipes.parse import load_recipe
from conceptlens.recipes.schema import SplitConfig


def examples(n: int = 120, *, split: tuple[str, ...] | None = None) -> Examples:
    labels = np.arange(n) % 3
    group = tuple(f"patient {number // 3}" for number in range(n))
    return Examples(tuple(f"{number:03}" for number in range(n)), labels, no_concepts(n, 1), split=split, group=group)


def test_every_image_tests_once_with_its_whole_group() -> None:
    data = examples()
    assert data.group is not None
    tested: list[int] = []
    for fold in range(4):
        splits = make_splits(data, SplitConfig(folds=4, fold=fold), "single")
        assert splits.how == f"fold {fold + 1} of 4"
        sides = [{data.group[i] for i in splits[side].tolist()} for side in ("train", "val", "test")]
        assert sum(map(len, sides)) == len(set().union(*sides))
        assert len(splits.test) == pytest.approx(30, abs=3)
        assert len(splits.val) == pytest.approx(0.15 * 120, abs=3)
        tested += splits.test.tolist()
    assert sorted(tested) == list(range(120))


def test_another_seed_draws_other_folds() -> None:
    first, same, other = (
        make_splits(examples(), SplitConfig(folds=4, fold=0, seed=seed), "single") for seed in (0, 0, 1)
    )
    assert first.hash == same.hash != other.hash


def test_given_splits_are_pooled_but_unused_images_stay_unused() -> None:
    given = tuple(["train"] * 60 + ["test"] * 30 + [""] * 30)
    tested = [
        index
        for fold in range(3)
        for index in make_splits(examples(split=given), SplitConfig(folds=3, fold=fold), "single").test.tolist()
    ]
    assert sorted(tested) == list(range(90))


@pytest.mark.parametrize(
    ("split", "key"),
    [({"folds": 1}, "folds"), ({"folds": 3, "fold": 3}, "fold"), ({"folds": 2, "val": 0.5, "test": 0.2}, "val")],
)
def test_impossible_folds(split: dict[str, float], key: str) -> None:
    with pytest.raises(UserError, match=rf"data\.split\.{key}"):
        load_recipe({"data": {"source": "shapes", "split": split}})
