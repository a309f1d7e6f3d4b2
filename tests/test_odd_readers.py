"""What newer readers are given by strangers: shards, annotations, graphs, checkpoints, parts, CSV files."""

import csv
import io
import json
import os
import random
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from conceptlens.core import manifest
from conceptlens.core.errors import DamagedError, UserError
from conceptlens.core.files import write_text
from conceptlens.cortex.extractors.trained import ExtractorCard, InformationExtractor
from conceptlens.cortex.extractors.training import measure
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.generators.torch_file import read_torch_file
from conceptlens.data.checks.findings import Problems
from conceptlens.data.images.dicom import is_dicom, read_patient
from conceptlens.data.labels.columns import read_columns
from conceptlens.data.sources.shards import LARGEST_LABELS, Shards
from conceptlens.explanations.caution import Caution
from conceptlens.gig.document import Node
from conceptlens.gig.names import _vector
from conceptlens.gig.pages.pictures import sheet_file
from conceptlens.recipes.schema import DataConfig
from conceptlens.runs.annotations import FILE, annotate, read_annotations
from conceptlens.runs.folder import RunFolder, is_only_begun
from conceptlens.runs.opened import OpenedRun
from conceptlens.web.share.pictures import SIZES, address_of
from conceptlens.workflows.compare.compare import FIRST
from conceptlens.workflows.init.contents import look
from conceptlens.workflows.label.log import RaterLog
from conceptlens.workflows.prepare.tables import write
from tests.web.conftest import client_of
from tests.web.decomposition import draw_graph, write_decomposition

FORMULA = '=HYPERLINK("http://evil.example","x").png'


def png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "png")
    return file.getvalue()


def tar(path: Path, **members: bytes) -> DataConfig:
    with tarfile.open(path, "w") as file:
        for name, content in members.items():
            about = tarfile.TarInfo(name.replace("__", "."))
            about.size = len(content)
            file.addfile(about, io.BytesIO(content))
    return DataConfig(str(path))


def test_a_pipe_among_shards_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "b.tar")
    with pytest.raises(UserError, match="expected a file, found a pipe"):
        Shards(DataConfig(str(tmp_path / "*.tar")), None)


@pytest.mark.parametrize("name", ["scan.dcm", "image.png", "table.xlsx", "table.csv", "masks.parquet"])
def test_init_waits_for_no_pipe(tmp_path: Path, name: str) -> None:
    """What is no file in a folder is no data; a pipe that is named itself is refused."""
    (tmp_path / "whole.png").write_bytes(png())
    os.mkfifo(tmp_path / name)
    found = look(tmp_path)
    assert (found.images, found.tables) == (("whole.png",), ())
    assert read_patient(tmp_path / name) is None
    with pytest.raises(UserError, match="found a pipe"):
        look(tmp_path / name)
    with pytest.raises(UserError, match="found a pipe"):
        is_dicom(tmp_path / name)


def test_nested_and_endless_labels_of_a_shard_are_refused(tmp_path: Path) -> None:
    deep = tar(tmp_path / "deep.tar", a__png=png(), a__json=b"[" * 200_000)
    with pytest.raises(UserError, match="expected JSON"):
        Shards(deep, None)
    large = tar(tmp_path / "large.tar", a__png=png(), a__cls=b"x" * (LARGEST_LABELS + 1))
    with pytest.raises(UserError, match="labels of 10,000,001 bytes"):
        Shards(large, None)


def test_a_shard_that_announces_an_endless_image_is_refused(tmp_path: Path) -> None:
    about = tarfile.TarInfo("a.png")
    about.size = 2**40
    (tmp_path / "a.tar").write_bytes(about.tobuf() + b"\0" * 1024)
    with pytest.raises(UserError, match=r"is not read; at most|cannot be read"):
        Shards(DataConfig(str(tmp_path / "a.tar")), None).read(0)


