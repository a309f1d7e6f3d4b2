"""A trained model as an object: trained, loaded, asked, measured and exported in memory."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from torch.utils.data import DataLoader, TensorDataset

import conceptlens as cl
from tests.training.tiny import tiny

SMALL: dict[str, Any] = {
    "encoder": {"name": "builtin/vit-mini", "image_size": 32, "options": {"width": 16, "depth": 1, "heads": 2}},
    "training": {"epochs": 2, "batch_size": 8, "threads": 1, "rank_every": 0},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> cl.TrainedModel:
    return cl.train(tiny(tmp_path_factory.mktemp("model") / "run", training__epochs=1), quiet=True)


@pytest.fixture(scope="module")
def data() -> tuple[Any, Any, Any]:
    """Bright images are of class 1; the color is drawn in the first channel."""
    rng = np.random.default_rng(0)
    y, red = np.arange(40) % 2, (np.arange(40) // 2) % 2
    images = rng.integers(0, 60, (40, 32, 32, 3)) + 120 * y[:, None, None, None]
    images[..., 0] += 70 * red[:, None, None]
    return images.astype(np.uint8), y, {"color": np.where(red == 1, "red", "gray")}


def files(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_train_and_load_give_the_same_model(model: cl.TrainedModel) -> None:
    again = cl.load(model.path)
    assert isinstance(again, cl.TrainedModel)
    assert (again.classes, again.concept_names) == (model.classes, model.concept_names)
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(again.module(images).logits, model.module(images).logits)
    assert "ivq-cbm" in repr(model)
    assert model.text() in model._repr_html_().replace("&#x27;", "'")


def test_settings_by_name_reach_the_recipe(model: cl.TrainedModel, tmp_path: Path) -> None:
    other = cl.train(tiny(tmp_path / "run"), epochs=1, seed=3, quiet=True)
    assert (other.recipe.training.epochs, other.recipe.seed) == (1, 3)
    with pytest.raises(cl.UserError, match="Did you mean 'epochs'"):
        cl.train(tiny(tmp_path / "other"), epoch=1, quiet=True)


def test_measures_work_in_memory_and_write_only_where_asked(model: cl.TrainedModel, tmp_path: Path) -> None:
    model.explain(n=1)  # keeps the run's reference
    before = files(model.path)
    results = [
        model.evaluate(split="val"),
        model.interventions(resamples=20),
        model.leakage(resamples=20, permutations=0),
        model.localize(n=4),
        model.faithfulness(n=2),
        model.predict(np.zeros((2, 32, 32, 3), np.uint8)),
        model.explain(n=1)[0],
    ]
    assert files(model.path) == before
    for result in results:
        assert result.to_dict()
        assert result._repr_html_().startswith("<")
    assert model.evaluate(split="val", out=tmp_path / "val.json").written_to == tmp_path / "val.json"
    assert (tmp_path / "val.json").exists()
    for result in (results[1], results[5], results[6]):
        assert result.plot()._repr_png_().startswith(b"\x89PNG")  # what a notebook shows
    assert len(results[5].to_pandas()) == 2


def test_every_kind_of_image_gives_the_same_answer(model: cl.TrainedModel, tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    paths = [tmp_path / f"{number}.png" for number in range(2)]
    for path, image in zip(paths, pixels, strict=True):
        Image.fromarray(image).save(path)
    tensor = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    kinds = [paths, [str(path) for path in paths], tmp_path, list(map(Image.fromarray, pixels)), pixels, tensor]
    kinds += [tensor.float() / 255, TensorDataset(tensor), DataLoader(TensorDataset(tensor), batch_size=1)]
    expected = model.predict(paths).probabilities
    assert expected.shape == (2, len(model.classes))
    for images in kinds:
        assert np.array_equal(model.predict(images).probabilities, expected), type(images)


def test_one_image_is_edited(model: cl.TrainedModel) -> None:
    group = model.concepts.groups[0]
    image = Image.fromarray(np.full((40, 30, 3), 128, np.uint8))
    each = [model.intervene(image, {group.name: value}) for value in group.values]
    assert [edited.edits for edited in each] == [[f"{group.name}={value}"] for value in group.values]
    assert sum(edited.before != edited.after for edited in each) >= len(each) - 1  # one of them it may say itself
    name = model.predictions().ids[0]
    assert model.intervene(name, [f"{group.name}={group.values[1]}"]).image == name


@pytest.mark.slow
def test_export_from_the_object(model: cl.TrainedModel, tmp_path: Path) -> None:
    done = model.export(tmp_path / "model.pt2")
    assert done.path == tmp_path / "model.pt2"


def test_training_on_data_in_memory(data: tuple[Any, Any, Any], tmp_path: Path) -> None:
    images, y, concepts = data
    model = cl.train({"method": "cbm", **SMALL}, data=(images, y, concepts), quiet=True)
    folder = model.path
    assert model.classes == ["0", "1"]
    assert model.concept_names == ["color: gray", "color: red"]
    assert len(model.source) == 40
    assert model.evaluate().metrics["class"]["n"] == len(model.splits.test)
    del model
    assert not folder.exists()
    kept = cl.train({"method": "cbm", **SMALL, "out": str(tmp_path / "run")}, data=(images, y, concepts), quiet=True)
    with pytest.raises(cl.UserError, match="was in memory"):
        cl.load(kept.path).evaluate()
    again = cl.load(kept.path, data=(images, y, concepts)).evaluate()
    assert again.metrics == kept.evaluate().metrics
    with pytest.raises(cl.UserError, match="changed since"):
        cl.load(kept.path, data=(images, 1 - y, concepts)).evaluate()


def test_the_estimator(data: tuple[Any, Any, Any]) -> None:
    images, y, concepts = data
    words = np.where(y == 1, "bright", "dark")
    classifier = cl.ConceptClassifier("cbm", epochs=6, recipe=SMALL).fit(images, words, concepts=concepts)
    assert classifier.classes_.tolist() == ["bright", "dark"]
    probabilities = classifier.predict_proba(images)
    assert probabilities.shape == (40, 2)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)
    assert set(classifier.predict(images)) <= {"bright", "dark"}
    scores = classifier.transform(images)
    assert scores.shape == (40, 2)
    np.testing.assert_allclose(scores.sum(1), 1, atol=1e-6)
    assert classifier.get_feature_names_out().tolist() == ["color: gray", "color: red"]
    assert classifier.score(images, words) == np.mean(classifier.predict(images) == words)


@pytest.mark.slow
def test_the_estimator_in_a_search_and_a_pipeline(data: tuple[Any, Any, Any]) -> None:
    import pandas as pd

    images, y, concepts = data
    frame = pd.DataFrame(concepts)
    search = GridSearchCV(cl.ConceptClassifier("cbm", recipe=SMALL), {"epochs": [1, 2]}, cv=2, error_score="raise")
    search.fit(images, y, concepts=frame)
    assert search.best_params_["epochs"] in (1, 2)
    chain = Pipeline([("classify", cl.ConceptClassifier("cbm", epochs=1, recipe=SMALL))])
    chain.fit(images, y, classify__concepts=frame)
    assert chain.predict(images).shape == (40,)
    assert chain.predict_proba(images).shape == (40, 2)


def test_the_folder_of_a_model_in_memory_is_temporary(data: tuple[Any, Any, Any]) -> None:
    images, y, concepts = data
    classifier = cl.ConceptClassifier("cbm", epochs=1, recipe=SMALL).fit(images, y.astype(float), concepts=concepts)
    assert set(classifier.predict(images)) <= {0.0, 1.0}  # classes that are called `0` and `1` in the run
    assert os.path.isdir(classifier.model_.path)
    with pytest.raises(cl.UserError, match="one class for each of 40 images"):
        classifier.fit(images, y[:3], concepts=concepts)
