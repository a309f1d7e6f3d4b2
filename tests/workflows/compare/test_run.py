"""A comparison from its file to its table, with real trainings of a second each."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.metrics import roc_auc_score

from conceptlens.cli import main
from conceptlens.core.files import read_json
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import open_source
from conceptlens.encoders import make_encoder, make_text_encoder
from conceptlens.runs.predictions import load_predictions
from conceptlens.workflows.compare.compare import commands, compare
from conceptlens.workflows.compare.jobs import Assignment
from conceptlens.workflows.compare.lock import hold
from tests.workflows.compare.fakes import comparison_file, jobs_of

TRIALS = {"grid": {"training.clip": [0.5, 1.0]}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One row tuned by two trials, one training; the encoder has a text space."""
    folder = tmp_path_factory.mktemp("real")
    file = comparison_file(folder, recipes={"one": {"random_text": False}}, seeds=[3], trials=TRIALS)
    text = file.read_text("utf-8").replace("heads: 2", "heads: 2\n      text_width: 384")
    file.write_text(text, "utf-8")
    compare(file, out=folder / "out", quiet=True)
    return folder


def test_trials_then_the_training_that_counts(folder: Path) -> None:
    jobs, places = jobs_of(folder / "comparison.yaml", folder / "out")
    assert [job.trial for job in jobs] == [0, 1, None]
    assert [places.state(job) for job in jobs] == ["done"] * 3
    for job in jobs:
        splits = read_json(places.run(job) / "metrics.json")["splits"]
        tested = job.trial is None
        assert ("test" in splits) is tested
        assert (places.run(job) / "predictions" / "test.safetensors").exists() is tested
    found = read_json(folder / "out" / "results.json")
    row = found["data"][0]["blocks"][0]["rows"][0]
    assert row["chosen"][0]["training.clip"] in (0.5, 1.0)
    measured = read_json(places.run(jobs[2]) / "metrics.json")["splits"]["test"]
    for name in ("class.accuracy", "class.macro_auc", "concept.auc", "concept.auc_within_class"):
        section, key = name.split(".")
        assert row["measures"][name]["mean"] == pytest.approx(measured[section][key])
    assert row["numbers"]["effective_concepts"]["mean"] == row["concepts"]


def test_the_encoders_zero_shot_auc_stands_above_the_table(folder: Path) -> None:
    (before,) = read_json(folder / "out" / "results.json")["data"][0]["zero_shot"]
    assert before["text"] == "builtin/text"
    assert 0.2 < before["auc"] < 0.8  # an untrained encoder knows nothing
    assert "zero-shot concept AUC" in (folder / "out" / "table.md").read_text("utf-8")


def test_the_zero_shot_auc_is_the_rows_measure(folder: Path) -> None:
    """Values of an axis compete: shares of a softmax over CLIP's 100 cosines, one value against the rest."""
    jobs, places = jobs_of(folder / "comparison.yaml", folder / "out")
    recipe, stored = jobs[2].recipe, load_predictions(places.run(jobs[2]))
    source, concepts = open_source(recipe.data, None)
    torch.manual_seed(0)
    encoder = make_encoder(recipe.encoder).eval()
    texts = make_text_encoder("builtin/text").embed(concepts.texts)
    rows = np.array([source.examples.ids.index(name) for name in stored.ids])
    with torch.inference_mode(), PixelReader(source, recipe.encoder.image_size or 0) as reader:
        cosines = (encoder.embed(encoder(reader.batch(rows))) @ texts.T).double().numpy()
    by_group = []
    for group in concepts.groups:
        span = slice(group.concepts.start, group.concepts.stop)
        alone = group.kind == "independent"
        shares = cosines[:, span] if alone else softmax(100 * cosines[:, span], axis=1)
        marks = source.examples.concepts[rows][:, span] == 1
        known = np.ones(len(rows), bool) if alone else marks.any(1)  # the color of wings that are not there is unknown
        marks, shares = marks[known], shares[known]
        judged = [c for c in range(marks.shape[1]) if 0 < marks[:, c].sum() < len(marks)]
        by_group.append(np.mean([roc_auc_score(marks[:, c], shares[:, c]) for c in judged]))
    (before,) = read_json(folder / "out" / "results.json")["data"][0]["zero_shot"]
    assert before["auc"] == pytest.approx(np.mean(by_group), abs=2e-3)  # shares near one tie


