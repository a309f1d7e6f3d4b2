"""Controls beside the curves, the verdict by each of its rules, and blurred images."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import conceptlens as cl
from conceptlens import api
from conceptlens.concepts import UNKNOWN
from conceptlens.core.errors import UserError
from conceptlens.evaluation.class_table import NOT_MEASURED
from conceptlens.evaluation.interventions.blurred import blur
from conceptlens.evaluation.interventions.controls import Written, judge
from conceptlens.evaluation.interventions.curve import follow_policy, summarize
from conceptlens.evaluation.interventions.edits import wrong_labels
from conceptlens.evaluation.interventions.measure import Interventions, judge_over_folds, measure_interventions
from conceptlens.evaluation.interventions.units import make_units
from conceptlens.evaluation.interventions.value_map import cross_map
from conceptlens.evaluation.leakage import probe
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.readout import Readout
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import assign_folds
from tests.evaluation.trust.world import CONCEPTS, clean, in_probabilities, leaky, shortcut
from tests.training.tiny import tiny

NAMES = {"untouched", "sham", "truth", "wrong", "ceiling", "area"}


def measured(made: Readout, to: str = "auto") -> Interventions:
    return measure_interventions(made, Bootstrap(made.units, 100), orders=["chance"], to=to)


def estimate(value: float, half: float = 0.01) -> Estimate:
    return Estimate(value=value, interval=(value - half, value + half))


def written(
    against_sham: float = 0.0, below: float = 0.0, cost: float = 0.5, above: float = -0.1, way: str = "shift"
) -> Written:
    return Written.model_validate(
        {
            "way": way,
            "sham": estimate(0.9),
            "truth": estimate(0.9 + against_sham),
            "wrong": estimate(0.9 - cost),
            "truth_less_sham": estimate(against_sham),
            "ceiling_less_truth": estimate(below),
            "untouched_less_wrong": estimate(cost),
            "wrong_above_half": estimate(above),
        }
    )


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (written(), None),
        (written(against_sham=-0.009), None),  # its interval reaches 0
        (
            written(against_sham=-0.02),
            "true answers (88.0%) is lower than with the model's own answers written back (90.0%)",
        ),
        (written(below=0.014), None),
        (
            written(below=0.016),
            "is 1.6 points below what the true concepts allow "
            "(0.6 to 2.6: the images are too few to be sure that it is more than 1.5). Accuracy",
        ),
        (written(below=0.03), "is 3.0 points below what the true concepts allow. Accuracy"),  # its interval is above
        (written(cost=0.011), None),
        (written(cost=0.01), "wrong answers do not lower the accuracy (89.0%)"),
        (written(cost=-0.1), "wrong answers do not lower the accuracy"),
        (written(cost=0.1, above=0.3), "still right in 80.0%, so it hardly follows corrections"),
        (written(cost=0.1, above=0.009), None),  # its interval reaches 0
    ],
)
def test_each_rule_of_the_verdict(told: Written, says: str | None) -> None:
    found = judge(told, [told], estimate(0.9), estimate(0.9), estimate(0.1))
    assert found.outcome == ("pass" if says is None else "finding")
    assert (says or "true answers keep or raise the accuracy").lower() in found.reason.lower()


def test_ways_that_disagree_are_named() -> None:
    good, bad = written(), written(against_sham=-0.2, way="quantile")
    found = judge(good, [good, bad], estimate(0.9), estimate(0.9), estimate(0.1))
    assert found.outcome == "pass"
    assert "written as quantile, the verdict would be a finding" in found.reason
    other = judge(bad, [bad, good], estimate(0.9), estimate(0.9), estimate(0.1))
    assert other.outcome == "finding"
    assert "written as shift, the verdict would be a pass" in other.reason


def test_the_sham_of_a_shift_is_the_model_untouched() -> None:
    made = clean(300, noise=2.5)
    followed = follow_policy(made, cross_map(made, assign_folds(made.units)), make_units(CONCEPTS), "chance")
    assert followed.sham is not None
    np.testing.assert_array_equal(followed.sham, np.broadcast_to(followed.right[0], followed.sham.shape))
    found = measured(made)
    assert found.to == "shift"
    assert found.numbers["sham"] == found.numbers["untouched"]


def test_numbers_and_every_way_side_by_side() -> None:
    found = measured(in_probabilities(clean(1600, noise=2.0)))
    assert [each.way for each in found.ways] == ["one-hot", "mean"]
    assert found.ways[0].hardened is not None
    assert found.ways[1].hardened is None
    assert found.verdict.outcome == "pass"
    assert set(found.numbers) == NAMES
    assert found.numbers["truth"] == found.curves[0].points[-1].value
    assert found.numbers["wrong"] == found.curves[0].wrong[-1].value
    assert found.numbers["sham"] == found.curves[0].sham[-1].value
    assert found.numbers["area"] == found.curves[0].area.value
    assert found.text().startswith(": corrections: pass: ")
    assert [each.way for each in measured(clean(200), "quantile").ways] == ["quantile", "shift", "mean"]


def test_a_leaky_bottleneck_falls_when_told_the_truth() -> None:
    found = measured(leaky())
    assert found.verdict.outcome == "finding"
    assert "lower than with the model's own answers" in found.verdict.reason


def test_a_shortcut_is_not_passed_in_silence() -> None:
    found = measured(shortcut())
    assert "written as quantile" in found.verdict.reason or found.verdict.outcome == "finding"


def test_a_head_that_ignores_people_is_no_pass() -> None:
    made = clean(400)
    deaf = replace(made, head=None, decide=lambda rows: np.tile([2.0, 1.0, 0.0], (len(rows), 1)))
    found = measured(deaf)
    assert found.verdict.outcome == "finding"
    assert "wrong answers do not lower the" in found.verdict.reason


def test_wrong_answers_have_a_reference_of_labels_alone() -> None:
    made = clean(400)
    fold = assign_folds(made.units)
    head = probe.label_head(made, fold)
    features = probe.label_features(made.truth)
    np.testing.assert_array_equal(head(made.truth), probe.hits(made, features, fold))
    wrong = wrong_labels(made)
    np.testing.assert_array_equal(head(wrong), probe.hits(made, features, fold, wrong.astype(np.float64)))
    units = make_units(CONCEPTS)
    followed = follow_policy(made, cross_map(made, fold), units, "influence", label_head=head)
    assert followed.wrong_labels is not None
    np.testing.assert_array_equal(followed.wrong_labels[0], head(made.truth))
    np.testing.assert_array_equal(followed.wrong_labels[-1], head(wrong))
    curve = summarize("influence", followed, Bootstrap(made.units, 20))
    assert curve.wrong_labels[-1].value == pytest.approx(float(head(wrong).mean()))


def test_features_of_labels_are_those_of_the_labels_they_are_compared_with() -> None:
    like = np.array([[1, UNKNOWN], [0, 1], [1, 1]], dtype=np.int8)
    told = np.array([[UNKNOWN, 0], [1, UNKNOWN], [0, 1]], dtype=np.int8)
    np.testing.assert_allclose(probe.label_features(told, like), [[2 / 3, 0, 0], [1, 1, 1], [0, 1, 0]])


def test_labels_that_follow_from_the_class_are_not_measured() -> None:
    made = clean(300)
    table = np.array([[1, 0, 0, 1, 0, 1, 0], [0, 1, 0, 0, 1, 0, 1], [0, 0, 1, 1, 0, 0, 0]], dtype=np.int8)
    found = measured(replace(made, truth=table[made.labels]))
    assert found.verdict.outcome == "unmeasured"
    assert NOT_MEASURED in found.verdict.reason
    assert NOT_MEASURED in found.to_dict()["verdict"]["reason"]
    assert found.numbers == dict.fromkeys(NAMES)
    assert NOT_MEASURED in found.text()
    assert "area" not in found.text()
    unlabeled = measured(replace(made, truth=np.full_like(made.truth, UNKNOWN)))
    assert unlabeled.verdict.outcome == "unmeasured"
    assert unlabeled.numbers == dict.fromkeys(NAMES)


def test_an_image_made_small_is_blurred() -> None:
    black = torch.zeros(1, 3, 32, 32, dtype=torch.uint8)
    black[..., 16:] = 200
    found = blur(black, 4)
    assert found.dtype == torch.uint8
    assert found.shape == black.shape
    assert found[0, 0, 5, 2] == 0
    assert 0 < found[0, 0, 5, 15] < 200
    flat = torch.full((2, 3, 20, 20), 77, dtype=torch.uint8)
    assert torch.equal(blur(flat, 3), flat)


@pytest.mark.slow
def test_corrections_of_blurred_images_of_a_run(tmp_path: Path) -> None:
    run = OpenedRun.open(cl.train(tiny(tmp_path / "run", training__epochs=1), quiet=True).path)
    found = api.interventions(run, blur=(20, 10), resamples=10, order=["chance"])
    assert [each.pixels for each in found.blurred] == [20, 10]
    for each in found.blurred:
        assert len(each.curve.points) == len(each.curve.sham) == len(found.units) + 1
        assert each.area == each.curve.area
    assert Interventions.read(run.path / "trust/interventions.json") == found
    assert "blurred to 10 pixels" in found.text() or found.verdict.outcome == "unmeasured"
    with pytest.raises(UserError, match="--blur 99: expected pixels from 1 to below 32"):
        api.interventions(run, blur=(99,))


def test_folds_are_judged_by_all_of_their_images() -> None:
    parts = [measured(in_probabilities(clean(24, noise=2.0, seed=seed))) for seed in range(6)]
    judged = judge_over_folds(parts, lambda units: Bootstrap(units, 100))
    assert judged is not None
    verdict, numbers = judged
    assert set(numbers) == NAMES - {"area"}
    for name, value in numbers.items():  # folds of one size: the mean over images is the mean over folds
        assert value == pytest.approx(np.mean([each.numbers[name] for each in parts]))
    assert numbers["wrong"] is not None
    assert f"{numbers['wrong']:.1%} with only wrong answers" in verdict.reason
    told = Interventions.model_validate(parts[0].model_dump())  # read from a file, which does not keep single images
    assert judge_over_folds([told], lambda units: Bootstrap(units, 100)) is None