def test_a_damaged_row_group_is_an_error_of_its_file(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    noise = np.random.default_rng(0).bytes(4000)
    features = {b"huggingface": b"[]"}  # no object: nothing is said of the columns
    table = pa.table({"image": [noise] * 3, "class": ["a", "b", "a"]}).replace_schema_metadata(features)
    pq.write_table(table, path, compression="gzip", use_dictionary=False)
    shards = Shards(DataConfig(str(path), class_column="class"), None)
    data = bytearray(path.read_bytes())
    data[4:60] = b"\xff" * 56
    path.write_bytes(data)
    with pytest.raises(UserError, match="row group 0 is damaged"):
        shards.encoded(0)


def test_names_with_other_line_breaks_do_not_break_annotations(tmp_path: Path) -> None:
    annotate(tmp_path, "image", ["a\u2028b\x85c"], author="Ann", group="odd")
    assert read_annotations(tmp_path)["image"]["a\u2028b\x85c"].group == "odd"


def test_a_line_that_is_nested_too_deep_is_a_damaged_line(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("[" * 200_000, "utf-8")
    with pytest.raises(UserError, match="line 1 is damaged"):
        read_annotations(tmp_path)


@pytest.mark.parametrize("word", [FORMULA, "@x", "-1+1", "'=x"])
def test_tables_that_commands_write_hold_no_formulas_and_are_read_unchanged(tmp_path: Path, word: str) -> None:
    write(tmp_path / "t.csv", ["image", "class"], [[word, "a"], ["b.png", "-0.5"]])
    with (tmp_path / "t.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "@", "-1"))]
    table = read_columns(tmp_path / "t.csv", Problems(), expect="image")
    assert [column.texts() for column in table.columns] == [(word, "b.png"), ("a", "-0.5")]
    log = RaterLog(tmp_path, "ann")
    log.add(word, {"border": word})
    assert f",{word}," not in log.path.read_text("utf-8")
    assert log.answers() == {(word, "border"): word}


def test_a_picture_of_a_run_never_starts_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow hands EPS, whatever the file is called, to Ghostscript."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64)).save(file, "eps")
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *words, **more: pytest.fail("it was started"))
    node = Node.model_construct(id="layer/1", sheet="/etc/passwd")
    (tmp_path / sheet_file(node.id)).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / sheet_file(node.id)).write_bytes(file.getvalue())
    with pytest.raises(UserError, match="not an image that can be read"):
        _vector(tmp_path, node, torch.nn.Module())
    with pytest.raises(UserError, match="not an image that can be read"):
        address_of("image/png", file.getvalue(), SIZES[0])


def test_a_compressed_or_unfolded_checkpoint_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    torch.save({"w": torch.zeros(1).expand(10**9)}, path)
    with pytest.raises(UserError, match="repeats 1 numbers"):
        read_torch_file(path)
    bomb = tmp_path / "b.pt"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(UserError, match="compressed, as PyTorch never writes them"):
        read_torch_file(bomb)


@pytest.mark.parametrize(
    "names", [["encoder.conv_blocks.0.res.0.conv1.weight"], ["layers.99999999.w", "x"], ["decoder.conv_in.weight"]]
)
def test_tensors_of_no_structure_are_refused(tmp_path: Path, names: list[str]) -> None:
    save_file({name: torch.zeros(3) for name in names}, tmp_path / "a.safetensors")
    with pytest.raises(UserError):
        open_model(tmp_path / "a.safetensors")


def test_an_extractor_is_not_measured_on_no_samples() -> None:
    class Nothing:
        def batches(self, size: int, epoch: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
            return [(torch.zeros(0, 2, 2, dtype=torch.long), torch.zeros(0, dtype=torch.long))]

    card = ExtractorCard("linear", ("a", "b"), 4, (2, 2), 8, "")
    extractor = InformationExtractor.__new__(InformationExtractor)
    torch.nn.Module.__init__(extractor)
    extractor.card, extractor.network = card, torch.nn.Flatten()
    with pytest.raises(UserError, match="draw more of each concept"):
        measure(extractor, torch.zeros(8, 4), Nothing())  # type: ignore[arg-type]


def test_a_run_that_is_being_replaced_can_be_replaced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a kill falls, what is left has its manifest and no run.json, or is whole."""
    removed: list[str] = []
    unlink = Path.unlink
    for number in range(8):  # in any order of the file system
        run = tmp_path / str(number)
        run.mkdir()
        for name in random.Random(number).sample(["run.json", manifest.NAME, "recipe.yaml", "a.json"], 4):
            (run / name).write_text("{}")
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", lambda path, **more: (removed.append(path.name), unlink(path, **more)))
            with RunFolder.create(run, overwrite=True) as made:
                order = [name for name in removed if not name.startswith(".")]
                made.update(status="done")
        assert (order[0], order[-1]) == ("run.json", manifest.NAME)
        removed.clear()


def test_what_a_killed_comparison_leaves_is_no_foreign_folder(tmp_path: Path) -> None:
    manifest.begin(tmp_path)
    write_text(tmp_path / "environment.json", "{}")
    assert is_only_begun(tmp_path, FIRST)
    assert not is_only_begun(tmp_path)
    (tmp_path / "thesis.doc").write_text("")
    assert not is_only_begun(tmp_path, FIRST)


def test_damaged_predictions_of_validation_are_not_done_without(own_run: Path, tmp_path: Path) -> None:
    """Prediction sets would silently be missing, as in a run that never had any."""
    run = Path(shutil.copytree(own_run, tmp_path / "run"))
    file = run / "predictions" / "val.safetensors"
    assert file.exists()
    file.write_bytes(bytes(file.stat().st_size))
    opened = OpenedRun.open(run)
    with pytest.raises(DamagedError, match=r"val\.safetensors"):
        Caution.read(run, opened.card)


def test_the_page_serves_no_file_that_was_edited(own_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(own_run, tmp_path / "runs" / "run"))
    drawn = write_decomposition(tmp_path / "runs" / "drawn", {"graph.json": draw_graph()}, pictures=False)
    addresses = {run / "metrics.json": "run/documents/metrics", drawn / "graph.json": "drawn/graphs/classes"}
    for edited, address in addresses.items():
        client = client_of(tmp_path / "runs")
        assert client.get(f"/api/v1/runs/{address}").status_code == 200
        edited.write_text(edited.read_text("utf-8").replace("0.", "1.", 1), "utf-8")
        answer = client_of(tmp_path / "runs").get(f"/api/v1/runs/{address}")
        assert answer.status_code == 409, address
        assert "edited or damaged" in answer.text


def test_a_damaged_part_of_predictions_is_not_done(tmp_path: Path) -> None:
    from conceptlens.explanations.predict_parts import _is_done

    manifest.begin(tmp_path)
    for suffix in ("json", "parquet"):
        write_text(tmp_path / f"part-00000.{suffix}", json.dumps({"images": 1}))
    assert _is_done(tmp_path, 0)
    (tmp_path / "part-00000.parquet").write_text('{"images": 2}')
    assert not _is_done(tmp_path, 0)
    with pytest.raises(DamagedError):
        manifest.check(tmp_path / "part-00000.parquet")
