"""IVQ-CBM against naive float64 versions of the paper's equations and of the published code's forward pass."""

import pytest
import torch
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.ivq_cbm import IVQCBM, centered, orthogonal
from conceptlens.nn.quantization.quantization import ImplicitVQ
from conceptlens.nn.setup import Setup
from conceptlens.recipes.parse import load_recipe


def tokens(batch: int = 3, dtype: torch.dtype = torch.float32) -> Tokens:
    generator = torch.Generator().manual_seed(5)
    patches = torch.randn(batch, 9, 8, generator=generator, dtype=dtype)
    return Tokens(patches, (3, 3), cls=patches.mean(1))


def double(setup: Setup) -> Setup:
    return Setup(setup.concepts, setup.text.double(), setup.width, setup.classes)


def test_scores_are_equation_1_on_equations_5_and_6(setup: Setup) -> None:
    """With no norm, τ = 1, one slot per concept: v_k = s · cos(P m_k, τ_k) + b_k, m_k = Σ_j A_jk z_j."""
    model = IVQCBM(double(setup), temperature=1.0, token_norm="none", query_init="normal").double()
    torch.nn.init.normal_(model.bias)
    seen = tokens(dtype=torch.float64)
    output = model(seen)
    for b in range(3):
        for k in range(5):
            m = torch.zeros(8, dtype=torch.float64)
            for j in range(9):
                z = seen.patches[b, j]
                powers = torch.exp(-(z - model.magnet.queries).square().sum(-1))
                m += powers[k] / powers.sum() * z
            visual = model.project.weight @ m
            cosine = visual @ setup.text[k].double() / visual.norm()
            expected = model.log_scale.exp() * cosine + model.bias[k]
            torch.testing.assert_close(output.concept_logits[b, k], expected)


def test_class_reads_the_bottleneck_and_nothing_else(setup: Setup) -> None:
    model = IVQCBM(setup)
    output = model(tokens())
    assert torch.equal(model.decide(output.bottleneck), output.logits)
    assert model.bypass is None
    naive = output.bottleneck @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(output.logits, naive)


def test_every_patch_moves_every_concept(setup: Setup) -> None:
    """Appendix A.2, lemma 1: no concept ignores a patch, as all weights are above zero."""
    model = IVQCBM(setup)
    seen = tokens()
    model.prepare([seen], setup.concepts)
    seen.patches.requires_grad_()
    scores = model(seen).concept_logits
    for k in range(5):
        (gradient,) = torch.autograd.grad(scores[:, k].sum(), seen.patches, retain_graph=True)
        assert bool((gradient.abs().sum(-1) > 0).all())


def test_slots_per_axis_share_and_per_concept_do_not(setup: Setup) -> None:
    assert IVQCBM(setup).concept_slot.tolist() == [0, 1, 2, 3, 4]
    assert IVQCBM(setup, slots="group").concept_slot.tolist() == [0, 0, 1, 1, 2]
    assert IVQCBM(setup, slots="group")(tokens()).attention.shape == (3, 3, 9)


@pytest.mark.parametrize("aggregate", ["cls", "mean"])
def test_global_readers_have_no_map(setup: Setup, aggregate: str) -> None:
    output = IVQCBM(setup, aggregate=aggregate)(tokens())
    assert output.attention is None
    assert output.assignment is None
    assert output.slots.shape == (3, 1, 8)


def test_class_token_is_needed_where_it_is_read(setup: Setup) -> None:
    with pytest.raises(UserError, match="class token"):
        IVQCBM(setup, aggregate="cls")(Tokens(torch.randn(1, 4, 8), (2, 2)))


def test_sum_and_mean_pooling_agree_after_normalization(setup: Setup) -> None:
    """The projection has no bias, so the length of a slot cancels."""
    torch.manual_seed(0)
    summed, averaged = IVQCBM(setup), IVQCBM(setup, pooling="mean")
    averaged.load_state_dict(summed.state_dict())
    torch.testing.assert_close(summed(tokens()).concept_logits, averaged(tokens()).concept_logits)


def test_an_empty_slot_scores_its_bias(setup: Setup) -> None:
    model = IVQCBM(setup, temperature=1.0, token_norm="none")
    with torch.no_grad():
        model.magnet.queries[2] = 1e4
        model.bias[2] = 0.7
    scores = model(tokens()).concept_logits
    torch.testing.assert_close(scores[:, 2], torch.full((3,), 0.7))


