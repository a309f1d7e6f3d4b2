"""evidence-cbm: its sum, its class-token term, its residual, and its maps wherever maps are read."""

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.explanations.maps.concept_maps import GRADCAM, OWN, concept_maps, own_maps
from conceptlens.methods.evidence_cbm import EvidenceCBM
from conceptlens.nn.setup import Setup
from conceptlens.recipes.parse import load_recipe
from conceptlens.testing import build, check_method, images


def tokens(batch: int = 3) -> Tokens:
    generator = torch.Generator().manual_seed(5)
    return Tokens(torch.randn(batch, 9, 8, generator=generator), (3, 3), cls=torch.randn(batch, 8, generator=generator))


def random_model(setup: Setup, **options: object) -> EvidenceCBM:
    torch.manual_seed(1)
    model = EvidenceCBM(setup, **options).eval()  # type: ignore[arg-type]
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    model.bottleneck.sharpness.copy_(torch.linspace(0.5, 2, len(model.bottleneck.sharpness)))
    return model


@pytest.mark.parametrize("class_token", [False, True])
def test_evidence_and_what_has_no_place_add_up_to_the_calibrated_logit(setup: Setup, class_token: bool) -> None:
    output = random_model(setup, class_token=class_token)(tokens())
    assert output.evidence is not None
    assert output.unplaced is not None
    torch.testing.assert_close(output.evidence.sum(-1) + output.unplaced, output.concept_logits, rtol=1e-5, atol=1e-5)
    spread = output.unplaced.std(0)
    assert bool((spread > 0).all()) is class_token  # without the class token, only the bias has no place


def test_within_an_exclusive_group_evidence_is_centered(setup: Setup) -> None:
    output = random_model(setup, class_token=True)(tokens())
    for group in setup.concepts.groups:
        if group.kind == "exclusive":
            total = output.evidence[:, group.concepts].sum(1)
            torch.testing.assert_close(total, torch.zeros_like(total), rtol=0, atol=1e-5)


def test_the_class_token_reaches_the_class_only_where_it_is_declared(setup: Setup) -> None:
    one, other = tokens(), tokens()
    other.cls = torch.randn_like(one.patches[:, 0])
    plain, declared = random_model(setup), random_model(setup, residual=True)
    torch.testing.assert_close(plain(one).logits, plain(other).logits)
    assert plain.bypass is None
    assert declared.bypass is not None
    output = declared(one)
    assert not torch.allclose(output.logits, declared(other).logits)
    assert output.context is not None
    torch.testing.assert_close(declared.decide_within(output.bottleneck, output.context), output.logits)


def test_layers_are_read_side_by_side(setup: Setup) -> None:
    wide = Setup(setup.concepts, setup.text, setup.width, setup.classes, setup.class_names, layer_widths=(8, 4))
    model = random_model(wide)
    given = tokens()
    given.layers = (torch.randn(3, 9, 8), torch.randn(3, 9, 4))
    before = model(given)
    for place in range(2):
        layers = list(given.layers)
        layers[place] = torch.randn_like(layers[place])
        other = model(Tokens(given.patches, given.grid, given.cls, tuple(layers)))
        assert not torch.allclose(other.concept_logits, before.concept_logits)
    other = model(Tokens(torch.randn(3, 9, 8), given.grid, given.cls, given.layers))
    assert not torch.allclose(other.concept_logits, before.concept_logits)


def test_the_preset_reads_several_layers_and_its_maps_are_signed_evidence() -> None:
    assert load_recipe({"data": "shapes", "method": "evidence-cbm"}).encoder.layers == "several"
    pipeline = build("evidence-cbm").eval().requires_grad_(False)
    made = concept_maps(pipeline, images().float() / 255)
    output = pipeline(images())
    assert set(made.maps) == {OWN, GRADCAM}
    assert made.place == "patches that leave the encoder"
    torch.testing.assert_close(made.maps[OWN], own_maps(output, pipeline.model))
    assert bool((made.maps[OWN] < 0).any())


@pytest.mark.parametrize(
    "options",
    [
        {"attention": "concept"},
        {"attention": "shared", "class_token": True},
        {"residual": True},
        {"gated": True},
        {"patch_loss": 1.0, "patch_dropout": 0.5},
    ],
)
def test_variants_conform(options: dict[str, object]) -> None:
    check_method("conceptlens.methods.evidence_cbm:EvidenceCBM", **options)


def test_a_negative_weight_is_refused(setup: Setup) -> None:
    with pytest.raises(UserError, match="entropy_weight"):
        EvidenceCBM(setup, entropy_weight=-1)
    with pytest.raises(UserError, match="patch_loss"):
        EvidenceCBM(setup, patch_loss=-1)


def test_the_loss_of_patches_tells_them_what_to_say_and_not_where_to_look(setup: Setup) -> None:
    model = EvidenceCBM(setup, patch_loss=1.0).train()
    output = model(tokens())
    assert output.patch_logits is not None
    assert output.patch_shares is not None
    (output.patch_logits * output.patch_shares).sum().backward()
    assert model.reader.queries.grad is None
    assert model.reader.weights.grad is not None
