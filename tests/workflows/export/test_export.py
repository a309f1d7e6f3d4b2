"""An exported file says what the run says, for any number of images, and is written only then."""

import re
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import conceptlens
from conceptlens import api
from conceptlens.cli import main
from conceptlens.core.errors import UserError
from conceptlens.core.files import file_hash, read_json, write_json, write_text
from conceptlens.core.upgrades import SCHEMA
from conceptlens.data.images.read import open_image, resize_square
from conceptlens.explanations.answer import Answerer
from conceptlens.explanations.caution import Caution
from conceptlens.explanations.subjects import Subject
from conceptlens.runs.image_distribution import ImageDistribution
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.saved import load_pipeline
from conceptlens.workflows.export import agreement
from conceptlens.workflows.export import export as command
from conceptlens.workflows.export.export import Exported
from conceptlens.workflows.export.graph import Readout, trace
from conceptlens.workflows.export.onnx_file import OnnxFile
from conceptlens.workflows.export.torch_file import TorchFile
from tests import ROOT
from tests.conftest import Refuse
from tests.own_data import OwnData

SIDE = 32


@pytest.fixture(scope="module")
def exported(own_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    return api.export(own_run, out=tmp_path_factory.mktemp("export") / "new folder" / "lesions.pt2")


@pytest.fixture
def traced_once(exported: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spares a test that is not about the graph the seconds of tracing it."""
    program = torch.export.load(exported.path)
    monkeypatch.setattr(command, "trace", lambda readout, size: program)


def pixels(count: int, side: int = SIDE) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=generator)


def by_hand(run: Path, images: Tensor) -> dict[str, Tensor]:
    """The outputs from the run's logits, group by group: border is exclusive, the two signs are not."""
    pipeline, _, _ = load_pipeline(run)
    with torch.no_grad():
        said = pipeline(images)
    scores = said.concept_logits.double()
    border = scores[:, :2].exp() / scores[:, :2].exp().sum(1, keepdim=True)
    signs = 1 / (1 + (-scores[:, 2:]).exp())
    return {
        "class_probabilities": said.logits.double().exp() / said.logits.double().exp().sum(1, keepdim=True),
        "concept_probabilities": torch.cat([border, signs], 1),
        "maps": said.attention.transpose(1, 2).reshape(len(images), 4, 4, -1).permute(0, 3, 1, 2),
    }


@pytest.mark.parametrize("count", [1, 3, *(pytest.param(count, marks=pytest.mark.slow) for count in (2, 9))])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_the_file_says_what_the_run_says(exported: Exported, own_run: Path, count: int, dtype: torch.dtype) -> None:
    found = torch.export.load(exported.path).module()(pixels(count).to(dtype))
    expected = by_hand(own_run, pixels(count))
    assert list(found) == [each.name for each in exported.card.outputs] == list(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name].double(), value.double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(found["concept_probabilities"][:, :2].sum(1), torch.ones(count))
    assert found["maps"].std() > 0


def test_the_file_says_what_predict_says(exported: Exported, own: OwnData, own_run: Path) -> None:
    files = [own.image(number) for number in (32, 33, 39)]
    told = api.predict(own_run, files).items
    images = np.stack([resize_square(open_image(file, name="it"), SIDE, exported.card.input.fit) for file in files])
    found = TorchFile(exported.path.read_bytes())(torch.from_numpy(images))
    card = exported.card
    for row, item in enumerate(told):
        assert item.probabilities is not None
        assert item.concepts is not None
        shares = [item.probabilities[name] for name in card.classes]
        values = [item.concepts[each.group][each.value] for each in card.concepts]
        np.testing.assert_allclose(found["class_probabilities"][row], shares, atol=1e-5)
        np.testing.assert_allclose(found["concept_probabilities"][row], values, atol=1e-5)


def test_the_card(exported: Exported, own_run: Path) -> None:
    card = read_json(exported.path.with_name("lesions.pt2.json"))
    assert card["schema"] == SCHEMA
    assert (card["kind"], card["file"], card["format"]) == ("conceptlens export", "lesions.pt2", "torch")
    assert card["hash"] == file_hash(exported.path)
    assert (card["run"], card["weights"]) == (own_run.name, file_hash(own_run / "model" / "weights.safetensors"))
    assert (card["method"], card["bypass"], card["task"], card["thresholds"]) == ("ivq-cbm", None, "single", [])
    assert card["classes"] == ["benign", "malignant"]
    assert [each["name"] for each in card["concepts"]] == [
        *("border: regular", "border: irregular", "signs: hair", "signs: ruler")
    ]
    assert card["groups"] == [
        {"name": "border", "kind": "exclusive", "first": 0, "end": 2},
        {"name": "signs", "kind": "independent", "first": 2, "end": 4},
    ]
    assert card["input"]["shape"] == ["batch", 3, SIDE, SIDE]
    assert (card["input"]["name"], card["input"]["size"], card["input"]["fit"]) == ("images", SIDE, "squash")
    assert [each["shape"] for each in card["outputs"]] == [["batch", 2], ["batch", 4], ["batch", 4, 4, 4]]
    assert (card["check"]["of"], card["check"]["images"]) == ("test", 5)
    assert card["check"]["largest_difference"] < 1e-5
    assert card["versions"]["conceptlens"] == conceptlens.__version__


def test_the_file_tells_nothing_of_this_machine(exported: Exported) -> None:
    here = [str(Path(conceptlens.__file__).parents[2]), str(exported.path.parents[2]), 'stack_trace": "']
    with zipfile.ZipFile(exported.path) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
    assert b"aten.softmax" in content
    for words in here:
        assert words.encode() not in content


@pytest.mark.slow
def test_another_size(own_run: Path, tmp_path: Path) -> None:
    done = api.export(own_run, out=tmp_path / "large.pt2", size=48)
    assert done.card.input.shape == ("batch", 3, 48, 48)
    model = torch.export.load(done.path).module()
    assert model(pixels(3, 48))["maps"].shape == (3, 4, 6, 6)
    with pytest.raises(AssertionError):
        model(pixels(3, SIDE))


NARROW = {"embed_dim": 24, "depth": 3, "num_heads": 2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoder", "method"),
    [
        ({"name": "timm/test_vit", "options": {"depth": 1}}, {"name": "ivq-cbm", "aggregate": "cls"}),
        ({"name": "timm/test_resnet"}, {"name": "ivq-cbm-released"}),
        ({"name": "builtin/efficientnet-lite0"}, {"name": "ivq-cbm-released"}),
        ({"name": "timm/vit_small_patch16_dinov3", "options": NARROW}, {"name": "evidence-cbm"}),  # several layers
    ],
)
def test_other_encoders_tasks_and_methods(encoder: dict[str, Any], method: dict[str, Any], concepts: Any) -> None:
    """A multi-label task; a method that reads the class token has no maps, and none are made up."""
    check_graph({**encoder, "pretrained": False, "image_size": 64}, method, concepts)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("cem", "explicd", "black-box")]


@pytest.mark.parametrize("method", ["evidence-cbm", *SLOW])
@pytest.mark.parametrize("kind", ["phikon", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("vit-mae",))])
def test_encoders_of_transformers(kind: str, method: str, concepts: Any, tmp_path: Path) -> None:
    """Their layers are read by hooks, which torch.export follows only when it is not strict."""
    pytest.importorskip("transformers", minversion="5")
    from tests.encoders.transformers.test_encoder import write

    text = {} if method == "black-box" else {"text": "builtin/hashed-text"}
    check_graph({"name": write(tmp_path, kind)[0], "image_size": 64, **text}, {"name": method}, concepts)


