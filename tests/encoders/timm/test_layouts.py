"""A checkpoint that fits stays as it is, whatever timm would make of it; others are converted by timm."""

import sys

import pytest
import timm
import torch
from torch import Tensor, nn

from conceptlens.encoders.timm.layouts import in_layout_of
from conceptlens.encoders.timm.structure import is_head


def test_what_fits_is_left_alone_and_all_else_is_timms(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"img_size": 32, "patch_size": 2, "window_size": 4, "embed_dim": 8, "depths": (1, 1), "num_heads": (1, 1)}
    model = timm.create_model("swin_tiny_patch4_window7_224", num_classes=0, **sizes)
    asked = []

    def move(state: dict[str, Tensor], _: nn.Module) -> dict[str, Tensor]:  # as timm 1.0.20 did without a classifier
        asked.append(len(state))
        return {name.replace("layers.1.downsample", "layers.2.downsample"): value for name, value in state.items()}

    monkeypatch.setattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", move)
    state = model.state_dict()
    assert in_layout_of(model, state, is_head) is state
    headed = {**state, "head.fc.weight": torch.zeros(3, 16)}
    assert in_layout_of(model, headed, is_head) is headed
    assert not asked
    assert "layers.2.downsample.norm.weight" in in_layout_of(model, {**state, "more": torch.zeros(1)}, is_head)
    assert len(asked) == 1
