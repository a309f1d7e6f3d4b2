"""Encoders of every kind say the same from stored tokens as from images, wherever they are cut."""

from pathlib import Path
from typing import Any

import pytest
import torch

from conceptlens.api import train
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Cut, Encoder
from conceptlens.encoders.replay import check_cut
from conceptlens.encoders.timm.encoder import TimmEncoder
from tests.training.tiny import tiny

NARROW = {"embed_dim": 24, "num_heads": 2, "depth": 3}
STAGES = {"depths": (1, 1, 2, 1)}
TINY: dict[str, dict[str, Any]] = {
    "eva02_tiny_patch14_224": {**NARROW, "image_size": 56},
    "vit_small_patch16_dinov3": {**NARROW, "image_size": 64},
    "vit_base_patch14_reg4_dinov2": {**NARROW, "image_size": 56},
    "swin_tiny_patch4_window7_224": {**STAGES, "embed_dim": 8, "num_heads": (1, 1, 2, 2), "image_size": 224},
    "convnext_atto": {**STAGES, "dims": (8, 8, 16, 24), "image_size": 64},
    "test_resnet": {"image_size": 64},
    "test_efficientnet": {"image_size": 64},
}


def make(name: str, **settings: Any) -> TimmEncoder:
    torch.manual_seed(0)
    return TimmEncoder(f"timm/{name}", pretrained=False, **TINY[name], **settings).eval()


def agree(encoder: Encoder, blocks: int) -> None:
    images = encoder.normalize(torch.rand(2, 3, encoder.image_size, encoder.image_size))
    with torch.no_grad():
        live = encoder.tokens(images)
        again = encoder.after(encoder.before(images, blocks), Cut(blocks, live.grid))
    assert again.grid == live.grid
    for one, other in zip(live.parts(), again.parts(), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("blocks", [0, 1, 2])
@pytest.mark.parametrize("name", TINY)
def test_stored_tokens_are_live_tokens(name: str, blocks: int) -> None:
    agree(make(name, layers="several", final_norm=True), blocks)


def test_only_blocks_behind_the_cut_get_a_gradient() -> None:
    encoder = make("vit_small_patch16_dinov3")
    stored = encoder.before(encoder.normalize(torch.rand(2, 3, 64, 64)), 1).detach()
    encoder.requires_grad_(False)
    encoder.blocks()[-1].requires_grad_(True)
    encoder.after(stored, Cut(1, (4, 4))).patches.square().sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.blocks()[-1].parameters())
    assert "forward" not in vars(encoder.blocks()[0])


def test_what_cannot_be_cut_is_refused_with_a_reason() -> None:
    with pytest.raises(UserError, match=r"Set encoder\.train to 3 or fewer"):
        check_cut(make("convnext_atto"), 4, 64)
    with pytest.raises(UserError, match="layer 0 of timm/test_resnet comes before its first block"):
        check_cut(make("test_resnet", layers=[0]), 1, 64)
    encoder = make("convnext_atto")
    first, second = encoder.blocks()[0], encoder.blocks()[2]
    first.register_forward_hook(lambda _, __, out: setattr(encoder, "seen", out))  # type: ignore[func-returns-value]
    second.register_forward_hook(lambda _, __, out: out + encoder.seen.abs().sum())  # reads past the cut
    with pytest.raises(UserError, match="a later part reads what lies before"):
        check_cut(encoder, 2, 64)


def test_a_refusal_leaves_no_run_folder(tmp_path: Path) -> None:
    recipe = tiny(
        tmp_path / "run",
        encoder={
            "name": "timm/test_resnet",
            "pretrained": False,
            "image_size": 32,
            "train": 4,
            "store": "run",
            "text": "builtin/hashed-text",
        },
    )
    with pytest.raises(UserError, match=r"encoder\.store: with all 4 blocks"):
        train(recipe, quiet=True)
    assert not (tmp_path / "run").exists()
