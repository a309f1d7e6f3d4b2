"""Small seeded runs of every method and workflow compute what version 0.1.0 computed, and its folders still open."""

import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import torch

import conceptlens as cl
from conceptlens import cortex
from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json
from conceptlens.core.upgrades import SCHEMA, upgrade, upgrade_parameters
from conceptlens.gig.document import Graph
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.results import find_result, results
from conceptlens.workflows.study.key import Key
from tests import ROOT

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of each kind as version 0.1.0 wrote them."""
    folder = tmp_path_factory.mktemp("version 0.1")
    with tarfile.open(HERE / "version-0.1.0.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_a_run_of_version_0_1_opens(first: Path) -> None:
    model = cl.load(first / "run")
    assert model.info["regularizer"] == "ivq"
    assert model.recipe.regularizer["name"] == "ivq"
    evaluation = model.evaluate()
    old = read_json(first / "run/metrics.json")["splits"]["test"]
    assert evaluation.metrics["class"]["accuracy"] == old["class"]["accuracy"]
    assert evaluation.metrics["concept"]["auc"] == old["concept"]["auc"]
    assert set(old["rank"]) == set(evaluation.metrics["rank"])
    assert all("centred" not in key for line in model.read_history() for key in line)


@pytest.mark.parametrize("name", ["interventions", "leakage", "faithfulness", "failures", "audit"])
def test_results_of_version_0_1_are_read(first: Path, name: str) -> None:
    result = find_result(name)
    document = result.load_class().read(first / "run" / result.file)
    assert document.to_dict()


def test_localization_of_version_0_1_is_found_under_its_old_name(first: Path) -> None:
    result = results()["localization"]
    assert not (first / "run" / result.file).exists()
    path = result.find(first / "run")
    assert path is not None
    assert result.load_class().read(path).to_dict()


def test_other_folders_of_version_0_1_open(first: Path) -> None:
    assert Graph.read(first / "decompose/graph.json").nodes
    study = cortex.load(first / "codebook", model=cortex.open(first / "run"))
    assert study.extractor.card.concepts
    assert Key.read(first / "study/key.json").trials
    assert read_json(first / "compare/results.json")


def test_a_run_of_version_0_1_is_migrated(first: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(first / "run", run)
    before = cl.load(first / "run")
    done = cl.migrate(run)
    assert {"recipe.yaml", "model/model.json", "localization.json"} <= set(done.files)
    for file in run.rglob("*.json"):
        raw = json.loads(file.read_text("utf-8"))
        assert not isinstance(raw, dict) or raw.get("schema", SCHEMA) == SCHEMA, file
        if (first / "run" / file.relative_to(run)).exists() and file.name != "model.json":
            assert raw == read_json(first / "run" / file.relative_to(run))
    assert not manifest.changes(run)
    after = cl.load(run)
    assert after.recipe == before.recipe
    for name, value in before.pipeline.state_dict().items():
        assert torch.equal(after.pipeline.state_dict()[name], value)
    assert cl.migrate(run).files == ()


def test_a_recipe_of_version_0_1_is_upgraded_and_an_old_key_without_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("schema: 1\ndata: shapes\nregulariser: l2\n")
    assert load_recipe(path).regularizer["name"] == "l2"
    path.write_text("data: shapes\nregulariser: l2\n")
    with pytest.raises(UserError, match="'regulariser' is called 'regularizer'"):
        load_recipe(path)


def test_what_a_newer_version_wrote_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "new.json", {"value": 1})
    assert read_json(tmp_path / "new.json")["schema"] == SCHEMA
    (tmp_path / "new.json").write_text('{"schema": 99}')
    with pytest.raises(UserError, match=r"schema 99; this version reads schemas up to \d+. Update conceptlens\."):
        read_json(tmp_path / "new.json")
    write_json(tmp_path / "environment.json", {"packages": {"conceptlens": "0.9.1"}})
    with pytest.raises(UserError, match=r"schema 99.*Update conceptlens to version 0\.9\.1 or later\."):
        read_json(tmp_path / "new.json")


def test_the_upgrade_by_hand() -> None:
    old = {"schema": 1, "regulariser": {"name": "ivq"}, "legend": [{"code": 1, "colour": "red"}], "colour": {"red": 1}}
    assert upgrade(old, where="it") == {
        "schema": SCHEMA,
        "regularizer": {"name": "ivq"},
        "legend": [{"code": 1, "color": "red"}],
        "colour": {"red": 1},  # a concept group of that name stays
    }
    names = {"regulariser.codebook": 1, "model.grounding.centre": 2, "model.regulariser": 3}
    assert upgrade_parameters(names) == {"regularizer.codebook": 1, "model.grounding.center": 2, "model.regulariser": 3}


@pytest.mark.slow
def test_numbers_are_those_of_version_0_1() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/golden.py", "check", HERE], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
