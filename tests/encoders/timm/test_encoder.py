"""timm models as encoders, on timm's own tiny test models."""

from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
from safetensors.torch import save_file

from conceptlens.core.errors import UserError
from conceptlens.encoders.timm import hub as timm_hub
from conceptlens.encoders.timm.encoder import TimmEncoder

FAMILIES = [
    "test_vit",
    "test_vit2",
    "test_vit3",
    "test_resnet",
    "test_convnext",
    "test_efficientnet",
    "test_mambaout",
    "test_nfnet",
]


def make(name: str, **options: Any) -> TimmEncoder:
    torch.manual_seed(0)
    return TimmEncoder(f"timm/{name}", pretrained=False, **options).eval()


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_gives_tokens_and_gradients(name: str) -> None:
    encoder = make(name, image_size=96, final_norm=True).train()
    tokens = encoder(torch.rand(2, 3, 96, 96))
    assert tokens.patches.shape == (2, tokens.grid[0] * tokens.grid[1], encoder.width)
    assert tokens.grid == encoder.grid(96, 96)
    assert tokens.cls is not None
    assert tokens.cls.shape == (2, encoder.width)
    (
        (tokens.patches * torch.rand_like(tokens.patches)).sum() + (tokens.cls * torch.rand_like(tokens.cls)).sum()
    ).backward()
    assert [name for name, parameter in encoder.named_parameters() if parameter.grad is None] == []
    assert len(encoder.blocks()) >= 4


@pytest.mark.parametrize("name", ["test_vit", "test_resnet"])
@pytest.mark.parametrize("batch", [0, 1])
def test_few_images(name: str, batch: int) -> None:
    encoder = make(name)
    tokens = encoder(torch.rand(batch, 3, 64, 96))
    assert tokens.patches.shape == (batch, tokens.grid[0] * tokens.grid[1], encoder.width)
    assert tokens.cls is not None
    assert tokens.cls.shape == (batch, encoder.width)


@pytest.mark.parametrize(("registers", "prefix"), [(0, 1), (4, 5)])
def test_a_vit_s_tokens_are_timm_s(registers: int, prefix: int) -> None:
    encoder = make("test_vit", layers=[0, -1], reg_tokens=registers)
    images = torch.rand(2, 3, 160, 160)
    torch.manual_seed(0)
    reference = timm.create_model("test_vit", num_classes=0, reg_tokens=registers).eval()
    reference.load_state_dict(encoder.model.state_dict(), strict=False)
    after = reference.forward_features(encoder.normalize(images))
    before: list[torch.Tensor] = []
    hook = reference.blocks[-1].register_forward_hook(lambda module, given, output: before.append(output))
    reference.forward_features(encoder.normalize(images))
    hook.remove()
    tokens = encoder(images)
    assert tokens.cls is not None
    torch.testing.assert_close(tokens.cls, after[:, 0])
    torch.testing.assert_close(tokens.patches, before[0][:, prefix:])
    torch.testing.assert_close(tokens.layers[1], tokens.patches)
    assert not torch.allclose(tokens.layers[0], tokens.patches)
    encoder.final_norm = True
    torch.testing.assert_close(encoder(images).patches, after[:, prefix:])


@pytest.mark.parametrize(("side", "grid"), [(256, 16), (128, 8)])
def test_dinov3_without_class_token_and_registers_among_its_patches(side: int, grid: int) -> None:
    encoder = make("vit_small_patch16_dinov3", depth=2, embed_dim=48, num_heads=3, image_size=side)
    assert encoder.model.num_prefix_tokens == 5  # a class token and four registers
    images = torch.rand(1, 3, side, side)
    tokens = encoder(images)
    assert tokens.grid == encoder.grid(side, side) == (grid, grid)
    assert tokens.patches.shape == (1, grid * grid, 48)
    expected = encoder.model.forward_features(encoder.normalize(images))
    torch.testing.assert_close(encoder.model.norm(tokens.patches), expected[:, 5:])
    torch.testing.assert_close(tokens.cls, expected[:, 0])


