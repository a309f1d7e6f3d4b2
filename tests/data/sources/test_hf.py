"""Hugging Face data from files written here as `save_to_disk` and the hub write them; no network."""

import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from conceptlens.cli import main
from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_text
from conceptlens.core.network import offline
from conceptlens.data.sources import hf_hub
from conceptlens.data.sources.hf import HuggingFace
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.schema import DataConfig
from tests.conftest import Refuse
from tests.own_data import OwnData

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

FEATURES: dict[str, Any] = {
    "picture": {"_type": "Image"},
    "label": {"names": ["Neutrophil", "Monocyte"], "_type": "ClassLabel"},
    "granule_type": {"dtype": "string", "_type": "Value"},
}


def picture(value: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (6, 4), (value, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def rows(values: list[int], **more: Any) -> Any:
    images = [{"bytes": picture(value), "path": None} for value in values]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {"label": [value % 2 for value in values], "granule_type": ["coarse"] * len(values), **more}
    return pa.table({"picture": pa.array(images, kind), **columns})


def save(folder: Path, *tables: Any, features: dict[str, Any] = FEATURES) -> Path:
    folder.mkdir(parents=True)
    names = [f"data-{number:05d}-of-{len(tables):05d}.arrow" for number in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, 2)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    return folder


def config(source: Path | str, **settings: Any) -> DataConfig:
    return DataConfig(source=str(source), class_column="label", **settings)


def reds(source: Any) -> list[int]:
    return [int(np.asarray(source.read(index))[0, 0, 0]) for index in range(len(source))]


def test_one_split_in_several_files(tmp_path: Path, cells: ConceptSet) -> None:
    source, _ = open_source(config(save(tmp_path / "it", rows([10, 11, 12]), rows([13, 14]))), cells)
    assert isinstance(source, HuggingFace)
    assert source.classes == ("Neutrophil", "Monocyte")
    assert source.examples.labels.tolist() == [0, 1, 0, 1, 0]
    assert source.examples.split is None
    assert source.examples.ids[-1] == "000004"
    assert reds(source) == [10, 11, 12, 13, 14]
    coarse = [concept.value for concept in cells.concepts].index("coarse")
    assert source.examples.concepts[:, coarse].tolist() == [1] * 5


def test_several_splits(tmp_path: Path, cells: ConceptSet) -> None:
    for name, values in (("train", [1, 2, 3]), ("validation", [4]), ("test", [5, 6])):
        save(tmp_path / "it" / name, rows(values))
    (tmp_path / "it" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "validation", "test"]}))
    source, _ = open_source(config(tmp_path / "it"), cells)
    assert source.examples.split == ("train", "train", "train", "val", "test", "test")
    assert source.examples.ids == (
        "train/000000", "train/000001", "train/000002", "validation/000000", "test/000000", "test/000001",
    )  # fmt: skip
    assert reds(source) == [1, 2, 3, 4, 5, 6]


def test_labels_that_are_missing_or_several(tmp_path: Path, cells: ConceptSet) -> None:
    table = rows([0, 1, 2]).drop_columns(["label"])
    single = table.append_column("label", pa.array([0, -1, 1]))
    source, _ = open_source(config(save(tmp_path / "single", single)), cells)
    assert source.examples.labels.tolist() == [0, -1, 1]
    several = table.append_column("label", pa.array([[0, 1], [1], [0]]))
    for number, kind in enumerate(([FEATURES["label"]], {"feature": FEATURES["label"], "_type": "List"})):
        folder = save(tmp_path / str(number), several, features={**FEATURES, "label": kind})
        source, _ = open_source(config(folder, task="multilabel"), cells)
        assert source.examples.labels.tolist() == [[1, 1], [0, 1], [1, 0]]
    assert UNKNOWN not in source.examples.labels


def test_an_image_beside_the_file(tmp_path: Path, cells: ConceptSet) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    images = pa.array([{"bytes": None, "path": "a.png"}, {"bytes": None, "path": None}], kind)
    folder = save(tmp_path / "it", rows([0, 1]).set_column(0, "picture", images))
    (folder / "a.png").write_bytes(picture(77))
    source, _ = open_source(config(folder), cells)
    assert np.asarray(source.read(0))[0, 0, 0] == 77
    with pytest.raises(UserError, match="it: 000001: expected an image, found neither"):
        source.read(1)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "data-00000-of-00001.arrow").write_bytes(b"damaged"), "expected Arrow files"),
        (lambda folder: (folder / "data-00000-of-00001.arrow").unlink(), "expected Arrow files"),
        (
            lambda folder: (folder / "dataset_info.json").write_text('{"features": 3}'),
            "expected the data set's features",
        ),
        (lambda folder: (folder / "dataset_info.json").write_text('{"features": {}}'), "no column of images"),
        (lambda folder: (folder / "dataset_dict.json").write_text("{}"), "names of its splits"),
    ],
)
def test_folders_that_are_damaged(
    spoil: Callable[[Path], object], words: str, tmp_path: Path, cells: ConceptSet
) -> None:
    folder = save(tmp_path / "it", rows([1, 2]))
    spoil(folder)
    with pytest.raises(UserError, match=words):
        open_source(config(folder), cells)


