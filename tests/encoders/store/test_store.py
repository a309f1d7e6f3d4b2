"""Stored tokens: the same as live ones, whole or not there, never those of another encoder or other images."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.core.processes import Processes
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import open_source
from conceptlens.encoders import make_encoder
from conceptlens.encoders.contract import Cut, Encoder
from conceptlens.encoders.store import store as store_module
from conceptlens.encoders.store.encode import fill, open_store
from conceptlens.encoders.store.reader import StoredReader
from conceptlens.encoders.store.store import TokenStore, rows_per_shard
from conceptlens.recipes.schema import DataConfig, EncoderConfig, ShapesConfig
from tests.training.tiny import tiny


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four images of `config()` a shard: 21 tokens of width 16 in half precision each."""
    monkeypatch.setattr(store_module, "SHARD_BYTES", 4 * 21 * 16 * 2)


def config(train: object = 1, name: str = "builtin/vit-mini") -> EncoderConfig:
    options = {"width": 16, "depth": 3, "heads": 2} if name.startswith("builtin") else {}
    return EncoderConfig(name=name, image_size=32, pretrained=False, train=train, options=options)  # type: ignore[arg-type]


def reader(n: int = 10) -> PixelReader:
    source, _ = open_source(DataConfig(source="shapes", shapes=ShapesConfig(n=n, size=32)), None)
    return PixelReader(source, 32)


def encoder(settings: EncoderConfig) -> Encoder:
    torch.manual_seed(0)
    return make_encoder(settings).eval()


def filled(path: Path, settings: EncoderConfig, **options: object) -> TokenStore:
    own = encoder(settings)
    store = open_store(path, own, settings, reader(), **options)  # type: ignore[arg-type]
    fill(store, own, reader(), Processes())
    return store


def test_an_encoder_that_moved_while_a_store_was_filled_can_learn(tmp_path: Path) -> None:
    """Parameters that move to a device in inference mode could not; a change of type moves them here as a GPU would."""
    settings = config()
    own = encoder(settings)
    store = open_store(tmp_path / "store", own, settings, reader())
    move = own.to
    own.to = lambda *_: move(torch.float64)  # type: ignore[method-assign]
    fill(store, own, reader(), Processes())
    assert next(own.parameters()).dtype == torch.float64
    assert not any(value.is_inference() for value in own.parameters())


