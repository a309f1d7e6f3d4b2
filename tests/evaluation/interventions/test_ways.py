"""Every way of writing an answer, on three images with one exclusive group and one yes/no concept, by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.evaluation.interventions.edits import confirmed_labels, set_probability
from conceptlens.evaluation.interventions.value_map import ValueMap, choose_way, fit_map, ways
from conceptlens.evaluation.interventions.what_if import apply
from conceptlens.methods.contract import Space
from conceptlens.methods.linear_head import LinearHead
from conceptlens.nn.heads.bottleneck import EPSILON, Bottleneck
from conceptlens.nn.heads.probabilities import concept_probabilities_of
from conceptlens.runs.readout import Readout

CONCEPTS = ConceptSet._build(
    {
        "classes": ["one", "two"],
        "groups": {"hue": {"values": ["red", "blue"]}, "marks": {"values": ["dots"], "kind": "independent"}},
    },
    where="here",
    name="small",
)
LOGITS = np.array([[3.0, 1.0, 2.0], [0.0, 4.0, -1.0], [2.0, 1.0, 4.0]])  # read as red, blue, red; dots: yes, no, yes
TRUTH = np.array([[1, 0, 1], [0, 1, 0], [0, 1, 1]], dtype=np.int8)
# The mean scores of images with a label. red: image 0; blue: images 1 and 2. dots: images 0 and 2; none: image 1.
RED, BLUE, DOTS, NONE = [3.0, 1.0], [1.0, 2.5], 3.0, -1.0


def small(space: Space = "logit", answers: Any = None) -> Readout:
    head = LinearHead(np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]), np.zeros(2), bypass=False)
    bottleneck = LOGITS.copy()
    if space in ("probability", "log-probability"):
        bottleneck = concept_probabilities_of(LOGITS, CONCEPTS)
    if space == "log-probability":
        bottleneck = np.log(bottleneck)
    return Readout(
        CONCEPTS,
        CONCEPTS.classes,
        "single",
        (0.5, 0.5),
        ("0.png", "1.png", "2.png"),
        ("a", "b", "c"),
        space,
        None,
        bottleneck,
        LOGITS,
        TRUTH,
        np.array([0, 1, 1]),
        np.zeros((3, 2)),
        head.logits,
        head,
        answers=answers,
    )


def map_of(made: Readout, to: str = "auto") -> ValueMap:
    return fit_map(made, np.arange(3), to)


def test_the_labels_that_the_model_reads() -> None:
    assert small().read_labels.tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]


def test_shift_moves_the_images_own_scores_and_confirming_moves_nothing() -> None:
    made = small()
    maps = map_of(made)
    assert maps.way == "shift"
    told = maps.write(made, TRUTH)
    np.testing.assert_array_equal(told[:2], LOGITS[:2])  # both are read rightly
    # Image 2 is read as red, and is blue: its scores 2, 1 plus the mean of blue minus that of red.
    np.testing.assert_allclose(told[2], [2 + 1.0 - 3.0, 1 + 2.5 - 1.0, 4.0])
    np.testing.assert_array_equal(maps.write(made, confirmed_labels(made)), LOGITS)
    opposite = maps.write(made, (1 - TRUTH).astype(np.int8))
    np.testing.assert_allclose(opposite[:, 2], LOGITS[:, 2] + np.array([NONE - DOTS, DOTS - NONE, NONE - DOTS]))
    np.testing.assert_allclose(opposite[0, :2], [3 + 1.0 - 3.0, 1 + 2.5 - 1.0])


def test_unknown_labels_are_never_written() -> None:
    for space in ("probability", "logit"):
        made = small(space)  # type: ignore[arg-type]
        np.testing.assert_array_equal(map_of(made).write(made, np.full_like(TRUTH, UNKNOWN)), made.bottleneck)
        made = replace(made, truth=np.where(np.arange(3) == 2, np.int8(UNKNOWN), TRUTH))
        assert (confirmed_labels(made)[:, 2] == UNKNOWN).all()


def test_one_hot_is_written_over_groups_and_keeps_a_confirmed_yes_or_no() -> None:
    made = small("probability")
    maps = map_of(made)
    assert maps.way == "one-hot"
    own = made.bottleneck[:, 2]
    np.testing.assert_array_equal(maps.write(made, TRUTH), [[1, 0, own[0]], [0, 1, own[1]], [0, 1, own[2]]])
    sham = confirmed_labels(made)
    np.testing.assert_array_equal(maps.write(made, sham), [[1, 0, own[0]], [0, 1, own[1]], [1, 0, own[2]]])
    np.testing.assert_array_equal(maps.write(made, sham, harden=True), sham)
    wrong = np.where(np.arange(3) == 2, 1 - TRUTH, TRUTH).astype(np.int8)
    np.testing.assert_array_equal(maps.write(made, wrong)[:, 2], [0, 1, 0])


def test_quantile_mean_and_learned_are_written_whatever_is_read() -> None:
    made = small()
    high, low = np.quantile(LOGITS, 0.95, axis=0), np.quantile(LOGITS, 0.05, axis=0)
    np.testing.assert_allclose(map_of(made, "quantile").write(made, TRUTH), np.where(TRUTH == 1, high, low))
    np.testing.assert_allclose(
        map_of(made, "mean").write(made, TRUTH), [[*RED, DOTS], [*BLUE, NONE], [*BLUE, DOTS]], atol=1e-12
    )
    answers = np.zeros((2, 3, 3))
    answers[1, 0, :2], answers[1, 1, :2], answers[1, 2, 2], answers[0, 2, 2] = (5, -5), (-6, 6), 7, -7
    taught = small(answers=answers)
    learned = map_of(taught)
    assert learned.way == "learned"
    np.testing.assert_array_equal(learned.write(taught, TRUTH), [[5, -5, 7], [-6, 6, -7], [-6, 6, 7]])
    np.testing.assert_array_equal(learned.no[0], [-6, -5, -7])  # "not red" is what red's column gets for blue


def test_a_value_that_no_image_has_is_written_by_percentiles() -> None:
    made = replace(small(), truth=np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1]], dtype=np.int8))
    blue = map_of(made, "mean").values[0, 1]
    np.testing.assert_allclose(blue, [np.quantile(LOGITS[:, 0], 0.05), np.quantile(LOGITS[:, 1], 0.95)])


def test_ways_that_suit_a_head() -> None:
    answers = np.zeros((2, 3, 3))
    assert ways(small("probability")) == ("one-hot", "mean")
    assert ways(small("probability", answers)) == ("one-hot", "learned", "mean")
    assert ways(small("log-probability")) == ("one-hot", "shift", "quantile", "mean")
    assert ways(small("cosine", answers))[0] == "learned"
    assert choose_way(small(), "auto") == "shift"
    with pytest.raises(UserError, match=r"reads the space 'logit'\. Choose one of shift, quantile, mean"):
        choose_way(small(), "one-hot")
    with pytest.raises(UserError, match="learned no vectors"):
        choose_way(small(), "learned")
    with pytest.raises(UserError, match="Did you mean 'shift'"):
        choose_way(small(), "shft")


def test_certainty_in_a_space_of_log_probabilities_is_what_the_model_wrote_in_training() -> None:
    """Of the values blue and red of an exclusive group, and of a yes or no."""
    made = small("log-probability")
    told = Bottleneck(made.concepts, "log-probability").write(torch.tensor([[1, 0, 1]]), torch.zeros(1, 3)).numpy()
    written = map_of(made, "one-hot").write(made, np.array([[1, 0, 1]] * len(made), dtype=np.int8), harden=True)
    np.testing.assert_allclose(written[:1], told, atol=1e-6)


def test_edits_in_words_are_written_in_the_same_way() -> None:
    made = small()
    maps = map_of(made)
    image = replace(
        made, ids=("2.png",), units=("c",), bottleneck=LOGITS[2:], concept_logits=LOGITS[2:], rest=np.zeros((1, 2))
    )
    np.testing.assert_allclose(apply(made, maps, image, ["hue=blue"])[0], [0, 2.5, 4])
    np.testing.assert_allclose(apply(made, maps, image, ["hue: blue=yes"])[0], [0, 2.5, 4])
    # The second answer counts from the image's own scores, not from what the first one wrote.
    np.testing.assert_array_equal(apply(made, maps, image, ["hue=blue", "hue=red"]), LOGITS[2:])
    np.testing.assert_array_equal(apply(made, maps, image, ["hue=blue", "hue=blue"])[0], [0, 2.5, 4])
    np.testing.assert_allclose(apply(made, maps, image, ["marks=dots", "marks: dots=no"])[0], [2, 1, 4 + NONE - DOTS])


def test_a_probability_in_the_space_of_logarithms() -> None:
    made = small("log-probability")
    edited = set_probability(made, map_of(made), made.bottleneck, 0, 0.3)
    np.testing.assert_allclose(np.exp(edited[:, :2]) - EPSILON, [[0.3, 0.7]] * 3)
    assert np.isfinite(set_probability(made, map_of(made), made.bottleneck, 0, 0.0)).all()
    odds = np.log((0.25 + EPSILON) / (0.75 + EPSILON))
    np.testing.assert_allclose(set_probability(made, map_of(made), made.bottleneck, 2, 0.25)[:, 2], odds)
