"""How another process of ours is started: its Python, and its environment if it works alone beside others."""

import os
import sys
from collections.abc import Mapping

# What a launcher tells its processes. A job trains alone, so it must not see any of it.
LAUNCHED = (
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)


def python() -> list[str]:
    """This Python for another process, which imports from the current folder only if this one does.

    `python -m` would put that folder first, and it may be a stranger's, with a `yaml.py` in it.
    """
    return [sys.executable] if {"", os.getcwd()} & {*sys.path} else [sys.executable, "-P"]


def lone_environment(environment: Mapping[str, str], slot: int, slots: int, devices: int, cores: int) -> dict[str, str]:
    """The environment of a job that trains alone beside others: one device, its share of the cores, no launcher.

    Args:
        environment: Of this process.
        slot: The job's place among those that run at once here.
        slots: How many do.
        devices: GPUs that this process sees; jobs take turns on them.
        cores: Of the machine.
    """
    own = {
        key: value
        for key, value in environment.items()
        if key not in LAUNCHED and not key.startswith(("TORCHELASTIC_", "ACCELERATE_", "FSDP_"))
    }
    if devices > 1:
        visible = environment.get("CUDA_VISIBLE_DEVICES")
        names = visible.split(",") if visible else [str(number) for number in range(devices)]
        own["CUDA_VISIBLE_DEVICES"] = names[(slot + int(environment.get("LOCAL_RANK", "0"))) % len(names)]
    together = slots * int(environment.get("LOCAL_WORLD_SIZE", "1"))
    if together > 1:
        own.setdefault("OMP_NUM_THREADS", str(max(1, cores // together)))
    return own
