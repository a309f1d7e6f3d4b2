"""The badge of a run and the captions of its maps, from its files."""

from pathlib import Path

import pytest

from conceptlens.core.files import write_json
from conceptlens.runs.verdicts import NOT_BETTER, NOT_CHECKED, badge, map_captions


@pytest.mark.parametrize(
    ("outcomes", "worst"),
    [
        (["pass", "finding", "unmeasured"], "finding"),
        (["pass", "unmeasured"], "pass"),
        (["unmeasured", "unmeasured"], "unexamined"),
    ],
)
def test_the_badge_is_the_worst(tmp_path: Path, outcomes: list[str], worst: str) -> None:
    assert badge(tmp_path) == "unexamined"
    verdicts = {str(place): {"outcome": each, "reason": ""} for place, each in enumerate(outcomes)}
    write_json(tmp_path / "trust" / "trust.json", {"verdicts": verdicts})
    assert badge(tmp_path) == worst


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
