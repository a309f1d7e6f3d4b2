"""The generator that comes with the package: it opens, reads, paints and draws."""

from pathlib import Path

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.core.files import stored
from conceptlens.cortex.generators.builtin.generator import WEIGHTS
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.open import BUILTIN, PACKAGED, open_model
from conceptlens.data.images.read import resize_square
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.schema import DataConfig


def test_real_cells_survive_the_codebook() -> None:
    model = open_model(BUILTIN)
    data, concepts = open_source(DataConfig("blood-cells"), None)
    assert model.classes == concepts.classes
    assert set(model.attributes) == {group.name for group in concepts.groups}
    rows = [row for row, split in enumerate(data.examples.split) if split == "test"][:4]
    pixels = [torch.from_numpy(resize_square(data.read(row), model.image_size)) for row in rows]
    images = torch.stack(pixels).float() / 255
    tokens = model.encode(images)
    assert tokens.shape == (4, 16, 16)
    assert len(tokens.unique()) > 100  # a collapsed codebook would use a few
    error = (model.decode(tokens) - images).abs().mean()
    assert float(error) < 0.05


def test_a_class_is_drawn() -> None:
    """Three steps are too few for a good cell, and enough to tell a condition from another."""
    model = open_model(BUILTIN)
    drawn = [model.generate(Condition(name), 1, steps=3) for name in ("Basophil", "Monocyte")]
    assert not torch.equal(*drawn)
    image = model.decode(drawn[0])
    assert image.shape == (1, 3, 128, 128)
    # Stained cells on a pale ground: the middle is darker than the corners.
    assert float(image[..., 48:80, 48:80].mean()) < float(image[..., :16, :16].mean()) - 0.05


def test_weights_are_small_enough_to_come_along() -> None:
    assert stored(PACKAGED / WEIGHTS).stat().st_size < 12_000_000
    assert (PACKAGED / "CARD.md").exists()


def test_a_copy_without_weights_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conceptlens.cortex.generators.open.PACKAGED", tmp_path)
    with pytest.raises(UserError, match="no generator weights"):
        open_model(BUILTIN)
