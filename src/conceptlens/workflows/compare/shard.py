"""Which jobs are this machine's: every n-th, as `--shard i/n` says, or what `accelerate launch` told the process."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from conceptlens.core.errors import UserError

T = TypeVar("T")


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
