"""The built-in ViT: its tokens, its gradients, its positions, its weights file."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.core.files import stored
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import open_source
from conceptlens.encoders import make_text_encoder
from conceptlens.encoders.builtin import vit as builtin
from conceptlens.encoders.builtin.conv_stem import ConvStem
from conceptlens.encoders.builtin.transformer_block import Block, drop_path
from conceptlens.encoders.builtin.vit import MINI, BuiltinViT, resize_positions
from conceptlens.recipes.schema import DataConfig


def small(**options: object) -> BuiltinViT:
    torch.manual_seed(0)
    settings = {"image_size": 32, "width": 12, "depth": 3, "heads": 3, "stem_width": 4}
    settings |= {"text_width": 0, "pretrained": False}
    return BuiltinViT(**{**settings, **options}).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize(("side", "grid"), [(96, 12), (112, 14), (100, 13), (32, 4)])
def test_grid_is_one_token_for_every_eight_pixels(side: int, grid: int) -> None:
    encoder = small()
    tokens = encoder(torch.rand(2, 3, side, 96))
    assert tokens.grid == encoder.grid(side, 96) == (grid, 12)
    assert tokens.patches.shape == (2, grid * 12, 12)
    assert tokens.cls is not None
    assert tokens.cls.shape == (2, 12)


def test_the_encoder_that_ships_keeps_its_limits() -> None:
    """At most 6 M parameters in 12 MB, a grid of 14 × 14, and a text space: without a network."""
    encoder = BuiltinViT().eval()
    assert stored(builtin.WEIGHTS).stat().st_size <= 12e6
    assert sum(parameter.numel() for parameter in encoder.parameters()) <= 6e6
    tokens = encoder(torch.zeros(1, 3, 112, 112, dtype=torch.uint8))
    assert encoder.grid(encoder.image_size, encoder.image_size) == tokens.grid == (14, 14)
    assert encoder.text == "builtin/text"
    assert encoder.embed(tokens).shape == (1, 384)


@pytest.mark.slow
def test_the_encoder_that_ships_knows_what_it_sees() -> None:
    """Prompts alone tell built-in blood cells apart that it has not seen; chance is one in five."""
    source, concepts = open_source(DataConfig(source="blood-cells"), None)
    chosen = np.flatnonzero(np.array(source.examples.split) == "val")[::4]
    reader = PixelReader(source, 112)
    encoder, text = BuiltinViT().eval(), make_text_encoder("builtin/text")
    names = text.embed([f"a {name.lower()}, a kind of white blood cell" for name in concepts.classes])
    with torch.inference_mode():
        vectors = encoder.embed(encoder(reader.batch(chosen)))
    right = (vectors @ names.T).argmax(1).numpy() == source.examples.labels[chosen]
    assert right.mean() > 0.8


def test_embed_is_the_class_token_in_the_text_s_space() -> None:
    encoder, images = small(text_width=5), torch.rand(2, 3, 32, 32)
    tokens = encoder(images)
    assert encoder.to_text is not None
    expected = tokens.cls @ encoder.to_text.weight.T
    torch.testing.assert_close(encoder.embed(tokens), expected / expected.norm(dim=1, keepdim=True))
    with pytest.raises(UserError, match="no text tower"):
        small().embed(small()(images))


def test_mini_has_144_patches_and_no_weights() -> None:
    torch.manual_seed(0)
    encoder = BuiltinViT(**MINI)
    assert encoder.name == "builtin/vit-mini"
    assert encoder(torch.zeros(1, 3, 96, 96, dtype=torch.uint8)).patches.shape == (1, 144, 96)
    torch.manual_seed(0)
    assert torch.equal(encoder.positions, BuiltinViT(**MINI, pretrained=False).positions)


@pytest.mark.parametrize("batch", [0, 1])
def test_few_images(batch: int) -> None:
    images = torch.rand(3, 3, 32, 32)
    encoder = small(layers=[0])
    tokens = encoder(images[:batch])
    assert tokens.patches.shape == (batch, 16, 12)
    assert tokens.layers[0].shape == (batch, 16, 12)
    torch.testing.assert_close(tokens.patches, encoder(images).patches[:batch])


def test_images_do_not_influence_one_another_even_in_training_mode() -> None:
    encoder, images = small().train(), torch.rand(4, 3, 32, 32)
    together = encoder(images).patches
    apart = torch.cat([encoder(image[None]).patches for image in images])
    torch.testing.assert_close(together, apart)


def test_stem_is_local() -> None:
    """A far corner does not reach a patch before attention: the norm carries nothing across the image."""
    torch.manual_seed(0)
    stem, images = ConvStem(4, 12), torch.rand(1, 3, 64, 64)
    changed = images.clone()
    changed[..., 48:, 48:] = 0
    before, after = stem(images), stem(changed)
    torch.testing.assert_close(before[:, :4, :4], after[:, :4, :4], rtol=0, atol=0)
    assert not torch.equal(before[:, 7, 7], after[:, 7, 7])


def test_layers_and_the_final_norm() -> None:
    images = torch.rand(2, 3, 32, 32)
    raw, normed = small(layers=[0, -1, 1]), small(layers=[0, -1, 1], final_norm=True)
    before, after = raw(images), normed(images)
    assert len(before.layers) == 3
    assert torch.equal(before.layers[1], before.patches)
    assert not torch.equal(before.layers[0], before.layers[2])
    torch.testing.assert_close(raw.norm(before.patches), after.patches)
    torch.testing.assert_close(raw.norm(before.layers[0]), after.layers[0])
    torch.testing.assert_close(before.cls, after.cls)


def test_block_equals_attention_written_out() -> None:
    torch.manual_seed(0)
    block, x = Block(6, 2, 2.0).double(), torch.randn(2, 5, 6, dtype=torch.float64)
    normed = block.attention_norm(x)
    query, key, value = block.qkv(normed).split(6, -1)
    mixed = torch.empty_like(x)
    for head in range(2):
        part = slice(3 * head, 3 * head + 3)
        weights = (query[..., part] @ key[..., part].transpose(1, 2) / 3**0.5).softmax(-1)
        mixed[..., part] = weights @ value[..., part]
    middle = x + block.out(mixed)
    expected = middle + block.mlp[2](F.gelu(block.mlp[0](block.mlp_norm(middle))))
    torch.testing.assert_close(block(x), expected)


def test_positions_are_themselves_at_their_own_size_and_flat_stays_flat() -> None:
    positions = torch.randn(1, 4, 4, 3)
    assert resize_positions(positions, (4, 4)) is positions
    torch.testing.assert_close(resize_positions(torch.full((1, 4, 4, 3), 0.7), (6, 5)), torch.full((1, 6, 5, 3), 0.7))


def test_gradient_reaches_interpolated_positions() -> None:
    encoder = small()
    encoder(torch.rand(1, 3, 48, 40)).patches.sum().backward()
    assert encoder.positions.grad is not None
    assert encoder.positions.grad.abs().sum() > 0


@pytest.mark.parametrize("final_norm", [False, True])
def test_gradient_reaches_every_parameter(final_norm: bool) -> None:
    encoder = small(final_norm=final_norm).train()
    tokens = encoder(torch.rand(2, 3, 32, 32))
    assert tokens.cls is not None
    (tokens.patches.square() * torch.rand_like(tokens.patches)).sum().add(
        (tokens.cls * torch.rand(12)).sum()
    ).backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_bfloat16_autocast_is_close_to_fp32() -> None:
    encoder, images = small(), torch.rand(2, 3, 32, 32)
    with torch.autocast("cpu", torch.bfloat16):
        rough = encoder(images).patches
    rough.float().sum().backward()
    torch.testing.assert_close(rough.float(), encoder(images).patches, atol=0.05, rtol=0.05)


def test_float64() -> None:
    encoder = small()
    images = torch.rand(2, 3, 32, 32)
    single = encoder(images).patches
    double = encoder.double()(images).patches
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=1e-4)


def test_start_follows_torch_s_generator() -> None:
    torch.manual_seed(3)
    first = BuiltinViT(pretrained=False, depth=1).state_dict()
    torch.manual_seed(3)
    second = BuiltinViT(pretrained=False, depth=1).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["positions"], BuiltinViT(pretrained=False, depth=1).state_dict()["positions"])


def test_drop_path_scales_what_it_keeps() -> None:
    torch.manual_seed(0)
    branch = torch.ones(2000, 2, 3)
    dropped = drop_path(branch, 0.25, training=True)
    kept = dropped[:, 0, 0] != 0
    torch.testing.assert_close(dropped[kept], torch.full_like(dropped[kept], 4 / 3))
    assert 0.70 < kept.float().mean() < 0.80
    assert drop_path(branch, 0.25, training=False) is branch
    assert [block.drop_path for block in small(drop_path=0.2).trunk] == pytest.approx([0, 0.1, 0.2])


def test_without_registers() -> None:
    assert small(registers=0)(torch.rand(1, 3, 32, 32)).patches.shape == (1, 16, 12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 13}, "multiple of heads"),
        ({"depth": 0}, "depth must be a whole number of at least 1, got 0"),
        ({"depth": 10**9}, "depth must be at most 1,000"),
        ({"depth": "4"}, "got '4'"),
        ({"registers": True}, "registers"),
        ({"drop_path": 1.0}, "drop_path"),
        ({"mlp_ratio": -1}, "mlp_ratio"),
        ({"image_size": 4}, "image_size must be a whole number of at least 8"),
        ({"layers": [3]}, "has 3 blocks"),
        ({"layers": [0.5]}, "encoder.layers"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        small(**options)


def _publish(folder: Path, monkeypatch: pytest.MonkeyPatch, weights: dict[str, torch.Tensor]) -> Path:
    path = folder / "vit.safetensors"
    save_file(weights, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".json").write_text(json.dumps({"schema": 1, "sha256": digest}))
    monkeypatch.setattr(builtin, "WEIGHTS", path)
    return path


def test_package_weights_are_loaded_if_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = small()
    nn.init.constant_(source.norm.weight, 5.0)
    _publish(tmp_path, monkeypatch, source.state_dict())
    torch.manual_seed(9)
    images = torch.rand(1, 3, 32, 32)
    assert torch.equal(small(pretrained=True)(images).patches, source(images).patches)
    assert torch.equal(small(pretrained=True).norm.weight, source.norm.weight)
    assert not torch.equal(small(pretrained=False).norm.weight, source.norm.weight)


def test_package_weights_must_have_their_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _publish(tmp_path, monkeypatch, small().state_dict())
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(UserError, match="damaged"):
        small(pretrained=True)


def test_package_weights_of_another_shape_name_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _publish(tmp_path, monkeypatch, small().state_dict())
    with pytest.raises(UserError, match=r"lacks 12 of .* tensors .*encoder.pretrained: false"):
        small(pretrained=True, depth=4)


def test_local_weights_for_another_image_size_bring_their_positions(tmp_path: Path) -> None:
    source = small()
    save_file(source.state_dict(), tmp_path / "mine.safetensors")
    larger = small(image_size=48, weights=tmp_path / "mine.safetensors")
    torch.testing.assert_close(larger.positions, resize_positions(source.positions, (6, 6)))
    assert torch.equal(larger.class_token, source.class_token)
