"""The badge of a run and the captions of its maps, from its files."""

from pathlib import Path

import pytest

from conceptlens.core.files import write_json
from conceptlens.evaluation.examination import NUMBERS
from conceptlens.runs.verdicts import (
    NOT_BETTER,
    NOT_CHECKED,
    SIDES,
    badge,
    failed_maps,
    map_captions,
    outcomes,
    unmoving_maps,
)


@pytest.mark.parametrize(
    ("found", "worst"),
    [
        (["pass", "finding", "unmeasured"], "finding"),
        (["pass", "unmeasured"], "pass"),
        (["unmeasured", "unmeasured"], "unexamined"),
    ],
)
def test_the_badge_is_the_worst(tmp_path: Path, found: list[str], worst: str) -> None:
    assert badge(outcomes(tmp_path)) == "unexamined"
    verdicts = {side: {"outcome": each, "reason": ""} for side, each in zip(SIDES, found, strict=False)}
    write_json(tmp_path / "trust" / "trust.json", {"verdicts": verdicts})
    assert badge(outcomes(tmp_path)) == worst
    rest = ["unmeasured"] * (len(SIDES) - len(found))
    assert list(outcomes(tmp_path).items()) == list(zip(SIDES, found + rest, strict=True))


def test_what_was_measured_alone_counts(tmp_path: Path) -> None:
    write_json(tmp_path / "trust" / "interventions.json", {"verdict": {"outcome": "finding", "reason": ""}})
    assert badge(outcomes(tmp_path)) == "finding"
    assert outcomes(tmp_path) == dict.fromkeys(SIDES, "unmeasured") | {"corrections": "finding"}
    write_json(tmp_path / "trust" / "trust.json", {"verdicts": {"leakage": {"outcome": "pass"}}})
    write_json(tmp_path / "trust" / "leakage.json", {"verdict": {"outcome": "unmeasured"}})
    sets = {"uncertainty": {"outcome": "finding"}, "calibration": {"outcome": "pass"}}
    write_json(tmp_path / "trust" / "failures.json", {"verdicts": sets})
    found = outcomes(tmp_path)
    assert [found[side] for side in ("corrections", "leakage", "calibration", "uncertainty", "maps")] == [
        "finding", "pass", "pass", "finding", "unmeasured",
    ]  # fmt: skip


def test_the_sides_are_those_that_trust_examines() -> None:
    assert set(SIDES) == set(NUMBERS)


def test_captions(tmp_path: Path) -> None:
    assert map_captions(tmp_path) == {"attention": NOT_CHECKED, "gradcam": NOT_CHECKED}
    verdicts = {"own": {"outcome": "pass"}, "gradcam": {"outcome": "finding"}}
    write_json(tmp_path / "localization.json", {"map_verdicts": verdicts})
    assert map_captions(tmp_path) == {"gradcam": NOT_BETTER}
    (tmp_path / "localization.json").write_text("damaged")
    assert map_captions(tmp_path) == {"attention": NOT_CHECKED, "gradcam": NOT_CHECKED}


def test_evidence_is_what_localize_calls_own(tmp_path: Path) -> None:
    write_json(tmp_path / "localization.json", {"map_verdicts": {"own": {"outcome": "finding"}}})
    captions = map_captions(tmp_path, evidence=True)
    assert captions == {"evidence": NOT_BETTER, "attention": NOT_CHECKED, "gradcam": NOT_CHECKED}


def test_maps_that_failed_and_maps_that_stand_still(tmp_path: Path) -> None:
    assert failed_maps(tmp_path) == {}
    assert unmoving_maps(tmp_path) == []
    verdicts = {"own": {"outcome": "finding", "reason": "It misses."}, "gradcam": {"outcome": "pass", "reason": "."}}
    still = {"own": ["nucleus: round"], "gradcam": ["cell: big"]}
    write_json(tmp_path / "localization.json", {"map_verdicts": verdicts, "unmoving": still})
    assert failed_maps(tmp_path) == {"attention": "It misses."}
    assert failed_maps(tmp_path, evidence=True) == {"evidence": "It misses."}
    assert unmoving_maps(tmp_path) == ["nucleus: round"]