def test_a_file_cut_short(tmp_path: Path, cells: ConceptSet) -> None:
    folder = save(tmp_path / "it", rows([1, 2, 3, 4]))
    file = folder / "data-00000-of-00001.arrow"
    whole = file.read_bytes()
    for length in (0, 8, len(whole) // 2, len(whole) - 60):
        file.write_bytes(whole[:length])
        with pytest.raises(UserError):
            open_source(config(folder), cells)


def test_kind_hf_needs_such_a_folder(tmp_path: Path, cells: ConceptSet) -> None:
    with pytest.raises(UserError, match="save_to_disk"):
        open_source(config(tmp_path, kind="hf"), cells)


def fake_hub(monkeypatch: pytest.MonkeyPatch, files: dict[str, Path]) -> list[str]:
    asked: list[str] = []
    api = SimpleNamespace(
        dataset_info=lambda repository, revision: SimpleNamespace(sha="c0ffee"),
        list_repo_files=lambda repository, repo_type, revision: list(files),
    )

    def download(repository: str, name: str, *, repo_type: str, revision: str) -> str:
        assert (repo_type, revision) == ("dataset", "c0ffee")
        asked.append(name)
        return str(files[name])

    monkeypatch.setattr(hf_hub, "HfApi", lambda: api)
    monkeypatch.setattr(hf_hub, "hf_hub_download", download)
    return asked


def test_from_the_hub_once(tmp_path: Path, cells: ConceptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = {}
    for name, values in (("train/0000", [1, 2]), ("train/0001", [3]), ("test/0000", [4])):
        table = rows(values).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": FEATURES}})})
        files[f"default/{name}.parquet"] = tmp_path / f"{name.replace('/', '-')}.parquet"
        pq.write_table(table, files[f"default/{name}.parquet"])
    asked = fake_hub(monkeypatch, files)
    source, _ = open_source(config("hf:someone/cells"), cells)
    assert (source.name, source.examples.split) == ("cells", ("test", "train", "train", "train"))
    assert reds(source) == [4, 1, 2, 3]
    assert len(asked) == 3
    assert reds(open_source(config("hf:someone/cells"), cells)[0]) == [4, 1, 2, 3]
    assert len(asked) == 3  # from the cache
    with pytest.raises(UserError, match="no part 'large'"):
        open_source(config("hf:someone/cells:large"), cells)
    monkeypatch.setattr(hf_hub, "HfApi", None)  # who asks now, breaks
    with offline():
        assert reds(open_source(config("hf:someone/cells"), cells)[0]) == [4, 1, 2, 3]
        with pytest.raises(UserError, match=r"hf:someone/fish: this run's data is on the hub.*--online"):
            open_source(config("hf:someone/fish"), cells)


def test_commands_on_a_run_ask_no_hub(
    refuse: Refuse, own: OwnData, own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Hub:
        def dataset_info(self, repository: str, revision: str) -> None:
            asked.append(repository)
            raise ConnectionError("no route")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hf_hub, "HfApi", Hub)
    run = tmp_path / "run"
    shutil.copytree(own_run, run)
    recipe = (run / "recipe.yaml").read_text("utf-8")
    write_text(run / "recipe.yaml", re.sub(r"source: .*", "source: hf:stranger/data", recipe, count=1))
    refuse("evaluate", run, says=("hf:stranger/data", "--online"))
    assert main(["report", str(run)]) == 0
    assert main(["explain", str(run), str(own.image(0)), "--out", str(tmp_path / "out")]) == 0
    assert asked == []
    refuse("evaluate", run, "--online", says="no route")
    assert asked == ["stranger/data"]


def test_a_hub_out_of_reach(cells: ConceptSet, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(hf_hub, "HfApi", refuse)
    with pytest.raises(UserError, match=r"ConnectionError: no route.*`Dataset.save_to_disk` wrote"):
        open_source(config("hf:someone/cells"), cells)
