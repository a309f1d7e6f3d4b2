"""A run from start to finish: its files, its numbers, what it refuses."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.saved import load_pipeline
from conceptlens.training.records.checkpoint import Position, StateFolder
from tests.training.tiny import tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return cl.train(tiny(tmp_path_factory.mktemp("run") / "first"), quiet=True)


def test_a_run_leaves_the_files_it_promises(run: RunFolder) -> None:
    names = {entry.name for entry in run.path.iterdir() if not entry.name.startswith(".")}
    expected = (
        "run.json recipe.yaml concepts.yaml splits.json environment.json history.jsonl metrics.json model report.html"
    )
    assert names >= set(expected.split())
    assert run.info["status"] == "done"
    assert run.info["kind"] == "bottleneck"
    assert run.info["bypass"] is None
    assert not list(run.path.rglob(".*.tmp"))


def test_metrics_have_the_numbers_others_read(run: RunFolder) -> None:
    test = read_json(run.path / "metrics.json")["splits"]["test"]
    assert 0 <= test["class"]["balanced_accuracy"] <= 1
    assert 0 <= test["concept"]["balanced_accuracy"] <= 1
    assert test["rank"]["published"] > 0
    assert 0 < test["codebook"]["use"] <= 1
    assert 0 < test["slots"]["assignment_entropy"] < 1
    assert test["intervals"]["class.accuracy"][0] <= test["class"]["accuracy"] <= test["intervals"]["class.accuracy"][1]


def test_history_has_losses_ranks_and_validations(run: RunFolder) -> None:
    lines = run.read_history()
    epochs = [line for line in lines if line["split"] == "train" and "loss" in line]
    assert [line["epoch"] for line in epochs] == [1, 2, 3]
    assert epochs[0]["loss"] == pytest.approx(
        epochs[0]["loss_class"] + epochs[0]["loss_concept"] + epochs[0]["loss_ivq"]
    )
    assert epochs[-1]["loss"] < epochs[0]["loss"]
    assert any("rank_published" in line for line in lines)
    assert [line["epoch"] for line in lines if line["split"] == "val"] == [0, 1, 2, 3]  # 0: before training


def test_the_saved_model_is_the_one_validation_chose(run: RunFolder) -> None:
    lines = [line for line in run.read_history() if line["split"] == "val" and line["epoch"] > 0]
    best = max(line["class.balanced_accuracy"] for line in lines)
    measured = read_json(run.path / "metrics.json")["splits"]["val"]["class"]["balanced_accuracy"]
    assert measured == pytest.approx(best)


def test_a_loaded_model_says_what_the_run_measured(run: RunFolder) -> None:
    stored = read_json(run.path / "metrics.json")["splits"]["test"]
    again = cl.evaluate(run.path)
    assert again.metrics["class"]["confusion"] == stored["class"]["confusion"]
    assert again.metrics["concept"]["auc"] == pytest.approx(stored["concept"]["auc"])
    assert read_json(again.written_to)["splits"]["test"]["class"] == again.metrics["class"]


def test_damaged_weights_are_noticed(run: RunFolder, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    weights = copy / "model" / "weights.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(bytes(data))
    with pytest.raises(UserError, match="hash differs"):
        load_pipeline(copy)


def test_same_seed_same_bits_and_another_seed_not(run: RunFolder, tmp_path: Path) -> None:
    same = cl.train(tiny(tmp_path / "same"), quiet=True)
    other = cl.train(tiny(tmp_path / "other", seed=1), quiet=True)
    first, second, third = (load_file(each.path / "model" / "weights.safetensors") for each in (run, same, other))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], third[name]) for name in first)
    assert (run.path / "metrics.json").read_bytes() == (same.path / "metrics.json").read_bytes()
    assert read_json(run.path / "splits.json")["hash"] == read_json(other.path / "splits.json")["hash"]


@pytest.mark.slow
def test_two_threads_give_the_same_bits_twice(tmp_path: Path) -> None:
    """Rows that several patches chose are summed in one order, whichever thread is first."""
    first, second = (
        cl.train(tiny(tmp_path / name, training__threads=2, data__shapes__n=200), quiet=True) for name in "ab"
    )
    weights = "model/weights.safetensors"
    assert (first.path / weights).read_bytes() == (second.path / weights).read_bytes()


def test_accumulation_changes_nothing(run: RunFolder, tmp_path: Path) -> None:
    pieces = cl.train(tiny(tmp_path / "pieces", training__accumulate=4), quiet=True)
    a, b = ([line["loss"] for line in each.read_history() if "loss" in line] for each in (run, pieces))
    assert a == pytest.approx(b, abs=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "ivq-cbm-released", "training__epochs": 1},
        pytest.param({"method__aggregate": "cls"}, marks=pytest.mark.slow),
        pytest.param({"method__aggregate": "mean", "regularizer": "l2"}, marks=pytest.mark.slow),
        pytest.param({"regularizer": "explicit-vq"}, marks=pytest.mark.slow),
        {"encoder__train": "none", "regularizer": "none"},
        {"encoder__train": 1, "encoder__final_norm": True},
        {"training__ema": 0.9, "training__patience": 1, "training__epochs": 4},
        {
            "training__loss__concept": "group",
            "training__loss__class_balance": "balanced",
            "training__schedule": "cosine",
        },
        pytest.param({"training__precision": "bf16"}, marks=pytest.mark.slow),
        {
            "training__stages": [
                {"name": "concepts", "epochs": 1},
                {"name": "head", "epochs": 1, "train": ["model.head"]},
            ]
        },
        {"regularizer__reduction": "sum", "regularizer__weight": 1e-4, "regularizer__codebook_multiple": 5},
    ],
)
def test_every_variant_trains(changes: dict[str, object], tmp_path: Path) -> None:
    done = cl.train(tiny(tmp_path / "run", **{"training__epochs": 1, **changes}), quiet=True)
    assert done.info["status"] == "done"
    assert np.isfinite(read_json(done.path / "metrics.json")["splits"]["test"]["class"]["accuracy"])


def test_a_second_stage_trains_only_its_part(tmp_path: Path) -> None:
    stages = [{"name": "all", "epochs": 1}, {"name": "head", "epochs": 1, "train": ["model.head"]}]
    both = cl.train(tiny(tmp_path / "both", training__stages=stages, training__select="-class.accuracy"), quiet=True)
    assert [line["stage"] for line in both.read_history() if "stage" in line] == ["all", "head"]


def kept_epochs(told: Iterator[tuple[float, float]], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The epochs that a training keeps as the best so far, if validation tells these (concept AUC, accuracy)."""
    kept: list[int] = []
    keep = StateFolder.save_best

    def canned(*_: object) -> dict[str, dict[str, float]]:
        auc, accuracy = next(told)
        return {"concept": {"auc": auc}, "class": {"balanced_accuracy": accuracy, "accuracy": accuracy}}

    def noted(folder: StateFolder, position: Position, tensors: dict[str, Tensor]) -> str:
        kept.append(position.best_epoch)
        return keep(folder, position, tensors)

    monkeypatch.setattr("conceptlens.training.stage.quick_summary", canned)
    monkeypatch.setattr(StateFolder, "save_best", noted)
    return kept


