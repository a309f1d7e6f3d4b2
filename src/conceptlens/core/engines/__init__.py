"""Engines that run tasks in other processes: on this machine, on a Ray cluster, or under SLURM."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from conceptlens.core.engines.contract import Engine, Task
from conceptlens.core.errors import UserError
from conceptlens.core.files import parse_yaml

__all__ = ["Engine", "EngineName", "Task", "make_engine"]
EngineName = Literal["local", "ray", "slurm"]


def make_engine(name: EngineName, at_once: int, folder: Path, words: Sequence[str] = ()) -> Engine:
    """An engine by its name.

    Args:
        name: Of the engine.
        at_once: Tasks that run at the same time.
        folder: For logs.
        words: Its own options, as `num_gpus=1` or `slurm_partition=gpu`.
    """
    options = dict(_option(word) for word in words)
    if name == "local":
        from conceptlens.core.engines.local import LocalEngine

        return LocalEngine(at_once, folder, options)
    if name == "ray":
        from conceptlens.core.engines.ray_engine import RayEngine

        return RayEngine(at_once, folder, options)
    from conceptlens.core.engines.slurm import SlurmEngine

    return SlurmEngine(at_once, folder, options)


def _option(word: str) -> tuple[str, Any]:
    name, equals, value = word.partition("=")
    if not equals or not name.isidentifier():
        raise UserError(f"--engine-option {word}: expected a name and a value, such as timeout_min=240.")
    return name, parse_yaml(value, where=f"--engine-option {name}")
