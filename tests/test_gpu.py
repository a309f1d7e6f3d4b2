"""What must hold on a GPU; skipped without one."""

from pathlib import Path

import pytest
import torch

import conceptlens as cl
from conceptlens.core.files import read_json
from conceptlens.stats.rank import DEFINITIONS, patch_ranks
from conceptlens.testing import build, check_precision, images
from tests.training.tiny import tiny

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_trains_on_the_gpu(tmp_path: Path, precision: str) -> None:
    run = cl.train(tiny(tmp_path / "run", training__precision=precision, training__ema=0.9), quiet=True)
    assert read_json(run.path / "environment.json")["device"].startswith("cuda")
    losses = [line["loss"] for line in run.read_history() if "loss" in line]
    assert losses[-1] < losses[0]
    stored = read_json(run.path / "metrics.json")["splits"]["test"]["class"]["confusion"]
    if precision == "fp32":
        assert cl.evaluate(run.path).metrics["class"]["confusion"] == stored


@pytest.mark.parametrize("method", cl.list_methods())
def test_bf16_on_the_gpu_is_within_its_bounds(method: str) -> None:
    check_precision(method, "cuda")


@pytest.mark.parametrize("method", cl.list_methods())
def test_fp32_on_the_gpu_is_that_of_the_cpu(method: str) -> None:
    """Logits within 0.2 % of the largest: convolutions may use TF32, whose numbers have 10 bits."""
    pipeline, pixels = build(method), images()
    with torch.no_grad():
        here = pipeline(pixels).logits
        there = pipeline.to("cuda")(pixels.to("cuda")).logits.cpu()
    assert float((there - here).abs().max()) <= 2e-3 * float(here.abs().max()) + 1e-4


def test_bf16_learns_what_fp32_learns(tmp_path: Path) -> None:
    """The loss of every epoch is within 5 %: the same data, order and draws, other roundings."""
    losses = [
        [
            line["loss"]
            for line in cl.train(tiny(tmp_path / name, training__precision=name), quiet=True).read_history()
            if "loss" in line
        ]
        for name in ("fp32", "bf16")
    ]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)


def test_gpu_and_cpu_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_gpu = cl.train(tiny(tmp_path / "gpu"), quiet=True)
    a = [line["loss"] for line in on_gpu.read_history() if "loss" in line]
    monkeypatch.setattr("conceptlens.core.processes.Launched.wrap", lambda self, module: module)
    from accelerate.state import AcceleratorState, PartialState

    AcceleratorState._reset_state(True)
    PartialState._reset_state()
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    on_cpu = cl.train(tiny(tmp_path / "cpu"), quiet=True)
    AcceleratorState._reset_state(True)
    PartialState._reset_state()
    assert read_json(on_cpu.path / "environment.json")["device"] == "cpu"
    b = [line["loss"] for line in on_cpu.read_history() if "loss" in line]
    assert a[0] == pytest.approx(b[0], rel=1e-3)


def test_ranks_agree_with_the_cpu() -> None:
    patches = torch.randn(6, 40, 24, generator=torch.Generator().manual_seed(0))
    here, there = patch_ranks(patches), patch_ranks(patches.cuda())
    for name in DEFINITIONS:
        torch.testing.assert_close(there[name].cpu(), here[name], rtol=1e-5, atol=1e-5)
