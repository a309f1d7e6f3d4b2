"""The sentence says what weighs, by the answer that weighs, names its baseline, and admits doubt."""

import numpy as np
import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.explanations.argument import Argument, argue
from conceptlens.explanations.document import Account, Aside, Reason, Reference
from conceptlens.explanations.reasons import deciding, reasons, speaking
from conceptlens.explanations.reference import Background
from conceptlens.explanations.sentence import HARDLY, percent, sentence
from conceptlens.methods.linear_head import LinearHead

UP = np.array([True, False, True, False, True])
AVERAGE = Reference(what="average image", images=8, split="test")
CELLS = ConceptSet.from_yaml(
    "groups: {granularity: {values: [yes, no], phrase: {yes: there are granules, no: there are no granules}}, "
    "granule type: {under: {granularity: yes}, values: [fine, coarse, dusty]}, "
    "size: {values: [big, small], phrase: 'the cell is {value}'}}"
)


def test_a_group_is_one_reason_and_yes_no_concepts_are_one_each(concepts: ConceptSet) -> None:
    read = np.array([0.9, 0.1, 0.7, 0.3, 0.8])
    found, aside = reasons(concepts, read, [1.0, 0.5, -0.4, 0.1, 2.0], UP)
    assert [each.concept for each in found] == [4, 0, 2]
    assert [each.weight for each in found] == pytest.approx([2.0, 1.5, -0.3])
    assert [each.words for each in found] == ["extras is " + concepts.concepts[4].value, "size is big", "color is red"]
    assert [each.question for each in found] == [concepts.names[4], "size", "color"]
    assert [each.answer for each in found] == ["yes", "big", "red"]
    assert [each.probability for each in found] == pytest.approx([0.8, 0.9, 0.7])
    assert aside == []


def test_an_answer_that_does_not_add_the_weight_is_not_given_as_the_reason() -> None:
    """Red is read, but what speaks for the class is that green scores lower than usual."""
    concepts = ConceptSet.from_yaml(
        "groups: {colour: {values: [red, green, blue]}, wet: {values: [yes, no]}, "
        "marks: {kind: independent, values: [dot]}}"
    )
    read = np.array([0.8, 0.1, 0.1, 0.9, 0.1, 0.2])
    raised = np.array([True, False, True, True, False, True])
    found = {each.words: each for each in reasons(concepts, read, [0.1, 2.0, 0.0, 0.0, 0.7, 0.3], raised)[0]}
    assert list(found) == ["colour is less green than usual", "wet: yes", "marks is more dot than usual"]
    assert [each.concept for each in found.values()] == [1, 3, 5]  # of two values, less no is yes
    assert found["colour is less green than usual"].weight == pytest.approx(2.1)
    adding, _ = reasons(concepts, read, [2.0, 0.1, 0.0, 0.0, 0.7, 0.3], raised)
    assert adding[0].words == "colour is red"


def test_phrases_are_told_as_they_are_written() -> None:
    concepts = ConceptSet.from_yaml(
        "groups: {chromatin: {values: [densely, loosely, odd], phrase: {densely: the chromatin is dense}}, "
        "wing: {kind: independent, values: [present], "
        "phrase: {present: there is a wing, not present: no wing is there}}}"
    )
    read, raised = np.array([0.8, 0.1, 0.1, 0.1]), np.array([True, False, False, False])
    found, _ = reasons(concepts, read, [2.0, 0.1, 0.0, 0.5], raised)
    assert [each.words for each in found] == ["the chromatin is dense", "no wing is there"]
    less, _ = reasons(concepts, np.array([0.3, 0.6, 0.1, 0.9]), [2.0, 0.1, 0.0, 0.5], ~raised)
    assert less[0].words == "there is less sign than usual that the chromatin is dense"
    assert less[1].words == "there is a wing"


def test_a_group_under_a_value_that_does_not_hold_is_no_reason() -> None:
    values = [1.0, 0.5, 3.0, 0.0, 0.25, 0.2, 0.1]
    without = np.array([0.2, 0.8, 0.1, 0.6, 0.3, 0.9, 0.1])
    found, aside = reasons(CELLS, without, values, np.ones(7, dtype=bool))
    assert [each.question for each in found] == ["granularity", "size"]
    assert aside == [Aside(concept=3, question="granule type", why="does not apply", weight=3.25)]
    found, aside = reasons(CELLS, 1 - without, values, np.ones(7, dtype=bool))
    assert [each.question for each in found] == ["granule type", "granularity", "size"]
    assert aside == []


