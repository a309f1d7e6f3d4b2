"""Ranks of every layer that a method reads."""

import numpy as np
import pytest
import torch

from conceptlens.data.loading.loader import PixelReader
from conceptlens.runs.predict import predict
from conceptlens.stats.rank import patch_ranks
from conceptlens.testing import build, source


def test_ranks_are_told_of_each_layer_that_is_handed_on() -> None:
    pipeline = build("evidence-cbm")
    with PixelReader(source(), 32, cache_mb=0) as reader:
        pixels = reader.batch(np.arange(6))
        plain = predict(pipeline, reader, np.arange(6), rank_images=4).ranks
        every = predict(pipeline, reader, np.arange(6), rank_images=4, batch_size=3, every_layer=True).ranks
    with torch.inference_mode():
        layers = pipeline.encoder(pixels).layers
    assert len(layers) > 0
    assert not any(name.startswith("layer") for name in plain)
    for number, layer in enumerate(layers, start=1):
        for name, values in patch_ranks(layer[:4], ("effective", "published")).items():
            assert every[f"layer_{number}_{name}"] == pytest.approx(float(values.mean()), rel=1e-5)
    assert {name: every[name] for name in plain} == pytest.approx(plain)
