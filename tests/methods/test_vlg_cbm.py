"""VLG-CBM: boxes, weights and targets by hand; what the layer learns; the head at a fixed number of concepts."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import conceptlens as cl
from conceptlens.api import detect_concepts
from conceptlens.core.errors import UserError
from conceptlens.data.sources.shapes import Shapes
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.fitted.data import FitCrops, FitData
from conceptlens.methods.vlg_cbm import VLGCBM, concept_loss, concept_of, crop_targets, overlap, training_rows
from conceptlens.nn.setup import Setup
from conceptlens.recipes import ShapesConfig
from conceptlens.runs.folder import RunFolder
from tests.methods.fit_world import SIGNAL, directions, fit_data
from tests.training.tiny import tiny


def test_overlap_by_hand() -> None:
    boxes = np.asarray([[0, 0, 2, 2], [1, 1, 3, 3], [4, 4, 5, 5], [0, 0, 2, 1]], dtype=float)
    assert overlap(boxes[0], boxes).tolist() == pytest.approx([1.0, 1 / 7, 0.0, 0.5])


def test_a_part_is_a_concepts_name_or_a_value_that_is_its_alone(setup: Setup) -> None:
    names = setup.concepts.names
    value = names[0].partition(": ")[2]
    assert concept_of((names[2], value, "nothing"), setup.concepts).tolist() == [2, 0, -1]


def boxed(setup: Setup, data: FitData) -> FitData:
    """A box for every concept that an image shows: its cut-out is the concept's direction alone."""
    rows, concepts = np.nonzero(data.train.concepts == 1)
    vectors = SIGNAL * directions(setup)[concepts]
    boxes = np.stack([concepts * 10, concepts * 0, concepts * 10 + 8, concepts * 0 + 8], 1).astype(float)
    parts = tuple(setup.concepts.names[concept] for concept in concepts)
    return replace(data, crops=FitCrops(vectors.astype(np.float32), rows, parts, boxes))


def test_cut_outs_weigh_what_draws_come_to(setup: Setup) -> None:
    """Image 0 has two boxes that overlap by 0.6, image 1 one, image 2 none."""
    data = fit_data(setup, n=3)
    concepts = np.asarray([[1, 0, 1, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1]], np.int8)
    names = setup.concepts.names
    boxes = np.asarray([[0, 0, 10, 10], [0, 0, 10, 6], [0, 0, 5, 5], [0, 0, 9, 9]], dtype=float)
    crops = FitCrops(
        np.ones((4, setup.width), np.float32), np.asarray([0, 0, 1, 2]), (*names[0:4:2], names[1], names[3]), boxes
    )
    data = replace(data, train=replace(data.train, concepts=concepts), crops=crops)
    vectors, targets, weights = training_rows(data, [0, 1, 2, 3, 4], 0.4, 0.5)
    assert weights.tolist() == pytest.approx([0.6, 0.6, 1.0, 0.2, 0.2, 0.4])  # the fourth box is denied by the labels
    assert targets[3:].tolist() == [[1, 0, 1, 0, 0], [1, 0, 1, 0, 0], [0, 1, 0, 0, 0]]
    assert len(vectors) == 6
    assert crop_targets(crops, np.asarray([0, 2, 1, 3]), 5, 0.7)[:2].tolist() == [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0]]
    assert len(training_rows(data, [0, 1, 2, 3, 4], 0.0, 0.5)[0]) == 3
    with pytest.raises(UserError, match="none of the boxes has the name of a concept"):
        training_rows(replace(data, crops=replace(crops, parts=("a", "b", "c", "d"))), [0, 1, 2, 3, 4], 0.5, 0.5)


def test_the_loss_leaves_unknown_labels_out() -> None:
    logits, targets = torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([[1.0, -1.0], [0.0, 1.0]])
    weights = torch.tensor([[1.0], [0.5]])
    terms = [np.log(2), 0.5 * np.log1p(np.e), 0.5 * np.log(2)]
    assert float(concept_loss(logits, targets, weights)) == pytest.approx(sum(terms) / 2, rel=1e-5)


def test_it_learns_concepts_and_decides_by_few(setup: Setup) -> None:
    data = boxed(setup, fit_data(setup))
    model = VLGCBM(setup, epochs=15, batch=64, rate=2e-2, nec=1.0)
    numbers = model.fit(data)
    cls = torch.from_numpy(data.val.vectors)
    output = model(Tokens(torch.zeros(len(cls), 4, cls.shape[1]), (2, 2), cls))
    assert ((output.concept_logits.detach().numpy() > 0) == data.val.concepts).mean() > 0.95
    assert float((output.logits.argmax(1).numpy() == data.val.labels).mean()) > 0.95
    assert float((model.head.weight != 0).sum(1).float().mean()) <= 1
    assert numbers["crops"] == len(data.crops)  # type: ignore[arg-type]
    assert numbers["anec"] == numbers["accuracy_nec_5"]  # five concepts: only NEC 5 can be had
    assert not VLGCBM(setup, crop=0.0).fit_crops


def test_a_concept_that_nothing_shows_is_left_out(setup: Setup) -> None:
    data = fit_data(setup)
    data.train.concepts[:, 4] = 0
    model = VLGCBM(setup, epochs=1, crop=0.0, nec=None, lam=0.1)
    model.fit(data)
    assert list(data.dropped) == [setup.concepts.names[4]]
    assert model.vectors.shape[0] == 4


@pytest.mark.slow
def test_it_is_trained_from_a_detectors_boxes(tmp_path: Path) -> None:
    """From drawings on disk and detections of what they show to a run that is evaluated, with cut-outs."""
    source = Shapes(ShapesConfig(n=96, size=32))
    names = [name.replace(": ", " ") for name in source.concepts.names]
    rows, seen = ["image,class,split"], {}
    for index in range(len(source.examples)):
        source.read(index).save(tmp_path / f"{index}.png")
        split = ("train", "train", "val", "test")[index % 4]
        rows.append(f"{index}.png,{source.classes[source.examples.labels[index]]},{split}")
        shown = np.flatnonzero(source.examples.concepts[index] == 1)
        seen[f"{index}.png"] = [{"label": names[place], "score": 0.5, "box": [4, 4, 24, 24]} for place in shown]
    (tmp_path / "table.csv").write_text("\n".join(rows))
    (tmp_path / "seen.json").write_text(json.dumps(seen))
    (tmp_path / "words.txt").write_text("\n".join(names))
    out = tmp_path / "out"
    detect_concepts(tmp_path / "table.csv", concepts=tmp_path / "words.txt", out=out, detections=tmp_path / "seen.json")
    where = {"source": str(out / "labels.csv"), "images": str(tmp_path), "regions": {"boxes": str(out / "boxes.csv")}}
    recipe = tiny(tmp_path / "run", data=where, concepts=str(out / "concepts.yaml"), training={"threads": 1})
    for method in ({"name": "vlg-cbm", "epochs": 2}, {"name": "dcbm-visual"}, {"name": "dcbm", "clusters": 8}):
        encoder = {"name": "builtin/vit", "image_size": 32} if "dcbm" in method["name"] else recipe["encoder"]  # type: ignore[operator]
        model = cl.train(
            {**recipe, "method": method, "encoder": encoder, "out": str(tmp_path / str(method["name"]))}, quiet=True
        )
        fitted = next(line for line in RunFolder(model.path).read_history() if line.get("kind") == "fit")
        assert fitted.get("crops", fitted.get("segments")) > 40
        assert model.evaluate().text()