def test_a_value_that_no_training_image_has_is_no_evidence() -> None:
    read = np.array([0.9, 0.1, 0.1, 0.2, 0.7, 0.9, 0.1])  # dusty is read, and nobody ever saw a dusty one
    seen = np.array([True, True, True, True, False, True, True])
    found, aside = reasons(CELLS, read, [0.0, 0.0, 0.5, 1.0, 4.0, 0.1, 0.0], np.ones(7, dtype=bool), seen=seen)
    assert (found[0].question, found[0].answer, found[0].weight) == ("granule type", "coarse", 1.5)
    assert [(each.question, each.why, each.weight) for each in aside] == [
        ("granule type: dusty", "in no training image", 4.0)
    ]
    nothing, aside = reasons(CELLS, read, None, np.ones(7, dtype=bool), seen=np.zeros(7, dtype=bool))
    assert (nothing, len(aside)) == ([], 7)


def reason(concept: int, words: str, probability: float, weight: float | None) -> Reason:
    return Reason(concept=concept, question=words, answer="", words=words, probability=probability, weight=weight)


def test_speaking_leaves_out_the_faint_and_the_other_side() -> None:
    found = [reason(k, "", 1.0, weight) for k, weight in enumerate([4.0, -3.0, 2.0, 0.5, 0.4])]
    assert [each.concept for each in speaking(found)] == [0, 2]
    assert [each.concept for each in speaking(found, -1)] == [1]
    assert deciding(found) == [0, 2, 1]


def say(found: list[Reason], base: float | None = 1.0, *, minus: str | None = "dog", **changes: object) -> str:
    """The sentence of an account that adds up."""
    options: dict[str, object] = {"says": True, "bypass": None, "aside": []} | changes
    aside: list[Aside] = options["aside"]  # type: ignore[assignment]
    weights = [each.weight or 0.0 for each in (*found, *aside)]
    account = Account(
        of="cat",
        minus=minus,
        total=None if base is None else base + sum(weights),
        base=base,
        bypass=None if base is None else 0.0,
        reasons=found,
        aside=aside,
    )
    return sentence(account, {"cat": 0.8, "dog": 0.2}, options["says"], AVERAGE, options["bypass"])  # type: ignore[arg-type]


EARS, TAIL = reason(0, "ears: yes", 0.99, 3.0), reason(1, "tail is long", 0.7, 1.0)
AGAINST = reason(3, "colour is red", 1.0, -2.5)


def test_sentences() -> None:
    assert say([EARS, TAIL]) == (
        "predicted cat (80%) rather than dog (20%) because ears: yes and tail is long (70%). "
        "It is compared with the average test image, which makes up 20% of the margin."
    )
    assert "because ears: yes, although colour is red, which speaks against it." in say([EARS, AGAINST])
    assert say([EARS], 1.0, minus=None) == (
        "predicted cat (80%) because ears: yes. "
        "It is compared with the average test image, which has a logit of +1.00; this image has +4.00."
    )
    assert say([AGAINST], -1.0, minus=None, says=False).startswith(
        "predicted no class; cat (80%) comes closest and is not said because colour is red."
    )
    assert say([EARS], None).endswith("no weighted sum of concepts, so none can be given its share.")
    assert say([EARS], bypass="a residual").endswith("Besides the concepts, a residual reaches the class.")


def test_the_baseline_is_named_whatever_it_says() -> None:
    assert say([EARS], -1.0).endswith("with the average test image, which would favor dog.")
    assert say([AGAINST], 9.0).endswith("with the average test image, which would favor cat even more.")
    assert "rather than dog (20%), although the concepts speak against it: colour is red." in say([AGAINST], 9.0)


