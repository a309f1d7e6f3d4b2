"""Data to fit: two classes, five concepts, vectors in which each concept has a direction of its own."""

import numpy as np
import torch

from conceptlens.methods.fitted.data import FitData, FitImages
from conceptlens.nn.setup import Setup

SIGNAL = 3.0


def directions(setup: Setup) -> np.ndarray:
    """(K, D), orthonormal."""
    return np.linalg.qr(np.random.default_rng(3).normal(size=(setup.width, len(setup.concepts))))[0].T


def fit_images(setup: Setup, n: int, seed: int) -> FitImages:
    chance = np.random.default_rng(seed)
    concepts = np.zeros((n, len(setup.concepts)), np.int8)
    labels = chance.integers(0, 2, n)
    concepts[:, 0] = labels  # the class is its first concept
    concepts[:, 1] = 1 - concepts[:, 0]
    concepts[:, 2] = chance.integers(0, 2, n)
    concepts[:, 3] = 1 - concepts[:, 2]
    concepts[:, 4] = chance.integers(0, 2, n)
    vectors = (SIGNAL * concepts) @ directions(setup) + 0.3 * chance.normal(size=(n, setup.width))
    image_text = concepts @ setup.text.numpy() + 0.1 * chance.normal(size=(n, setup.text.shape[1]))
    image_text /= np.linalg.norm(image_text, axis=1, keepdims=True)
    return FitImages(vectors.astype(np.float32), labels.astype(np.int64), concepts, None, image_text.astype(np.float32))


def fit_data(setup: Setup, n: int = 120) -> FitData:
    generator = torch.Generator().manual_seed(4)
    classes = torch.nn.functional.normalize(torch.randn(2, setup.text.shape[1], generator=generator), dim=-1)
    return FitData(
        train=fit_images(setup, n, 1),
        val=fit_images(setup, n // 2, 2),
        classes=("left", "right"),
        concepts=setup.concepts,
        text=setup.text,
        embed=lambda texts: classes[: len(texts)],
        class_weights=torch.ones(2),
    )
