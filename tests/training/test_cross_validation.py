"""`data.folds`: each image is tested once, groups stay together, one final model; and what is said at chance."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json, write_text
from conceptlens.evaluation.examination import _over_folds
from conceptlens.evaluation.faithfulness.faithfulness import faithfulness_run
from conceptlens.evaluation.summary import text_table
from conceptlens.evaluation.verdict import Verdict
from conceptlens.recipes import Recipe
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.folds import fold_folders
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.predictions import load_predictions
from conceptlens.training import folds
from conceptlens.training.records.warnings import chance_warnings

TINY: dict[str, Any] = {
    "data": {"source": "shapes", "folds": 3, "shapes": {"n": 60, "size": 32, "classes": 2}},
    "encoder": {"name": "builtin/vit-mini", "image_size": 32, "options": {"width": 32, "depth": 1, "heads": 2}},
    "method": "cbm",
    "training": {"epochs": 1, "batch_size": 16, "warmup": 0, "threads": 1, "rank_every": 0},
    "metrics": {"bootstrap": 20, "rank_images": 2},
}


@pytest.mark.slow
def test_folds_and_a_final_model(tmp_path: Path) -> None:
    model = cl.train(TINY, out=tmp_path / "run", quiet=True)
    run = OpenedRun.open(model.path)
    assert len(run.splits.test) == 0
    assert len(run.splits.train) + len(run.splits.val) == 60
    folders = fold_folders(run.path)
    assert [folder.name for folder in folders] == ["1", "2", "3"]
    tests = [set(read_json(folder / "splits.json")["splits"]["test"]) for folder in folders]
    assert sum(map(len, tests)) == len(set.union(*tests)) == 60
    pooled = load_predictions(run.path, "folds")
    assert sorted(pooled.ids) == sorted(run.source.examples.ids)
    first = load_predictions(folders[0])
    np.testing.assert_array_equal(pooled.logits[: len(first.ids)], first.logits)
    metrics = read_json(run.path / "metrics.json")["splits"]
    truth, said = pooled.labels, pooled.logits.argmax(1)
    assert metrics["folds"]["class"]["accuracy"] == pytest.approx((truth == said).mean())
    assert len(metrics["folds"]["per_fold"]) == 3
    assert "cross-validated" in model.text()
    assert "cross-validated images" in (run.path / "report.html").read_text()
    trust = model.trust(resamples=20, n=4)
    assert trust.split == "folds"
    assert "on 6 images" in trust.verdicts["faithfulness"].reason  # two of each fold
    opened = [OpenedRun.open(folder) for folder in folders]
    alone, both = (faithfulness_run(run, n=2 * len(some), steps=2, folds=some) for some in (opened[:1], opened[:2]))
    assert alone.curves == faithfulness_run(opened[0], n=2, steps=2).curves
    assert both.images == 4


@pytest.mark.slow
def test_a_run_that_was_stopped_between_folds_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from conceptlens.training import train

    start = train.start_run

    def stopped(recipe: Recipe, *arguments: Any, **options: Any) -> Any:
        if recipe.data.split.fold == 2:
            raise KeyboardInterrupt
        return start(recipe, *arguments, **options)

    frozen = {**TINY, "encoder": {**TINY["encoder"], "train": "none", "store": "run"}}
    whole = cl.train(frozen, out=tmp_path / "whole", quiet=True)
    monkeypatch.setattr(train, "start_run", stopped)
    with pytest.raises(KeyboardInterrupt):
        cl.train(frozen, out=tmp_path / "run", quiet=True)
    monkeypatch.setattr(train, "start_run", start)
    cl.resume(tmp_path / "run", quiet=True)
    found, expected = (read_json(path / "metrics.json")["splits"] for path in (tmp_path / "run", whole.path))
    assert found["folds"]["class"] == expected["folds"]["class"]
    assert not (tmp_path / "run" / "tokens").exists()


@pytest.mark.slow
def test_folds_share_what_a_frozen_encoder_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from conceptlens.encoders.store.encode import fill
    from conceptlens.training.batches import stored

    encoded: list[int] = []

    def counted(*arguments: Any) -> int:
        encoded.append(fill(*arguments))
        return encoded[-1]

    monkeypatch.setattr(stored, "fill", counted)
    frozen = {**TINY, "encoder": {**TINY["encoder"], "train": "none", "store": "run"}}
    model = cl.train(frozen, out=tmp_path / "shared", quiet=True)
    assert encoded == [60, 0, 0, 0]  # the final model encodes for all folds
    assert not (model.path / "tokens").exists()
    frozen["data"] = {**TINY["data"], "folds": 0, "split": {"folds": 3, "fold": 1}}
    alone = cl.train(frozen, out=tmp_path / "alone", quiet=True)
    np.testing.assert_array_equal(
        load_predictions(fold_folders(model.path)[1]).logits, load_predictions(alone.path).logits
    )


def test_folds_that_chose_other_concepts(own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = OpenedRun.open(own_run)
    stored, count = run.predictions(), len(run.concepts)
    parts = {}
    for fold, columns in enumerate((range(1, count), range(count - 1))):  # as many, but not the same
        folder, rows = tmp_path / str(fold), slice(fold, None, 2)
        folder.mkdir()
        write_json(folder / "metrics.json", {"splits": {"test": {"concept": {"auc": 0.6 + 0.2 * fold}}}})
        write_text(folder / "concepts.yaml", run.concepts.subset(list(columns)).to_yaml())
        logits, scores = stored.logits[rows], stored.concept_logits[rows][:, list(columns)]
        parts[folder] = replace(stored, ids=stored.ids[rows], logits=logits, concept_logits=scores)
    monkeypatch.setattr(folds, "fold_folders", lambda run: list(parts))
    monkeypatch.setattr(folds, "load_predictions", parts.get)
    monkeypatch.setattr(folds, "save_predictions", lambda *arguments: None)
    found = folds.pooled_result(tmp_path, run.source, run.concepts, run.recipe)
    assert found["class"]["n"] == len(stored.ids)
    assert found["concept"]["auc"] == pytest.approx(0.7)
    assert "per_concept" not in found["concept"]
    assert "groups at chance" not in text_table(found)


def test_the_probe_encodes_an_image_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from conceptlens.data.sources.open import open_source
    from conceptlens.data.splits.splits import make_splits
    from conceptlens.training import encoder_choice

    recipe = load_recipe(TINY)
    source, _ = open_source(recipe.data, None)
    splits = [
        make_splits(
            source.examples, replace(recipe.data.split, folds=3, fold=fold), source.task, classes=source.classes
        )
        for fold in (0, 1)
    ]
    asked: list[int] = []

    def vectors(encoder: object, source: object, indices: Any, fit: str) -> Any:
        asked.extend(indices.tolist())
        return np.stack([np.eye(60)[index] for index in indices])

    monkeypatch.setattr(encoder_choice, "image_features", vectors)
    known: dict[str, dict[int, Any]] = {}
    for split in splits:
        encoder_choice.probe("builtin/vit-mini", source, split, recipe, known)
    assert len(asked) == len(set(asked)) == len(known["builtin/vit-mini"])
    both = set(np.concatenate([part for split in splits for part in (split.train, split.val)]).tolist())
    assert set(asked) == both


def test_settings_that_cannot_be_meant() -> None:
    with pytest.raises(UserError, match=r"data\.folds: expected 0 \(off\) or 2 and more, found 1"):
        load_recipe({"data": {"source": "shapes", "folds": 1}})
    with pytest.raises(UserError, match=r"data\.split\.folds"):
        load_recipe({"data": {"source": "shapes", "folds": 3, "split": {"folds": 5}}})


def test_verdicts_over_folds() -> None:
    good, bad = Verdict(outcome="pass", reason="Fine."), Verdict(outcome="finding", reason="Bad.")
    none = Verdict(outcome="unmeasured", reason="No data.")
    assert _over_folds([good, bad, good]).outcome == "pass"
    assert _over_folds([good, bad]).outcome == "finding"
    assert _over_folds([none, bad, bad, good]).reason == "In 2 of 3 folds. Bad."
    assert _over_folds([none, none]) == none


def test_a_result_at_chance_is_called_so() -> None:
    def measured(balanced: float, low: float, high: float) -> dict[str, object]:
        rows = [{"class": "a", "support": 90}, {"class": "b", "support": 10}, {"class": "c", "support": 0}]
        found = {"n": 100, "accuracy": 0.9, "balanced_accuracy": balanced, "per_class": rows}
        return {"class": found, "intervals": {"class.balanced_accuracy": [low, high]}}

    (told,) = chance_warnings(measured(0.55, 0.48, 0.62), "single")
    assert "balanced accuracy 55.0% (48.0% to 62.0%), where that gives 50.0%" in told
    assert "accuracy 90.0%, where it gives 90.0%" in told
    assert chance_warnings(measured(0.75, 0.6, 0.85), "single") == []
    assert chance_warnings(measured(0.55, 0.48, 0.62), "multilabel") == []


def test_one_encoder_at_hand_is_taken_without_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    from conceptlens.training import encoder_choice

    recipe = load_recipe({"data": {"source": "shapes"}, "encoder": {"name": "auto"}})
    said: list[str] = []
    monkeypatch.setattr(encoder_choice, "encoders_at_hand", lambda: ["builtin/vit"])
    chosen = encoder_choice.with_encoder(recipe, None, None, said.append)  # type: ignore[arg-type]
    assert chosen.encoder.name == "builtin/vit"
    scores = {"builtin/vit": 0.6, "mine": 0.8}
    monkeypatch.setattr(encoder_choice, "encoders_at_hand", lambda: list(scores))
    monkeypatch.setattr(encoder_choice, "probe", lambda name, *_: scores[name])
    chosen = encoder_choice.with_encoder(recipe, None, None, said.append)  # type: ignore[arg-type]
    assert chosen.encoder.name == "mine"
    assert "builtin/vit 0.600, mine 0.800" in said[-1]


def test_the_probe_finds_classes_that_a_line_separates() -> None:
    from conceptlens.training.encoder_choice import probe_accuracy

    generator = np.random.default_rng(0)
    labels, fold = np.arange(60) % 2, np.arange(60) // 2 % 5
    vectors = generator.normal(size=(60, 4)) + 6 * labels[:, None]
    assert probe_accuracy(vectors, labels, fold) == 1.0
    assert probe_accuracy(vectors, np.zeros(60, int), fold) == 0.0
    unknown = np.where(np.arange(60) < 20, -1, 1 - labels)  # without a label an image counts nowhere
    assert probe_accuracy(vectors, unknown, fold) == 1.0


def test_the_probe_keeps_images_of_a_patient_together(monkeypatch: pytest.MonkeyPatch) -> None:
    from conceptlens.data.sources.open import open_source
    from conceptlens.data.splits.splits import make_splits
    from conceptlens.training import encoder_choice

    recipe = load_recipe(TINY)
    opened, _ = open_source(recipe.data, None)
    patients = tuple(f"patient {index // 4}" for index in range(len(opened)))
    source: Any = SimpleNamespace(task=opened.task, examples=replace(opened.examples, group=patients))
    asked: list[Any] = []

    def vectors(encoder: object, source: object, indices: Any, fit: str) -> Any:
        return np.eye(len(patients))[indices]

    def accuracy(vectors: Any, labels: Any, fold: Any) -> float:
        asked.append((vectors.argmax(1), fold))
        return 0.5

    monkeypatch.setattr(encoder_choice, "image_features", vectors)
    monkeypatch.setattr(encoder_choice, "probe_accuracy", accuracy)
    splits = make_splits(source.examples, recipe.data.split, source.task, classes=opened.classes)
    encoder_choice.probe("builtin/vit-mini", source, splits, recipe)
    ((indices, fold),) = asked
    assert set(indices) == set(splits.train.tolist()) | set(splits.val.tolist())
    assert len(set(fold)) == 5
    for patient in set(indices // 4):
        assert len(set(fold[indices // 4 == patient])) == 1
