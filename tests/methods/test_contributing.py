"""The method that CONTRIBUTING.md walks through is real: it is read from there, conforms, and trains."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import torch

import conceptlens as cl
from conceptlens.core.files import parse_yaml, read_json
from conceptlens.core.registry import METHODS
from conceptlens.recipes import parse
from tests import ROOT
from tests.methods import test_conformance as conformance
from tests.training.tiny import tiny

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
NAME, MODULE = "peak-cbm", "conceptlens.methods.peak_cbm"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The example as if its files were in place."""
    code, line = blocks("python")
    preset, _ = blocks("yaml")
    file = tmp_path / "peak_cbm.py"
    file.write_text(code, "utf-8")
    spec = importlib.util.spec_from_file_location(MODULE, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, MODULE, module)
    spec.loader.exec_module(module)
    ((name, place),) = parse_yaml(f"{{{line.strip().rstrip(',')}}}", where="CONTRIBUTING.md").items()
    assert (name, place) == (NAME, f"{MODULE}:PeakCBM")
    monkeypatch.setitem(METHODS.entries, name, place)
    settings, known = parse_yaml(preset, where="CONTRIBUTING.md"), parse._preset
    monkeypatch.setattr(parse, "_preset", lambda method: deepcopy(settings) if method == NAME else known(method))
    yield
    parse.make_parser.cache_clear()


def test_it_is_short() -> None:
    assert len(blocks("python")[0].splitlines()) < 150


@pytest.mark.parametrize(
    "check",
    [
        conformance.test_shapes_and_declarations,
        conformance.test_dtype,
        conformance.test_no_image_and_one,
        conformance.test_tokens_and_images_agree,
        conformance.test_the_class_reads_exactly_the_bottleneck,
        conformance.test_gradients_reach_everything_that_learns,
    ],
)
def test_it_conforms(check) -> None:  # type: ignore[no-untyped-def]
    check(NAME)


def test_it_trains_by_its_recipe(tmp_path: Path) -> None:
    _, recipe = blocks("yaml")
    asked = parse_yaml(recipe, where="CONTRIBUTING.md")
    assert parse.load_recipe(asked).method["name"] == NAME
    run = cl.train(tiny(tmp_path / "run", method=asked["method"], training__epochs=1), quiet=True)
    assert read_json(run.path / "metrics.json")["splits"]["test"]["concept"]["auc"] is not None


def test_sharpness_goes_from_the_mean_to_the_best_patch() -> None:
    setup = conformance.build(NAME).model
    tokens = conformance.build(NAME).encoder(conformance.images())
    scores = setup.score(tokens.patches)
    for sharpness, expected in ((0.0, scores.mean(1)), (1e4, scores.amax(1))):
        setup.sharpness = sharpness
        torch.testing.assert_close(setup(tokens).concept_logits, expected, rtol=1e-3, atol=1e-3)
