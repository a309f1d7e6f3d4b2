"""Two views of a batch: the first never changes, the second shows the same place where patches are compared."""

import torch

from conceptlens.nn.regularizers.regularizer import SecondView
from conceptlens.recipes import AugmentConfig
from conceptlens.training.batches.augment import draw
from conceptlens.training.batches.views import draw_views

KEY = (3, 1, 4)


def same(first: object, second: object) -> bool:
    return torch.equal(first.affine, second.affine) and torch.equal(first.color, second.color)


def test_the_first_view_is_that_of_every_other_method() -> None:
    config = AugmentConfig(brightness=0.1)
    alone = draw(config, 6, KEY)
    assert len(draw_views(config, None, 6, KEY)) == 1
    for second in (None, SecondView(), SecondView(same_place=True, color=0.5)):
        assert same(draw_views(config, second, 6, KEY)[0], alone)


def test_views_of_images_differ_in_place_and_color() -> None:
    first, second = draw_views(AugmentConfig(), SecondView(color=0.4), 64, KEY)
    assert not bool((first.affine == second.affine).flatten(1).all(1).any())
    assert torch.equal(first.color, torch.ones(64, 3))
    assert float((second.color - 1).abs().max()) <= 0.4
    assert float((second.color - 1).abs().max()) > 0.3


def test_views_of_patches_show_the_same_place() -> None:
    first, second = draw_views(AugmentConfig(rotate=20), SecondView(same_place=True, color=0.4), 8, KEY)
    assert torch.equal(first.affine, second.affine)
    assert not torch.equal(first.color, second.color)


def test_the_second_view_is_never_weaker_than_the_trainings_own() -> None:
    config = AugmentConfig(brightness=0.8)
    second = draw_views(config, SecondView(color=0.1), 256, KEY)[1]
    spread = (second.color - 1).abs().amax(0)
    assert float(spread[0]) > 0.7
    assert float(spread[1:].max()) <= 0.1


def test_drawn_again_for_the_same_step_and_not_for_the_next() -> None:
    again = [draw_views(AugmentConfig(), SecondView(color=0.4), 4, (3, 1, step))[1] for step in (4, 4, 5)]
    assert same(again[0], again[1])
    assert not same(again[0], again[2])
