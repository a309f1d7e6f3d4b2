"""DCBM: clusters of segments become concepts, with words or without."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import IMAGE_VECTOR
from conceptlens.methods.dcbm import DCBM
from conceptlens.methods.fitted.data import FitCrops, FitData, some_of_each
from conceptlens.nn.setup import Setup
from tests.methods.fit_world import fit_data


def segmented(setup: Setup, concepts: list[int]) -> FitData:
    """Every image has segments that lie near the texts of the concepts it shows, of some concepts."""
    data = fit_data(setup)
    data = replace(
        data,
        train=replace(data.train, vectors=data.train.image_text),
        val=replace(data.val, vectors=data.val.image_text),
    )
    rows, shown = np.nonzero(data.train.concepts == 1)
    some = np.isin(shown, concepts)
    rows, shown = rows[some], shown[some]
    vectors = setup.text.numpy()[shown] + 0.02 * np.random.default_rng(0).normal(size=(len(shown), setup.text.shape[1]))
    boxes = np.tile(np.asarray([[0.0, 0.0, 8.0, 8.0]]), (len(rows), 1))
    return replace(data, crops=FitCrops(vectors.astype(np.float32), rows, ("segment",) * len(rows), boxes))


def tokens(vectors: np.ndarray) -> Tokens:
    return Tokens(torch.zeros(len(vectors), 4, 8), (2, 2), None, aux={IMAGE_VECTOR: torch.from_numpy(vectors)})


def test_clusters_take_the_nearest_texts(setup: Setup) -> None:
    data = segmented(setup, [0, 1, 2, 3, 4])
    model = DCBM(setup, images=0)
    numbers = model.fit(data)
    texts = torch.nn.functional.normalize(setup.text, dim=-1)
    assert bool(((model.vectors * texts).sum(1) > 0.99).all())  # each concept has its own cluster's center
    assert numbers["name_cosine"] > 0.99
    output = model(tokens(data.val.vectors))
    assert float((output.logits.argmax(1).numpy() == data.val.labels).mean()) > 0.9
    unit = data.val.vectors / np.linalg.norm(data.val.vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(output.bottleneck.detach().numpy(), unit @ model.vectors.numpy().T, atol=1e-5)


def test_texts_without_a_cluster_are_left_out(setup: Setup) -> None:
    data = segmented(setup, [0, 1, 4])
    model = DCBM(setup, clusters=3, images=0)
    model.fit(data)
    assert set(data.dropped) == {setup.concepts.names[2], setup.concepts.names[3]}
    assert len(model.vectors) == 3


def test_visual_concepts_are_the_clusters_by_size(setup: Setup) -> None:
    data = segmented(setup, [0, 1, 2, 3, 4])
    model = DCBM(setup, naming="none", images=0)
    assert model.supervision == "class-labels"
    model.fit(data)
    assert not data.dropped
    texts = torch.nn.functional.normalize(setup.text, dim=-1)
    concept = (model.vectors @ texts.T).argmax(1)
    sizes = (data.train.concepts == 1).sum(0)[concept.numpy()]
    assert sizes.tolist() == sorted(sizes.tolist(), reverse=True)


def test_few_images_of_each_class_and_what_is_refused(setup: Setup) -> None:
    data = segmented(setup, [0, 1])
    rows = some_of_each(data.train.labels, 7, seed=0)
    assert np.bincount(data.train.labels[rows]).tolist() == [7, 7]
    assert DCBM(setup).fit_crop_images == 50
    assert data.crops is not None
    few = FitCrops(data.crops.vectors[:4], data.crops.rows[:4], data.crops.parts[:4], data.crops.boxes[:4])
    with pytest.raises(UserError, match="too few for 5 clusters"):
        DCBM(setup).fit(replace(data, crops=few))
    with pytest.raises(UserError, match="naming is none"):
        DCBM(setup, naming="none", clusters=4)
