"""Evidence in explanations: it adds up to the logit, is drawn with its sign, and what has no place has no map."""

from pathlib import Path

import numpy as np
import pytest
import torch

from conceptlens import api, load
from conceptlens.explanations.document import Explanation
from conceptlens.runs.opened import OpenedRun

PLACELESS = "body pattern: plain"


@pytest.fixture(scope="module")
def told(evidence_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Explanation:
    """What the file says of all concepts of one image."""
    done = api.explain(evidence_run, n=1, concepts=["all"], sheet=True, out=tmp_path_factory.mktemp("told"))
    assert "sheet-body-shape-round-evidence.png" in {path.name for path in done.sheets}
    return done.items[0].load()


def test_the_map_and_what_has_no_place_are_the_logit(told: Explanation, evidence_run: Path) -> None:
    run = OpenedRun.open(evidence_run)
    index = list(run.source.examples.ids).index(told.image)
    pixels = torch.from_numpy(np.asarray(run.source.read(index)).transpose(2, 0, 1)[None].copy())
    with torch.no_grad():
        said = run.pipeline(pixels)
    assert said.evidence is not None
    assert said.unplaced is not None
    for k, maps in enumerate(told.maps):
        if maps.concept == PLACELESS:
            continue
        assert maps.evidence is not None
        np.testing.assert_allclose(np.ravel(maps.evidence.values), said.evidence[0, k].numpy(), atol=1e-6)
        assert maps.evidence.unplaced == pytest.approx(float(said.unplaced[0, k]), abs=1e-6)
        assert maps.evidence.logit == pytest.approx(told.concepts[k].score)
        assert np.sum(maps.evidence.values) + maps.evidence.unplaced == pytest.approx(maps.evidence.logit, abs=1e-5)
        total, rest = abs(np.sum(maps.evidence.values)), abs(maps.evidence.unplaced)
        assert maps.evidence.unplaced_share == pytest.approx(rest / (total + rest), abs=1e-6)


def test_evidence_is_the_map_of_a_method_that_has_it(told: Explanation, evidence_run: Path) -> None:
    assert all(maps.attention is None for maps in told.maps)
    assert told.map_captions == dict.fromkeys(("evidence", "attention", "gradcam"), "map not checked")
    [asked] = load(evidence_run).explain(n=1, concepts=["head shape"], maps=["attention"])
    assert asked.maps[0].attention is not None
    assert asked.maps[0].evidence is None


def test_a_method_without_it_says_so(slots_run: Path) -> None:
    [other] = load(slots_run).explain(n=1, concepts=["head shape"], maps=["evidence"])
    assert other.maps[0].evidence is None
    assert "not sums over patches" in other.without["evidence"]


def test_absence_has_no_map(told: Explanation) -> None:
    [absent] = [maps for maps in told.maps if maps.placeless]
    assert absent.concept == PLACELESS
    assert told.concept(PLACELESS).placeless
    assert absent.evidence is absent.attention is absent.gradcam is None


def test_a_notebook_shows_it(evidence_run: Path) -> None:
    [shown] = load(evidence_run).explain(n=1, concepts=["body pattern"], maps=["evidence"])
    few = load(evidence_run).explain(n=1, concepts=["body pattern"], maps=["index"])[0].panel()
    page = shown.panel()
    assert page.height > few.height  # with words below each map, and the colors' legend
    assert 'src="data:image/png;base64,' in shown._repr_html_()
    assert shown.plot().axes[0].images
    assert shown.maps[1].evidence is not None
    words = shown.maps[1].evidence.words
    assert words.startswith("sum of the map ")
    assert "(not placed, " in words