def test_dinov3_in_its_own_size() -> None:
    with torch.device("meta"):
        encoder = make("vit_large_patch16_dinov3")
        tokens = encoder.tokens(torch.empty(1, 3, 256, 256))
    assert (encoder.image_size, tokens.grid, tokens.patches.shape) == (256, (16, 16), (1, 256, 1024))


@pytest.mark.parametrize("name", ["test_resnet", "test_convnext", "test_mambaout"])
def test_a_map_is_read_row_by_row(name: str) -> None:
    encoder, images = make(name), torch.rand(1, 3, 96, 160)
    maps = encoder.model.forward_features(encoder.normalize(images))
    if name == "test_mambaout":  # channels last
        maps = maps.permute(0, 3, 1, 2)
    tokens = encoder(images)
    assert tokens.grid == tuple(maps.shape[-2:]) == (3, 5)
    torch.testing.assert_close(tokens.patches[0, 7], maps[0, :, 1, 2])
    torch.testing.assert_close(tokens.cls, maps.mean((2, 3)))


@pytest.mark.parametrize(("side", "grid"), [(64, 4), (160, 10), (161, 11), (224, 14)])
def test_any_image_size(side: int, grid: int) -> None:
    encoder = make("test_vit")
    assert encoder.image_size == 160
    assert encoder(torch.rand(1, 3, side, 160)).grid == encoder.grid(side, 160) == (grid, 10)


def test_mean_std_and_structure() -> None:
    encoder = make("test_vit")
    data = timm.data.resolve_model_data_config(encoder.model)
    assert (encoder.mean, encoder.std) == (data["mean"], data["std"])
    assert list(encoder.blocks()) == list(encoder.model.blocks)
    assert list(encoder.tail()) == [encoder.model.norm]
    residual = make("test_resnet")
    assert list(residual.blocks()) == [getattr(residual.model, f"layer{index}") for index in range(1, 5)]
    assert list(residual.tail()) == []
    mobile = make("test_efficientnet")
    assert list(mobile.tail()) == [mobile.model.conv_head, mobile.model.bn2]


def test_layers_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="has 6 blocks"):
        make("test_vit", layers=[6])
    # Older versions of timm have families without it.
    monkeypatch.delattr("timm.models.nfnet.NormFreeNet.forward_intermediates", raising=False)
    with pytest.raises(UserError, match="does not hand on its layers"):
        make("test_nfnet", layers=[0])


