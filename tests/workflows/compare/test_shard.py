"""Shards: every job once, from words or from a launcher; jobs that do not see the launcher."""

import pytest

from conceptlens.core.engines.environment import lone_environment
from conceptlens.core.errors import UserError
from conceptlens.workflows.compare.shard import Shard, parse_shard


def test_every_job_is_in_one_shard() -> None:
    jobs = list(range(11))
    parts = [parse_shard(f"{part}/3", {}).mine(jobs) for part in (1, 2, 3)]
    assert sorted(job for part in parts for job in part) == jobs
    assert parts[1] == [1, 4, 7, 10]


def test_the_launchers_place_is_taken() -> None:
    assert parse_shard(None, {}) == Shard()
    assert parse_shard(None, {"RANK": "2", "WORLD_SIZE": "8"}) == Shard(2, 8, launched=True)
    assert parse_shard("1/2", {"RANK": "2", "WORLD_SIZE": "8"}) == Shard(0, 2, launched=True)


@pytest.mark.parametrize("words", ["0/3", "4/3", "1", "a/b", "1/0", "-1/3", ""])
def test_what_is_no_shard(words: str) -> None:
    with pytest.raises(UserError, match="2/8"):
        parse_shard(words, {})


def test_a_job_trains_alone() -> None:
    launched = {
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "x",
        "HOME": "/h",
    }
    own = lone_environment(launched | {"ACCELERATE_MIXED_PRECISION": "no"}, slot=0, slots=1, devices=0, cores=8)
    assert own == {"HOME": "/h", "OMP_NUM_THREADS": "4"}
    assert lone_environment({"OMP_NUM_THREADS": "1"}, 0, 4, 0, 8) == {"OMP_NUM_THREADS": "1"}
    taken = [lone_environment({}, slot, 4, 2, 8)["CUDA_VISIBLE_DEVICES"] for slot in range(4)]
    assert taken == ["0", "1", "0", "1"]
    assert (
        lone_environment({"CUDA_VISIBLE_DEVICES": "4,6", "LOCAL_RANK": "1"}, 0, 1, 2, 8)["CUDA_VISIBLE_DEVICES"] == "6"
    )
    assert "CUDA_VISIBLE_DEVICES" not in lone_environment({}, 1, 2, 1, 8)
