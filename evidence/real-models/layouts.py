"""Encoders at their real size, with random weights in their published files, against the original package's forward.

python evidence/real-models/layouts.py OUT.jsonl [NAME …]

One image each, float32, one at a time. `original` is the largest difference from the original's tokens, `stored 0` and
`stored 1` that of tokens that were stored (all blocks frozen, and before the last block) from live ones.
"""

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import timm
import torch
from safetensors.torch import save_file
from timm.layers.mlp import SwiGLUPacked
from torch import Tensor, nn

from conceptlens.encoders import make_encoder
from conceptlens.encoders.contract import Cut
from conceptlens.recipes.schema import EncoderConfig

GATED = {"mlp_layer": "SwiGLUPacked", "act_layer": "SiLU"}
PATHOLOGY = {"img_size": 224, "num_classes": 0}
NORM = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "input_size": [3, 224, 224]}
Made = tuple[str, dict[str, Any], int, Callable[[Tensor], Tensor]]  # name, options, side, the original's tokens


def in_timm_folder(architecture: str, arguments: dict[str, Any], gated: bool = False) -> Callable[[Path], Made]:
    """A repository with timm's config.json."""

    def make(folder: Path) -> Made:
        layers = {"mlp_layer": SwiGLUPacked, "act_layer": nn.SiLU} if gated else {}
        model = timm.create_model(architecture, **{**arguments, **layers}).eval()
        save_file(model.state_dict(), folder / "model.safetensors")
        published = {"architecture": architecture, "pretrained_cfg": NORM, "model_args": arguments, "num_classes": 0}
        (folder / "config.json").write_text(json.dumps(published))
        return f"timm/local-dir:{folder}", GATED if gated else {}, 224, lambda x: tokens(model, x)

    return make


def of_timm(name: str, side: int) -> Callable[[Path], Made]:
    """A name of timm's list; its weights in a file."""

    def make(folder: Path) -> Made:
        model = timm.create_model(name, num_classes=0).eval()
        save_file(model.state_dict(), folder / "w.safetensors")
        return f"timm/{name}", {"weights": folder / "w.safetensors"}, side, lambda x: tokens(model, x)

    return make


def tokens(model: Any, images: Tensor) -> Tensor:
    """Patches after the final norm, (1, L, D), by timm's own forward."""
    found = model.forward_features(images)
    if found.ndim == 4:
        return (
            found.flatten(1, 2) if getattr(model, "output_fmt", "NCHW") == "NHWC" else found.flatten(2).transpose(1, 2)
        )
    return found[:, getattr(model, "num_prefix_tokens", 0) :]


