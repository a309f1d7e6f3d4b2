"""PF-CBM: where it begins, what it learns from, what it guarantees, what it refuses."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.regions.part_points import read_points
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.pf_cbm.pf_cbm import PFCBM
from conceptlens.nn.grounding.gaussian_prior import patch_centers
from conceptlens.nn.grounding.places import MarkedPlaces, PlaceTargets
from conceptlens.nn.setup import Setup
from conceptlens.recipes.parse import load_recipe
from tests.methods.pf_world import GRID, WHERE, WIDTH, N, images, model, patches, pointing, source, spread, train


def few() -> Tokens:
    return Tokens(patches()[:5], GRID)


def birds() -> PFCBM:
    torch.manual_seed(0)
    concepts = ConceptSet.load("cub-312")
    return PFCBM(Setup(concepts, torch.zeros(312, 0), WIDTH, 4), inner=16, hidden=8)


def test_cub_s_slots() -> None:
    """293 concepts read one of 12 parts, 19 the token of the whole, which has no Gaussian."""
    made = birds()
    assert len(made.slot_names) == 13
    assert int((made.concept_slot < 12).sum()) == 293
    output = made(few())
    assert output.attention is not None
    assert output.attention.shape == (5, 13, 144)
    assert made.grounding.prior is not None
    assert len(made.grounding.prior.means) == 12


def test_perturbing_another_slot_leaves_a_score_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guarantee, through the whole model: every bit of every other concept's score."""
    made = birds().eval()
    found = made.grounding(few())
    before = made(few()).concept_logits
    for slot in range(13):
        slots = found.slots.clone()
        slots[:, slot] += 100 * torch.randn_like(slots[:, slot])
        changed = type(found)(slots, found.attention, found.gate, found.places)
        monkeypatch.setattr(made.grounding, "forward", lambda tokens, changed=changed: changed)
        after = made(few()).concept_logits
        others = made.concept_slot != slot
        assert torch.equal(after[:, others], before[:, others])
        assert not torch.equal(after[:, ~others], before[:, ~others])


def test_the_class_reads_probabilities_and_sequential_sends_nothing_back() -> None:
    made = birds()
    output = made(few())
    torch.testing.assert_close(output.bottleneck, output.concept_logits.sigmoid())
    torch.testing.assert_close(output.logits, F.linear(output.bottleneck, made.head.weight, made.head.bias))
    sequential = model(class_gradient=0.0)
    sequential(few()).logits.sum().backward()
    assert sequential.head.weight.grad is not None
    assert all(value.grad is None for value in sequential.grounding.parameters())
    assert sequential.temperature.log.grad is None


def test_rates_of_the_parameter_groups() -> None:
    """The grounding path learns at a tenth of the rate of class head and temperatures: 3e-5 beside 3e-4."""
    made = model(prior_rate=2.0)
    rates = {name: getattr(value, "rate", 1.0) for name, value in made.named_parameters()}
    assert rates["head.weight"] == rates["temperature.log"] == 1.0
    assert rates["grounding.prior.means"] == rates["grounding.prior.log_sigma"] == 2.0
    slow = [rate for name, rate in rates.items() if name.startswith(("grounding.", "score.")) and "prior" not in name]
    assert set(slow) == {0.1}


def test_gaussians_begin_at_the_mean_points() -> None:
    made = model()
    made.find_places(images())
    points, seen = read_points(source(), np.arange(N), made.part_names, **WHERE)
    for part in range(len(made.part_names)):
        rows = seen[:, part]
        expected = torch.from_numpy(points[rows, part].mean(0))
        torch.testing.assert_close(made.grounding.prior.means[part].detach(), expected, rtol=1e-5, atol=1e-5)


def test_a_fraction_of_the_images_is_looked_at() -> None:
    asked: list[int] = []
    plain = images()

    def marked(parts: tuple[str, ...], rows: torch.Tensor) -> MarkedPlaces:
        asked.append(len(rows))
        return plain.marked(parts, rows)

    model(keypoint_fraction=0.05).find_places(images(marked=marked))
    assert asked == [round(0.05 * N)]