def test_a_model_is_chosen_among_the_last_stages_epochs_and_ties_by_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Concepts are best before the head has learned anything, and then stay as they are: all its epochs tie."""
    told = [(0.5, 0.1), (0.9, 0.2), (0.8, 0.3), (0.8, 0.5), (0.8, 0.7), (0.8, 0.6)]  # the first: before training
    kept = kept_epochs(iter(told), monkeypatch)
    stages = [{"name": "all", "epochs": 2}, {"name": "head", "epochs": 3, "train": ["model.head"]}]
    cl.train(tiny(tmp_path / "run", training__stages=stages, training__select="concept.auc"), quiet=True)
    assert kept == [1, 3, 4]


def test_epochs_that_are_equal_in_the_class_are_chosen_by_concepts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blood cells' class is learned in an epoch; the concepts go on."""
    kept = kept_epochs(iter([(0.5, 0.1), (0.8, 0.9), (0.7, 0.9), (0.85, 0.9), (0.95, 0.8)]), monkeypatch)
    cl.train(tiny(tmp_path / "run", training__epochs=4, training__select="class.balanced_accuracy"), quiet=True)
    assert kept == [1, 3]


def test_patience_ends_a_stage_and_not_the_training(tmp_path: Path) -> None:
    stages = [{"name": "a", "epochs": 5, "learning_rate": 1e-7}, {"name": "b", "epochs": 1}]
    run = cl.train(tiny(tmp_path / "run", training__stages=stages, training__patience=1), quiet=True)
    named = [line["stage"] for line in run.read_history() if "stage" in line]
    assert named.count("a") < 5
    assert named.count("b") == 1


def test_token_regularizer_on_a_frozen_encoder_is_refused(tmp_path: Path) -> None:
    frozen = [{"name": "only", "train": ["model", "regularizer"]}]
    with pytest.raises(UserError, match="regularizer: none"):
        cl.train(tiny(tmp_path / "run", training__stages=frozen), quiet=True)
    with pytest.raises(UserError, match="regularizer: none"):
        cl.train(tiny(tmp_path / "run", encoder__train="none"), quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_run_in_the_way_is_not_lost(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--overwrite"):
        cl.train(tiny(run.path), quiet=True)
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        cl.train(tiny(tmp_path), quiet=True)
    assert (tmp_path / "precious.txt").exists()


def test_unknown_metric_and_part_names(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"class\.balanced_accuracy"):
        cl.train(tiny(tmp_path / "a", training__select="class.balanced_acuracy"), quiet=True)
    assert RunFolder.open(tmp_path / "a").info["status"] == "failed"
    with pytest.raises(UserError, match=r"model\.head"):
        cl.train(tiny(tmp_path / "b", training__stages=[{"train": ["model.haed"]}], regularizer="none"), quiet=True)


def test_a_loss_that_explodes_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="learning_rate"):
        cl.train(
            tiny(
                tmp_path / "run",
                training__learning_rate=9.0,
                training__clip=0,
                training__warmup=0,
                regularizer__reduction="sum",
                regularizer__weight=1e15,
                regularizer__beta=1e15,
            ),
            quiet=True,
        )
    info = RunFolder.open(tmp_path / "run").info
    assert info["status"] == "failed"
    assert "no longer a number" in info["reason"]


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    cost = cl.estimate(tiny(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    assert cost.images["train"] > 0
    assert cost.seconds_in_all > 0
    assert cost.memory_mb > 0
    assert "nothing was started" in cost.text()


def test_resuming_a_finished_run_changes_nothing(run: RunFolder) -> None:
    before = {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file()}
    cl.resume(run.path)
    assert before == {file: file.read_bytes() for file in run.path.rglob("*") if file.is_file()}


def test_torn_last_line_of_a_history_is_left_out(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "history.jsonl").write_text('{"epoch": 1}\n{"epo')
    assert RunFolder(tmp_path).read_history() == [{"epoch": 1}]
    assert json.loads((run.path / "history.jsonl").read_text().splitlines()[0])
