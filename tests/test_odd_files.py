"""Files without end, numbers without sense, images without pixels: refused or said, before anything waits for them."""

import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from conceptlens.cli import main
from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import MAX_YAML, file_hash, read_json, read_yaml, write_json
from conceptlens.data.checks.findings import Problems
from conceptlens.data.images.read import examine_image, open_image
from conceptlens.data.labels.columns import guess_encoding, read_columns
from conceptlens.data.labels.corrections import read_corrections
from conceptlens.recipes.parse import load_recipe
from tests.conftest import Refuse
from tests.own_data import OwnData


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe.csv")
    return tmp_path / "pipe.csv"


def test_a_pipe_is_refused_before_it_is_read(refuse: Refuse, own: OwnData, pipe: Path) -> None:
    for read in (read_yaml, read_json, lambda path: open_image(path, name=str(path))):
        with pytest.raises(UserError, match="expected a file, found a pipe"):
            read(pipe)
    with pytest.raises(UserError, match="found a pipe"):
        read_columns(pipe, Problems(), expect="image")
    refuse("train", own.recipe, "--data.source", pipe, "--out", pipe.with_name("run"), says="found a pipe")


def test_a_device_without_end_is_refused() -> None:
    for read in (read_yaml, read_json, lambda path: open_image(path, name=str(path))):
        with pytest.raises(UserError, match="found a device"):
            read(Path("/dev/zero"))


def test_yaml_is_limited_while_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "large.yaml").open("wb") as file:
        file.truncate(8 * MAX_YAML)
    with pytest.raises(UserError, match="too many"):
        read_yaml(tmp_path / "large.yaml")


def test_fifty_thousand_columns(tmp_path: Path) -> None:
    """Quadratic work took a minute and more."""
    names = ["image", *(f"column {number}" for number in range(50_000))]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *[",".join(["1"] * len(names))] * 2]))
    started = time.process_time()
    table = read_columns(tmp_path / "wide.csv", Problems(), expect="image")
    assert table.find("column 49999") is not None
    assert time.process_time() - started < 10


def test_a_line_without_an_end_is_not_read_whole(tmp_path: Path) -> None:
    """It would fill the memory. The files are sparse: 4 GB take no space."""
    for file, read in (
        (tmp_path / "table.csv", lambda path: read_columns(path, Problems(), expect="image")),
        (tmp_path / "corrections.csv", read_corrections),
    ):
        with file.open("wb") as opened:
            opened.write(b"image,concept,after\n")
            opened.truncate(4 * 2**30)
        started = time.process_time()
        with pytest.raises(UserError, match="a line of 16,777,216 characters or more"):
            read(file)
        assert time.process_time() - started < 5


def test_the_encoding_of_a_table_is_known_from_its_first_odd_byte(tmp_path: Path) -> None:
    with (tmp_path / "table.csv").open("wb") as file:
        file.write(b"image,gr\xf6\xdfe\n")
        file.truncate(4 * 2**30)
    assert guess_encoding(tmp_path / "table.csv") == "cp1252"
    (tmp_path / "cut.csv").write_bytes("größe".encode()[:-1] + b"\xc3")
    assert guess_encoding(tmp_path / "cut.csv") == "cp1252"
    (tmp_path / "whole.csv").write_text("ä" * 2**20, "utf-8")
    assert guess_encoding(tmp_path / "whole.csv") == "utf-8-sig"


ABSURD = (
    ("training.epochs", "1e26"),
    ("training.epochs", "2000000"),
    ("training.batch_size", "10000000000"),
    ("training.warmup", "1e20"),
    ("data.cache_mb", "1e30"),
)


@pytest.mark.parametrize(("key", "value"), ABSURD)
def test_absurd_numbers_in_a_recipe(key: str, value: str) -> None:
    with pytest.raises(UserError, match=key):
        load_recipe({"data": "shapes"}, [f"--{key}", value])


def test_absurd_numbers_on_the_command_line(refuse: Refuse, own_run: Path) -> None:
    refuse("leakage", own_run, "--permutations", "1" + "0" * 40, says=("--permutations", "can be meant"))


def test_scores_that_are_not_finite_are_refused(refuse: Refuse, own: OwnData, own_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(own_run, run)
    (run / manifest.NAME).unlink()
    weights = run / "model/weights.safetensors"
    for value in (float("nan"), 1e38):
        state = load_file(own_run / "model/weights.safetensors")
        name = next(name for name in state if name.startswith("encoder") and state[name].ndim > 1)
        state[name] = torch.full_like(state[name], value)
        save_file(state, weights)
        card = read_json(own_run / "model/model.json")
        write_json(run / "model/model.json", card | {"weights_hash": file_hash(weights)})
        refuse("predict", run, own.image(0), says="finite")


def test_images_that_cannot_be_seen(refuse: Refuse, own_run: Path, tmp_path: Path) -> None:
    pixels = np.zeros((8, 8, 4), np.uint8)
    pixels[..., :3] = 100
    Image.fromarray(pixels).save(tmp_path / "clear.png")
    refuse("predict", own_run, tmp_path / "clear.png", says="every pixel is fully transparent")
    pixels[..., 3] = 255
    Image.fromarray(pixels).save(tmp_path / "opaque.png")
    facts = examine_image(tmp_path / "opaque.png", name="opaque")[1]
    assert (facts.alpha, facts.opaque) == (False, True)
    assert open_image(tmp_path / "opaque.png", name="opaque").getpixel((0, 0)) == (100, 100, 100)
    pixels[0, 0, 3] = 10
    Image.fromarray(pixels).save(tmp_path / "some.png")
    facts = examine_image(tmp_path / "some.png", name="some")[1]
    assert (facts.alpha, facts.opaque) == (True, False)


def test_a_concept_that_is_constant_in_training_is_said(
    mine: OwnData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.change_all("train", signs="hair")
    main(["data", "check", str(mine.table), "--concepts", str(mine.concepts), "--data.class_column", "diagnosis"])
    assert "with the same label in every training image (signs: hair, signs: ruler)" in capsys.readouterr().out
    out = tmp_path / "run"
    assert main(["train", str(mine.recipe), "--out", str(out), "--training.epochs", "1"]) == 0
    assert "signs: hair" in capsys.readouterr().err
    assert any("signs: hair" in warning for warning in read_json(out / "run.json")["warnings"])


def test_sigterm_ends_like_ctrl_c(own: OwnData, own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is saved, and the run goes on to the same result."""

    def ended(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    before, run = signal.getsignal(signal.SIGTERM), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("conceptlens.training.train.save_model", ended)
        assert main(["train", str(own.recipe), "--out", str(run), "--quiet"]) == 130
    assert signal.getsignal(signal.SIGTERM) is before
    info = read_json(run / "run.json")
    assert (info["status"], info["reason"]) == ("failed", "ended by SIGTERM")
    assert main(["resume", str(run), "--quiet"]) == 0
    assert (run / "metrics.json").read_bytes() == (own_run / "metrics.json").read_bytes()
