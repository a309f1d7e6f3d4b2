"""`conceptlens trust`: what is measured, what cannot be, what is printed, and the exit code."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import conceptlens as cl
from conceptlens.cli import main
from conceptlens.core.documents import Document
from conceptlens.core.errors import UserError
from conceptlens.evaluation import examination
from conceptlens.evaluation.calibration.conformal import PredictionSets
from conceptlens.evaluation.calibration.reliability import calibration
from conceptlens.evaluation.calibration.verdict import calibration_numbers, judge_calibration, judge_sets
from conceptlens.evaluation.examination import NUMBERS, Trust
from conceptlens.evaluation.subgroups.metadata import make_columns
from conceptlens.evaluation.subgroups.outcomes import Outcomes
from conceptlens.evaluation.subgroups.subgroups import judge_groups
from conceptlens.evaluation.subgroups.verdict import judge_subgroups, subgroup_numbers
from conceptlens.evaluation.verdict import Numbers, Verdict
from conceptlens.reports.verdicts import verdict_block
from conceptlens.runs.opened import OpenedRun
from conceptlens.stats.estimates import Bootstrap, Estimate


class Fake(Document):
    """A result with a verdict."""

    remedy = ""
    verdict: Verdict
    numbers: Numbers


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Corrections are a finding, leakage passes, maps cannot be measured."""

    def no_maps(run: OpenedRun, **settings: Any) -> Document:
        raise UserError(f"{run.path}: nothing is known of where things are.")

    finding = Fake(
        verdict=Verdict(outcome="finding", reason="Truth is below sham."),
        numbers={"untouched": 0.9, "sham": 0.8, "truth": 0.7, "wrong": 0.2, "ceiling": 0.95, "area": 0.75, "more": 1.0},
    )
    fine = Fake(
        verdict=Verdict(outcome="pass", reason="No excess."),
        numbers={"raw": 0.1, "excess": 0.0, "above_ceiling": -0.01},
    )
    monkeypatch.setattr(examination, "intervene_run", lambda run, **settings: finding)
    monkeypatch.setattr(examination, "leakage_run", lambda run, **settings: fine)
    monkeypatch.setattr(examination, "localize_run", no_maps)
    monkeypatch.setattr(examination, "faithfulness_run", no_maps)


