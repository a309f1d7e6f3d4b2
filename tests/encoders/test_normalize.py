"""Normalization: (x − mean) / std, by constants that are sent to the device once."""

import pytest
import torch

from conceptlens.encoders.builtin.vit import BuiltinViT


@pytest.fixture
def encoder() -> BuiltinViT:
    return BuiltinViT(image_size=16, width=8, depth=1, heads=2, pretrained=False)


def test_by_hand_for_bytes_and_fractions(encoder: BuiltinViT) -> None:
    encoder.mean, encoder.std = (0.5, 0.0, 1.0), (0.25, 1.0, 0.5)
    expected = torch.tensor([(1 - 0.5) / 0.25, 1.0, 0.0])
    for images in (torch.full((2, 3, 1, 1), 255, dtype=torch.uint8), torch.ones(2, 3, 1, 1)):
        assert torch.equal(encoder.normalize(images)[1, :, 0, 0], expected)


def test_constants_are_made_once_for_a_device_and_a_type(encoder: BuiltinViT) -> None:
    first = encoder._scale(torch.ones(1, 3, 2, 2))
    assert encoder._scale(torch.zeros(4, 3, 8, 8)) is first
    assert encoder._scale(torch.ones(1, 3, 2, 2, dtype=torch.float64))[0].dtype == torch.float64
    assert "_scales" not in "".join(encoder.state_dict())


def test_constants_first_made_for_an_evaluation_serve_gradients(encoder: BuiltinViT) -> None:
    with torch.inference_mode():
        encoder(torch.zeros(1, 3, 16, 16))
    images = torch.rand(1, 3, 16, 16, requires_grad=True)
    encoder(images).patches.sum().backward()
    assert images.grad is not None
