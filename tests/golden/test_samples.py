"""Run folders of every kind as each schema's version wrote them still open, answer as they did, and are migrated.

`scripts/sample_runs.py` made them: schema 1 with version 0.1.0, schema 2 with what came between 0.1 and 0.2.
"""

import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest
import torch
from safetensors.numpy import load_file

import conceptlens as cl
from conceptlens import api, cortex
from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.core.upgrades import SCHEMA
from conceptlens.gig.document import Graph
from conceptlens.runs.results import find_result, results
from conceptlens.workflows.study.key import Key

HERE = Path(__file__).parent


@pytest.fixture(scope="module", params=range(1, SCHEMA + 1))
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of each kind as a version of this schema wrote them; there must be some of every schema."""
    folder = tmp_path_factory.mktemp(f"schema {request.param}")
    with tarfile.open(HERE / f"schema-{request.param}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_a_run_answers_as_it_did(sample: Path) -> None:
    model = cl.load(sample / "run")
    assert model.info["regularizer"] == "ivq"
    assert model.recipe.regularizer["name"] == "ivq"
    evaluation = model.evaluate()
    old = read_json(sample / "run/metrics.json")["splits"]["test"]
    assert evaluation.metrics["class"]["accuracy"] == old["class"]["accuracy"]
    assert evaluation.metrics["concept"]["auc"] == old["concept"]["auc"]
    assert set(old["rank"]) == set(evaluation.metrics["rank"])
    assert all("centred" not in key for line in model.read_history() for key in line)


def test_explanations_are_those_they_were(sample: Path, tmp_path: Path) -> None:
    again = api.explain(sample / "run", n=2, out=tmp_path)
    for item in again.items:
        assert item.path
        before, now = read_json(sample / "run/explain" / item.path.name), read_json(item.path)
        assert now["predicted"] == before["predicted"]
        for entries in ("classes", "concepts"):
            assert [each["name"] for each in now[entries]] == [each["name"] for each in before[entries]]
        for kept, found in zip(before["classes"], now["classes"], strict=True):
            assert found["logit"] == pytest.approx(kept["logit"], abs=1e-4)
        for kept, found in zip(before["concepts"], now["concepts"], strict=True):
            assert found["score"] == pytest.approx(kept["score"], abs=1e-4)


@pytest.mark.parametrize("name", ["interventions", "leakage", "faithfulness", "localization", "audit"])
def test_results_are_read(sample: Path, name: str) -> None:
    result = find_result(name)
    path = result.find(sample / "run")
    assert path is not None
    assert result.load_class().read(path).to_dict()


def test_localization_of_version_0_1_is_found_under_its_old_name(sample: Path) -> None:
    path = results()["localization"].find(sample / "run")
    assert path is not None
    assert path.name == ("localisation.json" if sample.name.startswith("schema 1") else "localization.json")


def test_other_folders_open(sample: Path) -> None:
    assert Graph.read(sample / "decompose/graph.json").nodes
    study = cortex.load(sample / "codebook", model=cortex.open(sample / "run"))
    assert study.extractor.card.concepts
    assert Key.read(sample / "study/key.json").trials
    assert read_json(sample / "compare/results.json")


def test_a_run_is_migrated(sample: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(sample / "run", run)
    before = cl.load(sample / "run")
    done = cl.migrate(run)
    if sample.name.startswith("schema 1"):
        assert {"recipe.yaml", "model/model.json", "localization.json"} <= set(done.files)
    assert bool(done.files) == (not sample.name.startswith(f"schema {SCHEMA}"))
    for file in run.rglob("*.json"):
        raw = json.loads(file.read_text("utf-8"))
        assert not isinstance(raw, dict) or raw.get("schema", SCHEMA) == SCHEMA, file
        if (sample / "run" / file.relative_to(run)).exists() and file.name != "model.json":
            assert raw == read_json(sample / "run" / file.relative_to(run))
    assert not manifest.changes(run)
    after = cl.load(run)
    assert after.recipe == before.recipe
    for name, value in before.pipeline.state_dict().items():
        assert torch.equal(after.pipeline.state_dict()[name], value)
    assert cl.migrate(run).files == ()
    kept, now = (load_file(folder / "predictions/test.safetensors") for folder in (sample / "run", run))
    assert {name: value.tobytes() for name, value in kept.items()} == {name: v.tobytes() for name, v in now.items()}


@pytest.mark.parametrize("name", ["run.json", "recipe.yaml", "model/model.json", "predictions/test.safetensors"])
def test_a_newer_run_is_refused_with_the_version_it_needs(own_run: Path, tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    shutil.copytree(own_run, run)
    data = (run / name).read_bytes()
    newer = re.sub(rb'(schema"?: ?"?)%d' % SCHEMA, rb"\g<1>9", data, count=1)
    assert newer != data
    (run / name).write_bytes(newer)
    environment = json.loads((run / "environment.json").read_text("utf-8"))
    environment["packages"]["conceptlens"] = "0.9.1"
    (run / "environment.json").write_text(json.dumps(environment), "utf-8")
    (run / manifest.NAME).unlink()
    with pytest.raises(UserError, match=r"schema 9.*Update conceptlens to version 0\.9\.1 or later\."):
        cl.load(run).evaluate() if name != "predictions/test.safetensors" else cl.load(run).interventions()
