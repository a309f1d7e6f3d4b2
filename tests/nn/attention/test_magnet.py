"""Magnet attention against hand-worked numbers and naive loops (Eq. 5, 6, the temperature of Appendix A.2)."""

import math

import pytest
import torch

from conceptlens.nn.attention.magnet import Magnet, calibrate, entropy_share


def naive(patches: torch.Tensor, queries: torch.Tensor, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Eq. 5 and 6, patch by patch, slot by slot, in float64."""
    batch, length, width = patches.shape
    slots = len(queries)
    a = torch.zeros(batch, length, slots, dtype=torch.float64)
    m = torch.zeros(batch, slots, width, dtype=torch.float64)
    for b in range(batch):
        for j in range(length):
            powers = [math.exp(-float(((patches[b, j] - queries[k]) ** 2).sum()) / temperature) for k in range(slots)]
            for k in range(slots):
                a[b, j, k] = powers[k] / sum(powers)
                m[b, k] += a[b, j, k] * patches[b, j]
    return a, m


def test_assignment_by_hand() -> None:
    # A patch at 0, queries at 0 and at √(ln 3): weights 1 and 1/3, so 0.75 and 0.25.
    magnet = Magnet(2, 1)
    with torch.no_grad():
        magnet.queries.copy_(torch.tensor([[0.0], [math.sqrt(math.log(3))]]))
    torch.testing.assert_close(magnet.assign(torch.zeros(1, 1, 1)), torch.tensor([[[0.75, 0.25]]]))


@pytest.mark.parametrize("temperature", [1.0, 3.5])
def test_equals_naive_loops(temperature: float) -> None:
    torch.manual_seed(0)
    magnet = Magnet(4, 5, temperature=temperature).double()
    patches = torch.randn(2, 6, 5, dtype=torch.float64)
    slots, weights, assignment = magnet(patches)
    a, m = naive(patches, magnet.queries.detach(), temperature)
    torch.testing.assert_close(assignment, a)
    torch.testing.assert_close(slots, m)
    torch.testing.assert_close(weights, assignment.transpose(1, 2))
    torch.testing.assert_close(assignment.sum(-1), torch.ones(2, 6, dtype=torch.float64))


def test_mean_pooling_is_the_sum_over_the_mass() -> None:
    torch.manual_seed(0)
    summed, averaged = Magnet(3, 4), Magnet(3, 4, pooling="mean")
    averaged.load_state_dict(summed.state_dict())
    patches = torch.randn(2, 7, 4)
    slots, _, assignment = summed(patches)
    torch.testing.assert_close(averaged(patches)[0], slots / assignment.sum(1).unsqueeze(-1))
    torch.testing.assert_close(averaged(patches)[1].sum(-1), torch.ones(2, 3))


def test_lower_bound_of_the_largest_weight() -> None:
    """Appendix A.2: A_jk* ≥ 1 / (1 + (K − 1) e^{−Δ/τ}), with Δ the margin to the second nearest query."""
    torch.manual_seed(0)
    magnet = Magnet(5, 3, temperature=0.7).double()
    patches = torch.randn(4, 10, 3, dtype=torch.float64)
    distances = (patches.unsqueeze(2) - magnet.queries).square().sum(-1)
    margin = distances.sort(-1).values[..., 1] - distances.sort(-1).values[..., 0]
    bound = 1 / (1 + 4 * torch.exp(-margin / 0.7))
    assert bool((magnet.assign(patches).amax(-1) >= bound - 1e-12).all())


@pytest.mark.parametrize("target", [0.1, 0.4, 0.8])
def test_calibration_reaches_the_wanted_entropy(target: float) -> None:
    torch.manual_seed(0)
    magnet = Magnet(6, 8, temperature="calibrate", target_entropy=target, token_norm="layer", query_init="kmeans")
    patches = torch.randn(5, 20, 8) * 30 + 3
    magnet.prepare([patches])
    with torch.no_grad():
        assert float(entropy_share(magnet(patches)[2])) == pytest.approx(target, abs=0.01)


def test_raw_tokens_make_the_assignment_one_hot_and_calibration_does_not() -> None:
    """Why the calibration exists: at ViT scale with N(0, 1) queries Eq. 5 picks a single slot."""
    torch.manual_seed(0)
    patches = torch.randn(4, 49, 768)
    raw = Magnet(7, 768)
    assert float(raw(patches)[2].detach().amax(-1).mean()) > 0.95
    calibrated = Magnet(7, 768, temperature="calibrate", token_norm="layer", query_init="kmeans")
    calibrated.prepare([patches])
    _, _, assignment = calibrated(patches)
    assert float(assignment.detach().amax(-1).mean()) < 0.9
    assert float((assignment.detach().mean((0, 1)) * 7).min()) > 0.05  # every slot is fed


def test_calibrate_is_exact_for_two_equal_slots() -> None:
    assert float(entropy_share(torch.full((3, 2), 0.5))) == pytest.approx(1.0)
    distances = torch.tensor([[0.0, 1.0]])
    found = math.exp(calibrate(distances, 0.5))
    p = 1 / (1 + math.exp(-1 / found))
    assert -(p * math.log(p) + (1 - p) * math.log(1 - p)) / math.log(2) == pytest.approx(0.5, abs=1e-4)


def test_refill_feeds_an_empty_slot() -> None:
    torch.manual_seed(0)
    magnet = Magnet(3, 4)
    patches = torch.randn(4, 10, 4)
    with torch.no_grad():
        magnet.queries[2] = 1000.0
    assert float(magnet.assign(patches)[..., 2].sum()) == 0.0
    assert magnet.refill(patches) == 1
    assert float(magnet.assign(patches)[..., 2].mean()) > 0.003
    assert magnet.refill(patches) == 0


def test_one_slot_needs_no_calibration() -> None:
    magnet = Magnet(1, 4, temperature="calibrate")
    magnet.prepare([torch.randn(2, 3, 4)])
    slots, _, assignment = magnet(torch.ones(2, 3, 4))
    torch.testing.assert_close(slots, torch.full((2, 1, 4), 3.0))
    assert assignment.shape == (2, 3, 1)


def test_the_product_weighs_a_patch_by_both_softmaxes() -> None:
    torch.manual_seed(0)
    magnet = Magnet(3, 4, pooling="product", spare=2, temperature=0.8).double()
    with torch.no_grad():
        magnet.log_patch_temperature.fill_(math.log(2.5))
    patches = torch.randn(2, 6, 4, dtype=torch.float64)
    slots, weights, assignment = magnet(patches)
    assert assignment.shape == (2, 6, 5)
    assert weights.shape == (2, 3, 6)
    for image in range(2):
        distance = torch.cdist(patches[image], magnet.queries.detach()) ** 2  # (L, S + spare)
        over_slots = torch.exp(-distance / 0.8) / torch.exp(-distance / 0.8).sum(1, keepdim=True)
        over_patches = torch.exp(-distance / 2.5) / torch.exp(-distance / 2.5).sum(0, keepdim=True)
        wanted = (over_slots * over_patches)[:, :3]
        wanted = wanted / wanted.sum(0)
        torch.testing.assert_close(weights[image], wanted.T)
        torch.testing.assert_close(slots[image], wanted.T @ patches[image])


def test_both_temperatures_are_calibrated() -> None:
    torch.manual_seed(0)
    magnet = Magnet(
        4, 8, temperature="calibrate", target_entropy=0.4, patch_entropy=0.7, pooling="product", spare=1,
        token_norm="layer", query_init="kmeans",
    )  # fmt: skip
    patches = torch.randn(6, 20, 8) * 3
    magnet.prepare([patches[:4], patches[4:]])
    z = magnet.normalize(patches)
    looks = -(torch.cdist(z, magnet.queries.detach().expand(6, -1, -1)) ** 2) / magnet.log_patch_temperature.exp()
    assert float(entropy_share(looks[..., :4].transpose(1, 2).softmax(-1))) == pytest.approx(0.7, abs=0.01)
    assert float(entropy_share(magnet(patches)[2])) == pytest.approx(0.4, abs=0.01)


def test_spare_slots_take_patches_from_the_others() -> None:
    magnet = Magnet(1, 2, spare=1, pooling="mean")
    with torch.no_grad():
        magnet.queries.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    patches = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    near, far = 1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))
    torch.testing.assert_close(magnet(patches)[1], torch.tensor([[[near, far]]]))