@torch.no_grad()
def test_layers_of_a_cnn_lie_on_the_finest_grid_among_them() -> None:
    encoder, plain, images = make("test_resnet", layers=[2, -1]), make("test_resnet"), torch.rand(2, 3, 64, 64)
    tokens, last = encoder(images), plain(images)
    finer = plain.model.forward_intermediates(plain.normalize(images), intermediates_only=True)[2]
    assert tokens.grid == encoder.grid(64, 64) == tuple(finer.shape[-2:])
    assert encoder.layer_widths == tuple(layer.shape[-1] for layer in tokens.layers) == (finer.shape[1], plain.width)
    torch.testing.assert_close(tokens.layers[0].transpose(1, 2).unflatten(2, tokens.grid), finer)
    torch.testing.assert_close(tokens.layers[1], tokens.patches)
    finest, coarse = tokens.patches.unflatten(1, tokens.grid), last.patches.unflatten(1, last.grid)
    times = tokens.grid[0] // last.grid[0]
    assert times > 1
    for row, column in ((0, 0), (times, times - 1), (2 * times - 1, times)):
        torch.testing.assert_close(finest[:, row, column], coarse[:, row // times, column // times])
    assert [layer.shape for layer in encoder(images[:0]).layers] == [(0, *layer.shape[1:]) for layer in tokens.layers]


def test_bfloat16_autocast_and_float64() -> None:
    encoder, images = make("test_vit"), torch.rand(1, 3, 64, 64)
    with torch.autocast("cpu", torch.bfloat16):
        rough = encoder(images).patches.float()
    exact = encoder.double()(images).patches
    assert exact.dtype == torch.float64
    torch.testing.assert_close(rough.double(), exact, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("name", ["test_vit", "test_convnext", "test_resnet"])
def test_local_weights_with_their_classifier(name: str, tmp_path: Path) -> None:
    torch.manual_seed(5)
    trained = timm.create_model(name, num_classes=7).eval()
    path = tmp_path / "trained.safetensors"
    save_file(trained.state_dict(), path)
    encoder = TimmEncoder(name, weights=path, final_norm=True).eval()
    images = torch.rand(1, 3, 160, 160)
    expected = trained.forward_features(encoder.normalize(images))
    patches = encoder(images).patches
    torch.testing.assert_close(patches, expected[:, 1:] if name == "test_vit" else expected.flatten(2).transpose(1, 2))


def test_local_weights_that_do_not_fit(tmp_path: Path) -> None:
    weights = timm.create_model("test_vit").state_dict()
    weights.pop("blocks.3.attn.qkv.weight")
    save_file(weights, tmp_path / "holes.safetensors")
    with pytest.raises(UserError, match=r"lacks 1 of \d+ tensors \(blocks.3.attn.qkv.weight\)"):
        TimmEncoder("test_vit", weights=tmp_path / "holes.safetensors")
    with pytest.raises(UserError, match=r"does not fit.*Is it a file for timm/test_resnet"):
        TimmEncoder("test_resnet", weights=tmp_path / "holes.safetensors")


@pytest.mark.parametrize("ending", [".pth", ".bin", ".pt", ".ckpt"])
def test_pickles_are_never_opened(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{ending}"
    path.write_bytes(b"not even a pickle")
    with pytest.raises(UserError, match=r"never loaded(.|\n)*python -c .*'model.safetensors'"):
        TimmEncoder("test_vit", weights=path)


def test_files_that_are_missing_or_broken(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="found nothing there"):
        TimmEncoder("test_vit", weights=tmp_path / "none.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"0123456789")
    with pytest.raises(UserError, match="safetensors format"):
        TimmEncoder("test_vit", weights=tmp_path / "broken.safetensors")


def _hub(monkeypatch: pytest.MonkeyPatch, result: Path | Exception) -> list[tuple[str, str]]:
    asked: list[tuple[str, str]] = []

    def download(repository: str, file: str, revision: str | None = None, *, local_files_only: bool) -> str:
        asked.append((repository, file))
        if isinstance(result, Exception):
            raise result
        return str(result)

    monkeypatch.setattr(timm_hub, "hf_hub_download", download)
    return asked


def test_published_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trained = timm.create_model("test_vit")
    save_file(trained.state_dict(), tmp_path / "model.safetensors")
    asked = _hub(monkeypatch, tmp_path / "model.safetensors")
    encoder = TimmEncoder("timm/test_vit.r160_in1k")
    assert asked == [("timm/test_vit.r160_in1k", "model.safetensors")]
    assert torch.equal(encoder.model.cls_token, trained.cls_token)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LocalEntryNotFoundError("offline"), "cannot be reached"),
        (ConnectionError("no route"), "ConnectionError: no route"),
        (EntryNotFoundError("404"), "has no model.safetensors, and pickles are never loaded"),
    ],
)
def test_hub_out_of_reach(error: Exception, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _hub(monkeypatch, error)
    with pytest.raises(UserError, match=message) as caught:
        TimmEncoder("timm/test_vit.r160_in1k")
    assert "`encoder.weights: FILE.safetensors`" in str(caught.value)
    assert "`encoder.pretrained: false`" in str(caught.value)


def test_a_size_the_model_cannot_read(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make("test_vit")

    def refuse(*given: Any, **settings: Any) -> None:
        raise AssertionError("Input height (70) doesn't match model (160)")

    monkeypatch.setattr(encoder.model, "_pos_embed", refuse)
    with pytest.raises(UserError, match=r"cannot read images of 70 × 70 pixels.*Its own size is 160"):
        encoder.grid(70, 70)
