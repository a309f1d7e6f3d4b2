"""Images that are in memory already: whatever holds the same pixels gives the same image."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.data.images.objects import as_image

PIXELS = np.random.default_rng(0).integers(0, 256, (7, 9, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "item",
    [
        PIXELS,
        PIXELS.transpose(2, 0, 1),
        PIXELS / 255,
        PIXELS.astype(np.int64),
        torch.from_numpy(PIXELS).permute(2, 0, 1),
        torch.from_numpy(PIXELS).permute(2, 0, 1).float() / 255,
        Image.fromarray(PIXELS),
    ],
    ids=["bytes", "channels first", "from 0 to 1", "whole numbers", "tensor", "float tensor", "PIL"],
)
def test_the_same_pixels(item: object) -> None:
    assert np.array_equal(np.asarray(as_image(item, name="it")), PIXELS)


def test_a_path_and_gray(tmp_path: Path) -> None:
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    assert np.array_equal(np.asarray(as_image(str(tmp_path / "a.png"), name="it")), PIXELS)
    gray = np.asarray(as_image(PIXELS[..., 0], name="it"))
    assert gray.shape == (7, 9, 3)
    assert np.array_equal(gray[..., 2], PIXELS[..., 0])


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (np.zeros((4, 4, 4)), r"found ndarray of shape \(4, 4, 4\)"),
        (np.full((4, 4, 3), 2.0), "from 0 to 1, found 2 to 2"),
        (np.full((4, 4, 3), 300), "found int64"),
        (object(), "found object"),
    ],
)
def test_what_is_no_image_is_refused(item: object, says: str) -> None:
    with pytest.raises(UserError, match=f"it: expected .*{says}"):
        as_image(item, name="it")