def test_what_is_done_is_skipped_and_what_is_gone_is_done_again(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    jobs, places = jobs_of(folder / "comparison.yaml", out)
    before = {file: file.stat().st_mtime_ns for file in (out / "runs").rglob("*")}
    compare(folder / "comparison.yaml", out=out, quiet=True)
    assert {file: file.stat().st_mtime_ns for file in (out / "runs").rglob("*")} == before
    shutil.rmtree(places.run(jobs[2]))
    assert places.state(jobs[2]) == "to do"
    (line,) = commands(folder / "comparison.yaml", out=out)
    assert line.endswith(f"--out {out} --job {jobs[2].id}")
    with hold(places.lock(jobs[2])):
        assert main(line.split()[1:]) == 75
    assert main(line.split()[1:]) == 0
    assert places.state(jobs[2]) == "done"
    kept = before.keys() - {file for file in before if jobs[2].id in file.parts}
    assert all(file.stat().st_mtime_ns == before[file] for file in kept if file.is_file())


def test_a_failed_job_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipes = {"bad": {"set": {"training.select": "class.kappa"}, "random_text": False}, "fine": {"random_text": False}}
    file = comparison_file(tmp_path, recipes=recipes, seeds=[0])
    out = tmp_path / "out"
    assert main(["compare", str(file), "--out", str(out), "--shard", "1/2"]) == 2
    said = capsys.readouterr()
    assert "error: shapes-bad-s0-" in said.err
    assert "training.select" in said.err
    assert "Traceback" not in said.err
    assert main(["compare", str(file), "--out", str(out), "--shard", "2/2"]) == 2
    said = capsys.readouterr()
    assert "| fine | 1 |" in said.out
    assert "Unfinished: 1 of 2" in said.out
    assert read_json(out / "run.json")["status"] == "failed"
    assert main(["compare", str(file), "--out", str(out), "--plan"]) == 0
    assert "failed" in capsys.readouterr().out


@pytest.mark.slow
def test_several_at_once_as_processes(tmp_path: Path) -> None:
    file = comparison_file(tmp_path)
    result = compare(file, out=tmp_path / "out", at_once=2, quiet=True)
    assert not result.failed
    assert result.results["jobs"] == {"done": 4, "of": 4}
    assert len(list((tmp_path / "out" / "jobs").glob("worker-*.log"))) == 2


def test_a_job_crosses_to_another_process_whole(tmp_path: Path) -> None:
    """A trial with settings, paths and a seed: nothing of its recipe is lost on the way."""
    file = comparison_file(tmp_path, seeds=[4], recipes={"one": {"random_text": False}}, trials=TRIALS)
    jobs, _ = jobs_of(file, tmp_path / "out")
    for job in jobs:
        line = job.to_line()
        assert "\n" not in line
        assert Assignment.from_line(line) == Assignment(job.id, job.text, job.recipe, job.trial)


def test_wrong_words(refuse: object, tmp_path: Path) -> None:
    file = comparison_file(tmp_path)
    call = refuse
    assert callable(call)
    call("compare", file, "--out", tmp_path / "out", "--jobs", "0", says="--jobs 0")
    call("compare", file, "--out", tmp_path / "out", "--shard", "3/2", says="2/8")
    call("compare", file, "--out", tmp_path / "out", "--job", "x", says="No job is called 'x'")
    call("compare", tmp_path / "none.yaml", says="no such file")
    call("compare", file, "--engine", "cloud", says="local, ray, slurm")
    call("compare", file, "--out", tmp_path / "out", "--engine-option", "x", says="timeout_min=240")
    call("compare", file, "--seeds", "3", says="--seeds is not an option")