def test_no_reason_is_given_where_concepts_add_almost_nothing() -> None:
    total = 10.0
    little, enough = (HARDLY - 0.01) * total, (HARDLY + 0.01) * total
    told = say([reason(0, "ears: yes", 1.0, little)], total - little)
    assert "the concepts hardly move this decision from the average test image, so no reason is given." in told
    assert "ears" not in told
    assert "because ears: yes" in say([reason(0, "ears: yes", 1.0, enough)], total - enough)
    # Large concepts that cancel out move nothing either.
    assert "hardly move" in say([EARS, reason(1, "tail is long", 1.0, -2.9)], 5.0)


def test_what_is_not_counted_is_told_if_it_would_have_been_a_reason() -> None:
    loud = Aside(concept=3, question="granule type", why="does not apply", weight=2.0)
    faint = Aside(concept=4, question="colour: odd", why="in no training image", weight=0.1)
    assert say([EARS], aside=[loud, faint]).endswith("Not counted: granule type (does not apply).")
    assert "Not counted" not in say([EARS], aside=[faint])


def argument(bottleneck: list[float], read: list[float], seen: list[bool] | None = None) -> Argument:
    """Three classes, CELLS, a head that is worked out by hand below."""
    weight = np.array([[1.0, 0, 2, 0, 0, 0, 0], [0, 1.0, 0, 0, 0, 1, 0], [0] * 7])
    head = LinearHead(weight, np.array([0.5, 0.0, -9.0]), bypass=False)
    scores = np.array(bottleneck)
    logits = head.logits(scores[None])[0]
    order = np.argsort(-logits)
    return argue(
        ["a", "b", "c"],
        CELLS,
        Background(AVERAGE, np.full(7, 0.5), None),
        head,
        None,
        logits=logits,
        probabilities=np.exp(logits) / np.exp(logits).sum(),
        concept_probabilities=np.array(read),
        bottleneck=scores,
        says=True,
        about=int(order[0]),
        rival=int(order[1]),
        seen=None if seen is None else np.array(seen),
    )


def test_one_account_by_hand_adds_up_to_the_margin() -> None:
    # a − b: weights (1, −1, 2, 0, 0, −1, 0), bias 0.5; at the average 0.5 · (1 − 1 + 2 − 1) + 0.5 = 1
    told = argument([2, 0, 2, 0, 0, 0, 1], [0.9, 0.1, 0.8, 0.1, 0.1, 0.2, 0.8])
    account = told.account
    assert (account.of, account.minus, account.base, account.bypass) == ("a", "b", 1.0, 0.0)
    assert [(each.question, each.weight) for each in account.reasons] == [
        ("granule type", 3.0), ("granularity", 2.0), ("size", 0.5)
    ]  # fmt: skip
    assert account.total == 6.5 == account.base + account.added
    assert account.base_share == pytest.approx(1 / 6.5)
    assert account.concept_share == pytest.approx(5.5 / 6.5)
    assert told.sentence.startswith("predicted a (")
    assert "because granule type is fine (80%) and there are granules (90%)." in told.sentence
    assert "makes up 15% of the margin" in told.sentence
    assert told.deciding == [2, 0, 6]
    assert told.decompositions[-1].total == account.total


def test_the_account_still_adds_up_without_what_is_not_counted() -> None:
    told = argument([2, 0, 2, 0, 0, 0, 1], [0.1, 0.9, 0.8, 0.1, 0.1, 0.2, 0.8])
    account = told.account
    assert [each.question for each in account.reasons] == ["granularity", "size"]
    assert sum(each.weight or 0 for each in account.aside) == 3.0
    assert account.total == 6.5 == (account.base or 0) + account.added + 3.0
    assert "granule type is" not in told.sentence
    assert "Not counted: granule type (does not apply)." in told.sentence
    unseen = argument([2, 0, 2, 0, 0, 0, 1], [0.9, 0.1, 0.8, 0.1, 0.1, 0.2, 0.8], [True] * 2 + [False] + [True] * 4)
    assert [each.question for each in unseen.account.aside] == ["granule type: fine"]
    assert 2 not in unseen.deciding


def test_percent_rounds_nothing_to_certainty() -> None:
    assert [percent(share) for share in (0, 0.001, 0.5, 0.999, 1)] == ["0%", "<1%", "50%", ">99%", "100%"]
