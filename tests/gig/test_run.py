"""`conceptlens decompose` from end to end on a tiny network, and what is said when it cannot."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from conceptlens import cli
from conceptlens.core.errors import UserError
from conceptlens.gig import decompose
from conceptlens.gig.dictionaries.layer_concepts import LayerConcepts
from conceptlens.gig.document import Graph
from conceptlens.gig.load_model import open_model
from conceptlens.gig.models.loaded import FRESH, Asked, class_names
from conceptlens.gig.validation.validation import Validation
from conceptlens.runs.opened import OpenedRun
from tests.own_data import OwnData

OWN = str(Path(__file__).with_name("own_model.py"))
FEW = {"per_image": 2, "k": 6, "examples": 2, "validate_on": 2, "crops": 3, "most_steps": 16}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    draw = np.random.default_rng(0)
    for number in range(18):
        pixels = draw.integers(0, 80, (24, 24, 3))
        x, y = draw.integers(0, 14, 2)
        pixels[y : y + 10, x : x + 10, number % 3] = 250
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number:02d}.png")
    return folder


@pytest.fixture(scope="module")
def made(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "own"
    found = decompose(f"{OWN}:build", images, layers=["one", "two"], out=out, noise=70, attack="green", **FEW)
    assert "two" in found.text()
    return out


def test_the_folder_is_complete(made: Path) -> None:
    info = json.loads((made / "run.json").read_text())
    assert (info["kind"], info["status"]) == ("decompose", "done")
    graph = Graph.read(made / "graph.json")
    assert [row.layer for row in graph.rows] == ["one", "two"]
    assert graph.about == "classes" or len(graph.outputs) == 1
    concepts = [node for node in graph.nodes if node.kind == "concept"]
    assert all(len(node.crops) == 3 and node.samples for node in concepts)
    assert all((made / str(node.sheet)).is_file() for node in concepts)
    assert all((made / graph.pictures[name]).is_file() for name in graph.images)
    for node in concepts:
        assert set(node.active_of) == set(graph.outputs)
        assert max(node.active_of.values()) <= node.active <= sum(node.active_of.values())
    assert Graph.read(made / "graph-image.json").images
    assert Graph.read(made / "graph-data.json").about == "data"
    assert Graph.read(made / "graph-noise.json").images[0].endswith("σ = 70")
    assert Validation.read(made / "validation.json").between[0].to == "two"
    assert (made / "graph.svg").read_text().startswith("<svg")


def test_the_page_is_whole_and_loads_nothing(made: Path) -> None:
    for file in ("report.html", "graph-image.html", "graph-data.html", "graph-noise.html", "graph-attack.html"):
        text = (made / file).read_text()
        assert "<script" not in text
        assert not re.findall(r"""(?:src|href)=["']https?:""", text)
        ids = set(re.findall(r'id="([^"]+)"', text))
        inner = set(re.findall(r'href="#([^"]+)"', text))
        assert inner <= ids
        assert all((made / to).exists() for to in re.findall(r'href="([^"#:]+)"', text))
    text = (made / "report.html").read_text()
    for words in (
        "unexplained",
        "Nearest samples",
        "Where it is active",
        "receives from",
        "Trajectories of concepts",
        "Validation",
    ):
        assert words in text


def test_it_goes_on_where_it_was_stopped(made: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in (made / "samples").glob("*.safetensors")}
    graph = (made / "graph.json").read_bytes()
    (made / "report.html").unlink()
    (made / "graph.json").unlink()
    assert cli.main(["resume", str(made), "--quiet"]) == 0
    assert (made / "report.html").exists()
    assert (made / "graph.json").read_bytes() == graph
    assert {file: file.stat().st_mtime_ns for file in before} == before


@pytest.mark.parametrize("kind", ["learned", "autoencoder"])
def test_other_dictionaries_make_graphs_too(kind: str, images: Path, tmp_path: Path) -> None:
    decompose(f"{OWN}:build", images, layers=["one", "two"], out=tmp_path / "run", dictionary=kind, graphs=(), **FEW)
    found = LayerConcepts.read(tmp_path / "run" / "layers" / "two.safetensors")
    assert torch.allclose(found.vectors.norm(dim=1), torch.ones(6), atol=1e-5)
    graph = Graph.read(tmp_path / "run" / "graph.json")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "done"
    assert any(node.kind == "concept" and node.layer == "two" for node in graph.nodes)


