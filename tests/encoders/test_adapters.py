"""Gradient checkpointing gives the same gradients; adapters start as nothing and are all that learns."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.encoders import make_encoder
from conceptlens.encoders.adapters import add_lora, checkpoint_blocks
from conceptlens.encoders.contract import Encoder
from conceptlens.encoders.freezing import set_trainable
from conceptlens.recipes.schema import EncoderConfig
from tests.training.tiny import tiny


def encoder(name: str = "timm/test_vit") -> Encoder:
    torch.manual_seed(0)
    options = {"width": 16, "depth": 2, "heads": 2} if name.startswith("builtin") else {}
    config = EncoderConfig(name=name, image_size=32, pretrained=False, options=options)  # type: ignore[arg-type]
    return make_encoder(config).train()


def gradients(own: Encoder) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    own(torch.rand(2, 3, 32, 32)).patches.square().sum().backward()
    return {name: value.grad for name, value in own.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("name", ["builtin/vit-mini", "timm/test_vit"])
def test_checkpointing_gives_the_same_gradients(name: str) -> None:
    plain, saving = encoder(name), encoder(name)
    set_trainable(plain, 1)
    set_trainable(saving, 1)
    checkpoint_blocks(saving)
    expected, found = gradients(plain), gradients(deepcopy(saving))
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[key], found[key]) for key in expected)
    assert plain.state_dict().keys() == saving.state_dict().keys()
    assert "Checkpointed" not in type(saving.blocks()[0]).__name__  # frozen, and no gradient passes


def test_a_frozen_encoder_has_nothing_to_checkpoint() -> None:
    own = encoder()
    set_trainable(own, "none")
    with pytest.raises(UserError, match="frozen"):
        checkpoint_blocks(own)
    with pytest.raises(UserError, match=r"encoder\.train is none"):
        add_lora(own, "none", 4)


@pytest.mark.slow
def test_adapters_alone_learn() -> None:
    pytest.importorskip("peft")
    own, images = encoder(), torch.rand(2, 3, 32, 32)
    before = own.eval()(images).patches
    add_lora(own.train(), 1, 2)
    assert torch.equal(own.eval()(images).patches, before)
    learning = [name for name, value in own.named_parameters() if value.requires_grad]
    assert learning
    assert all("lora_" in name for name in learning)
    last = len(own.blocks()) - 1
    assert all(f"blocks.{last}." in name for name in learning)
    grown = sum(value.numel() for value in own.parameters() if value.requires_grad)
    linear = [module.base_layer for module in own.blocks()[-1].modules() if hasattr(module, "base_layer")]
    assert grown == sum(2 * (layer.in_features + layer.out_features) for layer in linear)  # rank 2
    assert gradients(own.train()).keys() == set(learning)


@pytest.mark.slow
def test_a_run_with_adapters_opens_again(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    recipe = tiny(tmp_path / "run", training__epochs=1, encoder__train=1, encoder__lora=2, encoder__checkpointing=True)
    model = cl.train(recipe, quiet=True)
    images = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), np.uint8)
    assert np.array_equal(model.predict(images).probabilities, cl.load(model.path).predict(images).probabilities)