def test_one_image_and_none(setup: Setup) -> None:
    model = IVQCBM(setup).eval()
    both = model(tokens(2))
    torch.testing.assert_close(model(Tokens(tokens(2).patches[:1], (3, 3))).logits, both.logits[:1])
    assert model(Tokens(torch.zeros(0, 9, 8), (3, 3))).logits.shape == (0, 2)


def test_released_preset_is_the_published_forward(setup: Setup) -> None:
    """A naive rewriting of what the published code computes, from its description: slots per axis by a one-step soft
    assignment to frozen N(0, 1) queries, FFN, norm, projection, unit length, scaled cosines, linear head; β = 1."""
    recipe = load_recipe({"data": "shapes", "method": "ivq-cbm-released"})
    options = {key: value for key, value in recipe.method.items() if key != "name"}
    torch.manual_seed(0)
    model = IVQCBM(double(setup), **options).double()  # type: ignore[arg-type]
    seen = tokens(dtype=torch.float64)
    queries = model.magnet.queries
    distances = (seen.patches.unsqueeze(2) - queries).square().sum(-1)
    shares = torch.exp(-distances) / torch.exp(-distances).sum(-1, keepdim=True)
    slots = torch.einsum("bls,bld->bsd", shares, seen.patches)
    first, _, second, norm, out = model.project
    hidden = torch.relu(slots @ first.weight.T + first.bias) @ second.weight.T + second.bias
    visual = F.layer_norm(hidden, (8,), norm.weight, norm.bias) @ out.weight.T
    visual = visual / visual.norm(dim=-1, keepdim=True)
    text, columns = setup.text.double(), []
    for axis, group in enumerate(setup.concepts.groups):
        columns.append(100 * visual[:, axis] @ text[group.concepts].T)
    expected = torch.cat(columns, -1)
    output = model(seen)
    torch.testing.assert_close(output.concept_logits, expected)
    torch.testing.assert_close(output.logits, expected @ model.head.weight.T + model.head.bias)

    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert frozen == {"magnet.queries", "magnet.log_temperature", "log_scale", "bias"}
    quantizer = ImplicitVQ(double(setup), **{k: v for k, v in recipe.regularizer.items() if k != "name"}).double()  # type: ignore[arg-type]
    assert len(quantizer.codebook) == 3
    assert not quantizer.codebook.requires_grad
    nearest = (seen.patches.unsqueeze(2) - quantizer.codebook).square().sum(-1).min(-1).values
    torch.testing.assert_close(quantizer(seen).losses["ivq"], 2 * nearest.mean(-1) / 8)


def test_gradients_reach_everything_that_learns(setup: Setup) -> None:
    model, regularizer = IVQCBM(setup), ImplicitVQ(setup)
    seen = tokens()
    output = model(regularizer(seen).tokens)
    (output.logits.square().sum() + regularizer(seen).losses["ivq"].sum()).backward()
    for module in (model, regularizer):
        for name, parameter in module.named_parameters():
            if name == "magnet.log_temperature":
                continue  # set from data, not learned
            assert parameter.grad is not None, name
            assert float(parameter.grad.abs().sum()) > 0, name


def test_state_round_trip(setup: Setup) -> None:
    first, second = IVQCBM(setup), IVQCBM(setup)
    first.prepare([tokens()], setup.concepts)
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(tokens()).logits, second(tokens()).logits)


def test_scale_must_be_positive(setup: Setup) -> None:
    with pytest.raises(UserError, match="logit_scale"):
        IVQCBM(setup, logit_scale=0)


def test_centered_texts_point_away_from_what_they_share() -> None:
    text = torch.tensor([[0.6, 0.8], [0.8, 0.6]])
    half = 0.5**0.5
    assert torch.allclose(centered(text), torch.tensor([[-half, half], [half, -half]]))


def test_orthogonal_texts_are_the_closest_at_right_angles() -> None:
    """Of two vectors 60° apart, those turned by 15° each, away from each other."""
    degrees = torch.deg2rad(torch.tensor([15.0, 75.0]))
    text = torch.stack([degrees.cos(), degrees.sin()], 1)
    turned = torch.deg2rad(torch.tensor([0.0, 90.0]))
    assert torch.allclose(orthogonal(text), torch.stack([turned.cos(), turned.sin()], 1), atol=1e-6)
    many = orthogonal(F.normalize(torch.randn(9, 4), dim=-1))  # no room for right angles
    assert torch.allclose(many.norm(dim=-1), torch.ones(9), atol=1e-6)
