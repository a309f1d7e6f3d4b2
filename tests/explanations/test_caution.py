"""What warns of an answer: prediction sets by hand, and where it is told."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import conceptlens as cl
from conceptlens.data.dataset import Task
from conceptlens.explanations.answer import Answerer
from conceptlens.explanations.caution import UNLIKE, Caution, set_bounds, set_words
from conceptlens.explanations.predict import Prediction
from conceptlens.explanations.subjects import subjects
from conceptlens.runs.image_distribution import FILE, ImageDistribution
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.predictions import StoredPredictions
from tests.own_data import OwnData


def stored(task: Task, shares: np.ndarray, labels: np.ndarray) -> StoredPredictions:
    logits = np.log(shares) if task == "single" else np.log(shares / (1 - shares))
    names = tuple(map(str, range(len(labels))))
    empty = np.zeros((len(labels), 0))
    return StoredPredictions(
        names, names, ("a", "b"), task, logits.astype(np.float32), empty.astype(np.float32), labels,
        empty.astype(np.int8), (0.5, 0.5),
    )  # fmt: skip


def test_the_bound_by_hand() -> None:
    # 19 images of class a: the ⌈20 · 0.9⌉ = 18th smallest of 0.05, 0.10, … is 0.90.
    share = 1 - 0.05 * np.arange(1, 20)
    both = np.clip(np.stack([share, 1 - share], 1), 1e-6, 1)
    assert set_bounds(stored("single", both, np.zeros(19, dtype=np.int64))) == pytest.approx([0.9, 0.9], abs=1e-5)
    assert set_bounds(stored("single", both[:8], np.zeros(8, dtype=np.int64))) is None  # too few for 9 in 10


def test_each_of_several_labels_has_its_own_bound() -> None:
    shares = np.stack([np.full(12, 0.8), np.full(12, 0.3)], 1)
    labels = np.stack([np.ones(12), np.zeros(12)], 1).astype(np.int64)
    bounds = set_bounds(stored("multilabel", shares, labels))
    assert bounds is not None
    assert bounds[0] == pytest.approx(0.2)
    assert np.isinf(bounds[1])  # never seen to hold, so it cannot be excluded


def test_sets_in_words() -> None:
    caution = Caution(bounds=np.array([0.6, 0.6, 0.6]))
    assert caution.prediction_set(["a", "b", "c"], np.array([0.5, 0.45, 0.05])) == ["a", "b"]
    assert set_words(["a"], 5) == "only a fits"
    assert set_words(["a", "b"], 5) == "one of: a, b"
    assert set_words(["a", "b", "c"], 5) == "undecided, one of: a, b, c"
    assert "less sure here" in str(set_words([], 5))
    assert set_words(None, 5) is None
    assert set_words(["a"], 5, several=True) == "may hold: a"


def test_nine_of_ten_validation_images_have_their_class_in_their_set() -> None:
    generator = np.random.default_rng(0)
    shares = generator.dirichlet([1.0, 1.0], 2000)
    labels = (generator.random(2000) < shares[:, 1]).astype(np.int64)
    bounds = set_bounds(stored("single", shares[:1000], labels[:1000]))
    caution = Caution(bounds=bounds)
    covered = [
        "ab"[label] in (caution.prediction_set(["a", "b"], row) or [])
        for row, label in zip(shares[1000:], labels[1000:], strict=True)
    ]
    assert 0.87 < np.mean(covered) < 0.93


def test_a_run_without_them_says_so_once(own: OwnData, own_run: Path) -> None:
    said = cl.predict(own_run, [own.image(0), own.image(1)])
    missing = Caution.read(own_run, OpenedRun.open(own_run).card).without
    assert said.notes == missing
    for line in missing:
        assert said.text().count(line) == 1


def test_an_image_unlike_the_training_images_is_told(own: OwnData, own_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(own_run, run)
    opened = OpenedRun.open(run)
    answers = Answerer(opened.pipeline, opened.card, opened.concepts)
    width = opened.pipeline.encoder(_pixels(own, opened)).patches.shape[-1]
    some = np.random.default_rng(0).normal(size=(40, width)).astype(np.float32)
    images = ImageDistribution.fit(some, some, opened.card.weights_hash)
    assert images is not None
    caution = Caution(replace(images, bound=0.0), np.full(len(opened.card.classes), 2.0))
    answers.caution = caution
    [answer] = answers.stream(subjects([own.image(0)], opened.card))
    assert answer.unlike_training is True
    assert answer.prediction_set == opened.card.classes
    assert answer.cautions[0] == UNLIKE
    assert UNLIKE in Prediction.of(answer).line()
    replace(images, bound=0.0).write(run)
    assert (run / FILE).exists()
    explained = cl.explain(run, [own.image(0)], out=tmp_path / "told")
    assert UNLIKE in explained.text()
    told = explained.items[0].load()
    assert told.unlike_training is True
    assert told.cautions[0] == UNLIKE
    assert told.map_captions["gradcam"] == "map not checked"


def _pixels(own: OwnData, run: OpenedRun):  # type: ignore[no-untyped-def]
    import torch

    [subject] = subjects([own.image(0)], run.card, pictures=False)
    assert subject.pixels is not None
    return torch.from_numpy(subject.pixels[None]).to(run.device)
