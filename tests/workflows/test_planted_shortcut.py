"""A square that goes with a concept: where it is drawn, what is judged, and a training that takes the shortcut."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conceptlens.core.errors import UserError
from conceptlens.data.images.marked import COLOR, Marked
from conceptlens.data.sources.shapes import Shapes
from conceptlens.evaluation.faithfulness.shortcut import judge_shortcut
from conceptlens.recipes.schema import ShapesConfig
from conceptlens.workflows.planted_shortcut import planted_shortcut
from tests.training.tiny import tiny


def test_the_square_goes_with_the_concept_and_is_a_region() -> None:
    source = Shapes(ShapesConfig(n=40, size=40))
    name = source.concepts.names[0]
    marked = Marked(source, source.concepts, name, side=0.2)
    places = set()
    for index in range(40):
        holds = bool(source.examples.concepts[index, 0] == 1)
        pixels, found = np.asarray(marked.read(index)), marked.annotation(index)
        assert found is not None
        assert ("marker" in found.boxes) == holds
        assert (pixels == COLOR).all(-1).sum() == (64 if holds else 0)  # a square of 8 × 8 pixels
        assert (np.asarray(marked.marked(index)) == COLOR).all(-1).sum() == 64
        if holds:
            left, top, right, bottom = map(int, found.boxes["marker"])
            assert (pixels[top:bottom, left:right] == COLOR).all()
            places.add((left, top))
    assert len(places) > 5
    assert marked.region_names[-1] == "marker"
    with pytest.raises(UserError, match="Unknown concept 'hat'"):
        Marked(source, source.concepts, "hat")
    with pytest.raises(UserError, match="above 0 and below 1"):
        Marked(source, source.concepts, name, side=1.5)


def told(effect: list[float] | None, energy: list[float]) -> dict[str, Any]:
    better = {"energy": {"interval": energy}, "pointing": {"interval": [0.1, 0.2]}}
    return {
        "effect": {"value": 0.4, "interval": effect},
        "maps": {"own": {"energy": {"value": 0.3}}},
        "against": {"own - uniform": better, "own - center_prior": better},
    }


def test_the_verdict() -> None:
    assert judge_shortcut(told([0.2, 0.6], [0.1, 0.3]), "own").outcome == "pass"
    assert "hides what was used" in judge_shortcut(told([0.2, 0.6], [-0.1, 0.3]), "own").reason
    assert "did not take the shortcut" in judge_shortcut(told([-0.1, 0.6], [0.1, 0.3]), "own").reason
    assert judge_shortcut(told(None, [0.1, 0.3]), "own").outcome == "unmeasured"


@pytest.mark.slow
def test_a_training_takes_the_shortcut(tmp_path: Path) -> None:
    recipe = tiny(
        tmp_path / "run",
        training__epochs=30,
        training__learning_rate=3e-3,
        data__shapes__n=320,
        data__shapes__noise=0.0,
        method={"name": "explicd"},
        regularizer={"name": "none"},
    )
    found = planted_shortcut(recipe, "body colour: red", out=tmp_path / "run", side=0.25, n=40)
    assert found.images == 40
    assert found.effect["interval"][0] > 0  # it was taken
    assert found.maps["gradcam"]["pointing"]["value"] > 2 * found.maps["uniform"]["pointing"]["value"]
    assert found.verdict.outcome in ("pass", "finding")
    assert set(found.maps) == {"own", "gradcam", "uniform", "center_prior"}
    assert found.maps["uniform"]["energy"]["value"] == pytest.approx(0.25**2, abs=0.01)
    assert "planted" in found.text()
    found.save(tmp_path / "shortcut.json")
    assert type(found).read(tmp_path / "shortcut.json") == found