@pytest.mark.parametrize("name", ["builtin/vit-mini", "timm/test_vit"])
@pytest.mark.parametrize("train", ["none", 1, 2])
@torch.inference_mode()
def test_tokens_behind_the_cut_are_those_of_the_whole_encoder(name: str, train: object) -> None:
    settings = config(train, name)
    own, images = encoder(settings), torch.rand(2, 3, 32, 32)
    blocks = 0 if train == "none" else int(str(train))
    whole = own(images)
    entering = own.before(own.normalize(images), blocks)
    own.cut = Cut(blocks, whole.grid)
    cut = own.from_stored(entering)
    assert cut.grid == whole.grid
    assert whole.cls is not None
    assert cut.cls is not None
    torch.testing.assert_close(cut.patches, whole.patches, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(cut.cls, whole.cls, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@torch.inference_mode()
def test_rows_come_back_in_the_order_asked_for(tmp_path: Path, dtype: str) -> None:
    settings = config()
    store, own = filled(tmp_path / "s", settings, dtype=dtype), encoder(settings)
    assert store.shards == 3
    order = np.array([9, 0, 5, 5, 3])
    live = own.before(own.normalize(reader().batch(order)), 1)
    stored = StoredReader(store).batch(order)
    assert stored.dtype == getattr(torch, dtype)
    assert torch.equal(stored, live.to(getattr(torch, dtype)))


def test_a_torn_shard_is_written_again_and_the_others_are_kept(tmp_path: Path) -> None:
    settings = config()
    store = filled(tmp_path / "s", settings)
    whole = (tmp_path / "s" / "shard-00001.npy").read_bytes()
    (tmp_path / "s" / "shard-00001.npy").write_bytes(whole[:-7])
    untouched = (tmp_path / "s" / "shard-00000.npy").stat().st_mtime_ns
    store = TokenStore(store.path, store.key, store.tokens, store.width, store.cut.grid)
    with pytest.raises(UserError, match="torn"):
        store.read(np.array([5]))
    assert fill(store, encoder(settings), reader(), Processes()) == 4
    assert (tmp_path / "s" / "shard-00001.npy").read_bytes() == whole
    assert (tmp_path / "s" / "shard-00000.npy").stat().st_mtime_ns == untouched


def test_a_shard_with_a_flipped_byte_is_encoded_again(tmp_path: Path) -> None:
    whole = filled(tmp_path, config()).read(np.arange(10))
    file = tmp_path / "shard-00001.npy"
    data = bytearray(file.read_bytes())
    data[-3] ^= 64
    file.write_bytes(data)
    store = open_store(tmp_path, encoder(config()), config(), reader())
    assert [store.has(shard) for shard in range(3)] == [True, False, True]
    with pytest.raises(UserError, match=r"shard-00001.npy is missing or damaged"):
        store.read(np.arange(10))
    assert fill(store, encoder(config()), reader(), Processes()) == 4
    assert torch.equal(store.read(np.arange(10)), whole)


def test_several_processes_share_the_shards(tmp_path: Path) -> None:
    settings, own = config(), encoder(config())
    done = []
    for index in (1, 0):  # the second may begin first
        processes = Processes()
        processes.index, processes.count, processes.main = index, 2, index == 0
        store = open_store(tmp_path / "s", own, settings, reader())
        done.append(fill(store, own, reader(), processes))
    assert done == [4, 6]
    alone = filled(tmp_path / "alone", settings)
    everything = np.arange(10)
    assert torch.equal(store.read(everything), alone.read(everything))


def test_few_files_are_open_however_many_shards_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(store_module, "SHARD_BYTES", 1)  # an image a shard
    monkeypatch.setattr(store_module, "OPEN", 4)
    key = replace(filled(tmp_path / "s", config()).key, images=40)
    store = TokenStore(tmp_path / "many", key, 2, 3, (1, 1))
    store.begin()
    tokens = torch.arange(40 * 6).reshape(40, 2, 3).to(torch.float16)
    for shard in range(store.shards):
        store.write(shard, tokens[shard : shard + 1])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds() + 12, hard))
    try:
        order = np.random.default_rng(0).permutation(40)
        assert torch.equal(store.read(order), tokens[order])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_large_store_has_larger_shards_and_one_that_was_begun_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token_bytes = 197 * 768 * 2
    monkeypatch.setattr(store_module, "SHARD_BYTES", 16 * 2**20)
    assert rows_per_shard(10_000, token_bytes) == 16 * 2**20 // token_bytes
    assert rows_per_shard(1_000_000, token_bytes) == 256 * 2**20 // token_bytes
    assert rows_per_shard(200_000, token_bytes) == 200_000 // 1024  # a thousand shards between the two
    monkeypatch.setattr(store_module, "SHARD_BYTES", 4 * 21 * 16 * 2)
    old = filled(tmp_path / "s", config()).read(np.arange(10))
    monkeypatch.setattr(store_module, "SHARD_BYTES", 7 * 21 * 16 * 2)
    store = filled(tmp_path / "s", config())
    assert store.rows == 4
    assert torch.equal(store.read(np.arange(10)), old)


def test_dry_run_counts_the_store(tmp_path: Path) -> None:
    whole = cl.estimate(tiny(tmp_path / "a", encoder__train=1))
    behind = cl.estimate(tiny(tmp_path / "b", encoder__train=1, encoder__store="run"))
    assert behind.forward_gflops_per_image < whole.forward_gflops_per_image
    assert behind.learning_parameters == whole.learning_parameters
    assert behind.disk_mb - whole.disk_mb == pytest.approx(96 * 21 * 32 * 2 / 2**20)
    assert not (tmp_path / "b").exists()


