"""The drawn data set against its own truth: pixels, labels, places and the options that disturb them."""

import itertools
import time
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chi2_contingency
from sklearn.linear_model import LogisticRegression

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.sources.creature import PALETTE, PARTS
from conceptlens.data.sources.shapes import GROUNDS, MARKS, Shapes
from conceptlens.data.sources.species import HEAD_START, PORTRAITS, RULE, scores
from conceptlens.recipes.schema import ShapesConfig

COLOR_OF = {
    "body": "body colour",
    "head": "head colour",
    "tail": "tail colour",
    "legs": "leg colour",
    "wing": "wing colour",
}


@cache
def drawn(**settings: float | bool) -> Shapes:
    return Shapes(ShapesConfig(**{"n": 400, "noise": 0.0, **settings}))  # type: ignore[arg-type]


def pixels(source: Shapes, index: int) -> npt.NDArray[np.uint8]:
    return np.asarray(source.read(index))


def look(source: Shapes, index: int) -> dict[str, list[str]]:
    """The values that hold in each group, from the true labels."""
    held: dict[str, list[str]] = {}
    for concept, label in zip(source.concepts.concepts, source.true_concepts[index], strict=True):
        held.setdefault(concept.group, []).extend([concept.value] if label == 1 else [])
    return held


def inner(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Pixels of a mask whose eight neighbors belong to it too."""
    padded = np.pad(mask, 1)
    height, width = mask.shape
    views = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return np.asarray(np.logical_and.reduce(views))


def test_the_same_seed_draws_the_same() -> None:
    settings = {"noise": 0.05, "clutter": 3, "shortcut": 0.5, "label_noise": 0.1, "unknown": 0.1}
    first, second = Shapes(ShapesConfig(n=50, **settings)), Shapes(ShapesConfig(n=50, **settings))  # type: ignore[arg-type]
    assert first.examples.fingerprint == second.examples.fingerprint
    for index in (0, 7, 49):
        np.testing.assert_array_equal(pixels(first, index), pixels(second, index))
        np.testing.assert_array_equal(pixels(first, index), pixels(first, index))
    other = Shapes(ShapesConfig(n=50, seed=1, **settings))  # type: ignore[arg-type]
    assert other.examples.fingerprint != first.examples.fingerprint
    assert (pixels(other, 0) != pixels(first, 0)).any()


def test_a_large_set_begins_with_a_small_one_and_opens_at_once() -> None:
    settings = {"label_noise": 0.1, "unknown": 0.1, "shortcut": 0.5, "invisible": 2}
    start = time.perf_counter()
    large = Shapes(ShapesConfig(n=100_000, **settings))  # type: ignore[arg-type]
    assert time.perf_counter() - start < 3
    assert len(large) == 100_000
    small = Shapes(ShapesConfig(n=60, **settings))  # type: ignore[arg-type]
    np.testing.assert_array_equal(large.examples.labels[:60], small.examples.labels)
    np.testing.assert_array_equal(large.examples.concepts[:60], small.examples.concepts)
    np.testing.assert_array_equal(large.true_concepts[:60], small.true_concepts)
    assert large.examples.split is not None
    assert large.examples.split[:60] == small.examples.split
    np.testing.assert_array_equal(pixels(large, 59), pixels(small, 59))
    assert large.read(99_999).size == (96, 96)
    with pytest.raises(IndexError):
        large.read(100_000)
    held = sum(value.nbytes for value in vars(large).values() if isinstance(value, np.ndarray))
    assert held < 100 * len(large)  # bytes: labels and poses, no pixels


def test_images_are_rgb_of_the_size_asked_for() -> None:
    image = drawn(size=64).read(3)
    assert image.mode == "RGB"
    assert image.size == (64, 64)
    annotation = drawn(size=64).annotation(3)
    assert {mask.shape for mask in annotation.masks.values()} == {(64, 64)}


def test_colors_under_the_masks_are_the_named_ones() -> None:
    source = drawn()
    palette = np.array(list(PALETTE.values()), dtype=float)
    palette /= np.linalg.norm(palette, axis=1, keepdims=True)
    for index in range(150):
        image, masks, held = pixels(source, index).astype(float), source.annotation(index).masks, look(source, index)
        for part, group in COLOR_OF.items():
            if part in masks:
                mean = image[masks[part]].mean(axis=0)
                named = list(PALETTE)[int(np.argmax(palette @ (mean / np.linalg.norm(mean))))]
                assert [named] == held[group], f"image {index}, {part}"


def test_background_is_free_of_the_creature() -> None:
    source = drawn()
    for index in range(40):
        outside = inner(~source.annotation(index).masks["object"])
        ground = np.array(GROUNDS[source.examples.metadata["background"][index]])
        difference = np.abs(pixels(source, index)[outside].astype(int) - ground)
        assert difference.max() < 60  # shade and blotches
        assert difference.mean() < 20


@pytest.mark.parametrize("size", [96, 32])
def test_every_part_that_is_labeled_can_be_seen(size: int) -> None:
    source = drawn(size=size)
    for index in range(200):
        annotation, held = source.annotation(index), look(source, index)
        expected = {"tail", "legs", "body", "head"} | {part for part in ("wing", "antennae") if held[part]}
        assert set(annotation.masks) == expected | {"object"}
        assert set(annotation.keypoints) == expected
        areas = {part: int(annotation.masks[part].sum()) for part in expected}
        assert min(areas.values()) >= (4 if size == 32 else 25), (index, areas)


def test_places_fit_the_masks() -> None:
    source = drawn(shortcut=0.5)
    for index in range(60):
        annotation = source.annotation(index)
        parts = [annotation.masks[part] for part in PARTS if part in annotation.masks]
        np.testing.assert_array_equal(np.sum(parts, axis=0), annotation.masks["object"])  # no pixel has two
        assert not (annotation.masks["shortcut"] & annotation.masks["object"]).any()
        for part, (x, y) in annotation.keypoints.items():
            assert annotation.masks[part][int(y), int(x)]
        for name, (x0, y0, x1, y1) in annotation.boxes.items():
            inside = annotation.masks[name][int(y0) : int(y1), int(x0) : int(x1)]
            assert inside.sum() == annotation.masks[name].sum()
            assert all(edge.any() for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))
        assert annotation.boxes["object"][0] >= 1  # the creature is whole
        assert annotation.boxes["object"][3] <= 95


def test_keypoint_of_a_ball_is_its_middle() -> None:
    source = drawn()
    index = next(i for i in range(400) if look(source, i)["head shape"] == ["round"])
    x0, y0, x1, y1 = source.annotation(index).boxes["head"]
    x, y = source.annotation(index).keypoints["head"]
    assert (x, y) == pytest.approx(((x0 + x1) / 2, (y0 + y1) / 2), abs=1.5)


@pytest.mark.parametrize("classes", [2, 3, 4, 5, 6])
def test_the_class_is_the_best_portrait(classes: int) -> None:
    source = drawn(classes=classes)
    assert source.classes == source.concepts.classes == tuple(PORTRAITS)[:classes]
    for index in range(100):
        held = look(source, index)
        points = {name: HEAD_START[name] for name in source.classes}
        for name in source.classes:
            for (group, weight), value in zip(RULE.items(), PORTRAITS[name], strict=True):
                points[name] += weight if held[group] == [value] else 0
        best = sorted(points, key=lambda name: points[name])
        assert points[best[-1]] > points[best[-2]]
        assert source.classes[source.examples.labels[index]] == best[-1]


@pytest.mark.parametrize("classes", [2, 3, 4, 5, 6])
def test_no_concept_gives_the_class_away_nor_the_class_a_concept(classes: int) -> None:
    source = Shapes(ShapesConfig(n=30_000, classes=classes, invisible=2))
    labels = source.examples.labels
    share = np.bincount(labels, minlength=classes) / len(labels)
    assert share.min() > 0.8 / classes
    assert share.max() < 1.25 / classes
    free = []
    for group in source.concepts.groups:
        for column in range(group.concepts.start, group.concepts.stop):
            known = source.true_concepts[:, column] != UNKNOWN
            table = np.zeros((2, classes))
            np.add.at(table, (source.true_concepts[known, column], labels[known]), 1)
            given_class, given_concept = table / table.sum(axis=0), table / table.sum(axis=1, keepdims=True)
            assert given_class.min() > 0.03, (group.name, given_class)
            assert given_class.max() < 0.97
            assert given_concept.max() < 0.85, (group.name, given_concept)
            free += [chi2_contingency(table).pvalue] if group.name not in RULE else []
    assert min(free) > 1e-4  # concepts that are not in the rule have nothing to do with the class


def test_concepts_are_uniform_and_independent_of_each_other() -> None:
    source = Shapes(ShapesConfig(n=30_000, invisible=2))
    for group in source.concepts.groups:
        labels = source.true_concepts[:, group.concepts]
        labels = labels[labels[:, 0] != UNKNOWN]
        expected = 1 / len(group.values) if group.kind == "exclusive" else 0.5
        np.testing.assert_allclose(labels.mean(axis=0), expected, atol=0.015)
        if group.kind == "exclusive":
            assert (labels.sum(axis=1) == 1).all()
    wing = source.concepts.index("wing", "present")
    with_wing = source.true_concepts[source.true_concepts[:, wing] == 1].astype(float)  # all labels known
    with_wing[:, wing] = np.arange(len(with_wing)) % 2  # a constant has no correlation
    correlation = np.abs(np.corrcoef(with_wing, rowvar=False))
    for a, b in itertools.combinations(range(len(source.concepts)), 2):
        if source.concepts.group_of[a] != source.concepts.group_of[b]:
            assert correlation[a, b] < 0.04


def test_a_wing_that_is_not_there_has_no_color() -> None:
    source = drawn()
    winged = source.true_concepts[:, source.concepts.index("wing", "present")]
    color = source.true_concepts[:, source.concepts.group("wing colour").concepts]
    assert (color[winged == 0] == UNKNOWN).all()
    assert (color[winged == 1].sum(axis=1) == 1).all()


@pytest.mark.parametrize("classes", [2, 4, 6])
def test_a_linear_head_reaches_the_ceiling(classes: int) -> None:
    source = Shapes(ShapesConfig(n=4000, classes=classes))
    assert source.label_ceiling == pytest.approx(1.0)
    inputs = np.maximum(source.true_concepts, 0)
    head = LogisticRegression(C=1000, max_iter=3000).fit(inputs[:3000], source.examples.labels[:3000])
    assert head.score(inputs[3000:], source.examples.labels[3000:]) > 0.99


def test_ceiling_under_noise_against_a_naive_sum() -> None:
    """Only two groups are told, each wrong in 20 % and hidden in 30 % of images."""
    config = ShapesConfig(n=20_000, label_noise=0.2, unknown=0.3)
    told = ConceptSet.from_yaml(
        "groups: {head colour: {values: [red, yellow, green, blue]}, body shape: {values: [round, square, triangular]}}"
    )
    source = Shapes(config, told)
    winner = scores(Shapes.concept_set(config)).argmax(axis=-1)
    total = 0.0
    for head, body in itertools.product([0, 1, 2, 3, None], [0, 1, 2, None]):
        chance = np.zeros(4)
        for features in np.ndindex(winner.shape):
            likely = 1 / winner.size
            for seen, true, k in ((head, features[0], 4), (body, features[1], 3)):
                likely *= 0.3 if seen is None else 0.7 * (0.8 if seen == true else 0.2 / (k - 1))
            chance[winner[features]] += likely
        total += chance.max()
    assert source.label_ceiling == pytest.approx(total)
    # The best guess for each report that occurs does as well, up to chance.
    reports = np.unique(source.examples.concepts, axis=0, return_inverse=True)[1].ravel()
    table = np.zeros((reports.max() + 1, 4))
    np.add.at(table, (reports, source.examples.labels), 1)
    assert table.max(axis=1).sum() / len(source) == pytest.approx(total, abs=0.015)


def test_label_noise_and_hiding_touch_labels_alone() -> None:
    clean, noisy = Shapes(ShapesConfig(n=20_000)), Shapes(ShapesConfig(n=20_000, label_noise=0.1, unknown=0.25))
    np.testing.assert_array_equal(clean.examples.concepts, clean.true_concepts)
    np.testing.assert_array_equal(noisy.true_concepts, clean.true_concepts)
    np.testing.assert_array_equal(noisy.examples.labels, clean.examples.labels)
    np.testing.assert_array_equal(pixels(noisy, 5), pixels(clean, 5))
    for group in noisy.concepts.groups:
        if group.name == "wing colour":  # hidden also where the wing is, or was reported to be, absent
            continue
        true, told = noisy.true_concepts[:, group.concepts], noisy.examples.concepts[:, group.concepts]
        hidden = (told == UNKNOWN).any(axis=1)
        assert (hidden == (told == UNKNOWN).all(axis=1)).all()
        assert hidden.mean() == pytest.approx(0.25, abs=0.012)
        assert (told != true).any(axis=1)[~hidden].mean() == pytest.approx(0.1, abs=0.01)
        if group.kind == "exclusive":
            assert (told[~hidden].sum(axis=1) == 1).all()
    assert 0.5 < noisy.label_ceiling < 0.9
    assert Shapes(ShapesConfig(n=10, unknown=1.0)).label_ceiling == pytest.approx(115 / 432)  # the largest class


def test_invisible_concepts_leave_no_trace() -> None:
    plain, hidden = drawn(), drawn(invisible=4)
    assert [group.name for group in hidden.concepts.groups][-1] == "hidden trait"
    assert len(hidden.concepts) == len(plain.concepts) + 4
    np.testing.assert_array_equal(hidden.true_concepts[:, :-4], plain.true_concepts)
    np.testing.assert_array_equal(hidden.examples.labels, plain.examples.labels)
    before = [pixels(hidden, index) for index in range(10)]
    for index in range(10):
        np.testing.assert_array_equal(before[index], pixels(plain, index))
    other = Shapes(hidden.config)
    other._features[:, -4:] = 1 - other._features[:, -4:]
    for index in range(10):
        np.testing.assert_array_equal(before[index], pixels(other, index))


def test_shortcut_helps_in_training_and_not_in_the_test() -> None:
    source = Shapes(ShapesConfig(n=6000, shortcut=0.9, classes=4))
    split, kind = np.array(source.examples.split), np.array(source.examples.metadata["shortcut"])
    says_class = source._mark == source.examples.labels
    for name in ("train", "val"):
        assert (kind[split == name] == "aligned").mean() == pytest.approx(0.9, abs=0.03)
        assert says_class[split == name].mean() == pytest.approx(0.9 + 0.1 / 4, abs=0.03)
    assert set(kind[split == "test"]) == {"random"}
    assert says_class[split == "test"].mean() == pytest.approx(0.25, abs=0.04)
    assert says_class[kind == "aligned"].all()
    for index in range(30):  # and the mark in the image is that mark
        middle = inner(inner(source.annotation(index).masks["shortcut"]))
        color = np.median(pixels(source, index)[middle], axis=0)
        nearest = np.argmin(np.abs(np.array(MARKS) - color).sum(axis=1))
        assert nearest == source._mark[index]


def test_shortcut_changes_nothing_but_its_corner() -> None:
    without, with_mark = drawn(), drawn(shortcut=0.7)
    assert set(without.examples.metadata["shortcut"]) == {"none"}
    np.testing.assert_array_equal(without.true_concepts, with_mark.true_concepts)
    for index in range(10):
        x0, y0, x1, y1 = (int(edge) for edge in with_mark.annotation(index).boxes["shortcut"])
        changed = (pixels(without, index) != pixels(with_mark, index)).any(axis=-1)
        assert changed.any()
        changed[y0 - 1 : y1 + 1, max(x0 - 1, 0) : x1 + 1] = False
        assert not changed.any()
        assert "shortcut" not in without.annotation(index).masks


def test_clutter_stays_behind_the_creature() -> None:
    plain, cluttered = drawn(), drawn(clutter=8)
    for index in range(20):
        masks = plain.annotation(index).masks
        np.testing.assert_array_equal(masks["object"], cluttered.annotation(index).masks["object"])
        changed = (pixels(plain, index) != pixels(cluttered, index)).any(axis=-1)
        assert 0.01 < changed.mean() < 0.25  # the blobs and nothing else of the ground
        assert not changed[inner(inner(masks["object"]))].any()


def test_parts_anywhere_tell_nothing_by_their_position() -> None:
    source = drawn(anywhere=True)
    assert (source.examples.labels == drawn().examples.labels).all()  # labels stay as they are
    tail, head, boxes = [], [], []
    covered = np.zeros((96, 96))
    for index in range(60):
        found = source.annotation(index)
        for part in ("body", "head", "tail", "legs"):
            assert found.masks[part].sum() > 20  # it can be seen
        tail.append(found.keypoints["tail"])
        head.append(found.keypoints["head"])
        boxes.append(found.boxes["head"][2] - found.boxes["head"][0])
        covered += found.masks["head"]
    sides = np.subtract(head, tail)
    assert (
        np.abs(np.corrcoef(np.array(head).T, np.array(tail).T)[:2, 2:]).max() < 0.35
    )  # one part does not place the other
    assert sides.std(0).min() > 20  # nor at a fixed offset
    assert max(boxes) > 1.8 * min(boxes)  # at varied scale
    assert covered.max() / 60 < 0.25  # no pixel shows it in a quarter of the images
    attached = sum(drawn().annotation(index).masks["head"] for index in range(60))
    assert attached.max() > covered.max()
    # Colors under the masks are still the named ones.
    name = look(source, 3)["head colour"][0]
    inside = pixels(source, 3)[inner(source.annotation(3).masks["head"])]
    assert np.median(inside, axis=0) == pytest.approx(np.array(PALETTE[name]), abs=40)


def test_noise_has_the_strength_asked_for() -> None:
    for noise in (0.02, 0.1):
        clean = np.stack([pixels(drawn(), index) for index in range(5)]).astype(float)
        noisy = np.stack([pixels(drawn(noise=noise), index) for index in range(5)])
        middle = (clean > 110) & (clean < 160)  # where nothing is cut off
        assert np.std((noisy - clean)[middle]) == pytest.approx(255 * noise, rel=0.05)


@pytest.mark.parametrize("n", [20, 1000, 20_000])
def test_splits_keep_to_their_shares(n: int) -> None:
    source = Shapes(ShapesConfig(n=n))
    split = np.array(source.examples.split)
    for name, share in (("train", 0.6), ("val", 0.15), ("test", 0.25)):
        assert (split == name).mean() == pytest.approx(share, abs=0.001 + 1 / n)
    if n == 20_000:
        table = [np.bincount(source.examples.labels[split == name]) for name in ("train", "val", "test")]
        assert chi2_contingency(table).pvalue > 1e-4


def test_metadata_describes_the_image() -> None:
    source = drawn()
    area = np.array([source.annotation(index).masks["object"].mean() for index in range(150)])
    metadata = {key: np.array(values[:150]) for key, values in source.examples.metadata.items()}
    assert set(metadata) == {"size", "rotation", "facing", "background", "shortcut"}
    means = [area[metadata["size"] == size].mean() for size in ("small", "medium", "large")]
    assert means == sorted(means)
    for index in range(150):
        points = source.annotation(index).keypoints
        assert (points["head"][0] > points["tail"][0]) == (metadata["facing"][index] == "right")
    assert set(metadata["rotation"]) == {"left", "upright", "right"}
    assert set(metadata["background"]) == set(GROUNDS)


def test_a_vocabulary_of_ones_own() -> None:
    own = ConceptSet.from_yaml(
        "groups: {tail shape: {values: [forked, pointed]}, antennae: {kind: independent, values: [present]}}"
    )
    source, full = Shapes(ShapesConfig(n=300), own), Shapes(ShapesConfig(n=300))
    column = full.concepts.index("tail shape", "forked")
    round_tail = full.true_concepts[:, full.concepts.index("tail shape", "round")] == 1
    assert (source.examples.concepts[round_tail, :2] == UNKNOWN).all()  # a value that the vocabulary does not have
    np.testing.assert_array_equal(source.examples.concepts[~round_tail, 0], full.true_concepts[~round_tail, column])
    np.testing.assert_array_equal(source.examples.concepts[:, 2], full.true_concepts[:, -1])
    np.testing.assert_array_equal(source.examples.labels, full.examples.labels)
    assert source.concepts.classes == source.classes
    assert source.label_ceiling < 0.5
    ready = Shapes(ShapesConfig(n=300), ConceptSet.load("shapes"))  # names six classes, of which four are drawn
    assert ready.concepts.classes == ready.classes
    assert ConceptSet.from_yaml(ready.concepts.to_yaml()) == ready.concepts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("groups: {tale shape: {values: [forked, round]}}", "Did you mean 'tail shape'"),
        ("groups: {tail shape: {values: [forkd, round]}}", "Did you mean 'forked'"),
        ("groups: {hidden trait: {kind: independent, values: [trait 1]}}", "Unknown concept group 'hidden trait'"),
        ("classes: [cat, dog]\ngroups: {tail shape: {values: [forked, round]}}", "has the classes ['dax'"),
    ],
)
def test_a_vocabulary_that_does_not_fit(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        Shapes(ShapesConfig(n=20), ConceptSet.from_yaml(text))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("classes", 1, "a whole number from 2 to 6, found 1"),
        ("classes", 7, "from 2 to 6, found 7"),
        ("classes", 2.5, "whole number"),
        ("n", 0, "a whole number from 10 to 2,147,483,647, found 0"),
        ("n", 10**15, "a whole number from 10 to 2,147,483,647, found 1000000000000000"),
        ("size", 31, "a whole number from 32 to 2,048, found 31"),
        ("seed", -1, "from 0 to 2,147,483,647, found -1"),
        ("noise", -0.1, "a number from 0 to 1, found -0.1"),
        ("label_noise", 1.5, "a number from 0 to 1, found 1.5"),
        ("unknown", float("nan"), "found nan"),
        ("shortcut", 2, "from 0 to 1, found 2"),
        ("invisible", -1, "from 0 to 1,000, found -1"),
        ("clutter", "many", "found 'many'"),
        ("shortcut", True, "found True"),
    ],
)
def test_settings_out_of_range(setting: str, value: object, message: str) -> None:
    with pytest.raises(UserError) as caught:
        Shapes(replace(ShapesConfig(), **{setting: value}))  # type: ignore[arg-type]
    assert str(caught.value).startswith(f"data.shapes.{setting}: expected ")
    assert message in str(caught.value)