def test_other_settings_are_refused(made: Path, images: Path) -> None:
    with pytest.raises(UserError, match="other settings"):
        decompose(f"{OWN}:build", images, layers=["one"], out=made, **FEW)


def test_the_command(images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["decompose", f"{OWN}:build", str(images), "--layers", "two", "--out", str(tmp_path / "run")]
    few = ["--k", "4", "--examples", "1", "--validate-on", "0", "--graphs", "none", "--output", "blue", "--quiet"]
    assert cli.main([*words, *few]) == 0
    assert "report.html" in capsys.readouterr().out
    graph = Graph.read(tmp_path / "run" / "graph.json")
    assert graph.outputs == ["blue"]
    assert cli.main([*words, *few, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["path"], printed["graph"]) == (str(tmp_path / "run"), graph.to_dict())


@pytest.mark.parametrize(
    ("model", "more", "expected"),
    [
        (f"{OWN}:build", {"layers": ["tow"]}, "two"),
        (f"{OWN}:build", {"output": ["grene"]}, "green"),
        (f"{OWN}:build", {"image": "7.png"}, "Did you mean"),
        (f"{OWN}:build", {"k": 999, "layers": ["two"]}, "999 clusters"),
        (f"{OWN}:constant", {"layers": ["two"]}, "no concepts to find"),
        (f"{OWN}:rounds", {"layers": ["one"]}, "differentiable"),
        (f"{OWN}:bulid", {}, "build"),
        (f"{OWN}:fails", {}, "no weights here"),
        (f"{OWN}:number", {}, "torch.nn.Module"),
        (OWN, {}, "which function"),
        ("nowhere.py:build", {}, "no such file"),
        ("resnet5O", {}, "resnet50"),
        (f"{OWN}:build", {"image_size": -1}, "positive"),
        (f"{OWN}:build", {"examples": 0}, "--examples"),
        (f"{OWN}:build", {"weights": "w.safetensors"}, "leave this out"),
    ],
)
def test_bad_input_is_named(model: str, more: dict[str, object], expected: str, images: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=expected):
        decompose(model, images, out=tmp_path / "run", **{**FEW, "graphs": (), **more})  # type: ignore[arg-type]
    assert not (tmp_path / "run" / "report.html").exists()
    assert (tmp_path / "run").exists() == ("constant" in model)  # all else is refused before a folder is made


def test_images_must_be_named_once(images: Path, tmp_path: Path) -> None:
    for options in ({}, {"images": images, "data": "blood-cells"}):
        with pytest.raises(UserError, match="Name the images"):
            decompose(f"{OWN}:build", out=tmp_path / "run", **options)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="expected a folder"):
        decompose(f"{OWN}:build", tmp_path / "none", out=tmp_path / "run")


def test_a_timm_model(tmp_path: Path) -> None:
    names = tmp_path / "classes.txt"
    names.write_text("cat\ndog\nowl\n")
    model = open_model("test_resnet", Asked(FRESH, class_names(names), image_size=64))
    assert model.outputs == ["cat", "dog", "owl"]
    assert model.module(model.prepare(torch.zeros(1, 3, 64, 64))).shape == (1, 3)
    white = model.prepare(torch.full((1, 3, 2, 2), 255, dtype=torch.uint8))
    assert white[0, :, 0, 0].tolist() == pytest.approx(
        [(1 - m) / s for m, s in zip(model.preprocessing.mean, model.preprocessing.std, strict=True)]
    )
    names.write_text("cat\ncat\n")
    with pytest.raises(UserError, match="twice"):
        class_names(names)
    with pytest.raises(UserError, match="Pickled"):
        open_model("test_resnet", Asked(str(tmp_path / "w.pt")))


def test_a_concept_tower_knows_its_prefix_and_names_no_layer_twice() -> None:
    from torch import nn

    from conceptlens.encoders.builtin.vit import BuiltinViT
    from conceptlens.gig.models.run import ConceptTower
    from conceptlens.gig.network import open_network

    encoder = BuiltinViT(image_size=32, width=16, depth=2, heads=2, registers=3, pretrained=False)
    head = nn.Linear(16, 4)

    class Output:
        def __init__(self, logits: torch.Tensor) -> None:
            self.concept_logits = logits

    tower = ConceptTower(encoder, nn.Identity(), head, lambda x: Output(head(encoder(x).patches.mean(1))))
    assert not any(name.startswith("_read") for name, _ in tower.named_modules())
    layer = next(name for name, module in tower.named_modules() if module is encoder.blocks()[-1])
    network = open_network(tower, [layer], image_size=32)
    assert network.hook_point(layer).prefix == 4
    height, width = network.grids[layer] or (0, 0)
    assert height == width > 1


def test_a_run_that_does_not_fit_in_memory(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With room for 20 of 36 vectors of ten numbers, concepts come from a part and labels from all; costs are told."""
    from conceptlens.gig import work as gig_work

    monkeypatch.setattr(gig_work, "MOST_NUMBERS", 200)
    options = {"layers": ["two"], "graphs": (), **FEW, "validate_on": 0, "batch_size": 5, "workers": 3, "quiet": False}
    decompose(f"{OWN}:build", images, out=tmp_path / "run", **options)  # type: ignore[arg-type]
    found = LayerConcepts.read(tmp_path / "run/layers/two.safetensors")
    assert (found.vectors.shape, len(found.labels)) == ((6, 10), 36)
    shown = capsys.readouterr().err
    assert "estimate: about" in shown
    assert "not normalized" in shown
    with pytest.raises(UserError, match="--batch-size"):
        decompose(f"{OWN}:build", images, out=tmp_path / "other", batch_size=0)


def test_validation_judges_on_images_that_no_concept_was_learned_from(made: Path) -> None:
    from conceptlens.gig.samples import Samples

    held = json.loads((made / "held-out.json").read_text())["images"]
    numbers = sorted(number for some in held.values() for number in some)
    assert len(numbers) == 2
    validation = Validation.read(made / "validation.json")
    assert validation.held_out
    assert validation.classes[0].images == len(numbers)
    drawn = {Path(name).stem for name in Graph.read(made / "graph.json").images}
    assert not drawn & {f"{number:02d}" for number in numbers}
    files = tuple(sorted((made / "samples").glob("*.safetensors")))
    whole = Samples("two", torch.arange(18).repeat_interleave(2), torch.arange(36), torch.zeros(36), files)
    kept = whole.without(numbers)
    assert len(LayerConcepts.read(made / "layers/two.safetensors").labels) == len(kept) == 36 - 2 * len(numbers)
    assert not set(kept.image.tolist()) & set(numbers)
    assert torch.equal(kept.features(), whole.features()[kept.position])
    assert torch.equal(torch.cat([part for _, part in kept.chunks(10)]), kept.features())
    assert torch.equal(kept.take(torch.tensor([20, 0, 5])), kept.features()[[20, 0, 5]])


def test_a_run_begun_before_images_were_held_out_goes_on_with_all(
    made: Path, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from conceptlens.gig import held_out

    monkeypatch.setattr(held_out, "choose", lambda work, scores: held_out.HeldOut({}))
    folder = tmp_path / "run"
    decompose(f"{OWN}:build", images, layers=["two"], graphs=(), out=folder, **FEW)
    monkeypatch.undo()
    for name in ("held-out.json", "validation.json", "report.html"):
        (folder / name).unlink()
    assert cli.main(["resume", str(folder), "--quiet"]) == 0
    assert not Validation.read(folder / "validation.json").held_out
    assert "too: on others they may do worse" in (folder / "report.html").read_text()


def test_samples_are_read_in_parts(made: Path) -> None:
    from conceptlens.gig.samples import SHARD, Samples

    files = sorted((made / "samples").glob("*.safetensors"))
    whole = Samples("two", torch.arange(18).repeat_interleave(2), torch.zeros(36), torch.zeros(36), tuple(files))
    assert SHARD >= 18
    assert torch.equal(torch.cat([part for _, part in whole.chunks(10)]), whole.features())
    assert torch.equal(whole.take(torch.tensor([30, 2, 7])), whole.features()[[30, 2, 7]])


def test_a_trained_run_is_decomposed_up_to_its_named_concepts(own_run: Path, own: OwnData, tmp_path: Path) -> None:
    """Outputs of the graph are concepts of the run, and what a layer adds is complete for their logits."""
    options = {**FEW, "crops": 2, "k": 4}
    out, named = tmp_path / "run", "border: irregular"
    layers = ["encoder.trunk.0"]
    decompose(str(own_run), data=str(own.recipe), rule="gradient", layers=layers, output=[named], out=out, **options)  # type: ignore[arg-type]
    graph = Graph.read(out / "graph.json")
    assert graph.outputs == [named]
    assert named in OpenedRun.open(own_run, device="cpu").read_concepts.names
    assert graph.target == "logit"  # named concepts do not exclude each other
    assert graph.completeness.worst < 0.02
    assert [node.kind for node in graph.nodes].count("concept") > 0
