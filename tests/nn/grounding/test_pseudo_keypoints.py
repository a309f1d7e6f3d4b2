"""Prototypes where their patches are, named by the cheapest assignment."""

from itertools import permutations

import torch

from conceptlens.nn.grounding.gaussian_prior import patch_centers
from conceptlens.nn.grounding.pseudo_keypoints import name_prototypes, prototype_points


def test_points_by_hand() -> None:
    """Two prototypes on a 2 × 2 grid; a patch in the background counts for neither."""
    prototypes = torch.eye(2)
    patches = torch.tensor([[[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.0, 1.0]]])
    foreground = torch.tensor([[1.0, 0.5, 0.8, 0.2]])
    points, seen = prototype_points(patches, foreground, patch_centers((2, 2), patches), prototypes)
    torch.testing.assert_close(points, torch.tensor([[[0.5, (0.5 + 1.5 * 0.5) / 1.5], [1.5, 0.5]]]))
    assert seen.tolist() == [[True, True]]
    _, none = prototype_points(patches, torch.zeros(1, 4), patch_centers((2, 2), patches), prototypes)
    assert not none.any()


def test_naming_is_the_cheapest_of_all() -> None:
    torch.manual_seed(0)
    found, true = torch.rand(6, 4, 2) * 10, torch.rand(6, 4, 2) * 10
    found_seen, true_seen = torch.rand(6, 4) > 0.3, torch.rand(6, 4) > 0.3

    def price(order: tuple[int, ...]) -> float:
        total = 0.0
        for part, prototype in enumerate(order):
            rows = [n for n in range(6) if true_seen[n, part]]
            away = [
                float((true[n, part] - found[n, prototype]).norm()) if found_seen[n, prototype] else 14.0 for n in rows
            ]
            total += sum(away) / max(len(rows), 1)
        return total

    best = min(permutations(range(4)), key=price)
    assert tuple(name_prototypes(found, found_seen, true, true_seen, 14.0).tolist()) == best
