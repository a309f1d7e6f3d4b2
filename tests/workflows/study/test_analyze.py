"""Response files and their analysis: raters of known skill are recognized, and who did not look is left out."""

from pathlib import Path

import numpy as np
import pytest

from conceptlens import api
from conceptlens.cli import main
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json
from conceptlens.workflows.study.analyze import Analysis, analyze
from conceptlens.workflows.study.proportions import share_of
from conceptlens.workflows.study.raters import attention, judge_rater
from conceptlens.workflows.study.responses import read_responses
from conceptlens.workflows.study.simulate import Simulated, simulate
from conceptlens.workflows.study.table import table_six
from tests.conftest import Refuse
from tests.workflows.study.world import answers, make_key


def test_by_hand() -> None:
    key = make_key(images=2, catch=1, attention=1)
    right = {trial.id: str(trial.answer) for trial in key.trials if trial.kind == "choice"}
    wrong = next(option for option in key.trials[0].options if option != key.trials[0].answer)
    one = answers("a", {**right, "l0": "5", "l1": "4", "l2": "1", "a0": "1"})
    two = answers("b", {**right, "c0": wrong, "l0": "4", "l1": "4", "l2": "2", "a0": "1"})
    found = analyze(key, [one, two])
    assert found.result.likert.true.value == 17 / 4
    assert found.result.likert.shuffled.value == 1.5
    assert (found.result.choice.right, found.result.choice.n) == (3, 4)
    assert (found.result.choice_shuffled.right, found.result.choice_shuffled.n) == (2, 2)
    assert found.result.chance == pytest.approx(0.2)
    first, second = found.raters
    assert first.skill == 1
    assert second.skill == pytest.approx((0.5 - 0.2) / 0.8)
    assert (first.true, first.shuffled, first.above) == (4.5, 1.0, 1.0)
    assert first.checks == "1 of 1"
    # Quadratic kappa of (5, 4, 1) and (4, 4, 2): observed (1 + 0 + 1) / 3, expected over all nine pairs.
    expected = np.mean([(a - b) ** 2 for a in (5, 4, 1) for b in (4, 4, 2)])
    assert found.result.likert_agreement.kappa == pytest.approx(1 - (2 / 3) / expected)


SKILLED = Simulated("skilled", knows=0.85, true=4.4, shuffled=1.8, noise=0.6)
FAIR = Simulated("fair", knows=0.5, true=3.8, shuffled=2.4, noise=0.9)
BLIND = Simulated("blind", knows=0.0, true=3.0, shuffled=3.0, noise=1.0)


def test_known_skill_is_recovered() -> None:
    key = make_key(images=400, catch=150)
    found = {each.rater: each for each in analyze(key, [simulate(key, r) for r in (SKILLED, FAIR, BLIND)]).raters}
    for rater in (SKILLED, FAIR, BLIND):
        told = found[rater.name]
        assert told.skill == pytest.approx(rater.knows, abs=0.07)
        assert told.true == pytest.approx(rater.mean(False), abs=0.12)
        assert told.shuffled == pytest.approx(rater.mean(True), abs=0.2)
        shares = rater.ratings(False), rater.ratings(True)
        above = sum(shares[0][i] * (shares[1][:i].sum() + shares[1][i] / 2) for i in range(5))
        assert told.above == pytest.approx(above, abs=0.05)
        assert told.choice.low is not None
        assert told.choice.high is not None
        assert told.choice_shuffled.value == pytest.approx(0.2, abs=0.09)
        assert told.passed


def test_intervals_of_accuracy_cover_the_truth() -> None:
    key = make_key(images=60, catch=0)
    asked = [trial for trial in key.trials if trial.kind == "choice"]
    inside = 0
    for seed in range(60):
        pair = [simulate(key, Simulated(name, knows=0.7), seed=seed) for name in ("a", "b")]
        right = [one.answers[trial.id].answer == trial.answer for one in pair for trial in asked]
        share = share_of(right, [trial.image for trial in asked] * 2)
        assert share.low is not None
        assert share.high is not None
        inside += share.low <= Simulated("x", knows=0.7).accuracy(5) <= share.high
    assert inside >= 52


def test_raters_without_skill_show_nothing() -> None:
    key = make_key(images=80, catch=30)
    ps = [analyze(key, [simulate(key, BLIND, seed=seed)]).result.likert.p or 0 for seed in range(12)]
    assert sum(p < 0.05 for p in ps) <= 3
    found = analyze(key, [simulate(key, SKILLED)]).result.likert
    assert found.p is not None
    assert found.p < 0.001