def test_a_stale_store_is_refused(tmp_path: Path) -> None:
    settings, path = config(), tmp_path / "s"
    own = encoder(settings)
    fill(open_store(path, own, settings, reader()), own, reader(), Processes())
    open_store(path, own, settings, reader())
    with pytest.raises(UserError, match="stored with data"):
        open_store(path, own, settings, reader(11))
    windowed = reader()
    windowed.source.window = (0.0, 100.0)
    with pytest.raises(UserError, match="stored with fit 'squash', now it is 'squash, window"):
        open_store(path, own, settings, windowed)
    swapped = reader()
    real = swapped.source.read
    swapped.source.read = lambda index: real((index + 1) % 10)  # type: ignore[method-assign]
    with pytest.raises(UserError, match="stored with pixels"):
        open_store(path, own, settings, swapped)
    with pytest.raises(UserError, match="stored with precision 'fp32', now it is 'bf16'"):
        open_store(path, own, settings, reader(), precision="bf16")
    with pytest.raises(UserError, match="stored with blocks 1, now it is 2"):
        open_store(path, own, config(2), reader())
    torch.nn.init.zeros_(own.blocks()[0].out.weight)  # type: ignore[arg-type, union-attr]
    with pytest.raises(UserError, match="stored with weights"):
        open_store(path, own, settings, reader())


def test_what_cannot_be_stored_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing can be stored"):
        open_store(tmp_path, encoder(config("all")), config("all"), reader())
    resnet = config(4, "timm/test_resnet")
    with pytest.raises(UserError, match="nothing but its stem"):
        open_store(tmp_path, encoder(resnet), resnet, reader())
    with pytest.raises(UserError, match="expected a folder"):
        cl.encode(tiny(tmp_path / "run", encoder__train=1))


def test_a_limit_of_the_data_limits_the_store(tmp_path: Path) -> None:
    """Twelve of 96 images are used: no other is encoded, and each is read under its own number."""
    place = tmp_path / "store"
    limited = tiny(tmp_path / "run", data__limit=4, encoder__train=1, encoder__store=str(place))
    assert cl.encode(limited, quiet=True).to_dict()["encoded"] == 12
    assert read_json(place / "store.json")["images"] == 12
    own, settings = encoder(config()), config()
    rows = np.array([2, 5, 9])
    store = open_store(tmp_path / "rows", own, settings, reader(), rows=rows)
    assert fill(store, own, reader(), Processes(), rows=rows) == 3
    with torch.inference_mode():
        live = own.before(own.normalize(reader().batch(np.array([9, 2]))), 1).half()
    assert torch.equal(StoredReader(store, rows).batch(np.array([9, 2])), live)
    with pytest.raises(UserError, match="stored with data"):
        open_store(tmp_path / "rows", own, settings, reader(), rows=np.array([2, 5, 8]))


def test_training_from_a_store_is_training_without_augmentation(tmp_path: Path) -> None:
    plain = {"crop": 1.0, "flip_horizontal": False, "flip_vertical": False}
    live = tiny(tmp_path / "live", encoder__train=1, training__augment=plain)
    stored = tiny(tmp_path / "stored", encoder__train=1, encoder__store="run")
    histories = []
    for recipe in (live, stored):
        run = cl.train(recipe, quiet=True)
        histories.append([line["loss"] for line in run.read_history() if "loss" in line])
        assert not (run.path / "tokens").exists()
    assert len(histories[0]) == 3
    assert histories[1] == pytest.approx(histories[0], rel=2e-3)  # the tokens are kept in half precision


def test_encode_once_train_often(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    recipe = tiny(tmp_path / "a", encoder__train=1, encoder__store=store)
    first = cl.encode(recipe, quiet=True)
    assert (first.images, first.encoded) == (96, 96)
    assert cl.encode(recipe, quiet=True).encoded == 0
    assert "96 were there" in cl.encode(recipe, quiet=True).text()
    run = cl.train(recipe, quiet=True)
    assert read_json(run.path / "run.json")["status"] == "done"
    assert (tmp_path / "store" / "store.json").exists()
