"""`timm/local-dir:…` and `timm/hf-hub:…`: configurations as UNI, Virchow2, Prov-GigaPath and H-optimus publish them."""

import json
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save_file
from timm.layers import SwiGLUPacked
from torch import nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.timm import hub
from conceptlens.encoders.timm.encoder import TimmEncoder

SMALL = {"embed_dim": 32, "depth": 3, "num_heads": 2, "img_size": 56, "patch_size": 14, "num_classes": 0}
GATED = {"mlp_layer": "SwiGLUPacked", "act_layer": "SiLU"}
CONFIG = {"mean": [0.7, 0.6, 0.5], "std": [0.2, 0.3, 0.2], "input_size": [3, 56, 56], "interpolation": "bicubic"}
LAYOUTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # architecture, model_args, options of the user
    "UNI": ("vit_large_patch16_224", {**SMALL, "init_values": 1.0, "dynamic_img_size": True}, {}),
    "Virchow2": ("vit_huge_patch14_224", {**SMALL, "mlp_ratio": 5.0, "reg_tokens": 4, "global_pool": ""}, GATED),
    "Prov-GigaPath": ("vit_giant_patch14_dinov2", {**SMALL, "mlp_ratio": 5.33334, "global_pool": "token"}, {}),
    "H-optimus-0": ("vit_giant_patch14_reg4_dinov2", {**SMALL, "init_values": 1e-5, "reg_tokens": 4}, {}),
}


def write(folder: Path, layout: str) -> tuple[str, Any]:
    """A model of this layout with weights of its own, and the folder that a hub would cache."""
    architecture, arguments, options = LAYOUTS[layout]
    torch.manual_seed(1)
    layers = {"mlp_layer": SwiGLUPacked, "act_layer": nn.SiLU} if options else {}
    model = timm.create_model(architecture, **{**arguments, **layers}).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.02 * torch.randn_like(parameter))
    folder.mkdir(exist_ok=True)
    save_file(model.state_dict(), folder / "model.safetensors")
    published = {"architecture": architecture, "num_classes": 0, "pretrained_cfg": CONFIG, "model_args": arguments}
    (folder / "config.json").write_text(json.dumps(published))
    return f"timm/local-dir:{folder}", model


@torch.no_grad()
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tokens_are_timm_s(layout: str, tmp_path: Path) -> None:
    name, reference = write(tmp_path, layout)
    encoder = TimmEncoder(name, final_norm=True, **LAYOUTS[layout][2]).eval()
    assert (encoder.image_size, list(encoder.mean), list(encoder.std)) == (56, CONFIG["mean"], CONFIG["std"])
    images = torch.rand(2, 3, 56, 56)
    expected = reference.forward_features(encoder.normalize(images))
    tokens = encoder(images)
    torch.testing.assert_close(tokens.patches, expected[:, reference.num_prefix_tokens :], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(tokens.cls, expected[:, 0], rtol=1e-5, atol=1e-5)
    again = TimmEncoder("timm/local-dir:gone", structure=encoder.structure, pretrained=False, **LAYOUTS[layout][2])
    assert again.state_dict().keys() == encoder.state_dict().keys()


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    name, _ = write(tmp_path, "Virchow2")
    with pytest.raises(UserError, match=r"gated: set `encoder\.options: \{mlp_layer: SwiGLUPacked, act_layer: SiLU\}`"):
        TimmEncoder(name)
    with pytest.raises(UserError, match="no layer 'os'"):
        TimmEncoder(name, mlp_layer="os")
    config = tmp_path / "config.json"
    for content, message in (
        ({"architecture": "vit_unheard_of"}, "has no 'vit_unheard_of'"),
        ({"model_type": "dinov2"}, "named `transformers/"),
        ({"architecture": "test_vit", "model_args": [1]}, "expected objects under"),
        ({"architecture": "test_vit", "model_args": {"checkpoint_path": "x.pth"}}, "'checkpoint_path' says how"),
    ):
        config.write_text(json.dumps(content))
        with pytest.raises(UserError, match=message):
            TimmEncoder(name)
    with pytest.raises(UserError, match=r"config\.json, found no folder"):
        TimmEncoder(f"timm/local-dir:{tmp_path / 'nowhere'}")


def test_a_pickle_in_the_cache_gets_the_line_that_converts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache as the hub's own package lays it out; after the conversion it is read without the hub."""
    snapshot = tmp_path / "models--org--uni" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    refs = tmp_path / "models--org--uni" / "refs"
    refs.mkdir()
    (refs / "main").write_text("0" * 40)
    _, model = write(snapshot, "UNI")
    (snapshot / "model.safetensors").unlink()
    torch.save(model.state_dict(), snapshot / "pytorch_model.bin")
    for function in ("hf_hub_download", "try_to_load_from_cache"):
        plain = getattr(hub, function)
        offline = {"local_files_only": True} if function == "hf_hub_download" else {}

        def cached(*args: Any, plain: Any = plain, offline: Any = offline, **more: Any) -> Any:
            return plain(*args, **{**more, **offline, "cache_dir": tmp_path})

        monkeypatch.setattr(hub, function, cached)
    with pytest.raises(UserError, match="convert it once") as refused:
        TimmEncoder("timm/hf-hub:org/uni")
    code = str(refused.value).split('-c "')[1].removesuffix('"')
    exec(code, {})
    encoder = TimmEncoder("timm/hf-hub:org/uni")
    torch.testing.assert_close(encoder.model.blocks[1].norm1.weight, model.blocks[1].norm1.weight)
