"""Layers that are handed on: class tokens beside patches, `all`, and the same from stored tokens."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.shapes import Shapes
from conceptlens.encoders import make_encoder
from conceptlens.encoders.contract import Cut, Encoder, Tokens
from conceptlens.encoders.layer_choice import choose_layers, pack, unpack
from conceptlens.encoders.store.encode import open_store
from conceptlens.recipes import ShapesConfig
from conceptlens.recipes.schema import EncoderConfig

SMALL = {"width": 24, "heads": 2, "depth": 4, "text_width": 0}
VITS = [("builtin/vit-mini", SMALL), ("timm/test_vit", {}), ("timm/test_vit", {"reg_tokens": 3})]


def make(name: str, options: dict[str, Any], **settings: Any) -> Encoder:
    torch.manual_seed(0)
    config = EncoderConfig(name=name, pretrained=False, image_size=64, options=options, **settings)
    return make_encoder(config).eval()


def leaving(encoder: Encoder, images: Tensor) -> list[Tensor]:
    """What leaves each block, by hooks."""
    found: list[Tensor] = []
    hooks = [block.register_forward_hook(lambda _, __, output: found.append(output)) for block in encoder.blocks()]
    encoder(images)
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize(("name", "options"), VITS)
@torch.no_grad()
def test_all_layers_with_their_class_tokens(name: str, options: dict[str, Any]) -> None:
    encoder, images = make(name, options, layers="all"), torch.rand(2, 3, 64, 64)
    tokens, raw = encoder(images), leaving(encoder, images)
    assert encoder.layers == tuple(range(len(raw)))
    assert len(tokens.layers) == len(tokens.layer_cls) == len(raw)
    for layer, cls, expected in zip(tokens.layers, tokens.layer_cls, raw, strict=True):
        torch.testing.assert_close(layer, expected[:, -layer.shape[1] :])
        torch.testing.assert_close(cls, expected[:, 0])
    normed = make(name, options, layers="all", final_norm=True)(images)
    torch.testing.assert_close(normed.layer_cls[-1], tokens.cls)


@torch.no_grad()
def test_networks_without_plain_blocks() -> None:
    """DINOv3 tells its class tokens; a map of a CNN has none: the mean stands for it, in layers of the last shape."""
    dino = make("timm/vit_small_patch16_dinov3", {"depth": 3, "embed_dim": 48, "num_heads": 3}, layers="all")
    images = torch.rand(2, 3, 64, 64)
    tokens, raw = dino(images), leaving(dino, images)
    assert dino.layers == (0, 1, 2)
    for cls, expected in zip(tokens.layer_cls, raw, strict=True):
        torch.testing.assert_close(cls, expected[:, 0])
    residual = make("timm/test_resnet", {}, layers="all")
    tokens = residual(images)
    assert len(tokens.layers) == len(residual.layers) == 1
    torch.testing.assert_close(tokens.layer_cls[0], tokens.layers[0].mean(1))


def same(one: Tokens, other: Tokens) -> None:
    for value, expected in zip(
        (one.patches, one.cls, *one.layers, *one.layer_cls),
        (other.patches, other.cls, *other.layers, *other.layer_cls),
        strict=True,
    ):
        torch.testing.assert_close(value, expected)


@pytest.mark.parametrize(("name", "options"), VITS)
@pytest.mark.parametrize("layers", ["all", [2, 0], [-1, 1]])
@torch.no_grad()
def test_stored_tokens_hold_the_layers(name: str, options: dict[str, Any], layers: Any) -> None:
    encoder, images = make(name, options, layers=layers), torch.rand(2, 3, 64, 64)
    for blocks in range(len(encoder.blocks()) + 1):
        stored = encoder.before(encoder.normalize(images), blocks)
        same(encoder.after(stored, Cut(blocks, encoder.grid(64, 64))), encoder(images))


@torch.no_grad()
def test_a_clip_s_stored_tokens_hold_the_layers(tmp_path: Path) -> None:
    pytest.importorskip("open_clip")
    vision = {"image_size": 32, "layers": 3, "width": 64, "head_width": 16, "patch_size": 8}
    text = {"context_length": 16, "vocab_size": 100, "width": 32, "heads": 2, "layers": 2}
    config = {"model_cfg": {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}, "preprocess_cfg": {}}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    settings = {"layers": "all", "pretrained": False}
    encoder = make_encoder(EncoderConfig(name=f"open_clip/local-dir:{tmp_path}", **settings)).eval()  # type: ignore[arg-type]
    images = torch.rand(2, 3, 32, 32)
    raw = leaving(encoder, images)
    torch.testing.assert_close(encoder(images).layer_cls[1], raw[1][:, 0])
    for blocks in range(4):
        stored = encoder.before(encoder.normalize(images), blocks)
        same(encoder.after(stored, Cut(blocks, (4, 4))), encoder(images))


def test_the_layer_right_before_the_cut_is_not_kept_twice() -> None:
    left = {number: torch.full((1, 2, 1), float(number)) for number in range(4)}
    stored = pack(left[3], left, 4)
    assert stored.flatten().tolist() == [3, 3, 0, 0, 1, 1, 2, 2]
    entering, again = unpack(stored, (0, 1, 2, 3), 4)
    assert entering.flatten().tolist() == [3, 3]
    assert {number: float(value[0, 0, 0]) for number, value in again.items()} == {0: 0, 1: 1, 2: 2, 3: 3}
    assert unpack(torch.zeros(1, 2, 1), (3,), 2)[1] == {}  # a layer behind the cut is not stored


def test_a_store_of_other_layers_is_another_store(tmp_path: Path) -> None:
    source = Shapes(ShapesConfig(n=10, size=64))
    with PixelReader(source, 64, cache_mb=0) as reader:
        reader.batch(np.arange(2))
        config = EncoderConfig(train="none")
        places = set()
        for layers in (None, [0], [1], [1, 0]):
            store = open_store(tmp_path, make("builtin/vit-mini", SMALL, layers=layers), config, reader)
            store.begin()
            places.add(store.path)
            assert store.tokens == (1 + 4 + 64) * (1 + len(layers or ()))
        assert places == {tmp_path, *(tmp_path / f"layers-{name}" for name in ("0", "1", "1-0"))}


def test_names_of_layers() -> None:
    assert choose_layers(None, 3, "e") == ()
    assert choose_layers("all", 3, "e") == (0, 1, 2)
    assert choose_layers([-1, 0], 3, "e") == (2, 0)
    with pytest.raises(UserError, match=r"`all`, `several`, or whole numbers from -3 to 2, got 3"):
        choose_layers([3], 3, "e")
