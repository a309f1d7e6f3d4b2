"""What the sections say, on hand-made numbers: other tasks, many classes, declared bypasses, things to watch."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import dump_yaml
from conceptlens.data.dataset import Task
from conceptlens.evaluation.classification.classification import class_metrics
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.explanations.document import Account, Aside, Reason
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.reports.classes import classes
from conceptlens.reports.headline import result, warnings
from conceptlens.reports.material import Material
from conceptlens.reports.measures import numbers
from conceptlens.reports.page import page
from conceptlens.reports.reasons import lengths, reasons_of
from conceptlens.reports.stories import ConceptReading, GroupReading, Stories, Story
from conceptlens.reports.thumbnails import Pictures


def history(values: list[float]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for epoch, value in enumerate(values, 1):
        lines.append({"epoch": epoch, "step": 5 * epoch, "split": "train", "loss": 2 / epoch, "loss_class": 1 / epoch})
        lines.append({"epoch": epoch, "step": 5 * epoch, "split": "val", "class.balanced_accuracy": value})
    return lines


def material(concepts: ConceptSet, task: Task = "single", count: int = 3, images: int = 60, **changes: Any) -> Material:
    generator = np.random.default_rng(0)
    names = [f"class {number}" for number in range(count)]
    labels = generator.integers(0, 2, (images, count)) if task == "multilabel" else np.arange(images) % count
    scores = generator.normal(size=(images, count)) + 2 * (labels if task == "multilabel" else np.eye(count)[labels])
    marks = np.zeros((images, len(concepts)), dtype=np.int8)
    for group in concepts.groups:
        width = len(group.values)
        chosen = generator.integers(0, width, images)
        marks[np.arange(images), group.concepts.start + chosen] = 1
    found = class_metrics(class_probabilities(scores, task), labels, task, [0.5] * count, names=names)
    read = concept_metrics(generator.normal(size=marks.shape), marks, concepts)
    parts: dict[str, Any] = {
        "info": {"id": "r", "method": "m", "data": {"name": "d", "hash": "x"}, "bypass": None, "seed": 0},
        "split": "test",
        "metrics": {"class": found, "concept": read},
        "history": history([0.5, 0.8, 0.8, 0.7]),
        "stories": None,
        "recipe": {"training": {"select": "class.balanced_accuracy"}, "metrics": {"bootstrap": 10, "confidence": 0.9}},
        "concepts": concepts,
        "card": {"classes": names, "task": task, "image_size": 32, "fit": "squash", "thresholds": [0.5] * count},
        "splits": {"how": "given", "seed": 0, "hash": "h", "splits": {"train": ["a"], "val": [], "test": []}},
        "environment": {"python": "3"},
        "slot_names": [],
    }
    return Material(**{**parts, **changes})


def with_metrics(made: Material, **sections: Any) -> Material:
    return replace(made, metrics={**made.metrics, **sections})


def test_the_result_in_one_sentence(concepts: ConceptSet) -> None:
    made = material(concepts)
    made = with_metrics(
        made,
        **{
            "class": {**made.metrics["class"], "accuracy": 0.934, "n": 500},
            "concept": {**made.metrics["concept"], "accuracy": 0.812},
            "intervals": {"class.accuracy": [0.91, 0.95]},
        },
    )
    assert result(made) == (
        "On 500 test images the model finds the right class in 93 of 100 (90% interval 91.0% to 95.0%) and the right "
        "value of a concept in 81 of 100. It predicts the class only from 5 named concepts in 3 groups."
    )


def test_a_bypass_is_said_at_once(concepts: ConceptSet) -> None:
    made = material(concepts)
    made = replace(made, info={**made.info, "bypass": "a residual reads the image"})
    assert result(made).endswith(
        "It does not predict the class from its 5 named concepts alone: a residual reads the image."
    )
    assert "a residual reads the image" in page(made, Pictures())


def test_what_to_watch(concepts: ConceptSet) -> None:
    made = replace(material(concepts), slot_names=["size: big", "size: small"])
    made = with_metrics(
        made,
        concept={**made.metrics["concept"], "groups_at_chance": {"count": 1, "of": 3, "names": ["colour"]}},
        codebook={"codes": 5, "use": 0.6, "perplexity": 2.0, "dead": [1, 4]},
        slots={"slots": 2, "assignment_entropy": 0.1, "slot_mass": [1.0, 0.0], "empty_slots": [1]},
        ceiling={"accuracy": 0.5, "balanced_accuracy": 0.5},
        intervals={"class.accuracy": [0.6, 0.9]},
    )
    told = " ".join(warnings(made))
    assert "colour" in told
    assert "2 of 5 codes are dead" in told
    assert "“size: small”" in told
    assert "more often right than with the true concepts (50.0%)" in told
    whole = page(made, Pictures())
    assert "number 1, 4." in whole
    assert whole.count('class="flag">empty<') == 1
    assert not warnings(with_metrics(material(concepts), concept={"groups_at_chance": {"names": []}}))


def test_without_test_images_validation_is_named(concepts: ConceptSet) -> None:
    made = material(concepts, split="val")
    assert "validation images" in result(made)
    assert "optimistic" in warnings(made)[0]


@pytest.mark.parametrize("select", ["class.balanced_accuracy", "-class.balanced_accuracy"])
def test_the_chosen_epoch_is_the_first_of_the_best(concepts: ConceptSet, select: str) -> None:
    made = material(concepts, recipe={"training": {"select": select}})
    assert made.chosen_epoch == (1 if select.startswith("-") else 2)


def test_confusion_matrix_counts_and_shades(concepts: ConceptSet) -> None:
    made = material(concepts, count=2)
    made = with_metrics(made, **{"class": {**made.metrics["class"], "confusion": [[1200, 0], [25, 75]]}})
    drawn = classes(made)
    assert ">1,200</td>" in drawn
    assert "<td>0</td>" in drawn  # nothing to shade
    assert "rgba(213,94,0,0.28)" in drawn  # 0.55 · √0.25, rounded
    assert "rgba(0,114,178,0.48)" in drawn  # 0.55 · √0.75


def test_many_classes_list_their_confusions(concepts: ConceptSet) -> None:
    made = material(concepts, count=20, images=200)
    counts = np.diag([10] * 20)
    counts[3, 7] = 4
    made = with_metrics(made, **{"class": {**made.metrics["class"], "confusion": counts.tolist()}})
    drawn = classes(made)
    assert "1 of 1 pairs" in drawn
    row = '<th scope="row">class 3</th><td class="word">class 7</td><td>4</td><td>28.6%</td>'
    assert row in drawn


@pytest.mark.parametrize("task", ["single", "ordinal", "multilabel"])
def test_every_task_has_its_page(concepts: ConceptSet, task: Task) -> None:
    made = material(concepts, task=task)
    whole = page(made, Pictures())
    assert whole.count("<section") == 8
    assert ("Quadratic weighted kappa" in whole) == (task == "ordinal")
    assert ("All labels right" in whole) == (task == "multilabel")
    assert ("Confusion matrix" in whole) == (task != "multilabel")
    assert "Guessing gives 50.0%" in whole if task == "multilabel" else "Guessing gives 33.3%" in whole


def test_numbers_stand_beside_their_intervals(concepts: ConceptSet) -> None:
    made = material(concepts)
    made = with_metrics(made, intervals={"class.accuracy": [0.123, 0.456], "concept.auc": None})
    drawn = numbers(made)
    assert "12.3% to 45.6%" in drawn
    assert "90% interval" in drawn
    assert "without bootstrap" in numbers(with_metrics(material(concepts), intervals={}))


def test_a_large_vocabulary_fits_on_a_page() -> None:
    values = {
        f"group {number}": {"values": [f"value {each} of a long name" for each in range(8)]} for number in range(39)
    }
    concepts = ConceptSet.from_yaml(dump_yaml({"groups": values}))
    assert len(concepts) == 312
    made = material(concepts, count=200, images=400)
    made = replace(made, history=history([0.5] * 1000), slot_names=concepts.names)
    mass = [1 / 312] * 312
    made = with_metrics(made, slots={"slots": 312, "assignment_entropy": 0.5, "slot_mass": mass, "empty_slots": []})
    assert len(page(made, Pictures()).encode()) < 1_000_000


def reading(value: str, probability: float, label: bool | None, contribution: float | None) -> ConceptReading:
    return ConceptReading(value=value, probability=probability, label=label, contribution=contribution)


def test_a_story_adds_up_exclusive_groups_and_puts_what_matters_first(concepts: ConceptSet) -> None:
    size = GroupReading(
        group="size", exclusive=True, values=[reading("big", 0.8, False, 0.5), reading("small", 0.2, True, 0.25)]
    )
    extras = GroupReading(group="extras", exclusive=False, values=[reading("spots", 0.3, None, -1.0)])
    story = Story(
        image="i", kind="right", right=True, truth=["a"], predicted=["a"], explained="a", probabilities={"a": 1.0},
        concepts=[size, extras],
    )  # fmt: skip
    first, second = reasons_of(story, ["size"])
    assert (first.at_chance, second.at_chance) == (False, True)
    assert (first.question, first.answer, first.probability, first.agrees) == ("extras: spots", "no", 0.7, None)
    assert (second.question, second.answer, second.label, second.agrees) == ("size", "big", "small", False)
    assert second.contribution == 0.75
    whole = page(material(concepts, stories=Stories(split="test", average_of=8, stories=[story])), Pictures())
    assert "−1.00" in whole
    assert "labeled small" in whole


def test_a_story_with_an_account_shows_its_reasons_in_its_order(concepts: ConceptSet) -> None:
    size = GroupReading(
        group="size", exclusive=True, values=[reading("big", 0.8, False, 0.5), reading("small", 0.2, True, 0.25)]
    )
    extras = GroupReading(group="extras", exclusive=False, values=[reading("spots", 0.3, None, -1.0)])
    color = GroupReading(group="color", exclusive=True, values=[reading("red", 0.9, None, 2.0)])
    told = {"words": "", "probability": 0.2, "compared": False}
    account = Account(
        of="a",
        minus="b",
        total=0.5,
        base=-1.0,
        bypass=0.0,
        reasons=[
            Reason(concept=4, question="extras: spots", answer="no", weight=-1.0, **told),
            Reason(concept=1, question="size", answer="small", weight=0.5, **told),
        ],
        aside=[Aside(concept=2, question="color", why="does not apply", weight=2.0)],
    )
    story = Story(
        image="i", kind="right", right=True, truth=["a"], predicted=["a"], explained="a", probabilities={"a": 1.0},
        concepts=[size, extras, color], sentence="predicted a because of spots.", account=account,
    )  # fmt: skip
    first, second = reasons_of(story)
    assert (first.question, first.answer, first.contribution) == ("extras: spots", "no", -1.0)
    assert (second.question, second.answer, second.agrees, second.contribution) == ("size", "small", True, 0.5)
    assert lengths(story, [first, second]) == [-1.0, 0.5, 2.0, -1.0]
    whole = page(material(concepts, stories=Stories(split="test", average_of=8, stories=[story])), Pictures())
    for words in (
        "Predicted a because of spots.",
        "What speaks for a rather than b",
        "not counted: color (does not apply)",
        "the average image itself",
        "and with the second choice",
    ):
        assert words in whole


def test_without_contributions_the_surest_concepts_come_first(concepts: ConceptSet) -> None:
    extras = GroupReading(
        group="e", exclusive=False, values=[reading("x", 0.6, True, None), reading("y", 0.1, False, None)]
    )
    story = Story(
        image="i", kind="wrong", right=False, truth=["b"], predicted=["a"], explained="a",
        probabilities={"a": 0.9, "b": 0.1}, concepts=[extras],
    )  # fmt: skip
    assert [reason.question for reason in reasons_of(story)] == ["e: y", "e: x"]
    whole = page(material(concepts, stories=Stories(split="test", average_of=0, stories=[story])), Pictures())
    assert "most confident predictions" in whole
    assert "Speaks for it" not in whole
    assert "b (10%)" in whole  # its second choice
