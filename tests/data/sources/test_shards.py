"""Shards: WebDataset tar files and Parquet give the images and labels of a plain folder, here and over HTTP."""

import functools
import http.server
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.network import offline
from conceptlens.data.dataset import DataSource
from conceptlens.data.sources.open import open_source
from conceptlens.data.sources.shard_files import expand, read_part
from conceptlens.recipes.schema import DataConfig

CONCEPTS = ConceptSet.from_yaml("classes: [left, right]\ngroups:\n  size: {values: [big, small]}\n")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def picture(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((4, 4, 3), number * 20, np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def row(number: int) -> dict[str, object]:
    return {"class": ["left", "right"][number % 2], "size": [None, "big", "small"][number % 3], "site": f"s{number}"}


def write_tars(folder: Path, count: int = 7, each: int = 3) -> str:
    for shard, start in enumerate(range(0, count, each)):
        with tarfile.open(folder / f"train-{shard:03d}.tar", "w") as tar:
            for number in range(start, min(start + each, count)):
                members = (("json", json.dumps(row(number)).encode()), ("png", picture(number)), ("mask.bin", b"?"))
                for suffix, data in members:
                    info = tarfile.TarInfo(f"images/k{number}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return f"{folder}/train-{{000..{-(-count // each) - 1:03d}}}.tar"


def write_parquet(folder: Path, count: int = 7) -> str:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    images = [{"bytes": picture(number), "path": None} for number in range(count)]
    columns = {name: [row(number)[name] for number in range(count)] for name in ("size", "site")}
    label = [number % 2 for number in range(count)]
    features = {"info": {"features": {"class": {"_type": "ClassLabel", "names": ["left", "right"]}}}}
    table = pa.table({"image": images, "class": label, **columns})
    table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(table.slice(0, 4), folder / "a.parquet", row_group_size=3)
    pq.write_table(table.slice(4), folder / "b.parquet", row_group_size=3)
    return str(folder / "*.parquet")


def opened(source: str, **options: object) -> DataSource:
    return open_source(DataConfig(source=source, **options), CONCEPTS)[0]  # type: ignore[arg-type]


def examine(source: DataSource, count: int = 7) -> None:
    assert len(source) == count
    assert source.examples.labels.tolist() == [number % 2 for number in range(count)]
    unknown, big, small = [-1, -1], [1, 0], [0, 1]
    assert source.examples.concepts.tolist() == [[unknown, big, small][number % 3] for number in range(count)]
    assert source.examples.metadata["site"] == tuple(f"s{number}" for number in range(count))
    for number in (6, 0, 3, 4):
        assert np.asarray(source.read(number)).ravel()[0] == number * 20


def test_tar(tmp_path: Path) -> None:
    pattern = write_tars(tmp_path)
    source = opened(pattern)
    examine(source)
    assert source.examples.ids[3] == "train-001/images/k3"
    assert source.blocks is None
    assert opened(str(tmp_path / "train-000.tar")).examples.ids == ("images/k0", "images/k1", "images/k2")


def test_parquet(tmp_path: Path) -> None:
    source = opened(write_parquet(tmp_path))
    examine(source)
    assert source.blocks is not None
    assert source.blocks.tolist() == [0, 3, 4]  # two row groups of the first file, one of the second


def test_the_index_is_kept_and_follows_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = write_tars(tmp_path)
    fingerprint = opened(pattern).examples.fingerprint
    files = sorted((tmp_path / "cache").rglob("*.npz"))
    assert len(files) == 3
    with monkeypatch.context() as patch:
        patch.setattr("conceptlens.data.sources.shards._index", None)
        assert opened(pattern).examples.fingerprint == fingerprint
    files[0].write_bytes(files[0].read_bytes()[:50])
    assert opened(pattern).examples.fingerprint == fingerprint
    write_tars(tmp_path, 8)
    examine(opened(pattern), 8)


class _Ranges(http.server.SimpleHTTPRequestHandler):
    """Answers requests for some bytes of a file, as servers of data do."""

    def do_GET(self) -> None:
        data = Path(self.translate_path(self.path)).read_bytes()
        wanted = self.headers.get("Range")
        first, last = 0, len(data) - 1
        if wanted:
            first, last = (int(word) for word in wanted.removeprefix("bytes=").split("-"))
            last = min(last, len(data) - 1)
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        self.wfile.write(data[first : last + 1])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    handler = functools.partial(_Ranges, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_over_http(tmp_path: Path, server: str) -> None:
    pytest.importorskip("aiohttp")
    pytest.importorskip("fsspec")
    write_tars(tmp_path)
    source = opened(f"{server}/train-{{000..002}}.tar")
    examine(source)
    assert source.blocks is not None
    assert source.blocks.tolist() == [0, 3, 6]
    write_parquet(tmp_path)
    examine(opened(f"{server}/{{a,b}}.parquet"))
    with offline(), pytest.raises(UserError, match="Add --online"):
        opened(f"{server}/train-{{000..002}}.tar")
    with pytest.raises(UserError, match=r"train-009\.tar: cannot be read"):
        opened(f"{server}/train-009.tar")


def test_patterns(tmp_path: Path) -> None:
    for name in ("a-08", "a-09", "a-10", "b-08"):
        (tmp_path / name).write_text(name)
    names = expand(f"{tmp_path}/{{a,b}}-{{08..08}}")
    assert [Path(name).name for name in names] == ["a-08", "b-08"]
    assert [Path(name).name for name in expand(f"{tmp_path}/a-{{08..10}}")] == ["a-08", "a-09", "a-10"]
    assert [Path(name).name for name in expand(f"{tmp_path}/a-*")] == ["a-08", "a-09", "a-10"]
    with pytest.raises(UserError, match="a-11: no such file"):
        expand(f"{tmp_path}/a-{{10..11}}")
    with pytest.raises(UserError, match="found none"):
        expand(f"{tmp_path}/c-*")
    assert read_part(names[0], 2, 2) == b"08"
    with pytest.raises(UserError, match="expected 3 bytes"):
        read_part(names[0], 2, 3)


def test_bad_shards(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"not a tar file" * 100)
    with pytest.raises(UserError, match=r"x\.tar: cannot be read"):
        opened(str(tmp_path / "x.tar"))
    write_parquet(tmp_path)
    with pytest.raises(UserError, match=r"Set data\.image_column"):
        opened(str(tmp_path / "*.parquet"), image_column="photo")
