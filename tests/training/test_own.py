"""What a user adds to a training in Python: callbacks, trackers, an own transform, own losses and measures."""

import random
import sys
import types
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import conceptlens as cl
from conceptlens.core.files import read_json
from conceptlens.core.registry import LOSSES, METRICS
from conceptlens.training.batches.own_transform import OwnTransform
from tests.training.tiny import tiny


class Told(cl.Callback):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def on_train_begin(self, run: Path, recipe: Mapping[str, Any]) -> None:
        self.events.append(("begin", recipe["training"]["epochs"]))

    def on_log(self, line: Mapping[str, Any]) -> None:
        self.events.append(("log", line))

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        self.events.append(("epoch", (epoch, metrics)))

    def on_train_end(self, run: Path, metrics: Mapping[str, Any]) -> None:
        self.events.append(("end", metrics))

    def on_failure(self, run: Path, error: BaseException) -> None:
        self.events.append(("failure", error))


class Tracker(types.ModuleType):
    """A stand-in for a tracker's package, which writes down each call."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)  # others look whether it is installed
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*words: Any, **options: Any) -> "Tracker":
            self.calls.append((name, words, options))
            return self

        return call

    @property
    def summary(self) -> dict[str, Any]:
        return self.__dict__.setdefault("_summary", {})


def darker(image: Tensor) -> Tensor:
    """Draws from all three generators."""
    return (image.float() / 255 * (torch.rand(()) + random.random() + np.random.random()) / 3).clamp(0, 1)  # noqa: NPY002


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One epoch with everything that is a user's own."""
    trackers = {name: Tracker(name) for name in ("wandb", "mlflow")}
    told, seen = Told(), []

    def transform(image: Tensor) -> Tensor:
        seen.append(image.shape)
        return darker(image)

    cl.register_loss("small", lambda output, targets: output.concept_logits.square().mean(1))
    cl.register_metric("sure", lambda probabilities, labels: probabilities.max(1).mean())
    changes = {"training__epochs": 1, "training__select": "own.sure", "training__loss": {"own": {"small": 0.5}}}
    recipe = tiny(tmp_path_factory.mktemp("own") / "run", **changes, metrics__own=["sure"])
    with pytest.MonkeyPatch.context() as patch:
        for name, module in trackers.items():
            patch.setitem(sys.modules, name, module)
        callbacks = [told, cl.WeightsAndBiases("cells", mode="offline"), cl.MLflow("cells")]
        model = cl.train(recipe, callbacks=callbacks, transform=transform, quiet=True)
    LOSSES.entries.pop("small")
    yield model, told.events, trackers, seen
    METRICS.entries.pop("sure")


def test_callbacks_are_told_in_order(trained: Any) -> None:
    model, events, _, _ = trained
    assert [name for name, _ in events if name != "log"] == ["begin", "epoch", "end"]
    assert [line for name, line in events if name == "log"] == model.read_history()
    epoch, metrics = next(value for name, value in events if name == "epoch")
    assert epoch == 1
    last = [line for line in model.read_history() if line["split"] == "val"][-1]
    assert metrics["class.accuracy"] == last["class.accuracy"]
    assert events[-1][1] == model.to_dict()["metrics"]


def test_trackers_get_recipe_curves_and_result(trained: Any) -> None:
    model, _, trackers, _ = trained
    (first, *middle, last) = trackers["wandb"].calls
    assert first[0] == "init"
    assert first[2]["project"] == "cells"
    assert first[2]["mode"] == "offline"
    assert first[2]["config"]["method"]["name"] == "ivq-cbm"
    lines = model.read_history()
    assert [call[2]["step"] for call in middle] == [line["step"] for line in lines]
    curves = set().union(*(call[1][0] for call in middle))
    assert {"train/loss", "train/loss_small", "val/class.accuracy", "val/own.sure"} <= curves
    assert last[0] == "finish"
    assert "test.class.accuracy" in trackers["wandb"].summary
    names = [call[0] for call in trackers["mlflow"].calls]
    assert names[:3] == ["set_experiment", "start_run", "log_params"]
    assert names[-1] == "end_run"
    assert trackers["mlflow"].calls[2][1][0]["training.epochs"] == "1"
    assert names.count("log_metrics") == len(lines) + 1


def test_names_that_mlflow_refuses_are_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = Tracker("mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", tracker)
    cl.MLflow().on_train_end(Path("run"), {"test": {"recall": {"grade 2 (mild), left": 0.5}}})
    assert tracker.calls[0][1] == ({"test.recall.grade 2 _mild__ left": 0.5},)


