"""Encoders of 24 published layouts, small: the same modules, files and names as the real ones, with random weights."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.encoders.store.test_cuts import TINY
from tests.encoders.test_open_clip import TEXT, VIT
from tests.encoders.timm.test_published import LAYOUTS as PATHOLOGY
from tests.encoders.timm.test_published import write as write_timm
from tests.encoders.transformers.test_encoder import write as write_transformers

Encoder = dict[str, Any]  # keys of a recipe's `encoder`


def _timm(name: str) -> Callable[[Path], Encoder]:
    options = dict(TINY[name])
    size = options.pop("image_size")
    return lambda _: {"name": f"timm/{name}", "image_size": size, "options": options, "pretrained": False}


def _plain(name: str, size: int, **options: Any) -> Callable[[Path], Encoder]:
    return lambda _: {"name": name, "image_size": size, "options": options, "pretrained": False}


def _pathology(layout: str) -> Callable[[Path], Encoder]:
    return lambda folder: {"name": write_timm(folder, layout)[0], "options": PATHOLOGY[layout][2]}


def _transformers(kind: str) -> Callable[[Path], Encoder]:
    return lambda folder: {"name": write_transformers(folder, kind)[0]}


def _clip(vision: dict[str, Any], width: int = 24) -> Callable[[Path], Encoder]:
    def make(folder: Path) -> Encoder:
        import open_clip

        config = {"model_cfg": {"embed_dim": width, "vision_cfg": vision, "text_cfg": TEXT}, "preprocess_cfg": {}}
        folder.mkdir(exist_ok=True)
        (folder / "open_clip_config.json").write_text(json.dumps(config))
        torch.manual_seed(0)
        built = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
        save_file(built.state_dict(), folder / "open_clip_model.safetensors")
        return {"name": f"open_clip/local-dir:{folder}"}

    return make


def _trunk(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"timm_model_name": name, "image_size": size, "timm_pool": "", "timm_proj": "linear", **more}


LAYOUTS: dict[str, Callable[[Path], Encoder]] = {
    "builtin/vit": _plain("builtin/vit-mini", 32, width=32, depth=3, heads=2),
    "EfficientNet-Lite0": lambda _: {"name": "builtin/efficientnet-lite0", "image_size": 64},
    "ViT-B/16": _plain("timm/vit_base_patch16_224", 64, embed_dim=24, depth=3, num_heads=2),
    "DINOv2, registers": _timm("vit_base_patch14_reg4_dinov2"),
    "DINOv3": _timm("vit_small_patch16_dinov3"),
    "EVA-02": _timm("eva02_tiny_patch14_224"),
    "BEiT": _plain("timm/beit_base_patch16_224", 224, embed_dim=24, depth=3, num_heads=2),
    "ResNet": _timm("test_resnet"),
    "EfficientNet": _timm("test_efficientnet"),
    "ConvNeXt": _plain("timm/test_convnext", 64),
    "Swin": _plain("timm/swin_tiny_patch4_window7_224", 224, embed_dim=24),
    "UNI": _pathology("UNI"),
    "Virchow2": _pathology("Virchow2"),
    "Prov-GigaPath": _pathology("Prov-GigaPath"),
    "H-optimus-0": _pathology("H-optimus-0"),
    "transformers DINOv2": _transformers("dinov2"),
    "transformers DINOv3": _transformers("dinov3"),
    "transformers SigLIP": _transformers("siglip"),
    "transformers ViT-MAE": _transformers("vit-mae"),
    "Phikon": _transformers("phikon"),
    "CLIP": _clip(VIT),
    "BiomedCLIP": _clip(_trunk("test_vit", 160)),
    "SigLIP": _clip(_trunk("test_vit2", 160, timm_pool="map", timm_proj="none"), width=64),
    "CLIP, ConvNeXt trunk": _clip(_trunk("test_convnext", 160)),
}
