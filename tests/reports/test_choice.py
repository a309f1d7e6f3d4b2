import numpy as np

from conceptlens.reports.choice import Choice, choose


def test_sure_right_sure_wrong_and_unsure() -> None:
    values = np.array(
        [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.1, 0.9], [0.51, 0.49], [0.95, 0.05], [0.6, 0.4], [0.3, 0.7]]
    )
    labels = np.array([0, 0, 0, 1, 0, 1, 0, -1])
    found = choose(values, labels, "single", [])
    # One of each class first, then the next surest.
    assert [each.row for each in found if each.kind == "right"] == [0, 3, 1]
    assert [each for each in found if each.kind == "wrong"] == [Choice("wrong", 5, 0, right=False)]
    # Unsure: the smallest margins among those not told yet, never the unlabeled one.
    assert [each.row for each in found if each.kind == "unsure"] == [4, 6, 2]
    assert all(each.about == 0 and each.right for each in found if each.kind == "unsure")


def test_wrong_ones_are_of_different_confusions_where_possible() -> None:
    values = np.array([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.7, 0.3, 0.0], [0.6, 0.0, 0.4], [0.0, 0.5, 0.5]])
    labels = np.array([1, 1, 1, 2, 0])
    wrong = [each.row for each in choose(values, labels, "single", []) if each.kind == "wrong"]
    assert wrong == [0, 3, 4]


def test_ties_go_to_the_first_and_each_image_is_told_once() -> None:
    found = choose(np.full((20, 2), 0.5), np.zeros(20, dtype=np.int64), "single", [])
    rows = [each.row for each in found]
    assert rows == [0, 1, 2, 3, 4, 5]


def test_several_labels() -> None:
    values = np.array([[0.9, 0.1], [0.9, 0.8], [0.6, 0.05], [0.9, 0.4]])
    labels = np.array([[1, 0], [1, 0], [1, 0], [1, -1]])
    found = choose(values, labels, "multilabel", [0.5, 0.5])
    assert [(each.row, each.about) for each in found if each.kind == "wrong"] == [(1, 1)]  # the label that is wrong
    assert [each.row for each in found if each.kind == "right"] == [0, 3, 2]  # an unknown label counts for nothing
    assert not [each for each in found if each.kind == "unsure"]


def test_nothing_to_choose_from() -> None:
    assert choose(np.zeros((0, 3)), np.zeros(0, dtype=np.int64), "single", []) == []
    assert choose(np.full((2, 2), 0.5), np.array([-1, -1]), "single", []) == []
    assert [each.kind for each in choose(np.ones((1, 1)), np.array([0]), "single", [])] == ["right"]
