"""Part maps of one image and of a page, and the prior's ellipses, through `explain` and the report."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import conceptlens as cl
from conceptlens import api
from conceptlens.core.files import read_json
from conceptlens.explanations.pictures.part_panels import ellipse
from conceptlens.nn.grounding.gaussian_prior import GaussianPrior
from conceptlens.reports.prior import _ellipse
from tests.training.batches.test_places import recipe


def test_an_ellipse_is_one_deviation_away() -> None:
    covariance = np.array([[4.0, 1.0], [1.0, 2.0]])
    for point in ellipse([3.0, 5.0], covariance.tolist()):
        away = np.asarray(point) - (3.0, 5.0)
        assert away @ np.linalg.inv(covariance) @ away == pytest.approx(1.0)


def test_the_page_s_ellipse_is_that_of_the_gaussian() -> None:
    prior = GaussianPrior(1, shape="full")
    with torch.no_grad():
        prior.log_sigma.copy_(torch.tensor([[0.4, -0.3]]))
        prior.slant.copy_(torch.tensor([0.8]))
    _, covariance = prior.ellipses()
    found = _ellipse([0.0, 0.0], math.exp(0.4), math.exp(-0.3), 0.8)
    values, vectors = torch.linalg.eigh(covariance[0])
    assert [found.short, found.long] == pytest.approx(values.sqrt().tolist(), rel=1e-4)
    along = vectors[:, 1]  # (row, column)
    turned = math.radians(found.degrees)
    assert abs(float(along[1]) * math.cos(turned) + float(along[0]) * math.sin(turned)) == pytest.approx(1, abs=1e-4)


def test_explain_and_report_show_parts(tmp_path: Path) -> None:
    run = cl.train(recipe(tmp_path / "run"), quiet=True)
    found = api.explain(run.path, n=2)
    assert [page.name for page in found.pages] == ["parts.png", "prior.png"]
    assert "parts.png" in found.text()
    stem = found.items[0].path.stem
    maps = read_json(found.folder / f"{stem}-parts.json")["maps"]
    assert list(maps) == ["body", "head", "tail", "legs", "wing", "antennae", "foreground"]
    assert sum(map(sum, maps["head"]["values"])) == pytest.approx(1, abs=0.01)
    for page in (*found.pages, found.folder / f"{stem}-parts.png"):
        assert Image.open(page).width > 200
    prior = read_json(found.folder / "prior.json")
    assert prior["grid"] == [4, 4]
    assert all(0 <= value <= 4 for part in prior["parts"].values() for value in part["start"]["mean"])
    text = (run.path / "report.html").read_text("utf-8")
    assert "Before training" in text
    assert text.count("<ellipse") == 12
