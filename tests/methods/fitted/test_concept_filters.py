"""Each of LF-CBM's filters on vectors whose cosines are known."""

import math

import pytest
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.methods.fitted.concept_filters import like_a_class, like_another, not_learned, seldom_seen, too_long


def at(degrees: float) -> list[float]:
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def test_long_names_go(concepts: ConceptSet) -> None:
    assert concepts.concepts[1].value == "small"
    assert set(too_long(concepts, 4)) == {1, 4}  # small, spots
    assert "5 characters" in too_long(concepts, 4)[1]
    assert too_long(concepts, 5) == {}
    assert too_long(concepts, 0) == {}


def test_names_of_classes_go() -> None:
    text, classes = torch.tensor([at(0), at(45), at(89)]), torch.tensor([at(90), at(180)])
    found = like_a_class(text, classes, ["left", "right"], 0.85)
    assert set(found) == {2}
    assert "left" in found[2]
    assert set(like_a_class(text, classes, ["left", "right"], 0.7)) == {1, 2}


def test_of_two_alike_the_more_general_stays() -> None:
    """Cosines of 0°, 10°, 20° and 90° add up to 2.92, 3.14, 3.27 and 1.52: a goes for b, then b for c."""
    text, cutoff = torch.tensor([at(0), at(10), at(20), at(90)]), math.cos(math.radians(15))
    found = like_another(text, list("abcd"), cutoff, {})
    words = {gone: reason.split(" (")[0] for gone, reason in found.items()}
    assert words == {0: "its text is too close to b", 1: "its text is too close to c"}
    assert set(like_another(text, list("abcd"), cutoff, {0: "other"})) == {1}
    assert like_another(text, list("abcd"), 0.999, {}) == {}


def test_what_no_image_shows_goes() -> None:
    strongest = torch.tensor([0.3, 0.2, 0.26, 0.1])
    assert set(seldom_seen(strongest, 0.25, "value")) == {1, 3}
    assert set(seldom_seen(strongest, 0.25, "quantile")) == {3}
    assert set(seldom_seen(strongest * 100 - 50, 0.25, "quantile")) == {3}  # whatever the scale
    assert seldom_seen(strongest, -1.0, "value") == {}
    assert seldom_seen(strongest, 0.0, "quantile") == {}


def test_what_is_not_learned_goes() -> None:
    similarity = torch.tensor([0.5, 0.44, float("nan")])
    found = not_learned(similarity, 0.45, [1, 4, 7])
    assert set(found) == {4, 7}
    assert "0.44" in found[4]


@pytest.mark.parametrize("number", [1, 3])
def test_reasons_are_sentences_parts(number: int) -> None:
    for reason in seldom_seen(torch.zeros(number), 0.1, "value").values():
        assert reason == "no training image shows it clearly (strongest activations 0.000, cut-off 0.100)"