def check_graph(encoder: dict[str, Any], method: dict[str, Any], concepts: Any) -> None:
    """The graph of an untrained pipeline says what the pipeline says, of one image and of three."""
    from conceptlens.methods.build import Blueprint, build_pipeline
    from conceptlens.recipes.parse import load_recipe
    from conceptlens.runs.saved import Card

    recipe = load_recipe({"data": "shapes", "encoder": encoder, "method": method})
    torch.manual_seed(0)
    pipeline = build_pipeline(Blueprint(recipe, concepts, ("a", "b", "c"))).eval()
    readout = Readout(pipeline, concepts, "multilabel", 64)
    file = TorchFile(command.to_torch(trace(readout, 64)))
    card = Card(["a", "b", "c"], "multilabel", 64, "squash", {})
    for count in (1, 3):
        images = agreement.draw(64)[:count]
        found, live = file(images), agreement.live_outputs(Answerer(pipeline, card, concepts), images)
        assert ("maps" in found) == pipeline.model.has_attention
        assert list(found) == readout.outputs == list(live)
        for name, value in live.items():
            np.testing.assert_allclose(found[name], value, atol=1e-5)
        np.testing.assert_allclose(
            found["class_probabilities"], pipeline(images).logits.sigmoid().detach().numpy(), atol=1e-5
        )


# --- refusals


