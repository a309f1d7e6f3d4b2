"""`transformers/…` on tiny models of each published layout, against the original's own forward; no hub."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from conceptlens.api import predict, train
from conceptlens.core.errors import UserError
from conceptlens.encoders import make_encoder
from conceptlens.encoders.contract import Encoder
from conceptlens.encoders.replay import check_cut
from conceptlens.recipes.schema import EncoderConfig
from tests.encoders.store.test_cuts import agree
from tests.training.tiny import tiny

transformers = pytest.importorskip("transformers", minversion="5")
SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 48}
DINO = {**SMALL, "mlp_ratio": 2, "image_size": 56, "patch_size": 14}
PLAIN = {**SMALL, "image_size": 64, "patch_size": 16}
KINDS: dict[str, tuple[str, dict[str, Any], int]] = {  # model, configuration, tokens before the patches
    "dinov2": ("Dinov2Model", DINO, 1),
    "dinov2-swiglu": ("Dinov2Model", {**DINO, "use_swiglu_ffn": True}, 1),
    "dinov2-registers": ("Dinov2WithRegistersModel", DINO, 5),
    "dinov3": ("DINOv3ViTModel", {**PLAIN, "num_register_tokens": 4}, 5),
    "siglip": ("SiglipVisionModel", PLAIN, 0),
    "phikon": ("ViTModel", PLAIN, 1),
    "vit-mae": ("ViTMAEModel", PLAIN, 1),
    "clip": ("CLIPVisionModel", PLAIN, 1),
}
MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.2, 0.3]


def write(folder: Path, kind: str) -> tuple[str, Any]:
    """A model of this kind with weights of its own, and the folder that a hub would cache."""
    name, options, _ = KINDS[kind]
    model_class = getattr(transformers, name)
    torch.manual_seed(3)
    model = model_class(model_class.config_class(**options)).eval()
    for parameter in model.parameters():  # norms at one and zero would hide one that is left out
        parameter.data.add_(0.02 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    size = options["image_size"]
    images = {"image_mean": MEAN, "image_std": STD, "size": {"height": size, "width": size}}
    (folder / "preprocessor_config.json").write_text(json.dumps(images))
    return f"transformers/local-dir:{folder}", model


def make(name: str, **settings: Any) -> Encoder:
    return make_encoder(EncoderConfig(name=name, **settings)).eval()


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_tokens_are_the_original_s(kind: str, tmp_path: Path) -> None:
    name, reference = write(tmp_path, kind)
    encoder = make(name, layers=[0, -1], final_norm=True)
    side, prefix = encoder.image_size, KINDS[kind][2]
    images = torch.rand(2, 3, side, side)
    assert (list(encoder.mean), list(encoder.std)) == (MEAN, STD)
    more = {}
    if kind == "vit-mae":
        reference.config.mask_ratio = 0.0
        more = {"noise": torch.arange(16).float().expand(2, -1)}
    expected = reference(pixel_values=encoder.normalize(images), output_hidden_states=True, **more)
    tokens = encoder(images)
    last = expected.last_hidden_state
    if kind == "clip":
        last = reference.post_layernorm(last)  # it norms the class token alone
    torch.testing.assert_close(tokens.patches, last[:, prefix:])
    torch.testing.assert_close(tokens.cls, last[:, 0] if prefix else last.mean(1))
    torch.testing.assert_close(tokens.layers[1], tokens.patches)
    norm = encoder.tail()[0]
    torch.testing.assert_close(tokens.layers[0], norm(expected.hidden_states[1])[:, prefix:])
    assert tokens.grid == encoder.grid(side, side) == (4, 4)
    for blocks in (0, 1, 2):
        agree(encoder, blocks)
        check_cut(encoder, blocks, side)


@torch.no_grad()
def test_the_image_tower_of_a_whole_siglip(tmp_path: Path) -> None:
    text = {**SMALL, "vocab_size": 64, "max_position_embeddings": 8}
    torch.manual_seed(0)
    whole = transformers.SiglipModel(transformers.SiglipConfig(vision_config=PLAIN, text_config=text)).eval()
    whole.save_pretrained(tmp_path)
    assert any(key.startswith("vision_model.encoder.layers.0") for key in load_file(tmp_path / "model.safetensors"))
    encoder, images = make(f"transformers/local-dir:{tmp_path}", final_norm=True), torch.rand(1, 3, 64, 64)
    expected = whole.vision_model(pixel_values=encoder.normalize(images)).last_hidden_state
    torch.testing.assert_close(encoder(images).patches, expected)


@torch.no_grad()
def test_other_image_sizes(tmp_path: Path) -> None:
    name, reference = write(tmp_path, "phikon")
    encoder, images = make(name, image_size=96, final_norm=True), torch.rand(1, 3, 96, 96)
    expected = reference(pixel_values=encoder.normalize(images), interpolate_pos_encoding=True).last_hidden_state
    torch.testing.assert_close(encoder(images).patches, expected[:, 1:])


@pytest.mark.slow
def test_a_run_needs_its_folder_no_more(tmp_path: Path) -> None:
    name, _ = write(tmp_path / "model", "dinov3")
    settings = {"name": name, "image_size": 32, "train": 1, "store": "run", "text": "builtin/hashed-text"}
    run = train(tiny(tmp_path / "run", encoder=settings, training__epochs=1), quiet=True)
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    from PIL import Image

    Image.new("RGB", (32, 32), "red").save(tmp_path / "red.png")
    assert len(predict(run, [tmp_path / "red.png"]).items) == 1


def test_a_configuration_names_no_code_for_attention(tmp_path: Path) -> None:
    """transformers fetches such code from the hub."""
    name, _ = write(tmp_path, "dinov2")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"attn_implementation": "org/kernels"}))
    encoder = make(name)
    assert encoder.model.config._attn_implementation in ("sdpa", "eager")


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    name, model = write(tmp_path / "model", "phikon")
    weights = tmp_path / "model" / "model.safetensors"
    tensors = load_file(weights)
    tensors.pop(next(key for key in tensors if "layer.1" in key or "layers.1" in key))
    save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(UserError, match="lack 1 tensors"):
        make(name)
    torch.save(model.state_dict(), weights.with_name("pytorch_model.bin"))
    weights.unlink()
    with pytest.raises(UserError, match="convert it once"):
        make(name)
    config = tmp_path / "model" / "config.json"
    for change, message in (
        ({"auto_map": {"AutoModel": "code.Model"}}, "code of its own, which is never run"),
        ({"model_type": "bert"}, "no vision model"),
        ({"model_type": "nobody"}, "no model of the type"),
        ({"patch_size": [16, 8]}, "square patches"),
        ({"model_type": "timm_wrapper", "model_args": {"checkpoint_path": "x.pth"}}, "around another"),
        ({"model_type": "upernet", "backbone": "org/name", "use_pretrained_backbone": True}, "around another"),
    ):
        config.write_text(json.dumps({**model.config.to_dict(), **change}))
        with pytest.raises(UserError, match=message):
            make(name, pretrained=False)
    config.write_text('{"architecture": "resnet50"}')
    with pytest.raises(UserError, match="model of timm"):
        make(name)
    with pytest.raises(UserError, match="ORGANIZATION/NAME"):
        make("transformers/dinov2")