@pytest.mark.usefixtures("faked")
def test_json_is_exactly_the_verdicts_and_their_numbers(
    own_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["trust", str(own_run), "--out", str(tmp_path / "out"), "--json", "--resamples", "50"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    printed = json.loads(out)
    assert list(printed) == ["verdicts", "numbers"]
    assert list(printed["verdicts"]) == list(NUMBERS)
    assert {side: tuple(numbers) for side, numbers in printed["numbers"].items()} == NUMBERS
    assert (printed["verdicts"]["corrections"], printed["verdicts"]["leakage"]) == ("finding", "pass")
    assert printed["verdicts"]["maps"] == printed["verdicts"]["faithfulness"] == "unmeasured"
    assert set(printed["numbers"]["maps"].values()) == {None}
    assert printed["numbers"]["calibration"]["class_ece"] is not None
    assert "calibration" in err  # progress
    assert main([*words, "--fail-on-findings"]) == 3
    capsys.readouterr()
    kept = Trust.read(tmp_path / "out" / "trust.json")
    assert kept.verdicts["maps"].reason == "run: nothing is known of where things are."  # no path of this machine
    assert (tmp_path / "out" / "interventions.json").exists()


@pytest.mark.usefixtures("faked")
def test_an_examination_can_be_left_out(own_run: Path) -> None:
    found = cl.load(own_run).trust(resamples=50, without=["corrections", "subgroups"])
    assert found.verdicts["corrections"].outcome == found.verdicts["subgroups"].outcome == "unmeasured"
    assert "left out" in found.verdicts["corrections"].reason
    assert set(found.numbers["corrections"].values()) == {None}
    assert found.verdicts["leakage"].outcome == "pass"
    with pytest.raises(UserError, match="corrections"):
        cl.load(own_run).trust(without=["correction"])


@pytest.mark.usefixtures("faked")
def test_what_folds_cannot_measure_stops_nothing_else(own_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = iter([[own_run], []])
    monkeypatch.setattr(examination, "fold_folders", lambda run: next(folders))
    found = cl.load(own_run).trust(resamples=20)
    assert (found.split, found.verdicts["corrections"].outcome) == ("folds", "finding")
    for side in ("calibration", "subgroups"):
        assert found.verdicts[side].outcome == "unmeasured"
        assert "no predictions of its folds" in found.verdicts[side].reason
        assert set(found.numbers[side].values()) == {None}


@pytest.mark.usefixtures("faked")
def test_findings_come_first_in_words_and_on_the_page(own_run: Path) -> None:
    found = cl.load(own_run).trust(resamples=50)
    assert found.written_to is None
    text = found.text()
    assert text.index("! corrections") < text.index("+ leakage") < text.index("? maps")
    assert "untouched 0.900, sham 0.800" in text
    block = str(verdict_block(found, lambda words: words.replace("sham", "it")))
    assert block.index("Corrections") < block.index("Leakage") < block.index("Maps")
    assert "Truth is below it." in block
    assert "conceptlens trust RUN" in str(verdict_block(None))
    assert [row["value"] for row in found.table() if row["side"] == "maps"] == [None] * 4


def test_the_interval_of_the_error_as_a_plain_loop() -> None:
    generator = np.random.default_rng(0)
    confidence, hit = generator.random(60), (generator.random(60) < 0.5).astype(float)
    units = [str(row // 2) for row in range(60)]
    found = calibration("class", confidence, hit, bins=5, bootstrap=Bootstrap(units, 200))
    bins = np.ceil(confidence * 5).astype(int) - 1
    errors = []
    draws = np.random.default_rng(0)
    names = sorted(set(units))
    for _ in range(200):
        weight = np.bincount(draws.integers(30, size=30), minlength=30)[[names.index(unit) for unit in units]]
        gaps = [abs((weight * (confidence - hit))[bins == each].sum()) for each in range(5)]
        errors.append(sum(gaps) / weight.sum())
    assert found.interval == pytest.approx(np.quantile(errors, [0.025, 0.975]))


def test_an_answer_counts_with_its_image() -> None:
    sure, hit = np.array([0.9, 0.9, 0.4, 0.4]), np.array([1.0, 1.0, 0.0, 1.0])
    images = np.array([0, 1, 0, 1])
    found = calibration("class", sure, hit, bins=2, images=images, bootstrap=Bootstrap(["a", "b"], 500))
    # Image a alone: |−0.1| + |0.4| over 2 answers. Image b alone: |−0.1| + |−0.6|. Both: |−0.2| + |0.4 − 0.6| over 4.
    assert found.interval == pytest.approx((0.1, 0.35))


def test_calibration_is_a_finding_only_if_surely_large() -> None:
    generator = np.random.default_rng(1)
    sure = np.full(800, 0.95)
    honest = calibration("class", sure, (generator.random(800) < 0.95).astype(float), bootstrap=Bootstrap(_ids(800)))
    proud = calibration("class", sure, (generator.random(800) < 0.7).astype(float), bootstrap=Bootstrap(_ids(800)))
    assert judge_calibration(honest, []).outcome == "pass"
    assert "often as large" not in judge_calibration(honest, []).reason
    assert judge_calibration(proud, []).outcome == "finding"
    assert calibration_numbers(proud, [])["class_ece"] == pytest.approx(0.25, abs=0.05)
    unknown = calibration("class", sure, np.full(800, np.nan), bootstrap=Bootstrap(_ids(800)))
    assert judge_calibration(unknown, []).outcome == "unmeasured"


def test_few_images_make_no_finding_of_a_calibrated_model() -> None:
    alarms = 0
    for seed in range(60):
        generator = np.random.default_rng(seed)
        sure = generator.uniform(0.5, 1, 60)
        hit = (generator.random(60) < sure).astype(float)
        found = calibration("class", sure, hit, bootstrap=Bootstrap(_ids(60), 100, seed=seed))
        assert (found.interval or (0, 0))[0] > 0.05  # large by chance alone
        verdict = judge_calibration(found, [])
        alarms += verdict.outcome == "finding"
        assert verdict.outcome == "finding" or "often as large where probabilities are true" in verdict.reason
    assert alarms <= 7  # 5 % of 60, and chance


def _ids(n: int) -> list[str]:
    return [str(row) for row in range(n)]


@pytest.mark.parametrize(("worse", "outcome"), [(0.9, "pass"), (0.4, "finding")])
def test_a_group_that_is_worse_off(worse: float, outcome: str) -> None:
    generator = np.random.default_rng(0)
    site = ["a"] * 150 + ["b"] * 150
    share = np.array([0.9] * 150 + [worse] * 150)
    hit = (generator.random(300) < share).astype(float)
    nothing = np.full(300, np.nan)
    seen = Outcomes(tuple(_ids(300)), tuple(_ids(300)), np.zeros(300, dtype=np.int64), hit, share, nothing, nothing)
    columns, skipped = make_columns({"site": site, "same": ["x"] * 300})
    groups, _ = judge_groups(seen, columns, Bootstrap(_ids(300), 200), permutations=199)
    overall = float(hit.mean())
    assert judge_subgroups(groups, overall, skipped).outcome == outcome
    assert subgroup_numbers(groups, overall)["worst"] == pytest.approx(min(hit[:150].mean(), hit[150:].mean()))
    none = judge_subgroups([], overall, skipped)
    assert none.outcome == "unmeasured"
    assert "same: it says the same of every image" in none.reason


def test_empty_or_short_prediction_sets_are_a_finding() -> None:
    def sets(question: str, *, holds: bool | None, empty: float) -> PredictionSets:
        share = Estimate(value=0.9, interval=(0.85, 0.95))
        return PredictionSets(
            question=question,
            wanted=0.9,
            calibrated_on=100,
            threshold=0.5,
            coverage=share,
            between=None,
            holds=holds,
            size=share,
            single=share,
            empty=empty,
            answers=[],
        )

    assert judge_sets([]).outcome == "unmeasured"
    assert judge_sets([sets("cell size", holds=False, empty=0.2)]).outcome == "unmeasured"  # no set of the class
    assert judge_sets([sets("class", holds=True, empty=0.0)]).outcome == "pass"
    found = judge_sets([sets("class", holds=True, empty=0.114)])
    assert found.outcome == "finding"
    assert "11.4% of the sets are empty" in found.reason
    labels = judge_sets([sets("class: edema", holds=True, empty=0.0), sets("class: mass", holds=False, empty=0.0)])
    assert labels.outcome == "finding"
    assert "below nominal: mass." in labels.reason
