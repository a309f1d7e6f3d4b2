"""Average precision of a map's cells, by hand, by a plain loop, and as scikit-learn has it; the map of the middle."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from conceptlens.concepts import ConceptSet
from conceptlens.evaluation.localization import central_cell_map
from conceptlens.evaluation.localization.precision import average_precision
from conceptlens.evaluation.localization.verdict import judge_map, map_numbers
from conceptlens.nn.heads.probabilities import concept_labels_of


def test_by_hand() -> None:
    # Ranked: covered, not, half covered, not. (1 · 1/1 + 0.5 · 1.5/3) / 1.5
    found = average_precision(torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1.0, 0.0, 0.5, 0.0]))
    assert found.item() == pytest.approx((1 + 0.5 * 0.5) / 1.5)


def test_a_uniform_map_reaches_the_share() -> None:
    cover = torch.tensor([1.0, 0.0, 0.5, 0.0])
    assert average_precision(torch.ones(4), cover).item() == pytest.approx(cover.mean().item())


def test_as_scikit_learn_has_it_with_ties() -> None:
    generator = np.random.default_rng(0)
    maps, cover = generator.integers(0, 5, (3, 4, 20)) / 4, generator.integers(0, 2, (3, 4, 20))
    cover[..., 0] = 1
    found = average_precision(torch.from_numpy(maps), torch.from_numpy(cover)).numpy()
    for place in np.ndindex(3, 4):
        assert found[place] == pytest.approx(average_precision_score(cover[place], maps[place]), abs=1e-6)


def test_the_middle() -> None:
    assert central_cell_map((3, 3)).nonzero().flatten().tolist() == [4]
    assert central_cell_map((4, 3)).nonzero().flatten().tolist() == [4, 7]


def test_what_is_read(concepts: ConceptSet) -> None:
    said = concept_labels_of(np.array([[-3.0, -2.0, 1.0, 0.0, 0.1], [2.0, -2.0, 1.0, 3.0, -0.1]]), concepts)
    assert said.tolist() == [[0, 1, 1, 0, 1], [1, 0, 0, 1, 0]]


def told(ours: float, low: float) -> dict[str, Any]:
    """A part `predicted`, as `localize` makes it."""
    blind = {"average_precision": {"value": 0.3}, "pointing": {"value": 0.5}}
    return {
        "maps": {"own": {"average_precision": {"value": ours}, "pointing": {"value": 0.9}}, "center_prior": blind},
        "best_blind": {"average_precision": "center_prior", "pointing": "center_prior"},
        "against": {
            "own - center_prior": {"average_precision": {"interval": [low, 0.3]}, "pointing": {"interval": [0.3, 0.5]}}
        },
    }


def test_a_map_must_beat_the_blind_ones_beyond_the_interval() -> None:
    assert judge_map(told(0.5, 0.1), "own", "part").outcome == "pass"
    finding = judge_map(told(0.31, -0.01), "own", "part")
    assert finding.outcome == "finding"
    assert "By average precision it is not better than a map that never sees the image." in finding.reason
    seeing = told(0.31, -0.01)
    seeing["maps"]["darkness"] = seeing["maps"].pop("center_prior")
    seeing["best_blind"] = {"average_precision": "darkness", "pointing": "darkness"}
    seeing["against"] = {"own - darkness": seeing["against"]["own - center_prior"]}
    reason = judge_map(seeing, "own", "part", unmoving=3).reason
    assert "it is not better than a map that knows none of the concepts." in reason
    assert "The maps of 3 concepts hardly change" in reason
    assert map_numbers(told(0.5, 0.1), "own") == {
        "ap": 0.5, "best_blind_ap": 0.3, "pointing": 0.9, "best_blind_pointing": 0.5,
    }  # fmt: skip
