"""All that is said about one image is said once: every command and page tells a part of the same answer."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.explanations.answer import Answerer, answer
from conceptlens.explanations.explain import explain
from conceptlens.explanations.predict import predict
from conceptlens.explanations.subjects import subjects
from conceptlens.reports.stories import Stories
from conceptlens.runs.opened import OpenedRun
from conceptlens.web.server.folders import RunFolders
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.views.predict import predict_own
from conceptlens.workflows.study.cases import find_cases
from tests.training.tiny import tiny


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without slots, attention and codes."""
    recipe = tiny(tmp_path_factory.mktemp("plain") / "run", training__epochs=1, method={"name": "cbm"})
    return cl.train(recipe, quiet=True).path


@pytest.fixture(scope="module")
def slots(slots_run: Path) -> OpenedRun:
    return OpenedRun.open(slots_run)


@pytest.mark.parametrize("fixture", ["slots_run", "plain_run"])
def test_everything_says_the_same_of_one_image(fixture: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run = OpenedRun.open(request.getfixturevalue(fixture))
    story = Stories.read(run.path).stories[0]
    row = [run.source.examples.ids[index] for index in run.splits["test"]].index(story.image)
    index = int(run.splits["test"][row])
    run.source.read(index).save(tmp_path / "same.png")

    [told] = [each for each in answer(run, n=len(run.splits["test"])) if each.image == story.image]
    prediction = predict(run, tmp_path / "same.png").items[0]
    explanation = explain(run, tmp_path / "same.png")[0]
    [entry] = [each for each in RunFolders([run.path.parent]).all() if each.path == run.path]
    page = predict_own(LoadedRun(entry), "test", row, "auto")

    assert told.predicted == [prediction.predicted] == explanation.predicted == page.predicted == story.predicted
    shares = told.probabilities
    assert prediction.probabilities is not None
    assert list(prediction.probabilities.values()) == pytest.approx(shares, abs=1e-6)
    assert [each.probability for each in explanation.classes] == pytest.approx(shares, abs=1e-6)
    assert [each.probability for each in page.classes] == pytest.approx(shares, abs=1e-6)
    assert list(story.probabilities.values()) == pytest.approx(shares, abs=2e-6)  # six digits are kept

    read = told.concept_probabilities
    assert prediction.concepts is not None
    assert [share for group in prediction.concepts.values() for share in group.values()] == pytest.approx(
        read, abs=1e-6
    )
    assert [each.probability for each in explanation.concepts] == pytest.approx(read, abs=1e-6)
    assert [each.probability for each in page.concepts] == pytest.approx(read, abs=1e-6)
    assert [each.probability for group in story.concepts for each in group.values] == pytest.approx(read, abs=2e-6)
    labels = [each.label for each in told.concepts]
    assert labels == [each.label for each in page.concepts]
    assert labels == [each.label for group in story.concepts for each in group.values]

    assert told.sentence == explanation.sentence == page.sentence
    assert story.account is not None
    for account in (explanation.account, page.account, story.account):
        assert account is not None
        weights = {each.question: each.weight for each in told.account.reasons}  # two may weigh the same but for noise
        assert {each.question: each.weight for each in account.reasons} == pytest.approx(weights, abs=1e-4)
        assert account.base == pytest.approx(told.account.base, abs=1e-4)
    assert story.sentence == told.sentence
    assert [run.concepts.names[k] for k in told.deciding] == [each.concept for each in explanation.maps]
    assert told.deciding == page.deciding
    for ours, theirs, pages in zip(told.decompositions, explanation.decompositions, page.decompositions, strict=True):
        assert ours.values == pytest.approx(theirs.values, abs=1e-5)
        assert ours.values == pytest.approx(pages.values, abs=1e-4)  # the average is of kept float32 scores

    kind = "attention" if run.pipeline.model.has_attention else "gradcam"
    every = list(range(len(run.concepts)))
    [case] = find_cases(run, np.array([index]), 1, wanted=every, kind=kind, side=64, generator=np.random.default_rng(0))
    assert case.name == story.image
    assert (None if case.class_name is None else [case.class_name]) == story.truth
    [drawn] = answer(run, tmp_path / "same.png", maps=(kind,), concepts=every)
    assert drawn.maps is not None
    for question, k in case.asked.items():
        assert read[k] >= 0.5 or read[k] == read[run.concepts.groups[int(run.concepts.group_of[k])].concepts].max()
        slot = drawn.slot(k)
        rows = drawn.maps.gradcam[k] if kind == "gradcam" else drawn.maps.attention[slot]  # type: ignore[index]
        np.testing.assert_allclose(case.grids[question], rows.reshape(drawn.maps.grid), atol=1e-5)


def test_values_that_no_training_image_has_are_known_to_the_run(slots: OpenedRun) -> None:
    labels = slots.source.examples.concepts[slots.splits["train"]]
    assert slots.card.concept_counts == (labels == 1).sum(0).tolist()
    rare = dataclasses.replace(slots.card, concept_counts=[0, *slots.card.concept_counts[1:]])
    old = dataclasses.replace(slots.card, concept_counts=[])
    subject = list(subjects(np.zeros((1, 20, 20, 3), dtype=np.uint8), slots.card))
    [one], [other] = (Answerer(slots.pipeline, card, slots.concepts).batch(subject) for card in (rare, old))
    assert [each.seen for each in one.concepts[:2]] == [False, True]
    assert slots.concepts.names[0] in [each.question for each in one.account.aside]
    assert 0 not in [each.concept for each in one.account.reasons]
    assert all(each.seen for each in other.concepts)
    assert all(each.why == "does not apply" for each in other.account.aside)


def test_what_is_not_asked_for_is_not_computed(slots: OpenedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("not asked for")

    for name in ("answer.background", "answer.watch", "answer.similarities", "image_answer.argue"):
        monkeypatch.setattr(f"conceptlens.explanations.{name}", refuse)
    [told] = answer(slots, n=1)
    assert told.maps is None
    assert told.predicted
    with pytest.raises(AssertionError, match="not asked for"):
        told.sentence  # noqa: B018


def test_a_batch_takes_one_pass(slots: OpenedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []
    handle = slots.pipeline.encoder.register_forward_hook(lambda *call: passes.append(len(call[1][0])))
    answerer = Answerer.of(slots)
    answerer.background  # noqa: B018 - its sample takes passes of its own
    passes.clear()
    batch = list(subjects(np.zeros((5, 20, 20, 3), dtype=np.uint8), slots.card))
    told = answerer.batch(batch, maps=("attention", "gradcam", "index", "assignment"))
    handle.remove()
    assert passes == [5]
    assert all(each.sentence and each.maps and each.maps.gradcam for each in told)


def test_doubt(slots: OpenedRun) -> None:
    for told in answer(slots, n=4):
        ranked = np.sort(told.probabilities)[::-1]
        assert told.doubt.margin == pytest.approx(ranked[0] - ranked[1])
        assert told.doubt.entropy == pytest.approx(-(ranked * np.log(ranked)).sum())


# --- whatever images come as


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    """(N, H, W, 3)"""
    return np.random.default_rng(0).integers(0, 256, (3, 40, 48, 3), dtype=np.uint8)


class Held(Dataset[Any]):
    """Images with a label; the one called `damaged` cannot be read."""

    def __init__(self, images: np.ndarray, damaged: int = -1) -> None:
        self.images, self.damaged = images, damaged

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        if place == self.damaged:
            raise OSError("image file is truncated")
        return torch.from_numpy(self.images[place]).permute(2, 0, 1), 1


def test_each_kind_of_input_gives_the_same_answer(slots: OpenedRun, pixels: np.ndarray, tmp_path: Path) -> None:
    for number, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    files = sorted(tmp_path.iterdir())
    seen = [subject.pixels for subject in subjects(files, slots.card)]
    expected = answer(slots, files)
    tensor = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    kinds: dict[str, Any] = {
        "folder": tmp_path,
        "words": [str(file) for file in files],
        "PIL": [Image.fromarray(image) for image in pixels],
        "opened": [Image.open(file) for file in files],
        "array": pixels,
        "arrays": list(pixels),
        "numbers": pixels / 255,
        "single": (pixels / 255).astype(np.float32),
        "tensor": tensor,
        "tensors": list(tensor),
        "tensor of numbers": tensor / 255,
        "dataset": Held(pixels),
        "loader": DataLoader(Held(pixels), batch_size=2),
        "mixed": [files[0], Image.fromarray(pixels[1]), tensor[2]],
    }
    for kind, images in kinds.items():
        for subject, known in zip(subjects(images, slots.card), seen, strict=True):
            np.testing.assert_array_equal(subject.pixels, known, err_msg=kind)
        for told, known_answer in zip(answer(slots, images), expected, strict=True):
            np.testing.assert_array_equal(told.probabilities, known_answer.probabilities, err_msg=kind)
            np.testing.assert_array_equal(told.concept_probabilities, known_answer.concept_probabilities, err_msg=kind)
    one = answer(slots, pixels[0])
    assert len(one) == 1
    np.testing.assert_allclose(one[0].probabilities, expected[0].probabilities, atol=1e-6)


def test_what_cannot_be_read_stops_no_other(slots: OpenedRun, pixels: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"")
    told = answer(slots, [pixels[0], tmp_path / "bad.png", tmp_path / "none.png", pixels[1]])
    assert [bool(each.error) for each in told] == [False, True, True, False]
    found = predict(slots, Held(pixels, damaged=1))
    assert [bool(item.error) for item in found] == [False, True, False]
    assert "truncated" in str(found.failed[0].error)
    explained = explain(slots, [tmp_path / "bad.png", pixels[0]])
    assert len(explained) == 1
    assert list(explained.errors) == [str(tmp_path / "bad.png")]


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (np.zeros((3, 20, 20), np.uint8), r"array \(H, W, 3\).*found the shape \(3, 20, 20\)"),
        (np.zeros((20, 20), np.uint8), r"found the shape \(20, 20\)"),
        (np.zeros((20, 20, 3), np.int64), "bytes .uint8. or of numbers from 0 to 1, found the type int64"),
        (np.full((20, 20, 3), 200.0), "numbers from 0 to 1.*found numbers from 200 to 200.*normalization"),
        (np.full((20, 20, 3), np.nan), "numbers from 0 to 1"),
        (torch.zeros(20, 20, 3), r"tensor \(3, H, W\).*found the shape \(20, 20, 3\)"),
        (torch.zeros(1, 2, 3, 20, 20), r"found the shape \(1, 2, 3, 20, 20\)"),
        (7, "found int"),
        ({"image": 1}, "found dict"),
    ],
)
def test_what_no_image_looks_like(slots: OpenedRun, images: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        predict(slots, images)


# --- results in memory


def test_explanations_are_drawn_and_nothing_is_written(slots: OpenedRun, pixels: np.ndarray) -> None:
    before = sorted(slots.path.rglob("*"))
    found = explain(slots, pixels[:2])
    assert sorted(slots.path.rglob("*")) == before
    page = found[0].panel()
    figure = found[0].plot()
    assert figure.get_size_inches() * 100 == pytest.approx(page.size)
    assert figure.axes[0].images[0].get_array().shape == (page.height, page.width, 3)
    assert found[0]._repr_html_().startswith('<img src="data:image/png;base64,')
    assert found._repr_html_().count("<img") == 2
    read_back = type(found[0]).model_validate(found[0].model_dump())
    with pytest.raises(UserError, match="holds no pixels"):
        read_back.plot()
    assert read_back.panel(found[0].seen).tobytes() == page.tobytes()


def test_predictions_as_a_table_and_a_figure(
    slots: OpenedRun, pixels: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "<b>.png").write_bytes(b"")
    found = predict(slots, [pixels[0], tmp_path / "<b>.png"])
    assert found.to_dict() == {"run": slots.name, "predictions": [item.__dict__ for item in found]}
    header, first, second = found.rows()
    assert header[:2] == ["image", "class"]
    assert first[2] == found[0].probabilities[header[2][2:-1]]
    assert second[-1] == found[1].error
    assert "<b>.png" not in found._repr_html_()
    assert "&lt;b&gt;.png" in found._repr_html_()
    axes = found.plot().axes
    assert len(axes) == 1
    assert [bar.get_width() for bar in axes[0].patches] == list(found[0].probabilities.values())
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(UserError, match="pip install pandas"):
        found.to_pandas()


def test_a_data_frame(slots: OpenedRun, pixels: np.ndarray) -> None:
    pytest.importorskip("pandas")
    frame = predict(slots, pixels).to_pandas()
    assert list(frame["image"]) == ["image 0", "image 1", "image 2"]
    assert frame["class"].isin(slots.card.classes).all()
