"""The one place that opens a run: what it refuses, and what it holds."""

import shutil
from pathlib import Path

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.core.files import dump_yaml, read_json, read_yaml, write_json, write_text
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.opened import OpenedRun


def copy_with(run: Path, folder: Path, **changes: object) -> Path:
    """A folder with the `run.json` of a run, some of its entries changed."""
    folder.mkdir()
    write_json(folder / "run.json", read_json(run / "run.json") | changes)
    return folder


def test_everything_of_a_run_is_at_hand(own_run: Path) -> None:
    run = OpenedRun.open(own_run)
    assert OpenedRun.open(run) is run
    assert (run.path, run.name) == (own_run, own_run.name)
    assert run.card.classes == list(run.source.classes)
    assert run.concepts.names == run.read_concepts.names
    assert not run.pipeline.training
    assert not any(parameter.requires_grad for parameter in run.pipeline.parameters())
    assert run.reported_split == "test"
    split, indices = run.reported_images()
    assert [run.source.examples.ids[index] for index in indices] == list(run.predictions(split).ids)
    assert run.predictions("test") is run.predictions("test")
    assert len(run.readout("test")) == len(indices)


def test_a_run_that_names_an_encoder_of_the_hub_asks_no_hub(own_run: Path, tmp_path: Path) -> None:
    """Its structure lies beside its weights; a stranger's run may have left it out."""
    pytest.importorskip("transformers", minversion="5")
    run = Path(shutil.copytree(own_run, tmp_path / "run"))
    recipe = read_yaml(run / "recipe.yaml")
    recipe["encoder"] |= {"name": "transformers/org/name", "options": {}}
    write_text(run / "recipe.yaml", dump_yaml(recipe))
    with pytest.raises(UserError, match="asks no hub without --online"):
        OpenedRun.open(run).pipeline  # noqa: B018


def test_a_run_that_is_not_done_is_refused(own_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not done \(failed\).*conceptlens resume"):
        OpenedRun.open(copy_with(own_run, tmp_path / "failed", status="failed"))


def test_a_folder_of_another_kind_is_refused(own_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected a trained model, found a folder of the kind 'codebook'"):
        OpenedRun.open(copy_with(own_run, tmp_path / "other", kind="codebook"))


def test_a_folder_for_results_is_made_and_a_file_is_refused(own_run: Path, tmp_path: Path) -> None:
    run = OpenedRun(RunFolder.open(own_run), device="cpu")
    assert run.device == torch.device("cpu")
    assert run.out_folder(tmp_path / "new", "trust").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="expected a folder, found a file"):
        run.out_folder(tmp_path / "file", "trust")


def test_data_that_changed_is_refused(own_run: Path) -> None:
    run = OpenedRun.open(own_run)
    other = OpenedRun(run.folder)
    other.info = run.info | {"data": run.info["data"] | {"hash": "another"}}
    with pytest.raises(UserError, match="names or labels changed"):
        other.source  # noqa: B018
