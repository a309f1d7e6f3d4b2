"""Which device is used: the one that was named, the GPU, or the CPU; a Mac's GPU is refused."""

import pytest
import torch

from conceptlens.core.devices import VARIABLE, best_device
from conceptlens.core.errors import UserError
from conceptlens.core.processes import Launched


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose torch offers `mps` and no CUDA."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_a_macs_gpu_is_refused_with_what_to_do(mac: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "mps")
    with pytest.raises(UserError, match=r"--device mps: a Mac's GPU is not supported.*--device cpu"):
        best_device()


def test_a_mac_trains_on_its_cpu(mac: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert best_device() == torch.device("cpu")
    asked = []
    monkeypatch.setattr("accelerate.Accelerator.__init__", lambda self, **options: asked.append(options["cpu"]))
    monkeypatch.setattr("accelerate.Accelerator.num_processes", 1)
    monkeypatch.setattr("accelerate.Accelerator.process_index", 0)
    monkeypatch.setattr("accelerate.Accelerator.is_main_process", True)
    monkeypatch.setattr("accelerate.Accelerator.device", torch.device("cpu"))
    assert Launched().device == torch.device("cpu")
    assert asked == [True]  # Accelerate would take the Mac's GPU by itself


@pytest.mark.parametrize("name", ["tpu", "meta"])
def test_another_device_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, name)
    with pytest.raises(UserError, match="expected cpu, cuda or cuda:N"):
        best_device()
