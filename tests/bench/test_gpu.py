"""`bench/gpu.py` runs without a GPU too, and counts operations as torch does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.encoders.contract import Encoder
from conceptlens.encoders.timm.encoder import TimmEncoder
from tests import ROOT

BENCH = ROOT / "bench"


def run(out: Path, *words: str) -> dict[str, object]:
    command = [sys.executable, BENCH / "gpu.py", "--tiny", "--rounds", "1", "--json", out, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "share of the bare compiled step" in done.stdout
    found: dict[str, object] = json.loads(out.read_text())
    return found


def check(found: dict[str, object], variants: int) -> None:
    assert len(found["variants"]) == variants
    for row in found["variants"].values():
        assert row["images_per_second"] > 0
        assert row["ms_per_step"] > 0
    assert [row["wanted"] for row in found["goals"].values()] == [0.9, 0.35, 5.0, 3.0]
    assert found["published"]["images_per_second"] > 0
    ours, bare = (
        found["variants"][name]["images_per_second"]
        for name in ("ours, compiled, large batch", "bare, compiled, large batch")
    )
    assert next(iter(found["goals"].values()))["found"] == pytest.approx(ours / bare)


@pytest.mark.slow  # compiles
def test_what_the_goals_need(tmp_path: Path) -> None:
    check(run(tmp_path / "found.json", "--only"), variants=5)


@pytest.mark.slow
def test_all_parts(tmp_path: Path) -> None:
    found = run(tmp_path / "found.json")
    check(found, variants=10)
    assert not found["notes"]
    assert min(found["breakdown_ms"].values()) > 0
    assert found["kernels"]["busiest"]


@pytest.mark.parametrize("kind", ["timm", "builtin"])
def test_operations_by_formula_are_those_torch_counts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    from gpu_bench import encoder_flops

    encoder: Encoder = (
        TimmEncoder("test_vit", pretrained=False, image_size=64)
        if kind == "timm"
        else BuiltinViT(image_size=64, width=32, depth=2, heads=2, pretrained=False)
    )
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad(), FlopCounterMode(display=False) as counter:
        encoder(torch.rand(1, 3, 64, 64))
    assert encoder_flops(encoder, 64) == pytest.approx(counter.get_total_flops(), rel=1e-6)
