"""Regions of the data reach the loss: through targets of the batch, in every stage, and through a resume."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import conceptlens as cl
from conceptlens import api
from conceptlens.core.errors import UserError
from conceptlens.data.images.box_crop import BoxCropped
from conceptlens.data.regions.object_boxes import read_boxes
from conceptlens.data.regions.part_points import read_points
from conceptlens.data.regions.regions import read_regions
from conceptlens.data.sources.blood_cells import BloodCells
from conceptlens.data.sources.shapes import Shapes
from conceptlens.nn.grounding.places import PlaceTargets
from conceptlens.recipes import LossConfig, ShapesConfig
from conceptlens.training.batches.targets import TargetTable
from conceptlens.training.loop import TrainStage
from conceptlens.training.optimization.losses import SupervisedLoss
from tests.training.tiny import tiny

STAGES = [
    {"name": "places", "epochs": 2, "train": ["model.grounding", "model.score"], "class_weight": 0.0},
    {"name": "joint", "epochs": 1, "train": ["model"], "schedule": "constant"},
]


def recipe(out: Path, **method: Any) -> dict[str, Any]:
    made = tiny(out, method={"name": "pf-cbm", "inner": 16, "hidden": 8, **method}, training__stages=STAGES)
    made["training"]["augment"] = {"crop": 1.0, "flip_horizontal": False, "flip_vertical": False}
    return made


def test_losses_by_place_are_in_the_history(tmp_path: Path) -> None:
    run = cl.train(recipe(tmp_path / "run", foreground="box", keypoints="image"), quiet=True)
    lines = [line for line in run.read_history() if line["split"] == "train" and "stage" in line]
    assert [line["stage"] for line in lines] == ["places", "places", "joint"]
    assert all(line["loss_foreground"] > 0 and line["loss_alignment"] > 0 for line in lines)
    assert [line["loss_class"] > 0 for line in lines] == [False, False, True]


def test_resumed_it_goes_on_where_the_gaussians_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Places are found again, but means that have moved are not set back."""
    moving = {"prior_rate": 30.0}
    whole = cl.train(recipe(tmp_path / "whole", **moving), quiet=True)
    save = TrainStage.save

    def stop(stage: TrainStage) -> None:
        save(stage)
        if stage.position.total_epochs == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainStage, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        cl.train(recipe(tmp_path / "cut", **moving), quiet=True)
    monkeypatch.undo()
    resumed = api.resume(tmp_path / "cut", quiet=True)
    first, second = ((run.path / "model" / "weights.safetensors").read_bytes() for run in (whole, resumed))
    assert first == second
    moved = [line["prior_moved"] for line in resumed.read_history() if "prior_moved" in line]
    assert moved[0] > 0.01


def test_a_method_that_learns_from_places_refuses_moved_images(tmp_path: Path) -> None:
    made = recipe(tmp_path / "run")
    made["training"]["augment"]["flip_horizontal"] = True
    with pytest.raises(UserError, match="which a crop, a flip or a rotation would move"):
        cl.train(made, quiet=True)


def test_boxes_where_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BloodCells, "region_names", ())
    made = recipe(tmp_path / "run", foreground="box")
    made["data"] = {"source": "blood-cells", "limit": 8}
    with pytest.raises(UserError, match="box needs the object's box, but blood-cells has none"):
        cl.train(made, quiet=True)
    made["data"]["regions"] = {"crop": True}
    with pytest.raises(UserError, match="knows no boxes to cut its images to"):
        cl.train(made, quiet=True)


def test_each_image_of_a_batch_gets_its_own_row() -> None:
    source = Shapes(ShapesConfig(n=12, size=32))
    loss = SupervisedLoss(LossConfig(), source.concepts, "single", torch.ones(len(source.classes)))
    train = np.array([7, 2, 9])
    places = PlaceTargets(torch.tensor([[7.0], [2.0], [9.0]]), torch.tensor([True, False, True]))
    table = TargetTable(source.examples, loss, torch.device("cpu"), places, train)
    found = table.targets(torch.tensor([9, 7, 7]))
    assert found.places is not None
    assert found.places.foreground.flatten().tolist() == [9.0, 7.0, 7.0]
    assert found[1:].places.foreground.flatten().tolist() == [7.0, 7.0]
    assert found.to(torch.device("cpu")).places.foreground_known.tolist() == [True, True, True]
    assert TargetTable(source.examples, loss, torch.device("cpu")).targets(torch.tensor([0])).places is None


def test_points_and_boxes_are_those_of_the_regions() -> None:
    source = Shapes(ShapesConfig(n=10, size=64))
    where: dict[str, Any] = {"size": 64, "fit": "squash", "grid": (8, 8)}
    rows = np.arange(10)
    regions = read_regions(source, rows, **where)
    points, seen = read_points(source, rows, regions.parts[1:], **where)
    assert (seen == regions.seen[:, 1:]).all()
    np.testing.assert_allclose(points[seen], regions.center[:, 1:][seen][:, ::-1], atol=1e-4)
    cover, known = read_boxes(source, rows, **where)
    assert known.all()
    for row in range(10):
        x0, y0, x1, y1 = source.annotation(row).boxes["object"]
        assert cover[row].sum() * 64 == pytest.approx((x1 - x0) * (y1 - y0), rel=1e-4)
        assert (cover[row] >= np.where(regions.cover[row, 0] > 0, 1e-6, 0)).all()


def test_images_cut_to_their_box() -> None:
    whole = Shapes(ShapesConfig(n=10, size=64))
    cut = BoxCropped(whole)
    for index in range(3):
        x0, y0, x1, y1 = (int(edge) for edge in whole.annotation(index).boxes["object"])
        image = cut.read(index)
        assert np.array_equal(np.asarray(image), np.asarray(whole.read(index))[y0:y1, x0:x1])
        found = cut.annotation(index)
        assert found is not None
        assert found.size == image.size == (x1 - x0, y1 - y0)
        assert found.boxes["object"] == (0, 0, x1 - x0, y1 - y0)
        for part, (x, y) in found.keypoints.items():
            assert found.masks[part][int(y), int(x)]