def test_targets_of_each_row_of_table_2() -> None:
    places = {
        name: model(**options).find_places(images())
        for name, options in {
            "pfcbm": {"foreground": "box", "keypoints": "image", "prior": False},
            "spatial_prior": {"foreground": "box"},
            "no_bbox_pca": {"keypoints": "image", "prior": False},
            "no_bbox_spatial_prior": {},
            "no_bbox_no_kp": {"prior": False},
            "pseudo_kp": {"keypoints": "pseudo", "prior": False, "keypoint_fraction": 0.1},
            "pseudo_kp_tight": {"foreground": "pca-tight", "keypoints": "pseudo", "prior": False},
        }.items()
    }
    for name, found in places.items():
        assert found is not None
        assert found.foreground is not None
        assert found.foreground.shape == (N, 144)
        assert (found.points is not None) == ("pca" in name or name == "pfcbm" or "pseudo" in name)
    box = places["pfcbm"].foreground.float()
    assert 0.1 < float(box.mean()) < 0.9
    assert float(((box > 0) & (box < 1)).float().mean()) < 0.3
    assert model(foreground="none", prior=False).find_places(images()) is None


def test_losses_by_place() -> None:
    made = model(prior=False, keypoints="image", foreground_weight=2.0, alignment_weight=0.5)
    output = made(few())
    points, seen = torch.rand(5, 6, 2) * 12, torch.rand(5, 6) > 0.4
    target = torch.rand(5, 144)
    taught = made.teach_places(output, PlaceTargets(target, torch.ones(5, dtype=torch.bool), points, seen))
    for row in range(5):
        surprise = F.binary_cross_entropy_with_logits(output.gate[row], target[row])
        assert float(taught.losses["foreground"][row].detach()) == pytest.approx(2 * float(surprise.detach()), rel=1e-5)
        away = [
            float(F.smooth_l1_loss(output.centroids[row, p].detach(), points[row, p], reduction="sum"))
            for p in range(6)
            if seen[row, p]
        ]
        expected = 0.5 * sum(away) / max(len(away), 1)
        assert float(taught.losses["alignment"][row].detach()) == pytest.approx(expected, rel=1e-4)
    assert "entropy" in taught.losses
    assert output.attention is not None
    spread = -(output.attention * output.attention.clamp_min(1e-38).log()).sum(-1)  # (B, parts and the whole)
    torch.testing.assert_close(taught.losses["entropy"], 0.001 * spread.mean(1))
    silent = model(prior=False, foreground_weight=0, alignment_weight=0, entropy_weight=0)
    quiet = silent.teach_places(silent(few()), PlaceTargets(target, torch.ones(5, dtype=torch.bool), points, seen))
    assert quiet.losses == {}


@pytest.mark.slow
def test_without_the_prior_the_queries_collapse_and_with_it_they_do_not() -> None:
    """With labels that follow from the class, as CUB's are used: any place then tells a concept as well as its own.

    Three seeds: where queries that have collapsed come to lie is a matter of luck, and may be near some part.
    """
    gains = []
    for seed in range(3):
        found = {}
        for prior in (False, True):
            made = model(seed, prior=prior)
            places = made.find_places(images())
            train(made, places, steps=40, by_class=True)
            found[prior] = (spread(made), pointing(made))
        assert found[False][0] < 1.6
        assert found[True][0] > 2.0
        gains.append(found[True][1] - found[False][1])
    assert min(gains) > 0
    assert np.mean(gains) > 0.05


@pytest.mark.slow
def test_much_entropy_takes_the_word_from_the_prior() -> None:
    """Entropy falls for ever as queries grow, and AdamW follows however small its gradient is: with more of it queries
    drown the Gaussians and settle where they were when they grew loud."""
    found = {}
    for weight in (0.001, 0.01):
        made = model(entropy_weight=weight)
        places = made.find_places(images())
        train(made, places, steps=60, by_class=False, rate=1e-2)
        queries, gaussians = made.grounding.say(few())
        found[weight] = (pointing(made), queries / gaussians)
    assert found[0.001][0] > 0.8
    assert found[0.001][1] < 2
    assert found[0.01][0] < found[0.001][0] - 0.2
    assert found[0.01][1] > found[0.001][1]


