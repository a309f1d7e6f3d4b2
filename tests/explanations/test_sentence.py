"""The sentence says what weighs, by the answer that weighs, and admits doubt."""

import numpy as np
import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.explanations.reasons import Reason, deciding, reasons, speaking
from conceptlens.explanations.sentence import percent, sentence

UP = np.array([True, False, True, False, True])


def test_a_group_is_one_reason_and_yes_no_concepts_are_one_each(concepts: ConceptSet) -> None:
    read = np.array([0.9, 0.1, 0.7, 0.3, 0.8])
    found = reasons(concepts, read, [1.0, 0.5, -0.4, 0.1, 2.0], UP)
    assert [each.concept for each in found] == [4, 0, 2]
    assert [each.weight for each in found] == pytest.approx([2.0, 1.5, -0.3])
    assert [each.words for each in found] == ["extras is " + concepts.concepts[4].value, "size is big", "color is red"]
    assert [each.probability for each in found] == pytest.approx([0.8, 0.9, 0.7])


def test_an_answer_that_does_not_add_the_weight_is_not_given_as_the_reason() -> None:
    """Red is read, but what speaks for the class is that green scores lower than usual."""
    concepts = ConceptSet.from_yaml(
        "groups: {colour: {values: [red, green, blue]}, wet: {values: [yes, no]}, "
        "marks: {kind: independent, values: [dot]}}"
    )
    read = np.array([0.8, 0.1, 0.1, 0.9, 0.1, 0.2])
    raised = np.array([True, False, True, True, False, True])
    found = {each.words: each for each in reasons(concepts, read, [0.1, 2.0, 0.0, 0.0, 0.7, 0.3], raised)}
    assert list(found) == ["colour is less green than usual", "wet: yes", "marks is more dot than usual"]
    assert [each.concept for each in found.values()] == [1, 3, 5]  # of two values, less no is yes
    assert found["colour is less green than usual"].weight == pytest.approx(2.1)
    adding = reasons(concepts, read, [2.0, 0.1, 0.0, 0.0, 0.7, 0.3], raised)
    assert adding[0].words == "colour is red"


def test_speaking_leaves_out_the_faint_and_the_other_side() -> None:
    found = [Reason(k, "", 1.0, weight) for k, weight in enumerate([4.0, -3.0, 2.0, 0.5, 0.4])]
    assert [each.concept for each in speaking(found)] == [0, 2]
    assert [each.concept for each in speaking(found, -1)] == [1]
    assert deciding(found, [found[3]]) == [0, 2, 3]


def say(for_it: list[Reason], instead: list[Reason], **changes: object) -> str:
    options: dict[str, object] = {"weighed": True, "bypass": None} | changes
    rival = options.pop("rival", ("dog", 0.2))
    predicted = options.pop("predicted", "cat")
    return sentence(predicted, ("cat", 0.8), rival, for_it, instead, **options)  # type: ignore[arg-type]


def test_sentences() -> None:
    ears, tail, size = Reason(0, "ears: yes", 0.99, 3.0), Reason(1, "tail is long", 0.7, 2.0), Reason(2, "big", 1, 1.5)
    against = Reason(3, "colour is red", 1.0, -2.5)
    assert say([ears, tail], [size]) == (
        "predicted cat (80%) because ears: yes and tail is long (70%), rather than dog (20%) because big."
    )
    assert say([ears, tail], [tail, ears]) == (
        "predicted cat (80%) rather than dog (20%) because ears: yes and tail is long (70%)."
    )
    assert "although colour is red speaks against it" in say([ears, against], [size])
    assert say([ears], [], rival=None) == "predicted cat (80%) because ears: yes."
    assert say([against], [size]).startswith("predicted cat (80%), though no concept speaks for it")
    assert say([against], [], predicted=None, rival=None) == (
        "predicted no class; cat (80%) comes closest and is not said because colour is red."
    )
    assert say([ears], [], weighed=False).endswith("no weighted sum of concepts, so none can be given its share.")
    assert say([ears], [size], bypass="a residual").endswith("Besides the concepts, a residual reaches the class.")


def test_percent_rounds_nothing_to_certainty() -> None:
    assert [percent(share) for share in (0, 0.001, 0.5, 0.999, 1)] == ["0%", "<1%", "50%", ">99%", "100%"]
