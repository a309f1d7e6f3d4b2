"""Results that version 0.1 wrote are read with the keys that they have now."""

import json
from pathlib import Path
from typing import Any

from conceptlens.core.files import read_json


def upgraded(path: Path, tree: dict[str, Any]) -> dict[str, Any]:
    path.write_text(json.dumps({"schema": 1, **tree}), "utf-8")
    result: dict[str, Any] = read_json(path)
    return {key: value for key, value in result.items() if key != "schema"}


def test_metrics_and_leakage(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    assert upgraded(file, {"concept": {"axes_at_chance": {"count": 1}}}) == {
        "concept": {"groups_at_chance": {"count": 1}}
    }
    old = {"leaks": False, "false_alarms": 0.05, "twins": 99, "findings": [{"chance": {"twins": {}, "excess": {}}}]}
    assert upgraded(file, old) == {
        "leaks": False,
        "false_alarm_rate": 0.05,
        "permutations": 99,
        "findings": [{"chance": {"permuted": {}, "excess": {}}}],
    }


def test_localization(tmp_path: Path) -> None:
    old = {
        "blob": {"sigma": {"blob": 0.2}},
        "targets": {
            "part": {"maps": {"uniform": 1, "blob": 2, "blind": 3}, "against": {"own - blob": 4, "own - blind": 5}}
        },
    }
    assert upgraded(tmp_path / "file.json", old) == {
        "center_prior": {"sigma": {"blob": 0.2}},  # a part of that name keeps it
        "targets": {
            "part": {
                "maps": {"uniform": 1, "center_prior": 2, "mean_region": 3},
                "against": {"own - center_prior": 4, "own - mean_region": 5},
            }
        },
    }


def test_audit(tmp_path: Path) -> None:
    old = {
        "codebook": {"codes": 2, "prototypes": [{"code": 0, "colour": "#fff"}], "even_share": 0.5},
        "concepts": [
            {"concept": "a", "said": 0.1, "twin": "b", "twin_correlation": 0.9, "kinds": ["never said", "idle"]}
        ],
        "failures": {
            "concept_calibration": [],
            "silence": {"silences": [1]},
            "unlike": {"bounds": {}, "warned": 0.1, "images": [{"image": "i", "p": 0.1, "sign": "mean token"}]},
        },
    }
    concept = {"concept": "a", "predicted": 0.1, "closest": "b", "closest_correlation": 0.9}
    assert upgraded(tmp_path / "file.json", old) == {
        "codebook": {"size": 2, "codes": [{"code": 0, "color": "#fff"}], "even_share": 0.5},
        "concepts": [{**concept, "kinds": ["never predicted", "no influence"]}],
        "failures": {
            "concept_calibration": [],
            "selective": {"operating_points": [1]},
            "ood": {"bounds": {}, "flagged": 0.1, "images": [{"image": "i", "p": 0.1, "score": "mean token"}]},
        },
    }