def of_transformers(kind: str, side: int, **options: Any) -> Callable[[Path], Made]:
    def make(folder: Path) -> Made:
        import transformers

        model_class = getattr(transformers, kind)
        model = model_class(model_class.config_class(image_size=side, **options)).eval()
        model.save_pretrained(folder)
        prefix = 0 if "Siglip" in kind else 1 + getattr(model.config, "num_register_tokens", 0)
        more: dict[str, Any] = {}
        if "MAE" in kind:
            model.config.mask_ratio = 0.0
            more["noise"] = torch.arange((side // 16) ** 2).float()[None]
        return f"transformers/local-dir:{folder}", {}, side, lambda x: model(x, **more).last_hidden_state[:, prefix:]

    return make


def of_open_clip(name: str) -> Callable[[Path], Made]:
    """A model of open_clip's list: the image's vector in the joint space is compared."""

    def make(folder: Path) -> Made:
        import open_clip

        config = open_clip.get_model_config(name)
        config["text_cfg"] = {"context_length": 8, "vocab_size": 16, "width": 32, "heads": 2, "layers": 1}
        (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))
        model = open_clip.create_model(f"local-dir:{folder}", load_weights=False).eval()
        save_file(model.state_dict(), folder / "open_clip_model.safetensors")
        side = int(config["vision_cfg"].get("image_size", 224))
        return f"open_clip/local-dir:{folder}", {}, side, lambda x: model.encode_image(x, normalize=True)

    return make


REAL: dict[str, Callable[[Path], Made]] = {
    "ViT-B/16": of_timm("vit_base_patch16_224", 224),
    "ResNet-50": of_timm("resnet50", 224),
    "ConvNeXt-B": of_timm("convnext_base", 224),
    "Swin-B": of_timm("swin_base_patch4_window7_224", 224),
    "EVA-02-B": of_timm("eva02_base_patch14_224", 224),
    "DINOv3-B (timm)": of_timm("vit_base_patch16_dinov3", 256),
    "DINOv2-B registers (timm)": of_timm("vit_base_patch14_reg4_dinov2", 518),
    "UNI": in_timm_folder(
        "vit_large_patch16_224", {**PATHOLOGY, "init_values": 1.0, "dynamic_img_size": True, "patch_size": 16}
    ),
    "DINOv2-B (transformers)": of_transformers("Dinov2Model", 518, hidden_size=768, num_attention_heads=12),
    "DINOv3-B (transformers)": of_transformers(
        "DINOv3ViTModel",
        224,
        hidden_size=768,
        intermediate_size=3072,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_register_tokens=4,
    ),
    "SigLIP 2-B (transformers)": of_transformers("SiglipVisionModel", 224, patch_size=16),
    "ViT-MAE-B (transformers)": of_transformers("ViTMAEModel", 224),
    "Phikon (transformers)": of_transformers("ViTModel", 224),
    "CLIP ViT-B/16": of_open_clip("ViT-B-16"),
    "SigLIP ViT-B/16 (open_clip)": of_open_clip("ViT-B-16-SigLIP"),
    "MobileCLIP-S1": of_open_clip("MobileCLIP-S1"),
    "Virchow2": in_timm_folder(
        "vit_huge_patch14_224",
        {**PATHOLOGY, "init_values": 1e-5, "mlp_ratio": 5.3375, "reg_tokens": 4, "global_pool": ""},
        gated=True,
    ),
    "H-optimus-0": in_timm_folder("vit_giant_patch14_reg4_dinov2", {**PATHOLOGY, "init_values": 1e-5}),
    "Prov-GigaPath": in_timm_folder(
        "vit_giant_patch14_dinov2",
        {**PATHOLOGY, "patch_size": 16, "embed_dim": 1536, "depth": 40, "num_heads": 24, "mlp_ratio": 5.33334},
    ),
}


@torch.no_grad()
def check(make: Callable[[Path], Made]) -> dict[str, Any]:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as place:
        name, options, side, original = make(Path(place))
        weights = options.pop("weights", None)
        settings = EncoderConfig(
            name=name, final_norm=True, options=options, weights=None if weights is None else str(weights)
        )
        encoder = make_encoder(settings).eval()
    images = torch.rand(1, 3, side, side)
    pixels = encoder.normalize(images)
    expected = original(pixels)
    live = encoder.tokens(pixels)
    ours = encoder.embed(live) if expected.ndim == 2 else live.patches
    row: dict[str, Any] = {
        "parameters": sum(parameter.numel() for parameter in encoder.parameters()),
        "size": side,
        "grid": live.grid,
        "width": encoder.width,
        "original": float((ours - expected).abs().max()),
    }
    del original
    gc.collect()
    for blocks in (0, 1):
        stored = encoder.before(pixels, blocks)
        again = encoder.after(stored, Cut(blocks, live.grid))
        pairs = zip(live.parts(), again.parts(), strict=True)
        row[f"stored {blocks}"] = max(float((one - other).abs().max()) for one, other in pairs)
        row[f"numbers stored {blocks}"] = stored[0].numel()
    return row


def main(out: Path, names: list[str]) -> None:
    for name in names or REAL:
        began = time.time()
        row = {"encoder": name, **check(REAL[name]), "seconds": round(time.time() - began, 1)}
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)
        gc.collect()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