@pytest.mark.parametrize(
    ("recipe", "weight"),
    [
        ("cub/pf-cbm", 0.001),
        ("cub/pf-cbm-spatial-prior", 0.001),
        ("cub/pf-cbm-no-keypoints", 0.001),
        ("cub/pf-cbm-pca", 0.01),
        ("cub/pf-cbm-box-keypoints", 0.01),
        ("cub/pf-cbm-pseudo-tight", 0.01),
    ],
)
def test_recipes_with_points_bear_more_entropy(recipe: str, weight: float) -> None:
    """As chosen on validation images."""
    assert load_recipe(recipe).method["entropy_weight"] == weight


def test_rough_places_of_a_map_where_nothing_is_marked() -> None:
    concepts = ConceptSet.load("blood-cells")
    made = PFCBM(Setup(concepts, torch.zeros(31, 0), WIDTH, 5), inner=8, hidden=4)
    made.find_places(images(known_parts=()))
    prior = made.grounding.prior
    assert prior.means.tolist() == [[6.0, 6.0]] * 4
    assert prior.log_sigma.exp()[:, 0].tolist() == pytest.approx([3.0, 1.44, 2.4, 1.92])


def nothing_seen(parts: tuple[str, ...], rows: torch.Tensor) -> MarkedPlaces:
    return MarkedPlaces(
        parts, torch.zeros(len(rows), len(parts), 2), torch.zeros(len(rows), len(parts), dtype=torch.bool)
    )


def no_tail(parts: tuple[str, ...], rows: torch.Tensor) -> MarkedPlaces:
    seen = torch.ones(len(rows), len(parts), dtype=torch.bool)
    seen[:, parts.index("tail")] = False
    return MarkedPlaces(parts, torch.ones(len(rows), len(parts), 2), seen)


@pytest.mark.parametrize(
    ("options", "changes", "message"),
    [
        ({}, {"known_parts": ()}, "method.prior needs points of parts, but nothing is marked in these images"),
        (
            {},
            {"known_parts": ("body", "head", "tails", "legs", "wing", "antennae")},
            "marks no part 'tail'. Did you mean",
        ),
        ({}, {"marked": nothing_seen}, "no part is visible in any of the 192 images"),
        ({}, {"marked": no_tail}, "tail: visible in none of the 192 annotated images"),
        ({"keypoints": "image"}, {"known_parts": ()}, "method.keypoints: image needs points of parts"),
        ({"keypoints": "pseudo", "foreground": "none"}, {}, "pseudo points are looked for in the foreground"),
        ({"pose": "object", "foreground": "none"}, {}, "the object's frame needs a foreground"),
    ],
)
def test_what_is_missing_is_said(options: dict, changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        model(**options).find_places(images(**changes))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keypoint_fraction": 0.0}, "keypoint_fraction: expected a share above 0"),
        ({"sigma": 0.0}, "method.sigma: expected a width above 0"),
        ({"entropy_weight": -1.0}, "expected weights of 0 or more"),
        ({"inner": 0}, "expected widths of 1 or more"),
        ({"parts": "nowhere"}, "Unknown part map 'nowhere'"),
    ],
)
def test_options_that_cannot_be_meant(options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        model(**options)


def test_a_blind_reader_points_at_the_means() -> None:
    made = model()
    made.find_places(images())
    maps = made.expected_maps(GRID)
    peaks = patch_centers(GRID, maps)[maps.argmax(-1)]
    away = (peaks - made.grounding.prior.means.detach()[made.concept_slot]).abs().max()
    assert float(away) <= 0.5
    assert model(prior=False).expected_maps(GRID) is None
