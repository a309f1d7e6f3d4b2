"""The built-in EfficientNet-Lite0: its numbers, its layers on one grid, stored tokens, its weights file."""

from typing import Any

import pytest
import timm
import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.core.files import stored
from conceptlens.encoders import make_encoder
from conceptlens.encoders.builtin.efficientnet_lite0 import WEIGHTS, EfficientNetLite0
from conceptlens.encoders.contract import Cut
from conceptlens.encoders.freezing import set_trainable
from conceptlens.recipes.schema import EncoderConfig


@pytest.fixture(scope="module")
def shipped() -> EfficientNetLite0:
    return EfficientNetLite0(layers=[4, 6, 3]).eval()


def images(count: int = 2, height: int = 64, width: int = 64) -> Tensor:
    return torch.rand(count, 3, height, width, generator=torch.Generator().manual_seed(0))


def timm_s(encoder: EfficientNetLite0) -> nn.Module:
    """timm's network of that name with our weights: its batch norms add our biases and do nothing else."""
    model: Any = timm.create_model("tf_efficientnet_lite0", pretrained=False).eval()

    def put(convolution: nn.Conv2d, norm: nn.BatchNorm2d, ours: nn.Conv2d) -> None:
        convolution.weight.data.copy_(ours.weight)
        norm.running_mean.zero_()
        norm.running_var.fill_(1 - norm.eps)
        norm.weight.data.fill_(1)
        norm.bias.data.copy_(ours.bias)

    put(model.conv_stem, model.bn1, encoder.stem)
    for stage, blocks in zip(model.blocks, encoder.stages, strict=True):
        for theirs, block in zip(stage, blocks, strict=True):
            if block.expand is None:
                put(theirs.conv_dw, theirs.bn1, block.depthwise)
                put(theirs.conv_pw, theirs.bn2, block.project)
            else:
                put(theirs.conv_pw, theirs.bn1, block.expand)
                put(theirs.conv_dw, theirs.bn2, block.depthwise)
                put(theirs.conv_pwl, theirs.bn3, block.project)
    put(model.conv_head, model.bn2, encoder.head)
    return model  # type: ignore[no-any-return]


@torch.no_grad()
def test_it_is_timm_s_network(shipped: EfficientNetLite0) -> None:
    pixels = shipped.normalize(images(2, 64, 96))
    tokens, model = shipped.tokens(pixels), timm_s(shipped)
    assert tokens.grid == shipped.grid(64, 96) == (4, 6)
    last = model.forward_features(pixels)  # type: ignore[operator]
    assert last.abs().max() > 0.5  # trained weights find something in noise
    repeated = last.repeat_interleave(2, 2).repeat_interleave(2, 3)  # a cell of 32 pixels stands in four of 16
    torch.testing.assert_close(tokens.patches.transpose(1, 2).unflatten(2, (4, 6)), repeated, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(tokens.cls, last.mean((2, 3)), rtol=1e-3, atol=1e-3)
    found = model.forward_intermediates(pixels, intermediates_only=True)  # type: ignore[operator]
    layer = tokens.layers[0].transpose(1, 2).unflatten(2, (4, 6))  # the fifth stage, stride 16, on its own grid
    torch.testing.assert_close(layer, found[3], rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_layers_have_their_own_widths(shipped: EfficientNetLite0) -> None:
    tokens = shipped(images())
    assert shipped.layer_widths == tuple(layer.shape[-1] for layer in tokens.layers) == (112, 320, 80)
    assert [layer.shape[:2] for layer in tokens.layers] == [(2, 16)] * 3
    assert [cls.shape[-1] for cls in tokens.layer_cls] == [112, 320, 80]
    torch.testing.assert_close(tokens.layer_cls[1], tokens.layers[1].mean(1))
    plain = EfficientNetLite0(pretrained=False)
    assert plain(images()).patches.shape == (2, 4, 1280)
    assert plain.layer_widths == ()
    assert plain(images(0)).patches.shape == (0, 4, 1280)
    assert EfficientNetLite0(pretrained=False, layers="all").layers == (3, 4, 5, 6)


@pytest.mark.parametrize("layers", [None, [4, 6], [6, 1, 4]])
@torch.no_grad()
def test_stored_tokens_are_the_same(layers: list[int] | None) -> None:
    torch.manual_seed(0)
    encoder = EfficientNetLite0(pretrained=False, layers=layers).eval()
    live = encoder(images(2, 32, 64))
    for blocks in range(8):
        kept = encoder.before(encoder.normalize(images(2, 32, 64)), blocks)
        assert kept.ndim == 3
        again = encoder.after(kept, Cut(blocks, encoder.grid(32, 64)))
        for one, other in zip((again.patches, *again.layers), (live.patches, *live.layers), strict=True):
            torch.testing.assert_close(one, other)
    frozen = encoder.before(encoder.normalize(images(1, 224, 224)), 0)
    assert frozen.shape[-1] == 7 * 7 * 320 + (0 if layers is None else 14 * 14 * 112) + 56 * 56 * 24 * (
        1 in (layers or ())
    )


def test_last_stages_learn() -> None:
    torch.manual_seed(0)
    encoder = EfficientNetLite0(pretrained=False)
    set_trainable(encoder, 2)
    learning = {name for name, parameter in encoder.named_parameters() if parameter.requires_grad}
    assert {name.split(".")[1] if name[0] == "s" else name.split(".")[0] for name in learning} == {"5", "6", "head"}
    set_trainable(encoder, "all")
    encoder(images()).patches.square().sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_the_weights_file_keeps_its_limits() -> None:
    assert stored(WEIGHTS).stat().st_size <= 9e6
    state = EfficientNetLite0().state_dict()
    assert sum(value.numel() for value in state.values()) == 3_350_000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"image_size": 112}, "multiples of 32 pixels, got 112 × 112. .* 96 or 128"),
        ({"image_size": 16}, "32 or 64"),
        ({"layers": [7]}, "has 7 blocks"),
        ({"options": {"depth": 3}}, "has no option 'depth'"),
    ],
)
def test_what_it_cannot_do(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_encoder(EncoderConfig(name="builtin/efficientnet-lite0", pretrained=False, **settings))
