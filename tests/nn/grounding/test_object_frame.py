"""A frame that moves, grows and turns with the object."""

import torch

from conceptlens.nn.grounding.gaussian_prior import patch_centers
from conceptlens.nn.grounding.object_frame import object_frame, pose_of


def test_pose_by_hand() -> None:
    places = patch_centers((4, 4), torch.zeros(1))
    gate = torch.zeros(1, 16)
    gate[0, [0, 3]] = 1.0  # the first row's ends: columns 0.5 and 3.5
    middle, size, _ = pose_of(places, gate, mirrored=False)
    assert middle.tolist() == [[0.5, 2.0]]
    assert abs(float(size) - (1.5**2 / 2) ** 0.5) < 1e-6


def test_moved_and_mirrored_objects_look_alike() -> None:
    places = patch_centers((10, 10), torch.zeros(1))
    creature = torch.zeros(3, 10, 10)
    creature[0, 4, 2:6] = creature[0, 3, 2] = 1.0
    creature[1, 6, 4:8] = creature[1, 5, 4] = 1.0  # two down, two to the right
    creature[2] = creature[0].flip(-1)
    gate, here = creature.flatten(1), torch.tensor([5.0, 5.0])
    framed = object_frame(places, gate, here, torch.tensor(1.0), mirrored=True)
    head = [3 * 10 + 2, 5 * 10 + 4, 3 * 10 + 7]
    for number, patch in enumerate(head):
        torch.testing.assert_close(framed[number, patch], framed[0, head[0]])


def test_an_empty_gate_gives_numbers() -> None:
    places = patch_centers((3, 3), torch.zeros(1))
    assert object_frame(places, torch.zeros(1, 9), torch.zeros(2), torch.ones(()), mirrored=True).isfinite().all()
