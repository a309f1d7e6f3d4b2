"""Stored tokens on the device: the same as from disk; here the CPU stands for the device."""

from pathlib import Path

import numpy as np
import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.data.loading.resident import SHARE
from conceptlens.encoders.store import resident
from conceptlens.encoders.store.reader import StoredReader
from conceptlens.encoders.store.resident import ResidentTokens, size_of, tokens_stay_resident
from conceptlens.encoders.store.store import Key, TokenStore

CPU, GPU = torch.device("cpu"), torch.device("cuda")
IMAGES, TOKENS, WIDTH = 10, 5, 4


def stored(path: Path, dtype: str = "float16") -> TokenStore:
    key = Key("encoder", "weights", 0, 32, "squash", "data", "pixels", IMAGES, "fp32", dtype)  # type: ignore[arg-type]
    store = TokenStore(path, key, TOKENS, WIDTH, (2, 2))
    store.begin()
    torch.manual_seed(0)
    for shard in range(store.shards):
        store.write(shard, torch.randn(len(store.rows_of(shard)), TOKENS, WIDTH))
    return store


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_same_tokens_as_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(resident, "CHUNK_BYTES", 3 * TOKENS * WIDTH * 2)
    store = stored(tmp_path, dtype)
    arrived: list[int] = []
    held, disk = ResidentTokens(store, CPU, arrived.append), StoredReader(store)
    assert arrived == [3, 3, 3, 1]
    asked = np.array([7, 0, 9, 7])
    for _ in range(2):
        batch = held.batch(asked)
        assert batch.dtype == getattr(torch, dtype)
        assert torch.equal(batch, disk.batch(asked))
        batch.zero_()  # a batch is the caller's own
    pairs = zip(held.prefetch([asked, asked[:1]]), disk.prefetch([asked, asked[:1]]), strict=True)
    assert all(torch.equal(ours, theirs) for (_, ours), (_, theirs) in pairs)


def test_auto_stays_below_its_share_of_the_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(tmp_path)
    free = size_of(store) / SHARE
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 1e12))
    assert tokens_stay_resident("auto", store, GPU)
    free -= 8
    assert not tokens_stay_resident("auto", store, GPU)
    assert tokens_stay_resident(True, store, GPU)
    assert not tokens_stay_resident(False, store, GPU)
    free = size_of(store) - 1
    with pytest.raises(UserError, match=r"data\.resident: the stored tokens of 10 images need"):
        tokens_stay_resident(True, store, GPU)
    assert [tokens_stay_resident(setting, store, CPU) for setting in ("auto", False, True)] == [False, False, True]
