"""Which jobs are this machine's: every n-th, as `--shard i/n` says, or what `accelerate launch` told the process."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from conceptlens.core.errors import UserError

T = TypeVar("T")
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


@dataclass(frozen=True)
class Shard:
    """Part `index` of `count`, counted from 0."""

    index: int = 0
    count: int = 1
    launched: bool = False  # by accelerate: the process is one of several and must not train with the others

    def mine(self, jobs: Sequence[T]) -> list[T]:
        return list(jobs[self.index :: self.count])


def parse_shard(words: str | None, environment: Mapping[str, str] = os.environ) -> Shard:
    """`2/8` is the second of eight; without words, the process's place among those that were launched."""
    if words is None:
        count = int(environment.get("WORLD_SIZE", "1"))
        return Shard(int(environment.get("RANK", "0")), count, launched=count > 1) if count > 1 else Shard()
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", words.strip())
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise UserError(f"--shard {words}: expected a part and a number of parts, such as 2/8, counted from 1.")
    return Shard(int(found[1]) - 1, int(found[2]), launched=int(environment.get("WORLD_SIZE", "1")) > 1)


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
