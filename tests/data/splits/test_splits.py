import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import SPLITS, Examples, no_concepts
from conceptlens.data.splits.splits import Splits, make_splits
from conceptlens.recipes.schema import SplitConfig

CONFIG = SplitConfig()


def examples(labels, *, group=None, split=None, ids=None) -> Examples:
    labels = np.asarray(labels, dtype=np.int64)
    n = len(labels)
    return Examples(
        ids=tuple(ids or (f"image {i}" for i in range(n))),
        labels=labels,
        concepts=no_concepts(n, 1),
        group=None if group is None else tuple(group),
        split=None if split is None else tuple(split),
    )


def named(splits: Splits) -> dict[str, set[str]]:
    return {side: {splits.ids[i] for i in splits[side]} for side in SPLITS}


def assert_partition(splits: Splits, n: int) -> None:
    together = np.concatenate([splits[side] for side in SPLITS])
    assert sorted(together.tolist()) == list(range(n))


def test_stratified_exactly_where_it_can_be() -> None:
    labels = [0] * 200 + [1] * 100 + [2] * 20
    splits = make_splits(examples(labels), CONFIG, "single")
    assert_partition(splits, 320)
    counts = {side: np.bincount(np.asarray(labels)[splits[side]]).tolist() for side in SPLITS}
    assert counts == {"train": [130, 65, 13], "val": [30, 15, 3], "test": [40, 20, 4]}
    assert splits.how == "drawn"
    assert splits.warnings == ()


def test_seed_decides() -> None:
    data = examples([0, 1] * 50)
    first = make_splits(data, CONFIG, "single")
    assert make_splits(data, CONFIG, "single").hash == first.hash
    assert make_splits(data, SplitConfig(seed=1), "single").hash != first.hash


def test_hash_is_the_same_on_every_machine() -> None:
    assert make_splits(examples([0, 1] * 10), CONFIG, "single").hash == "9b934f9c231f942b"


groups = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), min_size=30, max_size=120)


@settings(max_examples=40, deadline=None)
@given(groups, st.integers(0, 5))
def test_groups_never_leak_and_order_never_matters(rows: list[tuple[int, int]], seed: int) -> None:
    labels, group = [row[0] for row in rows], [f"g{row[1]}" if row[1] else "" for row in rows]
    data = examples(labels, group=group)
    try:
        splits = make_splits(data, SplitConfig(seed=seed), "single")
    except UserError as error:
        assert len(set(group) - {""}) + group.count("") < 12, error  # noqa: PT017 - many units can always be divided
        return
    assert_partition(splits, len(rows))
    side_of = {index: side for side in SPLITS for index in splits[side].tolist()}
    for name in set(group) - {""}:
        assert len({side_of[i] for i, other in enumerate(group) if other == name}) == 1
    order = np.random.default_rng(seed).permutation(len(rows))
    shuffled = examples([labels[i] for i in order], group=[group[i] for i in order], ids=[data.ids[i] for i in order])
    again = make_splits(shuffled, SplitConfig(seed=seed), "single")
    assert again.hash == splits.hash
    assert named(again) == named(splits)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=40, max_size=150))
def test_many_labels_are_shared_out(rows: list[list[int]]) -> None:
    splits = make_splits(examples(rows), CONFIG, "multilabel")
    assert_partition(splits, len(rows))
    table = np.asarray(rows)
    for label in range(4):
        total = table[:, label].sum()
        for side, share in (("train", 0.65), ("val", 0.15), ("test", 0.2)):
            assert abs(table[splits[side], label].sum() - share * total) <= 0.1 * total + 3


def test_groups_keep_shares_and_sizes() -> None:
    rng = np.random.default_rng(0)
    group = [f"g{g}" for g in range(1500) for _ in range(rng.choice([1, 1, 1, 2, 3, 6]))]
    labels = [hash_ % 3 for hash_ in (int(name[1:]) for name in group)]
    splits = make_splits(examples(labels, group=group), CONFIG, "single")
    for side, share in (("train", 0.65), ("val", 0.15), ("test", 0.2)):
        counts = np.bincount(np.asarray(labels)[splits[side]], minlength=3) / np.bincount(labels)
        assert np.abs(counts - share).max() < 0.01
        # Large groups must not all end up in training: the mean group size is alike on every side.
        sizes = np.unique(np.asarray(group)[splits[side]], return_counts=True)[1]
        assert abs(sizes.mean() - 14 / 6) < 0.35


def test_tiny_classes_reach_train_first_then_test_then_val() -> None:
    splits = make_splits(examples([0] * 60 + [1] + [2] * 2 + [3] * 3), CONFIG, "single", classes=["a", "b", "c", "d"])
    labels = np.array([0] * 60 + [1] + [2] * 2 + [3] * 3)
    present = {side: set(labels[splits[side]].tolist()) for side in SPLITS}
    assert present == {"train": {0, 1, 2, 3}, "val": {0, 3}, "test": {0, 2, 3}}
    assert splits.warnings == ("No image in val of: b, c.", "No image in test of: b.")


