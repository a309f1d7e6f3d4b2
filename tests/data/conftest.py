"""A small laboratory: a concept set with both kinds of group, and pictures to order."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conceptlens.concepts import ConceptSet

CELLS = """
classes: [Neutrophil, Monocyte]
groups:
  granule type: {column: granule_type, values: [small, coarse, nil]}
  vacuole: {values: ['yes', 'no']}
  signs: {kind: independent, values: [spots, stripes], columns: {stripes: has_stripes}}
by_class:
  Neutrophil: {granule type: small, signs: [spots]}
  Monocyte: {granule type: nil, signs: []}
"""

Paint = Callable[..., Path]


@pytest.fixture
def cells() -> ConceptSet:
    return ConceptSet.from_yaml(CELLS)


@pytest.fixture
def paint() -> Paint:
    """Writes a picture of noise; the same seed, the same picture."""

    def write(
        path: Path, seed: int = 0, size: tuple[int, int] = (40, 40), mode: str = "RGB", **options: object
    ) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        small = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(small).resize(size, Image.Resampling.BICUBIC).convert(mode).save(path, **options)  # type: ignore[arg-type]
        return path

    return write
