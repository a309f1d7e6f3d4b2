"""Methods that are told where parts are: nothing changes where nothing is told, and points draw attention to parts."""

from pathlib import Path
from typing import Any

import pytest
import torch

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.evidence_cbm import EvidenceCBM
from conceptlens.methods.explicd import Explicd
from conceptlens.methods.grounded import GroundedModel
from conceptlens.methods.ivq_cbm import IVQCBM
from conceptlens.nn.grounding.places import MarkedPlaces
from conceptlens.nn.setup import Setup
from conceptlens.testing import check_method
from tests.methods.pf_world import GRID, WIDTH, images, patches, setup, train
from tests.training.tiny import tiny

METHODS = {"evidence-cbm": EvidenceCBM, "explicd": Explicd, "ivq-cbm": IVQCBM}
every = pytest.mark.parametrize("name", METHODS)


def model(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    plain = setup()
    text = torch.nn.functional.normalize(torch.randn(len(plain.concepts), 6), dim=-1)
    torch.manual_seed(0)
    return METHODS[name](Setup(plain.concepts, text, WIDTH, plain.classes, plain.class_names), **options).eval()


def few() -> Tokens:
    return Tokens(patches()[:4], GRID)


@every
def test_where_nothing_is_told_nothing_is_there(name: str) -> None:
    plain, pointed, prior = (model(name, places=places) for places in ("none", "points", "prior"))
    assert plain.grounding is None
    assert not any("grounding" in key for key in plain.state_dict())
    assert plain.find_places(images()) is None
    assert plain.expected_maps(GRID) is None
    assert plain(few()).centroids is None
    before = plain.state_dict()
    for other in (pointed, prior):  # a method that is told draws the same weights
        after = other.state_dict()
        assert all(torch.equal(value, after[key]) for key, value in before.items())
    assert torch.equal(pointed(few()).logits, plain(few()).logits)
    assert dict(prior.named_parameters()).keys() - dict(plain.named_parameters()).keys() == {
        "grounding.prior.means",
        "grounding.prior.log_sigma",
    }


@every
def test_gaussians_begin_at_mean_points_and_enter_the_attention(name: str) -> None:
    made, plain = model(name, places="prior", sigma=1.0), model(name)
    assert made.find_places(images()) is None  # nothing per image
    assert made.grounding.prior.means.tolist() == made.grounding.prior.start_means.tolist()
    assert bool((made.grounding.prior.means != 0).any())
    expected = made.expected_maps(GRID)
    assert expected.shape == (len(setup().concepts), 144)
    torch.testing.assert_close(expected.sum(-1), torch.ones(len(expected)))
    assert not torch.allclose(made(few()).attention, plain(few()).attention)
    assert set(made.end_epoch(few())) >= {"prior_moved", "prior_sigma"}


@every
def test_points_draw_attention_to_the_parts(name: str) -> None:
    def near(made: GroundedModel) -> float:
        """Mean loss of alignment, in patches."""
        assert made.grounding is not None
        with torch.no_grad():
            output = made(Tokens(patches(), GRID))
        return float(made.teach_places(output, places).losses["alignment"].mean())

    made = model(name, places="points", alignment_weight=1.0)
    places = made.find_places(images())
    before = near(made)
    train(made.train(), places, steps=12, by_class=False, rate=1e-2)
    assert near(made.eval()) < 0.8 * before


def test_parts_that_nobody_marked_are_left_alone_and_named() -> None:
    def marked(parts: tuple[str, ...], rows: torch.Tensor) -> MarkedPlaces:
        return MarkedPlaces(parts, torch.ones(len(rows), 1, 2), torch.ones(len(rows), 1, dtype=torch.bool))

    told: list[str] = []
    made = model("evidence-cbm", places="points")
    places = made.find_places(images(known_parts=("tail",), marked=marked, note=told.append))
    at = made.part_names.index("tail")
    assert places.seen[:, at].all()
    assert int(places.seen.sum()) == len(places.seen)
    assert told == ["method.places: points: the data marks tail; nothing tells where the other parts are"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("evidence_cbm:EvidenceCBM", {"places": "prior"}),
        ("ivq_cbm:IVQCBM", {"places": "prior", "pooling": "product", "spare": 2}),
    ],
)
def test_variants_conform(name: str, options: dict[str, Any]) -> None:
    check_method(f"conceptlens.methods.{name}", **options)


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(UserError, match="aggregate: mean has none"):
        model("ivq-cbm", places="points", aggregate="mean")
    with pytest.raises(UserError, match="speaks of several"):
        model("evidence-cbm", places="prior", attention="shared")
    with pytest.raises(UserError, match=r"method\.places: points needs points of parts, but nothing is marked"):
        model("explicd", places="points").find_places(images(known_parts=()))


def test_alignment_reaches_the_loss_of_a_training(tmp_path: Path) -> None:
    recipe = tiny(tmp_path / "run", method={"name": "evidence-cbm", "places": "points"}, training__epochs=1)
    recipe["training"]["augment"] = {"crop": 1.0, "flip_horizontal": False, "flip_vertical": False}
    run = cl.train(recipe, quiet=True)
    assert [line["loss_alignment"] > 0 for line in run.read_history() if "loss_alignment" in line] == [True]