@pytest.mark.usefixtures("traced_once")
@pytest.mark.parametrize("wrong", [1e-3, float("nan")])
def test_a_file_that_differs_is_not_written(
    own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: float
) -> None:
    class Off(TorchFile):
        def __call__(self, images: Tensor) -> dict[str, Any]:
            found = super().__call__(images)
            found["maps"][-1, -1, -1, -1] += wrong
            return found

    monkeypatch.setattr(command, "TorchFile", Off)
    with pytest.raises(UserError, match=r"differs from the run by up to (0\.001|nan) on 5 images(.|\n)*nothing was"):
        api.export(own_run, out=tmp_path / "it.pt2")
    assert not list(tmp_path.iterdir())


def test_a_missing_output_is_a_difference() -> None:
    full = {"a": np.zeros((1, 2)), "b": np.zeros((1, 2))}
    assert agreement.compare(lambda _: {"a": full["a"]}, lambda _: full, pixels(2)) == float("inf")
    assert agreement.compare(lambda _: full, lambda _: full, pixels(2)) == 0


@pytest.mark.usefixtures("traced_once")
def test_only_our_own_files_are_replaced(own_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "it.pt2"
    card = tmp_path / "it.pt2.json"
    api.export(own_run, out=file)
    first = read_json(card)
    assert read_json(api.export(own_run, out=file).path.with_name(card.name))["run"] == first["run"]
    for name, damage in {
        "another's file": lambda: file.write_bytes(b"thesis"),
        "a file without a card": card.unlink,
        "another's card": lambda: (file.unlink(), write_json(card, {"name": "thesis"})),
        "a card of another file": lambda: write_json(card, {**first, "file": "other.pt2"}),
        "no card at all": lambda: card.write_text("thesis"),
    }.items():
        damage()
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(UserError, match="not a file that an export left here"):
            api.export(own_run, out=file)
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before, name


@pytest.mark.usefixtures("traced_once")
def test_without_the_runs_data_images_are_drawn(own_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(own_run, run)
    recipe = (run / "recipe.yaml").read_text("utf-8")
    write_text(run / "recipe.yaml", recipe.replace("lesions.csv", "gone.csv"))
    done = api.export(run)
    assert done.path == run / "export" / "model.pt2"
    assert done.card.check.of == "drawn"
    assert done.card.check.largest_difference < 1e-5
    drawn = agreement.draw(16)
    assert drawn.shape == (5, 3, 16, 16)
    assert drawn.dtype == torch.uint8
    assert drawn.float().std((1, 2, 3)).min() > 20  # no image is flat


def edit_status(run: Path) -> None:
    write_json(run / "run.json", {**read_json(run / "run.json"), "status": "running"})


def remove_model(run: Path) -> None:
    shutil.rmtree(run / "model")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (edit_status, ("not done (running)", "conceptlens resume")),
        (remove_model, ("no such folder", "Copy the whole run folder")),
    ],
)
def test_runs_that_cannot_be_exported(
    refuse: Refuse, own_run: Path, tmp_path: Path, damage: Callable[[Path], None], says: tuple[str, ...]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(own_run, run)
    damage(run)
    refuse("export", run, says=says)
    assert not (run / "export").exists()


def test_bad_words(refuse: Refuse, own_run: Path, tmp_path: Path) -> None:
    refuse("export", own_run.with_name("runn"), says=("no such run", "Did you mean 'run'?"))
    refuse("export", tmp_path, says="expected a run folder")
    refuse("export", own_run, "--format", "onx", says=("--format", "torch", "onnx"))
    refuse("export", own_run, "--out", tmp_path / "it.onnx", says=".pt2")
    refuse("export", own_run, "--size", 8, says=("16 to 4096", "8"))
    refuse("export", own_run, "--size", "large", says="--size")
    (tmp_path / "folder.pt2").mkdir()
    refuse("export", own_run, "--out", tmp_path / "folder.pt2", says="found a folder")
    refuse("export", own_run, "--out", "/proc/conceptlens/it.pt2", says=("/proc: cannot write here", "--out"))


@pytest.mark.parametrize("missing", ["onnx", "onnxscript", "onnxruntime"])
def test_onnx_without_its_extra(
    refuse: Refuse, own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    refuse(
        *("export", own_run, "--format", "onnx", "--out", tmp_path / "it.onnx"),
        says=(f"needs {missing}" if missing == "onnx" else missing, "pip install 'conceptlens[onnx]'"),
    )
    assert not list(tmp_path.iterdir())


# --- the command


@pytest.mark.usefixtures("traced_once")
def test_the_command(own_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(own_run), "--out", str(tmp_path / "it.pt2")]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"written: {tmp_path / 'it.pt2'} (")
    assert "on 5 images (test) it differs from the run by at most" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it.pt2", "it.pt2.json"]


def test_the_documented_way_to_use_a_file(
    exported: Exported, own: OwnData, own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    page = (ROOT / "docs" / "export.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    shutil.copy(exported.path, tmp_path / "cells.pt2")
    shutil.copy(exported.path.with_name("lesions.pt2.json"), tmp_path / "cells.pt2.json")
    shutil.copy(own.image(33), tmp_path / "cell.png")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/export.md", "exec"), {})
    predicted, first, *_ = capsys.readouterr().out.splitlines()
    (told,) = api.predict(own_run, ["cell.png"]).items
    assert told.concepts is not None
    assert (predicted, first) == (told.predicted, f"border: regular: {told.concepts['border']['regular']:.0%}")


@pytest.mark.slow
def test_onnx(own_run: Path, tmp_path: Path) -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason="the extra `onnx` is not installed")
    import onnxruntime

    done = api.export(own_run, format="onnx", out=tmp_path / "it.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it.onnx", "it.onnx.json"]
    session = onnxruntime.InferenceSession(done.path, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    assert names == [each.name for each in done.card.outputs]
    for count in (1, 2, 5):
        found = session.run(names, {"images": pixels(count).numpy()})
        for name, value in zip(names, found, strict=True):
            np.testing.assert_allclose(value, by_hand(own_run, pixels(count))[name].numpy(), atol=1e-4)
    assert str(Path(conceptlens.__file__).parents[2]).encode() not in done.path.read_bytes()


def test_maps_are_the_evidence_where_there_is_any(evidence_run: Path) -> None:
    """The graph before it is written: tracing takes seconds."""
    run = OpenedRun.open(evidence_run, device="cpu")
    answerer, side = Answerer.of(run), run.card.image_size
    readout = Readout(run.pipeline, answerer.concepts, run.card.task, side, answerer.caution).eval()
    images = pixels(2, side)

    def exported(batch: Tensor) -> dict[str, Any]:
        with torch.no_grad():
            return {name: value.numpy() for name, value in readout(batch).items()}

    assert readout.outputs == list(exported(images))
    assert readout.outputs[:4] == ["class_probabilities", "concept_probabilities", "maps", "unplaced"]
    assert (
        agreement.compare(
            exported, lambda batch: agreement.live_outputs(answerer, batch), images, answerer.caution.bounds
        )
        < 1e-5
    )
    found = exported(images)
    assert found["maps"].min() < 0 < found["maps"].max()
    logits = found["maps"].sum((2, 3)) + found["unplaced"]
    body = answerer.concepts.group("body shape").concepts  # exclusive: logits are centered, so shares tell them
    shares = np.log(found["concept_probabilities"][:, body])
    np.testing.assert_allclose(logits[:, body], shares - shares.mean(1, keepdims=True), atol=1e-4)


def cautious(answerer: Answerer, images: Tensor) -> Answerer:
    """The same with a distribution and bounds made up here, as a run with enough images has them."""
    draw = np.random.default_rng(0)
    with torch.no_grad():
        vectors = answerer.pipeline.encoder(images).patches.mean(1).numpy()
    near = vectors.mean(0) + draw.normal(size=(60, vectors.shape[1])) * np.linspace(0.1, 1, vectors.shape[1])
    training = ImageDistribution.fit(near.astype(np.float32), near[:30].astype(np.float32), "any")
    bounds = np.linspace(0.5, 0.95, len(answerer.card.classes))
    return Answerer(answerer.pipeline, answerer.card, answerer.concepts, caution=Caution(training, bounds))


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("fixture", ["evidence_run", "own_run"])  # evidence-cbm, ivq-cbm
def test_the_graph_warns_as_the_run_does(fixture: str, half: bool, request: pytest.FixtureRequest) -> None:
    run = OpenedRun.open(request.getfixturevalue(fixture), device="cpu")
    images = torch.cat([pixels(7, run.card.image_size), agreement.draw(run.card.image_size)])
    answerer = cautious(Answerer.of(run), images)
    readout = Readout(
        run.pipeline, answerer.concepts, run.card.task, run.card.image_size, answerer.caution, half=half
    ).eval()
    with torch.no_grad():
        found = {name: value.numpy() for name, value in readout(images).items()}
    assert list(found) == readout.outputs
    assert next(run.pipeline.encoder.parameters()).dtype == torch.float32  # the copy alone is halved
    told = answerer.batch([Subject(str(n), image) for n, image in enumerate(images.numpy())])
    distances = np.array([each.distance for each in told])
    np.testing.assert_allclose(found["out_of_distribution_score"], distances, rtol=0.05 if half else 1e-5)
    if not half:
        np.testing.assert_array_equal(found["out_of_distribution_score"] > 1, [each.unlike_training for each in told])
    sets = [[name in (each.prediction_set or ()) for name in run.card.classes] for each in told]
    clear = np.abs(1 - found["class_probabilities"] - answerer.caution.bounds) > (0.02 if half else 1e-5)
    assert clear.mean() > 0.5
    np.testing.assert_array_equal(found["prediction_set"][clear], np.array(sets)[clear])


def test_a_set_that_differs_is_a_difference_unless_it_hangs_by_a_hair() -> None:
    live = {"class_probabilities": np.array([[0.4, 0.6]]), "prediction_set": np.array([[True, True]])}
    found = {**live, "prediction_set": np.array([[True, False]])}
    differs = lambda bounds: agreement.compare(lambda _: found, lambda _: live, pixels(1), np.array(bounds))  # noqa: E731
    assert differs([0.7, 0.7]) == 1
    assert differs([0.7, 0.40001]) == 0


def test_a_far_score_may_differ_in_proportion() -> None:
    live, found = {"out_of_distribution_score": np.array([200.0])}, {"out_of_distribution_score": np.array([200.01])}
    assert agreement.compare(lambda _: found, lambda _: live, pixels(1)) == pytest.approx(5e-5)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("format", ["torch", "onnx"])
@pytest.mark.parametrize("method", ["evidence-cbm", "ivq-cbm"])
def test_a_file_carries_everything(
    method: str, format: str, precision: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Preprocessing, maps, score and sets, for any number of images, as the live model says them."""
    if format == "onnx":
        for name in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(name, reason="the extra `onnx` is not installed")
    model = trained(method, tmp_path_factory)
    done = model.export(tmp_path / f"it{command.SUFFIX[format]}", format=format, precision=precision)
    assert (done.card.precision, done.card.check.of) == (precision, "test")
    assert done.card.check.largest_difference < agreement.TOLERANCE[precision]
    names = [each.name for each in done.card.outputs]
    assert {"maps", "out_of_distribution_score", "prediction_set"} < set(names)
    assert ("unplaced" in names) == (method == "evidence-cbm")
    file = OnnxFile(done.path.read_bytes()) if format == "onnx" else TorchFile(done.path.read_bytes())
    for count in (1, 2, 5):
        images = pixels(count, model.card.image_size)
        found = file(images)
        told = model.predict(images).items
        tolerance = agreement.TOLERANCE[precision]
        shares = [[item.probabilities[name] for name in done.card.classes] for item in told]
        values = [[item.concepts[each.group][each.value] for each in done.card.concepts] for item in told]
        np.testing.assert_allclose(found["class_probabilities"], shares, atol=tolerance)
        np.testing.assert_allclose(found["concept_probabilities"], values, atol=tolerance)
        if precision == "fp32":
            unlike = [item.unlike_training for item in told]
            np.testing.assert_array_equal(found["out_of_distribution_score"] > 1, unlike)
            sets = [[name in item.prediction_set for name in done.card.classes] for item in told]
            np.testing.assert_array_equal(found["prediction_set"], sets)


TRAINED: dict[str, conceptlens.TrainedModel] = {}


def trained(method: str, places: pytest.TempPathFactory) -> conceptlens.TrainedModel:
    """A run with enough images for a distribution and prediction sets; each method is trained once."""
    from tests.training.tiny import tiny

    if method not in TRAINED:
        recipe = tiny(places.mktemp(method) / "run", training__epochs=1, method={"name": method})
        recipe["data"] = {"source": "shapes", "shapes": {"n": 240, "size": 32}}
        TRAINED[method] = conceptlens.train(recipe, quiet=True)
    return TRAINED[method]


@pytest.mark.slow
def test_an_exported_file_holds_the_evidence(evidence_run: Path, tmp_path: Path) -> None:
    done = api.export(evidence_run, out=tmp_path / "evidence.pt2")
    about = {output.name: output.about for output in done.card.outputs}
    assert about["maps"].startswith("evidence: how much each patch adds")
    assert "no place" in about["unplaced"]
    assert done.card.check.largest_difference < 1e-4
