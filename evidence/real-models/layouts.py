"""Encoders at their real size with random weights in their published files, and the original package's forward.

`matrix.py --real` runs them. A maker writes the files into a folder; the original stays in memory for the comparison.
"""

import json
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
Keys = dict[str, Any]  # of a recipe's `encoder`
Made = tuple[Keys, nn.Module, Callable[[Tensor], Tensor]]  # the original, and its tokens of normalized pixels


def in_timm_folder(architecture: str, arguments: dict[str, Any], gated: bool = False) -> Callable[[Path], Made]:
    """A repository with timm's config.json."""

    def make(folder: Path) -> Made:
        layers = {"mlp_layer": SwiGLUPacked, "act_layer": nn.SiLU} if gated else {}
        model = timm.create_model(architecture, **{**arguments, **layers}).eval()
        save_file(model.state_dict(), folder / "model.safetensors")
        published = {"architecture": architecture, "pretrained_cfg": NORM, "model_args": arguments, "num_classes": 0}
        (folder / "config.json").write_text(json.dumps(published))
        keys = {"name": f"timm/local-dir:{folder}", "options": GATED if gated else {}}
        return keys, model, lambda x: tokens(model, x)

    return make


def of_timm(name: str, side: int) -> Callable[[Path], Made]:
    """A name of timm's list; its weights in a file."""

    def make(folder: Path) -> Made:
        model = timm.create_model(name, num_classes=0).eval()
        save_file(model.state_dict(), folder / "w.safetensors")
        keys = {"name": f"timm/{name}", "weights": str(folder / "w.safetensors"), "image_size": side}
        return keys, model, lambda x: tokens(model, x)

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
        images = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "size": {"height": side, "width": side}}
        (folder / "preprocessor_config.json").write_text(json.dumps(images))
        more: dict[str, Any] = {}
        if "MAE" in kind:
            model.config.mask_ratio = 0.0
            more["noise"] = torch.arange((side // 16) ** 2).float()[None].to(model.device)
        keys = {"name": f"transformers/local-dir:{folder}"}
        return keys, model, lambda x: model(x, **more).last_hidden_state[:, prefix:]

    return make


def of_open_clip(name: str, **vision: Any) -> Callable[[Path], Made]:
    """A model of open_clip's list: the image's vector in the joint space is compared."""

    def make(folder: Path) -> Made:
        import open_clip

        config = open_clip.get_model_config(name)
        config["vision_cfg"] = {"image_size": 224, **vision} if vision else config["vision_cfg"]
        config["text_cfg"] = {"context_length": 8, "vocab_size": 16, "width": 32, "heads": 2, "layers": 1}
        (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config}))
        model = open_clip.create_model(f"local-dir:{folder}", load_weights=False).to(torch.get_default_device()).eval()
        save_file(model.state_dict(), folder / "open_clip_model.safetensors")
        return {"name": f"open_clip/local-dir:{folder}"}, model, lambda x: model.encode_image(x, normalize=True)

    return make


SO400M = {"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16}
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
DINOV3 = {"intermediate_size": 3072, "num_attention_heads": 12, "num_register_tokens": 4, "hidden_size": 768}
REAL: dict[str, Callable[[Path], Made]] = {  # large ones first: what is cut short is what was run before
    "ViT-L/16": of_timm("vit_large_patch16_224", 224),
    "DINOv2-L (timm)": of_timm("vit_large_patch14_dinov2", 518),
    "EVA-02-L": of_timm("eva02_large_patch14_224", 224),
    "ConvNeXt-L": of_timm("convnext_large", 224),
    "Swin-L": of_timm("swin_large_patch4_window7_224", 224),
    "SigLIP so400m (transformers)": of_transformers("SiglipVisionModel", 224, patch_size=14, **SO400M),
    "DINOv3-L (timm)": of_timm("vit_large_patch16_dinov3", 256),
    "UNI": in_timm_folder(
        "vit_large_patch16_224", {**PATHOLOGY, "init_values": 1.0, "dynamic_img_size": True, "patch_size": 16}
    ),
    "Phikon-v2 (transformers)": of_transformers("Dinov2Model", 224, patch_size=16, **LARGE),
    "CLIP ViT-L/14": of_open_clip("ViT-L-14"),
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
    "BiomedCLIP": of_open_clip("ViT-B-16", timm_model_name="vit_base_patch16_224", timm_pool="", timm_proj="linear"),
    "SigLIP ViT-B/16 (open_clip)": of_open_clip("ViT-B-16-SigLIP"),
    "MobileCLIP-S1": of_open_clip("MobileCLIP-S1"),
    "DINOv3-B (transformers)": of_transformers("DINOv3ViTModel", 224, num_hidden_layers=12, **DINOV3),
    "DINOv2-B (transformers)": of_transformers("Dinov2Model", 518, hidden_size=768, num_attention_heads=12),
    "SigLIP 2-B (transformers)": of_transformers("SiglipVisionModel", 224, patch_size=16),
    "ViT-MAE-B (transformers)": of_transformers("ViTMAEModel", 224),
    "Phikon (transformers)": of_transformers("ViTModel", 224),
    "CLIP ViT-B/16": of_open_clip("ViT-B-16"),
    "ViT-B/16": of_timm("vit_base_patch16_224", 224),
    "ResNet-50": of_timm("resnet50", 224),
    "ConvNeXt-B": of_timm("convnext_base", 224),
    "Swin-B": of_timm("swin_base_patch4_window7_224", 224),
    "EVA-02-B": of_timm("eva02_base_patch14_224", 224),
    "DINOv3-B (timm)": of_timm("vit_base_patch16_dinov3", 256),
    "DINOv2-B registers (timm)": of_timm("vit_base_patch14_reg4_dinov2", 518),
}


@torch.no_grad()
def write_published(name: str, folder: Path, device: torch.device) -> Made:
    """Files of a model with random weights, made where that is quick."""
    torch.manual_seed(0)
    with torch.device(device):
        return REAL[name](folder)


@torch.no_grad()
def agreement(keys: Keys, original: Callable[[Tensor], Tensor] | None, device: torch.device) -> dict[str, Any]:
    """Tokens of one image: against the original's, and stored ones (before they are rounded) against live ones.

    `original` is the largest difference from the original's tokens (of CLIPs: from the image's unit vector), `stored 0`
    and `stored 1` that of tokens behind a cut (all blocks frozen; before the last block) from live ones.
    """
    config = EncoderConfig(**{"pretrained": True, **keys}, final_norm=True)
    encoder = make_encoder(config).to(device).eval()
    side = encoder.image_size
    pixels = encoder.normalize(torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(1)).to(device))
    live = encoder.tokens(pixels)
    row: dict[str, Any] = {
        "parameters": sum(parameter.numel() for parameter in encoder.parameters()),
        "pixels": side,
        "grid": live.grid,
        "width": encoder.width,
    }
    if original is not None:
        expected = original(pixels)
        ours = encoder.embed(live) if expected.ndim == 2 else live.patches
        row |= {"original": float((ours - expected).abs().max()), "largest": float(expected.abs().max())}
    for blocks in (0, 1):
        stored = encoder.before(pixels, blocks)
        again = encoder.after(stored, Cut(blocks, live.grid))
        pairs = zip(live.parts(), again.parts(), strict=True)
        row[f"stored {blocks}"] = max(float((one - other).abs().max()) for one, other in pairs)
        row[f"numbers stored {blocks}"] = stored[0].numel()
    return row
