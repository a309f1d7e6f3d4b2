"""The smallest flip against a search of all sets of edits; Table 7 against a loop."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from conceptlens.concepts import UNKNOWN
from conceptlens.core.errors import UserError
from conceptlens.evaluation.interventions.counterfactual import counterfactual
from conceptlens.evaluation.interventions.flip import all_answers, flips, said_already
from conceptlens.evaluation.interventions.units import make_units, with_concepts
from conceptlens.evaluation.interventions.value_map import ValueMap, cross_map
from conceptlens.runs.readout import Readout
from conceptlens.stats.estimates import Bootstrap
from conceptlens.stats.folds import assign_folds
from tests.evaluation.trust.world import CONCEPTS, SHORTCUT, clean, in_probabilities, readout, shortcut


def fewest(made: Readout, maps: ValueMap, image: int) -> int | None:
    """By trying every set of questions and every answer to them."""
    answers = all_answers(made)
    said = said_already(made, answers, np.array([image]))[0]
    ways: dict[int, list[int]] = {}
    for place, answer in enumerate(answers):
        if not said[place]:
            ways.setdefault(answer.question, []).append(place)
    before = made.decide(made.bottleneck[[image]]).argmax()
    for count in range(1, len(ways) + 1):
        for chosen in combinations(ways.values(), count):
            for edits in product(*chosen):
                labels = np.full_like(made.truth, UNKNOWN)
                for place in edits:
                    labels[image, list(answers[place].columns)] = answers[place].held
                row = maps.write(made, labels)[[image]]
                if made.decide(row).argmax() != before:
                    return count
    return None


@pytest.mark.parametrize("probabilities", [False, True])
def test_flips_of_a_linear_head_are_the_smallest(probabilities: bool) -> None:
    made = clean(160)
    weight = np.random.default_rng(1).normal(0, 0.4, (3, 7))
    weight[:, :3] *= 0.3  # no single group decides
    made = readout(made.bottleneck, made.truth, made.labels, weight, np.array([3.0 - 2.5 * probabilities, 0, 0]))
    if probabilities:
        made = in_probabilities(made)
    maps = cross_map(made, assign_folds(made.units))
    found = flips(made, maps, examples=80)
    assert found.kind == "exact"
    sizes = [None if each.edits is None else len(each.edits) for each in found.examples[:40]]
    assert sizes == [fewest(made, maps, image) for image in range(40)]
    assert len({size for size in sizes if size}) > 1  # or the search would have been too easy
    assert all(each.after != each.before for each in found.examples if each.edits)
    assert sum(found.sizes.values()) + found.cannot == found.images == 80


def test_other_heads_are_flipped_greedily() -> None:
    made = clean(80)
    maps = cross_map(made, assign_folds(made.units))
    exact, greedy = flips(made, maps), flips(replace(made, head=None), maps)
    assert greedy.kind == "greedy"
    for best, tried in zip(exact.examples, greedy.examples, strict=True):
        assert tried.edits is not None
        assert best.edits is not None
        assert len(tried.edits) >= len(best.edits)
        assert tried.after not in (None, tried.before)


def test_nothing_flips_a_head_that_ignores_concepts() -> None:
    made = clean(40)
    deaf = replace(made, head=None, decide=lambda rows: np.tile([2.0, 1.0, 0.0], (len(rows), 1)))
    found = flips(deaf, cross_map(made, assign_folds(made.units)))
    assert found.cannot == found.images == 20
    assert found.median is None
    with pytest.raises(UserError, match="several labels"):
        flips(replace(made, task="multilabel"), cross_map(made, assign_folds(made.units)))


def test_a_shortcut_shows_as_the_concept_that_flips() -> None:
    made = shortcut()
    found = flips(made, cross_map(made, assign_folds(made.units), "quantile"))
    assert next(iter(found.first)) == CONCEPTS.concepts[SHORTCUT].group


def test_table_seven_against_a_loop() -> None:
    made = clean(400)
    found = counterfactual(
        made,
        make_units(CONCEPTS),
        "two",
        Bootstrap(made.units, 200),
        on=["shape", "marks"],
        instead="three",
        threshold=0.7,
    )

    def probability(rows: np.ndarray) -> np.ndarray:
        e = np.exp(made.decide(rows))
        return np.asarray(e[:, 1] / e.sum(1))

    sure = np.flatnonzero(probability(made.bottleneck) > 0.7)
    mean = made.bottleneck[made.labels == 2].mean(0)
    assert found.images == len(sure) > 20
    for row, columns in zip(found.rows, ([], [0, 1, 2], [5, 6], [0, 1, 2, 5, 6]), strict=True):
        edited = made.bottleneck[sure].copy()
        for image in edited:
            for column in columns:
                image[column] = mean[column]
        after, before = probability(edited).mean(), probability(made.bottleneck[sure]).mean()
        assert row.probability.value == pytest.approx(after)
        assert row.relative_change.value == pytest.approx(after / before - 1)
    assert [row.intervene_on for row in found.rows] == [[], ["shape"], ["marks"], ["shape", "marks"]]
    assert found.rows[3].relative_change.interval is not None
    assert found.rows[3].relative_change.interval[1] < -0.3
    assert found.random is None  # only one other group is left


def test_the_test_finds_what_decides_and_has_a_control() -> None:
    made = shortcut()
    units = make_units(CONCEPTS, "concepts")
    found = counterfactual(made, units, "one", Bootstrap(made.units, 200), threshold=0.8)
    assert CONCEPTS.names[SHORTCUT] in found.rows[-1].intervene_on
    assert found.random is not None
    assert found.random.relative_change.low is not None
    assert found.rows[-1].relative_change.interval is not None
    assert found.rows[-1].relative_change.interval[1] < found.random.relative_change.low


def test_the_control_leaves_out_what_is_edited() -> None:
    made, chosen = clean(400), [f"shape: {value}" for value in ("round", "star")]
    units = with_concepts(make_units(CONCEPTS), CONCEPTS, chosen)
    found = counterfactual(made, units, "one", Bootstrap(made.units, 20), on=chosen, threshold=0.5)
    only = made.bottleneck.copy()
    only[:, 3:] = made.bottleneck[made.labels != 0].mean(0)[3:]  # colour and marks: `shape` holds what was edited
    chance, after = (made.probabilities(made.decide(rows))[:, 0] for rows in (made.bottleneck, only))
    assert found.random is not None
    assert found.random.probability.value == pytest.approx(after[chance > 0.5].mean())


def test_a_class_of_which_the_model_is_never_sure() -> None:
    made = clean(100)
    found = counterfactual(made, make_units(CONCEPTS), "one", Bootstrap(made.units, 50), threshold=0.9999999)
    assert found.images == 0
    assert found.rows == []
    units, bootstrap = make_units(CONCEPTS), Bootstrap(made.units, 50)
    with pytest.raises(UserError, match="Did you mean 'three'"):
        counterfactual(made, units, "thre", bootstrap)
    with pytest.raises(UserError, match="Did you mean 'shape'"):
        counterfactual(made, units, "one", bootstrap, on=["shap"], threshold=0.1)
    with pytest.raises(UserError, match="from 0 to below 1"):
        counterfactual(made, units, "one", bootstrap, threshold=1.5)
    more = with_concepts(make_units(CONCEPTS), CONCEPTS, ["colour: red", "shape"])
    assert [unit.name for unit in more] == ["shape", "colour", "marks", "colour: red"]
