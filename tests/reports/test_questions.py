"""A clinician's questions are answered in order, from numbers at hand."""

from dataclasses import replace

import numpy as np
import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.evaluation.black_box import black_box_reference
from conceptlens.evaluation.examination import NUMBERS, Trust
from conceptlens.evaluation.verdict import Verdict
from conceptlens.reports.questions import NEXT, how_good, next_steps, questions, what_it_was_told
from tests.reports.test_sections import material


@pytest.fixture
def concepts() -> ConceptSet:
    return ConceptSet.from_yaml("classes: [a]\ngroups:\n  border: {values: [sharp, blurred]}\n")


def test_in_order(concepts: ConceptSet) -> None:
    page = str(questions(material(concepts)))
    places = [page.index(word) for word in ("How good", "correct it", "fail?", "look at", "trained on?", "do next")]
    assert places == sorted(places)
    assert page.count("conceptlens trust RUN") == 4  # three questions that nobody measured yet, and the next step


def test_against_chance_and_the_black_box(concepts: ConceptSet) -> None:
    made = material(concepts, count=4)
    balanced = made.metrics["class"]["balanced_accuracy"]
    metrics = {
        **made.metrics,
        "intervals": {"class.balanced_accuracy": [balanced - 0.05, balanced + 0.05]},
        "black_box": {"balanced_accuracy": balanced + 0.01},
        "per_fold": [{"class.balanced_accuracy": 0.5}, {"class.balanced_accuracy": 0.75}],
    }
    told = " ".join(how_good(replace(made, metrics=metrics)))
    assert "a guess gives 25.0%" in told
    assert "always naming the most frequent class gives 25.0%" in told
    assert "is not clearly different from that of a black box" in told
    assert "2 folds lie between 50.0% and 75.0%" in told
    rows = made.metrics["class"]["per_class"]
    assert all(
        f"class {number}: {row['recall'] * row['support']:.0f} of {row['support']} (" for number, row in enumerate(rows)
    )


def test_concepts_that_say_too_little_of_the_class_are_named_as_the_limit(concepts: ConceptSet) -> None:
    made = material(concepts)
    for allowed, limited in ((0.7, False), (0.5, True)):
        metrics = {**made.metrics, "black_box": {"balanced_accuracy": 0.6}, "ceiling": {"balanced_accuracy": allowed}}
        of = replace(made, metrics=metrics)
        assert (
            "all of their labels right, a class head has a balanced accuracy of 50.0%" in " ".join(how_good(of))
        ) == limited
        assert any("method.residual: true" in step for step in next_steps(of)) == limited
    none = {key: value for key, value in metrics.items() if key != "concept"}
    assert not any("residual" in step for step in next_steps(replace(made, metrics=none)))


def test_how_many_of_each_class_are_found(concepts: ConceptSet) -> None:
    made = material(concepts, recipe={"metrics": {"confidence": 0.95}})
    rows = [{"class": "a", "recall": 0.9, "support": 50}, {"class": "b", "recall": None, "support": 0}]
    made = replace(made, metrics={**made.metrics, "class": {**made.metrics["class"], "per_class": rows}})
    assert how_good(made)[-1].endswith("as independent: a: 45 of 50 (79 to 96%).")  # the interval of tests/stats


def test_what_it_was_told(concepts: ConceptSet) -> None:
    info = {"id": "r", "method": "m", "data": {"name": "d"}, "bypass": None, "supervision": "image-labels"}
    made = material(concepts, info=info)
    made = replace(made, card={**made.card, "concept_counts": [7, 3]})
    told = what_it_was_told(made)
    assert told[0].startswith("People labeled")
    assert "'border: blurred' (3 images)" in told[1]
    assert told[-1] == "The class reads nothing but these concepts."
    none = replace(made, metrics={"class": made.metrics["class"]}, info={**info, "bypass": "the whole image vector"})
    assert "nothing about concepts" in what_it_was_told(none)[0]
    assert any("concepts draft" in step for step in next_steps(none))


def test_findings_come_next(concepts: ConceptSet) -> None:
    verdicts = {side: Verdict(outcome="pass", reason="Fine.") for side in NUMBERS}
    verdicts["leakage"] = Verdict(outcome="finding", reason="It leaks.")
    numbers = {side: dict.fromkeys(keys) for side, keys in NUMBERS.items()}
    trust = Trust(run="r", split="test", verdicts=verdicts, numbers=numbers)
    made = material(concepts, trust=trust)
    page, steps = str(questions(made)), list(next_steps(made))
    assert page.count("Yes. It uses what it is told") == 1
    assert page.count("Fine.") == 1  # of subgroups, which are named
    assert any("they also carry the class" in step for step in steps)
    assert not any("trust RUN" in step for step in steps)


def test_answers_are_plain_and_have_the_numbers_that_a_person_can_picture(concepts: ConceptSet) -> None:
    verdicts = {side: Verdict(outcome="finding", reason=f"The long words of {side}.") for side in NUMBERS}
    numbers = {side: dict.fromkeys(keys) for side, keys in NUMBERS.items()}
    numbers["corrections"] |= {"untouched": 0.8, "truth": 0.75, "wrong": 0.5}
    numbers["maps"] |= {"pointing": 0.6, "best_blind_pointing": 0.7}
    made = material(concepts, trust=Trust(run="r", split="test", verdicts=verdicts, numbers=numbers))
    page = str(questions(made))
    assert "right in 80 of 100 images; in 75 when it is told the truth about every concept, in 50 when" in page
    assert "inside in 60 of 100 maps, and in 70 of the best ones" in page
    assert "not shown to mark what it used" in page
    assert page.count("The long words") == 1  # of subgroups
    assert set(NEXT.values()) <= set(next_steps(made))


def test_the_black_box_is_a_linear_classifier() -> None:
    labels = np.arange(40) % 2
    vectors = (np.random.default_rng(0).normal(size=(40, 3)) + 8 * labels[:, None]).astype(np.float32)
    assert black_box_reference(vectors, labels, vectors, labels) == {"accuracy": 1.0, "balanced_accuracy": 1.0}
    assert black_box_reference(None, labels, vectors, labels)["accuracy"] is None
    assert black_box_reference(vectors, np.zeros(40, np.int64), vectors, labels)["accuracy"] is None


def test_what_a_table_said_of_a_class_is_told_beside_labels_of_images() -> None:
    groups = "border: {values: [sharp, blurred]}, hair: {kind: independent, values: [thick]}"
    table = "{a: {hair: [thick]}, b: {hair: []}}"
    mixed = ConceptSet.from_yaml(f"classes: [a, b]\ngroups: {{{groups}}}\nby_class: {table}\n")
    info = {"id": "r", "method": "m", "data": {"name": "d"}, "bypass": None, "supervision": "image-labels"}
    made = material(mixed, info=info)
    rows = [{"group": "border", "auc": 0.8, "auc_within_class": 0.7}, {"group": "hair", "auc": 0.8}]
    concept = {**made.metrics["concept"], "auc_within_class": 0.7, "per_group": rows}
    told = what_it_was_told(replace(made, metrics={**made.metrics, "concept": concept}))
    assert told[1] == "But a table gave every image of a class the same hair."
