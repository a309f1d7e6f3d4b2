"""`conceptlens.gig.decompose` with a model and images that are objects in Python."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset

import conceptlens as cl
from conceptlens import cli
from conceptlens.core.errors import UserError
from conceptlens.gig import decompose
from conceptlens.gig.document import Graph
from conceptlens.gig.run import Decomposed
from tests.gig.own_model import Tiny
from tests.training.tiny import tiny

OWN = str(Path(__file__).with_name("own_model.py"))
FEW: dict[str, Any] = {
    "per_image": 2,
    "k": 6,
    "examples": 2,
    "validate_on": 0,
    "crops": 3,
    "most_steps": 16,
    "layers": ["one", "two"],
    "graphs": [],
}
Pixels = npt.NDArray[np.uint8]


class Pairs(Dataset[tuple[Image.Image, int]]):
    """Images with labels, as torchvision's data sets have them."""

    def __init__(self, pixels: Pixels) -> None:
        self.pixels = pixels

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return Image.fromarray(self.pixels[index]), index % 3


@pytest.fixture(scope="module")
def pixels() -> Pixels:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 80, (12, 24, 24, 3)).astype(np.uint8)
    for number, image in enumerate(images):
        x, y = draw.integers(0, 14, 2)
        image[y : y + 10, x : x + 10, number % 3] = 250
    return images


@pytest.fixture(scope="module")
def from_files(pixels: Pixels, tmp_path_factory: pytest.TempPathFactory) -> Decomposed:
    folder = tmp_path_factory.mktemp("files")
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(folder / f"{number:06d}.png")
    return decompose(f"{OWN}:build", folder, out=tmp_path_factory.mktemp("runs") / "files", **FEW)


def content(graph: Graph) -> Any:
    """All of a graph but what the model is called and where pictures are; images by number."""
    tree = graph.to_dict()
    for key in ("model", "title", "pictures"):
        tree.pop(key)
    return json.loads(json.dumps(tree).replace(".png", ""))


@pytest.mark.parametrize("kind", ["array", "pil", "dataset"])
def test_objects_give_the_same_graph_as_files(
    kind: str, pixels: Pixels, from_files: Decomposed, tmp_path: Path
) -> None:
    images = {"array": pixels, "pil": [Image.fromarray(image) for image in pixels], "dataset": Pairs(pixels)}[kind]
    result = decompose(Tiny(), images, out=tmp_path / "run", **FEW)
    assert content(result.graph) == content(from_files.graph)
    assert result.graph == Graph.read(tmp_path / "run/graph.json")
    assert result.graph.outputs[0] in Tiny.classes
    assert "Tiny in memory" in result.text()


def test_a_result_describes_itself(from_files: Decomposed) -> None:
    assert str(from_files.page) in from_files.text()
    values = json.loads(json.dumps(from_files.to_dict()))
    assert values["path"] == str(from_files.run.path)
    assert values["graph"]["nodes"] == from_files.graph.to_dict()["nodes"]
    assert "12 images, one 6 concepts" in from_files._repr_html_()


