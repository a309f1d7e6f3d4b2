"""Frozen parts get no gradient and stay as they are; equal weights have equal hashes."""

import pytest
import torch
from torch import nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.encoders.contract import Encoder
from conceptlens.encoders.freezing import set_trainable, weights_hash
from conceptlens.encoders.timm.encoder import TimmEncoder


def vit() -> BuiltinViT:
    torch.manual_seed(0)
    return BuiltinViT(image_size=32, width=12, depth=3, heads=3, stem_width=4, drop_path=0.5, pretrained=False)


def learning(encoder: Encoder) -> set[str]:
    return {name for name, parameter in encoder.named_parameters() if parameter.requires_grad}


def test_last_blocks_and_tail_learn() -> None:
    encoder = vit()
    set_trainable(encoder, 2)
    assert learning(encoder) == {
        name for name, _ in encoder.named_parameters() if name.startswith(("trunk.1.", "trunk.2.", "norm."))
    }
    tokens = encoder.train()(torch.rand(8, 3, 32, 32))
    assert tokens.cls is not None
    (tokens.patches.square().sum() + (tokens.cls * torch.rand(12)).sum()).backward()
    assert {name for name, parameter in encoder.named_parameters() if parameter.grad is not None} == learning(encoder)


@pytest.mark.parametrize("nothing", ["none", 0])
def test_nothing_learns_and_all_learns_again(nothing: str | int) -> None:
    encoder = vit()
    set_trainable(encoder, nothing)  # type: ignore[arg-type]
    assert not learning(encoder)
    assert not encoder(torch.rand(1, 3, 32, 32)).patches.requires_grad
    set_trainable(encoder, "all")
    assert {name for name, _ in encoder.named_parameters()} - learning(encoder) == {"to_text.weight"}


def test_frozen_parts_stay_in_evaluation_mode() -> None:
    encoder = vit()
    set_trainable(encoder, 1)
    encoder.train()
    assert [block.training for block in encoder.trunk] == [False, False, True]
    assert encoder.training
    assert not encoder.stem.training
    encoder.eval()
    assert not any(module.training for module in encoder.modules())
    set_trainable(encoder, "none")
    encoder.train()
    assert not any(module.training for module in encoder.modules())


def test_a_pipeline_s_training_mode_does_not_wake_frozen_batch_norms() -> None:
    encoder = TimmEncoder("timm/test_resnet", pretrained=False)
    set_trainable(encoder, 1)
    nn.ModuleList([encoder]).train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    encoder(torch.rand(2, 3, 64, 64))
    changed = {name for name, value in encoder.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert all(name.startswith("model.layer4.") for name in changed)


def test_too_many_blocks_and_other_values() -> None:
    with pytest.raises(UserError, match=r"last 4 blocks, but builtin/vit has 3"):
        set_trainable(vit(), 4)
    for value in (-1, True, "some", 1.5):
        with pytest.raises(UserError, match=r"expected 'all', 'none' or a number"):
            set_trainable(vit(), value)  # type: ignore[arg-type]


def test_hash_follows_the_weights() -> None:
    first, second = vit(), vit()
    assert weights_hash(first) == weights_hash(second)
    assert len(weights_hash(first)) == 16
    with torch.no_grad():
        second.norm.bias[0] += 1e-6
    assert weights_hash(first) != weights_hash(second)
    assert weights_hash(first.bfloat16()) != weights_hash(vit())
