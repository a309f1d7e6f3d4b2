"""What any attention may be told of places, by hand and by loops; and each attention's way to take it."""

import math

import pytest
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.concepts.part_map import WHOLE
from conceptlens.core.errors import UserError
from conceptlens.nn.attention.additive_reader import AdditiveReader
from conceptlens.nn.attention.cross_attention import CrossAttention
from conceptlens.nn.attention.magnet import Magnet
from conceptlens.nn.grounding.part_places import PartPlaces, part_places, slot_centroids
from conceptlens.nn.grounding.places import PlaceTargets

CONCEPTS = ConceptSet.from_yaml(
    "{groups: {tint: {values: [red, blue], part: wing}, tail: {values: [long, short], part: tail},"
    " bill: {values: [thin, wide], part: tail}, size: {values: [small, large]}}}"
)
GROUPS = torch.tensor(CONCEPTS.group_of)
GRID = (2, 3)


def told(places: str = "prior", slot: torch.Tensor = GROUPS, **options: object) -> PartPlaces:
    made = part_places(
        CONCEPTS,
        slot,
        places=places,  # type: ignore[arg-type]
        **{"parts": "auto", "keypoint_fraction": 1.0, "sigma": 0.8, "alignment_weight": 0.5, **options},  # type: ignore[arg-type]
    )
    assert made is not None
    return made


def expected() -> torch.Tensor:
    made = told()
    assert made.prior is not None
    made.prior.start(torch.tensor([[0.5, 0.5], [1.5, 2.0]]))
    found = made.log_expected(GRID)
    assert found is not None
    return found.detach()


def test_slots_speak_of_the_part_of_all_their_concepts() -> None:
    assert told().slot_part.tolist() == [0, 1, 1, WHOLE]
    one_each = torch.arange(8)
    assert told(slot=one_each).slot_part.tolist() == [0, 0, 1, 1, 1, 1, WHOLE, WHOLE]
    assert told(slot=torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])).slot_part.tolist() == [WHOLE, 1, WHOLE]


def test_the_prior_is_a_gaussian_a_part_and_even_elsewhere() -> None:
    found = expected()
    for slot, mean in enumerate([(0.5, 0.5), (1.5, 2.0), (1.5, 2.0)]):
        weights = [
            math.exp(-((row + 0.5 - mean[0]) ** 2 + (column + 0.5 - mean[1]) ** 2) / (2 * 0.8**2))
            for row in range(2)
            for column in range(3)
        ]
        for place, weight in enumerate(weights):
            assert float(found[slot, place].exp()) == pytest.approx(weight / sum(weights), rel=1e-5)
    assert found[3].exp().tolist() == pytest.approx([1 / 6] * 6)


def test_without_places_all_gaussians_begin_in_the_middle() -> None:
    made = told()
    made.begin((4, 6))
    assert made.prior is not None
    assert made.prior.means.tolist() == [[2.0, 3.0]] * 2
    assert made.drift() == pytest.approx({"prior_moved": 0.0, "prior_sigma": 0.8})


def test_alignment_draws_every_slot_of_a_seen_part() -> None:
    made = told("points")
    attention = torch.zeros(1, 4, 6)
    attention[0, 0, 0] = 3.0  # a center at (0.5, 0.5), whatever the weights add up to
    attention[0, 1, 5] = 1.0  # (1.5, 2.5)
    attention[0, 2, :2] = 0.5  # (0.5, 1.0)
    attention[0, 3, 4] = 1.0  # of the whole: told nothing
    centers = slot_centroids(attention, GRID)
    assert centers[0].tolist() == [[0.5, 0.5], [1.5, 2.5], [0.5, 1.0], [1.5, 1.5]]
    points = torch.tensor([[[9.0, 9.0], [1.5, 1.0]]])
    seen = torch.tensor([[False, True]])
    loss = made.alignment(centers, PlaceTargets(points=points, seen=seen))["alignment"]
    # Slots of the tail: 1.5 columns away (smooth L1: 1.0), one row away (0.5); the mean of both, half weight.
    assert loss.tolist() == pytest.approx([0.5 * (1.0 + 0.5) / 2])
    assert told("points", alignment_weight=0.0).alignment(centers, PlaceTargets(points=points, seen=seen)) == {}


def test_the_additive_reader_adds_the_prior_to_its_logits() -> None:
    torch.manual_seed(0)
    reader = AdditiveReader(CONCEPTS, (5,), temperature=0.7).eval()
    torch.nn.init.normal_(reader.queries)
    x, prior = torch.randn(2, 6, 5), expected()
    normal = torch.nn.functional.layer_norm(x, (5,))
    read = reader([x], prior)
    for slot in range(4):
        logits = normal @ reader.queries[slot] / 0.7 + prior[slot]
        torch.testing.assert_close(read.attention[:, slot], logits.softmax(-1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(read.evidence.sum(-1) + reader.centered_bias(), read.logits)


@pytest.mark.parametrize("width", [8, 64])  # keys made, and keys never made
def test_every_head_of_cross_attention_adds_it(width: int) -> None:
    torch.manual_seed(0)
    attend, x, prior = CrossAttention(4, width, heads=2), torch.randn(3, 6, width), expected()
    to_query, to_key, _ = attend.attend.in_proj_weight.chunk(3)
    queries, keys = attend.queries @ to_query.T, x @ to_key.T
    half = width // 2
    wanted = torch.stack(
        [
            (keys[..., part] @ queries[:, part].T / math.sqrt(half)).mT.add(prior).softmax(-1)
            for part in (slice(0, half), slice(half, width))
        ]
    ).mean(0)
    torch.testing.assert_close(attend(x, prior)[1], wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("pooling", ["sum", "mean", "product"])
def test_magnet_with_a_prior_is_the_posterior_of_a_mixture(pooling: str) -> None:
    torch.manual_seed(0)
    magnet = Magnet(4, 3, temperature=0.9, spare=1, pooling=pooling)  # type: ignore[arg-type]
    x, prior = torch.randn(2, 6, 3), expected()
    slots, weights, assignment = magnet(x, prior)
    for image in range(2):
        for patch in range(6):
            mass = [
                (float(prior[k, patch].exp()) if k < 4 else 1 / 6)
                * math.exp(-float((x[image, patch] - magnet.queries[k]).square().sum()) / 0.9)
                for k in range(5)
            ]
            wanted = torch.tensor([each / sum(mass) for each in mass])
            torch.testing.assert_close(assignment[image, patch], wanted, rtol=1e-4, atol=1e-6)
    looks = torch.cdist(x, magnet.queries[:4]).square().div(-0.9).exp() if pooling == "product" else 1.0
    own = (assignment[..., :4] * looks).mT
    own = own if pooling == "sum" else own / own.sum(-1, keepdim=True)
    torch.testing.assert_close(weights, own, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(slots, own @ x, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_told_is_refused() -> None:
    shared = torch.zeros(8, dtype=torch.int64)
    with pytest.raises(UserError, match="speaks of several or of the whole"):
        told(slot=shared)
    for options in ({"keypoint_fraction": 0.0}, {"sigma": 0.0}, {"alignment_weight": -1.0}):
        with pytest.raises(UserError, match=f"method.{next(iter(options))}: expected"):
            told(**options)