def test_own_loss_measure_and_transform_are_used(trained: Any) -> None:
    model, _, _, seen = trained
    history = model.read_history()
    train = next(line for line in history if line["split"] == "train" and "loss" in line)
    parts = [value for name, value in train.items() if name.startswith("loss_")]
    assert train["loss"] == pytest.approx(sum(parts))
    assert train["loss_small"] > 0
    shares = model.predictions("test").logits
    shares = (
        np.exp(shares - shares.max(1, keepdims=True)) / np.exp(shares - shares.max(1, keepdims=True)).sum(1)[:, None]
    )
    assert model.to_dict()["metrics"]["test"]["own"]["sure"] == pytest.approx(float(shares.max(1).mean()), abs=2e-3)
    assert set(seen) == {(3, 32, 32)}
    assert "transform" in model.info["transform"]


def test_an_image_changes_alike_in_any_batch_and_otherwise_in_another_epoch() -> None:
    images = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    transform = OwnTransform(darker, seed=3)
    state, plain = torch.get_rng_state(), random.getstate()
    whole = transform(images, [5, 6, 7, 8], 2)
    assert torch.equal(state, torch.get_rng_state())
    assert plain == random.getstate()
    parts = [transform(images[[row]], [row + 5], 2) for row in (3, 0)]
    assert torch.equal(whole[[3, 0]], torch.cat(parts))
    assert not torch.equal(whole, transform(images, [5, 6, 7, 8], 3))
    assert not torch.equal(whole, OwnTransform(darker, seed=4)(images, [5, 6, 7, 8], 2))


def test_packages_are_called_as_they_expect() -> None:
    image = torch.arange(48, dtype=torch.uint8).view(1, 3, 4, 4)

    class Flip:
        """As albumentations: arrays with channels last, by keyword, a dictionary back."""

        def set_random_seed(self, seed: int) -> None:
            self.seed = seed

        def __call__(self, *, image: Any) -> dict[str, Any]:
            assert image.shape == (4, 4, 3)
            return {"image": image[:, ::-1].copy()}

    class Kornia:
        """As kornia: a batch of numbers from 0 to 1."""

        def __call__(self, images: Tensor) -> Tensor:
            assert images.shape == (1, 3, 4, 4)
            assert images.max() <= 1
            return images.flip(-1)

    Flip.__module__, Kornia.__module__ = "albumentations.core", "kornia.augmentation"
    flip = Flip()
    assert torch.equal(OwnTransform(flip, 0)(image, [0], 0), image.flip(-1))
    assert torch.equal(OwnTransform(Kornia(), 0)(image, [0], 0), image.flip(-1))
    first = flip.seed
    OwnTransform(flip, 0)(image, [0], 0)
    assert flip.seed == first


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (torch.zeros(3, 2, 2), r"expected a tensor \(3, 4, 4\)"),
        (None, "found NoneType"),
        (torch.full((3, 4, 4), 200.0), "Leave out any normalization"),
        (torch.full((3, 4, 4), float("nan")), "no numbers"),
    ],
)
def test_a_transform_that_is_none_is_refused(found: Any, says: str) -> None:
    with pytest.raises(cl.UserError, match=says):
        OwnTransform(lambda image: found, 0)(torch.zeros(1, 3, 4, 4, dtype=torch.uint8), [0], 0)


def test_wrong_callbacks_losses_and_measures_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(cl.UserError, match=r"expected conceptlens\.Callback objects, found function"):
        cl.train(tiny(tmp_path / "a"), callbacks=[darker], quiet=True)  # type: ignore[list-item]
    with pytest.raises(cl.UserError, match="Unknown loss"):
        cl.train(tiny(tmp_path / "b", training__loss={"own": {"nowhere": 1.0}}), quiet=True)
    with pytest.raises(cl.UserError, match=r"encoder\.store"):
        cl.train(
            tiny(tmp_path / "c", encoder__store="run", encoder__train="none", regularizer={"name": "none"}),
            transform=darker,
            quiet=True,
        )
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(cl.UserError, match="needs the package wandb"):
        cl.WeightsAndBiases()


def test_a_failure_is_told_and_stays_what_it_was(tmp_path: Path) -> None:
    class Bad(cl.Callback):
        def on_train_begin(self, run: Path, recipe: Mapping[str, Any]) -> None:
            raise RuntimeError("no network")

        def on_failure(self, run: Path, error: BaseException) -> None:
            raise AttributeError("never began")

    told = Told()
    with pytest.raises(RuntimeError, match="no network"):
        cl.train(tiny(tmp_path / "run"), callbacks=[told, Bad()], quiet=True)
    assert [name for name, _ in told.events] == ["begin", "failure"]
    assert read_json(tmp_path / "run/run.json")["status"] == "failed"
