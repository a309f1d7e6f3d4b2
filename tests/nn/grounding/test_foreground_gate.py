"""PF-CBM's gate: Eq. 1, and what it does inside attention."""

import math

import torch
from torch.nn import functional as F

from conceptlens.nn.grounding.foreground_gate import EPSILON, ForegroundGate, foreground_loss, log_gate
from conceptlens.nn.grounding.part_attention import PartAttention


def test_equation_1() -> None:
    torch.manual_seed(0)
    gate = ForegroundGate(6, 4).double()
    patches = torch.randn(2, 3, 6, dtype=torch.float64)
    mean, variance = patches.mean(-1, keepdim=True), patches.var(-1, keepdim=True, correction=0)
    normal = (patches - mean) / (variance + 1e-5).sqrt() * gate.norm.weight + gate.norm.bias
    inner = normal @ gate.hidden.weight.T + gate.hidden.bias
    active = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    torch.testing.assert_close(gate(patches), (active @ gate.out.weight.T + gate.out.bias)[..., 0])


def test_moving_the_norm_s_scale_into_the_next_layer_changes_no_gradient() -> None:
    torch.manual_seed(3)
    gate = ForegroundGate(6, 4).double()
    with torch.no_grad():
        gate.norm.weight.uniform_(0.5, 2)
        gate.norm.bias.normal_()
    patches = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    towards = torch.randn(2, 3, dtype=torch.float64)
    (gate(patches) * towards).sum().backward()
    ours = {name: value.grad.clone() for name, value in (*gate.named_parameters(), ("patches", patches))}
    gate.zero_grad()
    patches.grad = None
    plain = gate.out(F.gelu(gate.hidden(gate.norm(patches)))).squeeze(-1)
    (plain * towards).sum().backward()
    for name, value in (*gate.named_parameters(), ("patches", patches)):
        torch.testing.assert_close(ours[name], value.grad, msg=name)


def test_in_bfloat16_under_autocast() -> None:
    """As stored tokens come: statistics in fp32, products in bfloat16, and frozen patches need no gradient."""
    torch.manual_seed(4)
    gate, patches = ForegroundGate(64, 16), torch.randn(2, 9, 64)
    with torch.autocast("cpu", torch.bfloat16):
        found = gate(patches.bfloat16())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), gate(patches), rtol=0.05, atol=0.02)
    found.sum().backward()
    assert all(value.grad is not None for value in gate.parameters())


def test_log_gate_by_hand() -> None:
    z = torch.tensor([0.0, 200.0, -200.0])
    torch.testing.assert_close(
        log_gate(z), torch.tensor([math.log(0.5 + EPSILON), math.log1p(EPSILON), math.log(EPSILON)])
    )


def test_a_closed_gate_removes_a_patch_and_still_has_a_gradient() -> None:
    """After the softmax a patch counts g times as much: with g = 0 hardly at all, and nothing is cut off."""
    torch.manual_seed(1)
    attend, patches = PartAttention(3, 8, 4), torch.randn(2, 10, 8)
    logits = torch.zeros(2, 10)
    logits[:, 4] = -200.0
    logits.requires_grad_()
    slots, attention = attend(patches, log_gate(logits)[:, None])
    assert float(attention[:, :, 4].detach().max()) < 1e-4
    changed = patches.clone()
    changed[:, 4] += 1.0
    torch.testing.assert_close(attend(changed, log_gate(logits)[:, None])[0], slots, rtol=0, atol=1e-3)
    slots.sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_gate_multiplies_unnormalized_weights() -> None:
    torch.manual_seed(2)
    attend, patches = PartAttention(2, 8, 4), torch.randn(1, 6, 8)
    gate = torch.rand(1, 6)
    _, plain = attend(patches, torch.zeros(1, 1, 6))
    _, gated = attend(patches, log_gate(torch.logit(gate))[:, None])
    weighted = plain * (gate[:, None] + EPSILON)
    torch.testing.assert_close(gated, weighted / weighted.sum(-1, keepdim=True))


def test_loss_is_the_mean_over_patches_of_known_images() -> None:
    logits, target = torch.randn(3, 5), torch.rand(3, 5)
    found = foreground_loss(logits, target, torch.tensor([True, False, True]))
    share = logits.sigmoid()
    naive = -(target * share.log() + (1 - target) * (1 - share).log()).mean(-1)
    torch.testing.assert_close(found, naive * torch.tensor([1.0, 0.0, 1.0]))
    torch.testing.assert_close(found[0], F.binary_cross_entropy_with_logits(logits[0], target[0]))