def test_outputs_are_named_by_the_caller(pixels: Pixels, tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    result = decompose(Tiny(), pixels, out=tmp_path / "run", classes=names, output=["b"], **FEW)
    assert result.graph.outputs == ["b"]
    file = tmp_path / "classes.txt"
    file.write_text("\n".join(names))
    again = decompose(Tiny(), pixels, out=tmp_path / "file", classes=file, output=["b"], **FEW)
    assert content(again.graph) == content(result.graph)
    for wrong, hint in ((["a", "b"], "2 names of classes for 3 outputs"), (["a", "a", "b"], "twice")):
        with pytest.raises(UserError, match=hint):
            decompose(Tiny(), pixels, out=tmp_path / "wrong", classes=wrong, **FEW)
    with pytest.raises(UserError, match="other settings"):
        decompose(Tiny(), pixels, out=tmp_path / "run", classes=["a", "b", "d"], output=["b"], **FEW)


def test_the_callers_model_stays_as_it_was(pixels: Pixels, tmp_path: Path) -> None:
    model = Tiny().train()
    model.one.eval()
    model.head.weight.requires_grad_(False)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    decompose(model, pixels, out=tmp_path / "run", **FEW)
    assert (model.training, model.one.training, model.two.training) == (True, False, True)
    assert {name for name, parameter in model.named_parameters() if parameter.requires_grad} == trained


def test_a_run_of_objects_continues_with_the_same_objects_only(
    pixels: Pixels, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    first = decompose(Tiny(), pixels, out=out, **FEW)
    (out / "graph.json").unlink()
    assert decompose(Tiny(), pixels, out=out, **FEW).graph == first.graph
    with pytest.raises(UserError, match="images changed"):
        decompose(Tiny(), 255 - pixels, out=out, **FEW)
    other = Tiny()
    nn.init.ones_(other.head.weight)
    with pytest.raises(UserError, match="model changed"):
        decompose(other, pixels, out=out, **FEW)
    assert cli.main(["resume", str(out), "--quiet"]) == 2
    assert "a model in memory, which is not saved" in capsys.readouterr().err


def test_what_is_no_model_is_refused(pixels: Pixels, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"torch\.nn\.Module or a TrainedModel, got Tensor"):
        decompose(torch.zeros(3), pixels, out=tmp_path / "run")
    with pytest.raises(UserError, match="expected images, found none"):
        decompose(Tiny(), [], out=tmp_path / "run", **FEW)


@pytest.mark.slow
def test_a_trained_model_is_its_run(pixels: Pixels, tmp_path: Path) -> None:
    trained = cl.train(tiny(tmp_path / "trained", training__epochs=1), quiet=True)
    few = {**FEW, "layers": [], "rule": "gradient"}
    result = decompose(trained, pixels, out=tmp_path / "object", **few)
    by_path = decompose(str(trained.path), pixels, out=tmp_path / "path", **few)
    assert result.graph == by_path.graph
    assert set(result.graph.outputs) <= set(trained.concept_names)


class Normalizes(Tiny):
    """A model that normalizes by itself, with buffers as torchvision's detectors and many others have them."""

    def __init__(self, name: str = "mean") -> None:
        super().__init__()
        self.register_buffer(name, torch.full((1, 3, 1, 1), 0.5))
        self.register_buffer("std", torch.full((1, 3, 1, 1), 0.25))
        self._name = name

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward((x - getattr(self, self._name)) / self.std)


def test_buffers_called_mean_and_std_are_not_taken_for_preprocessing(pixels: Pixels, tmp_path: Path) -> None:
    by_itself = decompose(Normalizes(), pixels, out=tmp_path / "buffers", **FEW)
    other_name = decompose(Normalizes("center"), pixels, out=tmp_path / "others", **FEW)
    assert content(by_itself.graph) == content(other_name.graph)
    assert "not normalized (no configuration and no --normalize)" in by_itself.text()
    outside = decompose(Tiny(), pixels, out=tmp_path / "option", normalize="0.5,0.5,0.5,0.25,0.25,0.25", **FEW)
    assert outside.text().endswith(f"mean 0.5, 0.5, 0.5, std 0.25, 0.25, 0.25 (--normalize)\nwritten: {outside.page}")
    for mine, theirs in zip(by_itself.graph.nodes, outside.graph.nodes, strict=True):
        assert mine.contributions == pytest.approx(theirs.contributions, abs=1e-5)
    info = json.loads((tmp_path / "option/run.json").read_text())
    assert info["model"]["preprocessing"] == "mean 0.5, 0.5, 0.5, std 0.25, 0.25, 0.25 (--normalize)"


@pytest.mark.parametrize("wrong", ["imagnet", "1,2,3", "0,0,0,1,1,0"])
def test_a_wrong_normalization_is_named(wrong: str, pixels: Pixels, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"--normalize {wrong}: expected"):
        decompose(Tiny(), pixels, out=tmp_path / "run", normalize=wrong, **FEW)
    assert not (tmp_path / "run").exists()
