"""Orders and curves against loops over images; areas by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from conceptlens.concepts import UNKNOWN
from conceptlens.core.errors import UserError
from conceptlens.evaluation.interventions.ask_next import ask_next, least_sure
from conceptlens.evaluation.interventions.curve import area, each_alone, follow, follow_policy, summarize
from conceptlens.evaluation.interventions.edits import to_truth
from conceptlens.evaluation.interventions.order import (
    POLICIES,
    by_chance,
    by_expected_gain,
    descending,
    expected_gain,
    influence,
    uncertainty,
)
from conceptlens.evaluation.interventions.units import make_units, membership
from conceptlens.evaluation.interventions.value_map import ValueMap, cross_map
from conceptlens.evaluation.interventions.what_if import one_of, what_if
from conceptlens.runs.readout import Floats, Readout
from conceptlens.stats.estimates import Bootstrap
from conceptlens.stats.folds import assign_folds
from tests.evaluation.trust.world import CONCEPTS, SHORTCUT, clean, in_probabilities, shortcut


def maps_of(made: Readout, to: str = "auto") -> ValueMap:
    return cross_map(made, assign_folds(made.units), to)


def test_units() -> None:
    groups, concepts, parts = (make_units(CONCEPTS, by) for by in ("groups", "concepts", "parts"))
    assert [unit.name for unit in groups] == ["shape", "colour", "marks"]
    assert [len(unit.questions) for unit in groups] == [1, 1, 2]
    assert [unit.columns for unit in concepts] == [[k] for k in range(7)]
    assert {unit.name: unit.columns for unit in parts} == {"outline": [0, 1, 2], "fill": [3, 4, 5, 6]}
    assert membership(groups, 7).sum(1).tolist() == [3, 2, 2]
    with pytest.raises(UserError, match="Did you mean 'groups'"):
        make_units(CONCEPTS, "group")


def test_following_an_order_is_correcting_unit_after_unit() -> None:
    made = clean(120)
    units, replaced = make_units(CONCEPTS), to_truth(made, maps_of(made))
    order = by_chance(len(made), 3, seed=5)
    hits = follow(made, replaced, units, order)
    assert made.head is not None
    for image in range(len(made)):
        row = made.bottleneck[image].copy()
        for step in range(4):
            said = (made.head.weight @ row + made.head.bias).argmax()
            assert hits[step, image] == (said == made.labels[image])
            if step < 3:
                columns = units[order[image, step]].columns
                row[columns] = replaced[image, columns]


def test_uncertainty_by_hand() -> None:
    shares = np.array([[0.5, 0.25, 0.25, 1.0, 0.0, 0.5, 0.0]])
    found = uncertainty(make_units(CONCEPTS), shares)[0]
    np.testing.assert_allclose(found, [1.5 * np.log(2), 0, np.log(2) / 2], atol=1e-12)
    assert descending(found[None]).tolist() == [[0, 2, 1]]


def test_influence_is_how_far_an_average_score_moves_the_logits() -> None:
    made = clean(60)
    found = influence(made, make_units(CONCEPTS), made.bottleneck)
    assert made.head is not None
    for image in (0, 17):
        moved = made.bottleneck[image].copy()
        moved[:3] = made.bottleneck.mean(0)[:3]
        change = made.head.weight @ (made.bottleneck[image] - moved)
        assert found[image, 0] == pytest.approx(np.abs(change - change.mean()).mean())


def told(made: Readout, maps: ValueMap, image: int, columns: tuple[int, ...], held: list[bool]) -> list[float]:
    """What is written of one image for an answer, from the images of other folds."""
    fold = assign_folds(made.units)
    others = [other for other in range(len(made)) if fold[other] != fold[image]]
    scores, truth = made.bottleneck[others], made.truth[others]

    def stands_for(answer: list[bool]) -> list[float]:
        if maps.way == "quantile":
            return [
                float(np.quantile(scores[:, k], 0.95 if yes else 0.05)) for k, yes in zip(columns, answer, strict=True)
            ]
        alike = (truth[:, columns] == answer).all(1)
        return [float(scores[alike][:, k].mean()) for k in columns]

    written = stands_for(held)
    if maps.way != "shift":
        return written
    p = made.concept_probabilities[image, list(columns)]
    read = [bool(p[0] >= 0.5)] if len(columns) == 1 else [place == p.argmax() for place in range(len(columns))]
    own = made.bottleneck[image, list(columns)]
    return [float(own[place] + written[place] - stands_for(read)[place]) for place in range(len(columns))]


def naive_gain(made: Readout, maps: ValueMap, shares: Floats, row: Floats, image: int, unit: int) -> float:
    def entropy(bottleneck: Floats) -> float:
        p = softmax(made.decide(bottleneck[None])[0])
        return float(-(p * np.log(p)).sum())

    gain = 0.0
    for question in make_units(CONCEPTS)[unit].questions:
        gain += entropy(row)
        for answer in question.answers:
            edited = row.copy()
            share = 1.0
            edited[list(question.columns)] = told(made, maps, image, question.columns, answer.tolist())
            for column, held in zip(question.columns, answer, strict=True):
                if held:
                    share = shares[image, column]
                elif len(question.columns) == 1:
                    share = 1 - shares[image, column]
            gain -= share * entropy(edited)
    return gain


@pytest.mark.parametrize("to", ["shift", "quantile"])
def test_expected_gain_against_a_loop_and_step_by_step(to: str) -> None:
    made = clean(60)
    maps, units = maps_of(made, to), make_units(CONCEPTS)
    shares = maps.probabilities(made.concept_probabilities, CONCEPTS)
    found = expected_gain(made, maps, units, shares, made.bottleneck)
    for image in (0, 11, 29):
        for unit in range(3):
            assert found[image, unit] == pytest.approx(
                naive_gain(made, maps, shares, made.bottleneck[image], image, unit)
            )
    corrected = to_truth(made, maps)
    order = by_expected_gain(made, maps, units, shares, corrected, again=True)
    for image in (0, 11, 29):
        row, left = made.bottleneck[image].copy(), [0, 1, 2]
        for step in range(3):
            gains = {unit: naive_gain(made, maps, shares, row, image, unit) for unit in left}
            best = max(gains, key=lambda unit: gains[unit])
            assert order[image, step] == best
            row[units[best].columns] = corrected[image, units[best].columns]
            left.remove(best)
    np.testing.assert_array_equal(
        by_expected_gain(made, maps, units, shares, corrected, again=False), descending(found)
    )


def test_area_by_hand() -> None:
    np.testing.assert_allclose(area(np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])), [0.75, 0.75])


@pytest.mark.parametrize("policy", POLICIES)
def test_corrections_help_where_there_is_room_and_lies_hurt(policy: str) -> None:
    made = clean(800, noise=2.5)
    units = make_units(CONCEPTS)
    followed = follow_policy(made, maps_of(made), units, policy)
    curve = summarize(policy, followed, Bootstrap(made.units, 200))
    first, last = curve.points[0].value, curve.points[-1].value
    assert first is not None
    assert last is not None
    assert last > first + 0.05
    assert curve.gain.low is not None
    assert curve.gain.low > 0
    assert curve.wrong[-1].value is not None
    assert curve.wrong[-1].value < first - 0.3
    assert curve.points[0] == curve.wrong[0]
    assert curve.area.value == pytest.approx(float(np.nanmean(area(followed.right))))


def test_a_good_order_gains_sooner_than_chance() -> None:
    made = clean(1600, noise=2.5)
    units = make_units(CONCEPTS, "concepts")
    areas = {p: float(area(follow_policy(made, maps_of(made), units, p).right).mean()) for p in POLICIES}
    assert areas["expected gain"] > areas["chance"] + 0.005


def test_unknown_concepts_stay_and_unknown_classes_do_not_count() -> None:
    made = clean(200)
    truth, labels = np.full_like(made.truth, UNKNOWN), made.labels.copy()
    labels[:10] = -1
    made = replace(made, truth=truth, labels=labels)
    followed = follow_policy(made, maps_of(made), make_units(CONCEPTS), "chance")
    np.testing.assert_allclose(followed.right[0], followed.right[-1], equal_nan=True)
    assert np.isnan(followed.right[:, :10]).all()


def test_a_shortcut_shows_as_a_correction_that_harms() -> None:
    made = shortcut()
    maps = maps_of(made, "quantile")  # the mean scores of a shortcut's two labels are the same, so it is not shifted
    found = {each.unit: each for each in each_alone(made, maps, make_units(CONCEPTS, "concepts"), boot(made))}
    name = CONCEPTS.names[SHORTCUT]
    worst = min(found, key=lambda unit: found[unit].corrected.value or 0)
    assert worst == name
    interval = found[name].corrected.interval
    assert interval is not None
    assert interval[1] < -0.1
    honest = clean()
    alone = each_alone(honest, maps_of(honest), make_units(CONCEPTS, "concepts"), boot(honest))
    assert all((each.corrected.value or 0) > -0.05 for each in alone)


def boot(made: Readout) -> Bootstrap:
    return Bootstrap(made.units, 200)


def test_the_next_question_is_the_one_with_the_largest_expected_gain() -> None:
    made = in_probabilities(clean(100))
    maps, units = maps_of(made), make_units(CONCEPTS)
    shares = maps.probabilities(made.concept_probabilities, CONCEPTS)
    gains = expected_gain(made, maps, units, shares, made.bottleneck)
    for image, asked in zip((3, 8), ask_next(made, maps, units, [3, 8]), strict=True):
        assert asked.image == made.ids[image]
        assert asked.ask[0].unit == units[int(gains[image].argmax())].name
        assert asked.ask[0].expected_gain == pytest.approx(gains[image].max())
    p = softmax(made.decide(made.bottleneck), axis=1)
    assert least_sure(made, 1) == [int((-(p * np.log(p)).sum(1)).argmax())]


def test_unknown_order_is_refused() -> None:
    made = clean(40)
    with pytest.raises(UserError, match="Did you mean 'influence'"):
        follow_policy(made, maps_of(made), make_units(CONCEPTS), "influnce")


def test_what_was_told_is_not_asked_again() -> None:
    made = clean(200)
    one = one_of(made, made.ids[0])
    assert one is not None
    first, then = what_if(made, one, []), what_if(made, one, ["shape=round"])
    assert {each.unit for each in first.ask.ask} == {"shape", "colour", "marks"}
    assert {each.unit for each in then.ask.ask} == {"colour", "marks"}
    assert then.ask.said == then.after.said  # what is learned is counted from there
    told = what_if(made, one, ["shape=round", "colour=red", "marks: dots=yes"])
    assert told.ask.ask == []
    assert "most would be learned" not in told.text()