def test_one_huge_group_goes_to_training() -> None:
    group = ["big"] * 60 + [f"g{i}" for i in range(40)]
    splits = make_splits(examples([0] * 100, group=group), CONFIG, "single")
    assert set(range(60)) <= set(splits.train.tolist())
    assert (len(splits.val), len(splits.test)) == (15, 20)


def test_given_splits_are_respected() -> None:
    data = examples([0, 1] * 10, split=["train"] * 12 + ["val"] * 4 + ["test"] * 2 + [""] * 2)
    splits = make_splits(data, CONFIG, "single")
    assert splits.how == "given"
    assert [splits[side].tolist() for side in SPLITS] == [list(range(12)), [12, 13, 14, 15], [16, 17]]


def test_a_missing_side_is_drawn_from_training_by_group() -> None:
    group = [f"g{i // 4}" for i in range(120)]
    data = examples([0, 1] * 60, split=["train"] * 80 + ["test"] * 40, group=group)
    splits = make_splits(data, CONFIG, "single")
    assert splits.how == "given train+test, val drawn"
    assert splits.test.tolist() == list(range(80, 120))
    assert abs(len(splits.val) - 80 * 0.15 / 0.8) <= 4
    assert not {group[i] for i in splits.val} & {group[i] for i in splits.train}
    only = make_splits(examples([0, 1] * 60, split=["train"] * 100 + ["val"] * 20), CONFIG, "single")
    assert only.how == "given train+val, test drawn"
    assert make_splits(examples([0, 1] * 60, split=["train"] * 120), CONFIG, "single").how == "drawn"


def test_groups_across_given_splits_are_a_warning() -> None:
    data = examples(
        [0, 1] * 3, split=["train", "train", "val", "val", "test", "test"], group=["a", "b", "", "", "a", "c"]
    )
    assert (
        "1 groups are on more than one side of the split (such as a)" in make_splits(data, CONFIG, "single").warnings[0]
    )


def test_limit_keeps_every_class_and_the_proportions() -> None:
    labels = np.array([0] * 900 + [1] * 90 + [2] * 10)
    splits = make_splits(examples(labels), CONFIG, "single", limit=100)
    assert [len(splits[side]) for side in SPLITS] == [100, 100, 100]
    for side in SPLITS:
        counts = np.bincount(labels[splits[side]], minlength=3)
        assert counts[2] >= 1
        assert abs(counts[1] - 9) <= 1
    small = make_splits(examples(labels), CONFIG, "single", limit=2)
    assert [len(small[side]) for side in SPLITS] == [2, 2, 2]
    full = make_splits(examples(labels), CONFIG, "single")
    assert set(splits.test.tolist()) <= set(full.test.tolist())


def test_too_little_to_divide() -> None:
    with pytest.raises(UserError, match="2 images cannot be divided"):
        make_splits(examples([0, 1]), CONFIG, "single")
    with pytest.raises(UserError, match="2 groups cannot be divided"):
        make_splits(examples([0, 1] * 20, group=["a", "b"] * 20), CONFIG, "single")
    with pytest.raises(UserError, match="None of the images is in the split `train`"):
        make_splits(examples([0, 1], split=["test", "test"]), CONFIG, "single")
    for config in (SplitConfig(val=0), SplitConfig(val=0.5, test=0.5), SplitConfig(test=-0.1)):
        with pytest.raises(UserError, match=r"data\.split"):
            make_splits(examples([0, 1] * 20), config, "single")


def test_there_and_back_through_json() -> None:
    data = examples([0, 1] * 30)
    splits = make_splits(data, CONFIG, "single", limit=10)
    stored = json.loads(json.dumps(splits.to_json()))
    again = Splits.from_json(stored, data.ids)
    assert again.hash == splits.hash
    assert all((again[side] == splits[side]).all() for side in SPLITS)
    assert (again.how, again.seed, again.warnings) == (splits.how, splits.seed, splits.warnings)
    turned = Splits.from_json(stored, data.ids[::-1])
    assert named(turned) == named(splits)


def test_changed_data_is_noticed() -> None:
    data = examples([0, 1] * 30)
    stored = make_splits(data, CONFIG, "single").to_json()
    with pytest.raises(UserError, match="1 of its images are gone, such as image 0"):
        Splits.from_json(stored, data.ids[1:])
    with pytest.raises(UserError, match="images were added or removed"):
        Splits.from_json(stored, (*data.ids, "new"))
    with pytest.raises(UserError, match="edited or damaged"):
        Splits.from_json({**stored, "splits": {**stored["splits"], "val": []}}, data.ids)
    for broken in ({}, [], {"splits": {}}, None):
        with pytest.raises(UserError, match="expected how, seed"):
            Splits.from_json(broken, data.ids)


def test_unlabeled_images_are_divided_too() -> None:
    splits = make_splits(examples([-1] * 40 + [0] * 40), CONFIG, "single")
    assert_partition(splits, 80)
    assert (splits.val < 40).sum() == 6
    rows = np.array([[-1, -1]] * 20 + [[0, 0]] * 20 + [[1, 0]] * 20)
    many = make_splits(dataclasses.replace(examples(np.zeros(60)), labels=rows), CONFIG, "multilabel")
    assert [((many.test >= start) & (many.test < start + 20)).sum() for start in (0, 20, 40)] == [4, 4, 4]