def test_shared_images_make_raters_agree() -> None:
    key = make_key(images=120, catch=0)
    pair = [Simulated(name, true=3.0, noise=0.5) for name in ("a", "b")]
    alike = analyze(key, [simulate(key, r, image_noise=1.0) for r in pair]).result.likert_agreement
    apart = analyze(key, [simulate(key, r) for r in pair]).result.likert_agreement
    assert alike.kappa is not None
    assert apart.kappa is not None
    assert alike.kappa > 0.6
    assert abs(apart.kappa) < 0.25
    assert alike.low is not None
    assert alike.high is not None
    assert alike.low < alike.kappa < alike.high


def test_who_did_not_look_is_left_out_and_said_so() -> None:
    key = make_key()
    asleep = simulate(key, Simulated("asleep", lapses=1.0))
    hasty = simulate(key, Simulated("hasty", ms=100))
    same = answers("same", {trial.id: "3" for trial in key.trials if trial.kind == "likert"})
    found = analyze(key, [simulate(key, SKILLED), asleep, hasty, same])
    assert found.result.raters == ["skilled"]
    assert found.everyone.raters == ["skilled", "asleep", "hasty", "same"]
    why = {each.rater: " ".join(each.why_not) for each in found.raters}
    assert "checks of attention right" in why["asleep"]
    assert "in less than" in why["hasty"]
    assert "the same rating" in why["same"]
    assert "left out: asleep" in found.text()


def test_a_rater_whom_no_map_convinces_is_not_left_out() -> None:
    """Leaving out raters for what they think of the maps would make any map look good."""
    key = make_key(images=100, catch=40)
    assert judge_rater(simulate(key, BLIND), key).passed
    assert attention([True] * 4, [3, 2, 4] * 10, 0.0) == []


def test_a_part_of_the_answers_counts() -> None:
    key = make_key()
    found = analyze(key, [answers("a", {"l0": "5", "l45": "1"})])
    assert found.raters[0].answered == 2
    assert found.result.likert.true.n == 1
    assert found.result.choice.value is None


def test_the_files_and_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = make_key()
    key.write(tmp_path / "pack" / "key.json")
    for rater in (SKILLED, FAIR):
        simulate(key, rater).write(tmp_path / "in" / f"{rater.name}.json")
    assert main(["study", "analyze", str(tmp_path / "pack"), str(tmp_path / "in")]) == 0
    said = capsys.readouterr().out
    found = Analysis.read(tmp_path / "pack" / "analysis.json")
    table = (tmp_path / "pack" / "table.md").read_text()
    assert table in said
    assert f"{found.result.likert.true.value:.2f}" in table
    assert f"({found.result.choice.right}/{found.result.choice.n})" in table
    page = (tmp_path / "pack" / "analysis.html").read_text()
    assert "<script" not in page
    assert "skilled and fair" in page or "fair and skilled" in page
    again = api.analyze_study(
        tmp_path / "pack", [tmp_path / "in"], out=tmp_path / "out", beside=[tmp_path / "pack" / "analysis.json"]
    )
    assert len(again.markdown.splitlines()) == 5
    assert again.markdown.splitlines()[-1].startswith("| average")
    assert table_six([found]).count("\n") == 3


def test_bad_files(refuse: Refuse, tmp_path: Path) -> None:
    key = make_key()
    key.write(tmp_path / "pack" / "key.json")
    good = simulate(key, SKILLED)
    path = tmp_path / "r.json"

    def broken(**changes: object) -> Path:
        write_json(path, {**good.model_dump(mode="json"), **changes})
        return path

    pack = tmp_path / "pack"
    refuse("study", "analyze", pack, tmp_path / "none.json", says="no such file")
    refuse("study", "analyze", pack, broken(study="feed"), says="another pack")
    refuse("study", "analyze", pack, broken(answers={"zz": {"answer": "1", "ms": 1}}), says="the key does not have")
    refuse("study", "analyze", pack, broken(answers={"l0": {"answer": "9", "ms": 1}}), says="not among its answers")
    refuse("study", "analyze", pack, broken(answers={"l0": {"answer": "1", "ms": -4}}), says="answers.l0.ms")
    refuse("study", "analyze", pack, broken(rater="../../etc"), says="rater")
    refuse("study", "analyze", pack, broken(answers={}), says="no answer in it")
    refuse("study", "analyze", pack, broken(extra=1), says="extra")
    path.write_text("{")
    refuse("study", "analyze", pack, path, says="expected JSON")
    good.write(tmp_path / "one.json")
    good.write(tmp_path / "two.json")
    refuse("study", "analyze", pack, tmp_path / "one.json", tmp_path / "two.json", says="Keep the later file")
    with pytest.raises(UserError, match="No response file"):
        api.analyze_study(pack, [])
    assert read_json(pack / "key.json")["study"] == key.study
    assert len(read_responses([tmp_path / "one.json"], key)) == 1
