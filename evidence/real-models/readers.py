"""Readers of generators against the original packages: random weights, the package's own file, its own forward.

python evidence/real-models/readers.py OUT.jsonl [NAME …]    (diffusers, taming-transformers-rom1504, omegaconf, einops)

Sizes are the published ones of the first stages; `largest` is the largest difference, `tokens` the share that agree.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import torch
import transformers
from torch import Tensor

from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.generators.settings import CheckpointOptions

DD = {
    "double_z": False,
    "z_channels": 256,
    "resolution": 256,
    "in_channels": 3,
    "out_ch": 3,
    "ch": 128,
    "ch_mult": [1, 1, 2, 2, 4],
    "num_res_blocks": 2,
    "attn_resolutions": [16],
    "dropout": 0.0,
}
LOSS = {"target": "torch.nn.Identity"}


def old_lightning() -> None:
    """What these packages import of pytorch-lightning: a module is a module, and nothing else is used here."""
    for name in ("", ".trainer", ".callbacks", ".loggers", ".utilities", ".utilities.distributed"):
        sys.modules.setdefault(f"pytorch_lightning{name}", MagicMock(LightningModule=torch.nn.Module))
    vars(transformers)["top_k_top_p_filtering"] = None  # imported for sampling, gone from today's transformers


def apart(codes: torch.nn.Embedding) -> torch.nn.Embedding:
    """Codes as far from each other as trained ones: untrained ones are all about zero, and the nearest is rounding."""
    codes.weight.data.normal_()
    return codes


def compared(ours: Any, images: Tensor, tokens: Tensor, painted: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """Tokens of images, and pixels of random tokens."""
    grid = ours.grid
    some = torch.randint(len(ours.codebook), (1, *grid), generator=torch.Generator().manual_seed(2))
    expected = ((painted(some) + 1) / 2).clamp(0, 1)
    mine = ours.decode_embeddings(ours.codebook[some].permute(0, 3, 1, 2))
    same = (ours.encode(images).flatten() == tokens.flatten()).float().mean()
    return {
        "parameters": sum(parameter.numel() for parameter in ours.parameters()),
        "grid": grid,
        "codes": len(ours.codebook),
        "tokens": float(same),
        "largest": float((mine - expected).abs().max()),
    }


def taming(folder: Path, gumbel: bool) -> dict[str, Any]:
    old_lightning()
    vqgan: Any = import_module("taming.models.vqgan")

    kind = vqgan.GumbelVQ if gumbel else vqgan.VQModel
    more = {"temperature_scheduler_config": LOSS} if gumbel else {}
    model = kind(ddconfig=DD, lossconfig=LOSS, n_embed=8192 if gumbel else 16384, embed_dim=256, **more).eval()
    codes = apart(model.quantize.embed if gumbel else model.quantize.embedding)
    torch.save({"state_dict": model.state_dict()}, folder / "last.ckpt")
    images = torch.rand(1, 3, 256, 256)
    if gumbel:  # the package adds noise when it encodes; this is the mode of what it draws
        tokens = model.quantize.proj(model.quant_conv(model.encoder(2 * images - 1))).argmax(1)
    else:
        _, _, (_, _, tokens) = model.encode(2 * images - 1)
    return compared(
        open_model(folder / "last.ckpt", image_size=256),
        images,
        tokens,
        lambda some: model.decode(codes(some).permute(0, 3, 1, 2)),
    )


def taming_transformer(folder: Path) -> dict[str, Any]:
    """Log-probabilities of tokens by the published transformer, at its width and heads with 4 of its 48 blocks."""
    old_lightning()
    vqgan: Any = import_module("taming.models.vqgan")
    GPT: Any = import_module("taming.modules.transformer.mingpt").GPT

    small = {**DD, "ch": 32, "ch_mult": [1, 2], "resolution": 32, "attn_resolutions": [], "z_channels": 64}
    first = vqgan.VQModel(ddconfig=small, lossconfig=LOSS, n_embed=1024, embed_dim=64).eval()
    gpt = GPT(vocab_size=1024, block_size=257, n_layer=4, n_head=24, n_embd=1536).eval()
    state = {f"first_stage_model.{name}": value for name, value in first.state_dict().items()}
    state |= {f"transformer.{name}": value for name, value in gpt.state_dict().items()}
    torch.save({"state_dict": state}, folder / "net2net.ckpt")
    ours: Any = open_model(folder / "net2net.ckpt", image_size=32, checkpoint=CheckpointOptions(heads=24, classes=1000))
    row = torch.randint(1000, (1, 257), generator=torch.Generator().manual_seed(3))
    expected, _ = gpt(row)
    mine = ours.transformer(row)
    mine = mine[0] if isinstance(mine, tuple) else mine
    return {
        "parameters": sum(parameter.numel() for parameter in gpt.parameters()),
        "largest": float((mine - expected).abs().max()),
    }


def diffusers(folder: Path) -> dict[str, Any]:
    model = (
        import_module("diffusers")
        .VQModel(
            down_block_types=("DownEncoderBlock2D",) * 3,
            up_block_types=("UpDecoderBlock2D",) * 3,
            block_out_channels=(128, 256, 512),
            layers_per_block=2,
            latent_channels=3,
            num_vq_embeddings=8192,
            vq_embed_dim=3,
            sample_size=256,
        )
        .eval()
    )
    codes = apart(model.quantize.embedding)
    model.save_pretrained(folder)
    images = torch.rand(1, 3, 256, 256)
    latents = model.encode(2 * images - 1).latents
    _, _, (_, _, tokens) = model.quantize(latents)
    return compared(
        open_model(folder),
        images,
        tokens,
        lambda some: model.decode(codes(some).permute(0, 3, 1, 2), force_not_quantize=True).sample,
    )


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "taming VQGAN, f16, 16,384 codes": lambda folder: taming(folder, gumbel=False),
    "taming Gumbel VQGAN, f16, 8,192 codes": lambda folder: taming(folder, gumbel=True),
    "taming transformer, width 1,536, 24 heads": taming_transformer,
    "diffusers VQModel, f4, 8,192 codes": diffusers,
}


@torch.no_grad()
def main(out: Path, names: list[str]) -> None:
    for name, case in CASES.items():
        if names and name not in names:
            continue
        torch.manual_seed(0)
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                row = {"reader": name, **case(Path(folder))}
            except Exception as error:  # a finding; the other readers are still wanted
                row = {"reader": name, "failed": f"{type(error).__name__}: {error}"[:400]}
        row["seconds"] = round(time.perf_counter() - began, 1)
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
