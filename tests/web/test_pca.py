"""Maps by principal components, checked by hand; passes of several threads do not meet."""

import threading

import numpy as np
import torch

from conceptlens.explanations.maps.gradcam import watch
from conceptlens.runs.saved import load_pipeline
from conceptlens.stats.pca import places
from tests.web.conftest import World


def test_points_on_a_line_by_hand() -> None:
    spots, shares = places(np.array([[0.0, 0.0], [1.0, 1.0], [5.0, 5.0]]))
    np.testing.assert_allclose(shares, [1, 0, 0], atol=1e-12)
    along = [spot[0] for spot in spots]
    # Centered at 2: −2, −1, 3 along the line; the farthest point is at 1.
    np.testing.assert_allclose(along, [-2 / 3, -1 / 3, 1], atol=1e-5)


def test_three_axes_of_given_lengths() -> None:
    corners = np.array([[2.0, 0, 0, 0], [-2, 0, 0, 0], [0, 1, 0, 0], [0, -1, 0, 0], [0, 0, 0.5, 0], [0, 0, -0.5, 0]])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    spots, shares = places(corners @ turn + 7)
    np.testing.assert_allclose(shares, np.array([4, 1, 0.25]) / 5.25, atol=1e-9)
    np.testing.assert_allclose(np.abs(spots).max(0), [1, 0.5, 0.25], atol=1e-5)


def test_one_point_and_equal_points() -> None:
    assert places(np.ones((1, 5))) == ([(0.0, 0.0, 0.0)], [0.0, 0.0, 0.0])
    assert places(np.ones((4, 1)))[0] == [(0.0, 0.0, 0.0)] * 4


def test_gradcam_of_two_threads_at_once(world: World) -> None:
    pipeline, card, concepts = load_pipeline(world.slots)
    pipeline.requires_grad_(False)
    size = card.image_size
    draw = torch.Generator().manual_seed(0)
    images = [torch.randint(0, 256, (1, 3, size, size), dtype=torch.uint8, generator=draw) for _ in range(2)]
    columns = torch.arange(len(concepts))[None]
    wanted = [watch(pipeline, image).maps(columns) for image in images]
    wrong: list[int] = []

    def work(which: int) -> None:
        for _ in range(20):
            if not torch.allclose(watch(pipeline, images[which]).maps(columns), wanted[which], atol=1e-6):
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(which,)) for which in (0, 1)]
    for thread in threads:
        thread.start()
    with torch.inference_mode():
        for _ in range(20):
            pipeline(images[0])
    for thread in threads:
        thread.join()
    assert wrong == []
