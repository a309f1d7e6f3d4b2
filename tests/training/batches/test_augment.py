"""Random changes of images: nothing where nothing is asked for, exact flips, the same again from the same key."""

import pytest
import torch
from torch import Tensor

from conceptlens.recipes import AugmentConfig
from conceptlens.training.batches.augment import Draw, augment, draw, to_unit

NOTHING = AugmentConfig(crop=1.0, flip_horizontal=False, flip_vertical=False)


@pytest.fixture
def images() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (6, 3, 16, 16), dtype=torch.uint8, generator=generator)


def test_no_change_returns_the_image(images: Tensor) -> None:
    assert torch.allclose(augment(images, draw(NOTHING, 6, (0, 0, 0))), to_unit(images), atol=1e-5)


def test_flips_are_exact(images: Tensor) -> None:
    """Every image comes out as one of its four mirror images, and over a few draws all four occur."""
    config = AugmentConfig(crop=1.0, flip_horizontal=True, flip_vertical=True)
    seen = set()
    for step in range(6):
        changed = augment(images, draw(config, 6, (0, 0, step)))
        for before, after in zip(to_unit(images), changed, strict=True):
            mirrors = {axes: before.flip(axes) if axes else before for axes in ((), (1,), (2,), (1, 2))}
            fitting = [axes for axes, mirror in mirrors.items() if torch.allclose(after, mirror, atol=1e-5)]
            assert len(fitting) == 1
            seen.add(fitting[0])
    assert len(seen) == 4


@pytest.mark.parametrize(("flag", "axis"), [("flip_horizontal", 2), ("flip_vertical", 1)])
def test_each_flip_turns_its_own_axis(images: Tensor, flag: str, axis: int) -> None:
    off = {"flip_horizontal": False, "flip_vertical": False}
    changed = augment(images, draw(AugmentConfig(crop=1.0, **{**off, flag: True}), 6, (0, 0, 0)))
    flipped = 0
    for before, after in zip(to_unit(images), changed, strict=True):
        if not torch.allclose(after, before, atol=1e-5):
            assert torch.allclose(after, before.flip(axis), atol=1e-5)
            flipped += 1
    assert 0 < flipped < 6


def test_the_key_decides(images: Tensor) -> None:
    config = AugmentConfig(crop=0.5, rotate=20, brightness=0.2, contrast=0.2, saturation=0.2)
    first = augment(images, draw(config, 6, (1, 2, 3)))
    assert torch.equal(first, augment(images, draw(config, 6, (1, 2, 3))))
    for key in ((2, 2, 3), (1, 3, 3), (1, 2, 4)):
        assert not torch.allclose(first, augment(images, draw(config, 6, key)))


def test_pieces_of_a_batch_get_what_the_whole_would_give_them(images: Tensor) -> None:
    """Processes and accumulation steps augment slices: together they must be the whole batch."""
    config = AugmentConfig(crop=0.5, rotate=20, brightness=0.3)
    drawn = draw(config, 6, (0, 1, 2))
    parts = [augment(images[part], drawn[part]) for part in (slice(0, 2), slice(2, 6))]
    assert torch.allclose(torch.cat(parts), augment(images, drawn), atol=1e-6)


def test_values_stay_in_range(images: Tensor) -> None:
    config = AugmentConfig(crop=0.3, rotate=180, brightness=0.9, contrast=0.9, saturation=0.9)
    for step in range(5):
        changed = augment(images, draw(config, 6, (0, 0, step)))
        assert changed.shape == images.shape
        assert changed.min() >= 0
        assert changed.max() <= 1


def test_colors_by_hand() -> None:
    """Brightness halves; contrast 0 leaves the mean; saturation 0 leaves gray."""
    image = torch.tensor([[0, 100], [200, 40]], dtype=torch.uint8).expand(1, 3, 2, 2).clone()
    image[0, 0] = 255
    same = torch.tensor([[[1.0, 0, 0], [0, 1.0, 0]]])

    def colored(*factors: float) -> Tensor:
        return augment(image, Draw(same, torch.tensor([factors])))[0]

    plain = to_unit(image)[0]
    assert torch.allclose(colored(0.5, 1, 1), plain / 2, atol=1e-6)
    assert torch.allclose(colored(1, 0, 1), plain.mean().expand(3, 2, 2), atol=1e-6)
    assert torch.allclose(colored(1, 1, 0), plain.mean(0).expand(3, 2, 2), atol=1e-6)


def test_a_crop_shows_a_part_of_the_image() -> None:
    """On a ramp from left to right, a crop's values are a linear piece of the ramp, inside its range."""
    ramp = torch.linspace(0, 255, 32).round().to(torch.uint8).expand(4, 3, 32, 32)
    config = AugmentConfig(crop=0.4, flip_horizontal=False, flip_vertical=False)
    changed = augment(ramp, draw(config, 4, (0, 0, 0)))
    widths = changed[:, 0, 0, -1] - changed[:, 0, 0, 0]
    assert (widths > 0.3).all()
    assert (widths < 1).all()
    steps = changed[:, 0, 0, 1:] - changed[:, 0, 0, :-1]
    assert torch.allclose(steps, (widths / 31).unsqueeze(1).expand_as(steps), atol=6e-3)
