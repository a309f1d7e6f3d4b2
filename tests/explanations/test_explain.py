"""Explanations of a finished run: the file says what the model said, the picture what the file says."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import conceptlens as cl
from conceptlens import api
from conceptlens.cli import main
from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json, write_text
from conceptlens.core.upgrades import SCHEMA
from conceptlens.data.images.read import open_image, resize_square
from conceptlens.explanations.document import Explanation
from conceptlens.explanations.explain import choose_concepts
from conceptlens.explanations.pictures.overlay import SIDE
from conceptlens.explanations.pictures.panel import panel
from conceptlens.methods.contract import ConceptOutput
from conceptlens.runs.saved import load_pipeline
from tests.conftest import Refuse
from tests.own_data import OwnData


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files")
    generator = np.random.default_rng(0)
    for number in range(3):
        Image.fromarray(generator.integers(0, 255, (40, 48, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return sorted(folder.iterdir())


def by_hand(run: Path, file: Path) -> ConceptOutput:
    pipeline, card, _ = load_pipeline(run)
    with torch.no_grad():
        return pipeline(torch.from_numpy(resize_square(open_image(file, name="x"), card.image_size, card.fit))[None])


def test_the_file_says_what_the_model_said(slots_run: Path, files: list[Path], tmp_path: Path) -> None:
    found = api.explain(slots_run, files, out=tmp_path)
    assert [item.image for item in found.items] == [str(file) for file in files]
    predicted = api.predict(slots_run, files).items
    concepts = ConceptSet.load(slots_run / "concepts.yaml")
    slot_of = load_pipeline(slots_run)[0].model.concept_slot
    for item, file, prediction in zip(found.items, files, predicted, strict=True):
        assert item.path is not None
        assert read_json(item.path)["schema"] == SCHEMA
        told, output = item.load(), by_hand(slots_run, file)
        assert told.predicted == [prediction.predicted]
        assert {each.name: each.probability for each in told.classes} == pytest.approx(
            prediction.probabilities, abs=1e-5
        )
        assert prediction.concepts is not None
        for each, concept in zip(told.concepts, concepts.concepts, strict=True):
            assert (each.name, each.text) == (concept.name, concept.text)
            assert each.probability == pytest.approx(prediction.concepts[each.group][each.value], abs=1e-5)
        logits = dict(zip([each.name for each in told.classes], output.logits[0].tolist(), strict=True))
        assert len(told.decompositions) == 4
        for decomposition in told.decompositions:
            minus = (
                0.0 if decomposition.minus is None else logits.get(decomposition.minus, np.mean(list(logits.values())))
            )
            assert decomposition.total == pytest.approx(logits[decomposition.of] - minus, abs=1e-4)
            assert decomposition.base + sum(decomposition.values) == pytest.approx(decomposition.total, abs=1e-9)
        assert told.reference.what == "average image"
        assert len(told.maps) == 3
        assert output.attention is not None
        for maps in told.maps:
            slot = int(slot_of[concepts.names.index(maps.concept)])
            assert maps.attention is not None
            assert maps.gradcam is not None
            assert maps.attention.slot == slot
            np.testing.assert_allclose(np.ravel(maps.attention.values), output.attention[0, slot], atol=1e-4)
            assert maps.attention.range == (np.min(maps.attention.values), np.max(maps.attention.values))
        assert told.index is not None
        assert output.codes is not None
        assert np.ravel(told.index.codes).tolist() == output.codes[0].tolist()
        assert sum(entry.patches for entry in told.index.legend) == len(output.codes[0])
        assert not told.without


def test_the_base_is_what_an_average_image_gets(slots_run: Path, tmp_path: Path) -> None:
    split = read_json(slots_run / "splits.json")["splits"]["test"]
    found = api.explain(slots_run, n=len(split), out=tmp_path, maps=["index"])
    assert {item.image for item in found.items} == set(split)
    told = [item.load() for item in found.items]
    assert told[0].reference.images == len(split)
    average = {name: np.mean([each.classes[c].logit for each in told]) for c, name in enumerate(_classes(told[0]))}
    for each in told:
        for decomposition in each.decompositions:
            minus = (
                0.0
                if decomposition.minus is None
                else average.get(decomposition.minus, np.mean(list(average.values())))
            )
            assert decomposition.base == pytest.approx(average[decomposition.of] - minus, abs=1e-4)
    assert all(each.truth and each.split == "test" for each in told)
    assert all(maps.attention is None and maps.gradcam is None for each in told for maps in each.maps)


def _classes(told: Explanation) -> list[str]:
    return [each.name for each in told.classes]


@pytest.mark.parametrize("show", ["right", "wrong", "uncertain"])
def test_own_images_by_kind(slots_run: Path, tmp_path: Path, show: str) -> None:
    told = [item.load() for item in api.explain(slots_run, n=3, show=show, split="train", out=tmp_path).items]
    assert told
    if show != "uncertain":
        assert {each.predicted == each.truth for each in told} == {show == "right"}
    assert {each.split for each in told} == {"train"}
    ranked = [sorted((entry.probability for entry in each.classes), reverse=True) for each in told]
    margins = [shares[0] - shares[1] for shares in ranked]
    assert margins == sorted(margins, reverse=show != "uncertain")


def test_images_may_be_decided_by_more_or_fewer_concepts(
    slots_run: Path, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = iter([[0, 3], [], [5], []])  # the last for the image that is explained again
    monkeypatch.setattr("conceptlens.explanations.argument.deciding", lambda *_: next(plan))
    ragged = [item.load() for item in api.explain(slots_run, files, out=tmp_path / "ragged").items]
    assert [len(each.maps) for each in ragged] == [2, 0, 1]
    names = ConceptSet.load(slots_run / "concepts.yaml").names
    alone = api.explain(slots_run, files[2:], concepts=[names[5]], out=tmp_path / "alone").items[0].load()
    found, expected = ragged[2].maps[0].gradcam, alone.maps[0].gradcam
    assert found is not None
    assert expected is not None
    np.testing.assert_allclose(found.values, expected.values, atol=1e-3 * expected.range[1])


def test_several_classes_at_once(own: OwnData, tmp_path: Path) -> None:
    (tmp_path / "concepts.yaml").write_text("groups: {border: {values: [regular, irregular]}}")
    changes = {
        "data": {"class_column": "findings", "task": "multilabel"},
        "concepts": str(tmp_path / "concepts.yaml"),
        "out": str(tmp_path / "run"),
        "training": {"epochs": 1},
    }
    run = cl.train(own.recipe, changes, quiet=True)
    told = api.explain(run.path, [own.image(0)]).items[0].load()
    assert told.rival is None
    assert [decomposition.minus for decomposition in told.decompositions] == [None]
    above = [each.name for each in told.classes if each.threshold is not None and each.probability >= each.threshold]
    assert told.predicted == above
    assert ("no class" in told.sentence) is (not above)


def test_the_picture_is_made_from_the_file_and_the_image(slots_run: Path, files: list[Path], tmp_path: Path) -> None:
    item = api.explain(slots_run, files[:1], out=tmp_path).items[0]
    assert item.path is not None
    told = Explanation.read(item.path)
    assert told.picture is not None
    square = resize_square(open_image(files[0], name="x"), SIDE, "squash").transpose(1, 2, 0)
    again = panel(told, Image.fromarray(np.ascontiguousarray(square)))
    np.testing.assert_array_equal(np.asarray(again), np.asarray(Image.open(tmp_path / told.picture)))


def test_a_reader_of_the_class_token_has_no_attention(class_token_run: Path, files: list[Path], tmp_path: Path) -> None:
    told = api.explain(class_token_run, files[:1], out=tmp_path).items[0].load()
    assert set(told.without) == {"attention", "index"}
    assert told.index is None
    assert told.gradcam_at == "patches that enter its last block"
    assert all(maps.attention is None for maps in told.maps)
    assert all(maps.gradcam is not None for maps in told.maps)
    assert any(maps.gradcam and maps.gradcam.range[1] > 0 for maps in told.maps)


def test_without_the_data_scores_are_compared_with_zero(mine: OwnData, own_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(own_run, tmp_path / "run", ignore=shutil.ignore_patterns("explain"))
    write_text(run / "recipe.yaml", (run / "recipe.yaml").read_text("utf-8").replace("lesions.csv", "gone.csv"))
    told = api.explain(run, [mine.image(0)]).items[0].load()
    assert told.reference.what == "zero scores"
    assert "gone.csv" in (told.reference.why or "")
    decomposition = told.decomposition(None)
    assert decomposition is not None
    assert decomposition.base + sum(decomposition.values) == pytest.approx(decomposition.total)
    assert told.index is not None
    assert {entry.name for entry in told.index.legend} == {"unnamed"}
    assert told.index.sample == 0
    assert not (run / "explain" / "reference.json").exists()


def test_what_was_sampled_is_kept_for_these_weights(slots_run: Path, files: list[Path], tmp_path: Path) -> None:
    run = shutil.copytree(slots_run, tmp_path / "run")
    first = api.explain(run, files[:1]).items[0].load()
    kept = read_json(run / "explain" / "reference.json")
    write_json(run / "explain" / "reference.json", kept | {"images": 77})
    assert api.explain(run, files[:1]).items[0].load().reference.images == 77
    write_json(run / "explain" / "reference.json", kept | {"weights": "others", "images": 77})
    assert api.explain(run, files[:1]).items[0].load() == first
    (run / "explain" / "reference.json").write_text("{")
    assert api.explain(run, files[:1]).items[0].load() == first


def test_bad_images_do_not_stop_the_good(
    slots_run: Path, files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.png").write_bytes(b"no image")
    words = [tmp_path / "bad.png", files[0], tmp_path / "gone.png", files[1]]
    assert main(["explain", str(slots_run), *map(str, words), "--out", str(tmp_path / "out")]) == 2
    out, err = capsys.readouterr()
    assert "2 explanations written" in out
    assert "bad.png" in err
    assert "gone.png: no such file" in err
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"0.json", "0.png", "1.json", "1.png"}


def test_images_of_one_name_keep_one_file_each(slots_run: Path, files: list[Path], tmp_path: Path) -> None:
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        shutil.copy(files[0], tmp_path / folder / "same name.png")
    pair = [tmp_path / "a", tmp_path / "b"]
    first = api.explain(slots_run, pair, out=tmp_path / "out", maps=["attention"])
    later = api.explain(slots_run, [tmp_path / "c", *pair], out=tmp_path / "out", maps=["attention"])
    assert first.items[0].path == tmp_path / "out" / "same-name.json"
    assert [item.path for item in first.items] == [item.path for item in later.items[1:]]
    assert len({item.path for item in later.items}) == 3
    assert [item.load().image for item in later.items] == [item.image for item in later.items]


def test_sheets_of_one_concept(slots_run: Path, files: list[Path], tmp_path: Path) -> None:
    concept = ConceptSet.load(slots_run / "concepts.yaml").names[0]
    options = {"concepts": [concept], "sheet": True, "maps": ["attention", "gradcam"]}
    found = api.explain(slots_run, files, out=tmp_path, **options)  # type: ignore[arg-type]
    assert len(found.sheets) == 2
    for path in found.sheets:
        assert Image.open(path).width > 0
        listed = read_json(path.with_suffix(".json"))
        assert listed["concept"] == concept
        assert {entry["image"] for entry in listed["images"]} == {str(file) for file in files}
        shares = [entry["probability"] for entry in listed["images"]]
        assert shares == sorted(shares, reverse=True)


def test_a_file_of_version_0_1_is_upgraded(slots_run: Path, files: list[Path], tmp_path: Path) -> None:
    item = api.explain(slots_run, files[:1], out=tmp_path).items[0]
    assert item.path is not None
    new = item.load()
    raw = read_json(item.path)
    raw["drawing"]["colour_map"] = raw["drawing"].pop("color_map")
    item.path.write_text(json.dumps(raw | {"schema": 1, "accounts": raw.pop("decompositions")}), "utf-8")
    assert item.load() == new


def test_concepts_are_named_as_people_name_them(concepts: ConceptSet) -> None:
    assert choose_concepts(concepts, ["size"]) == [0, 1]
    assert choose_concepts(concepts, ["color: red, size: big"]) == [2, 0]
    assert choose_concepts(concepts, ["size: big", "all"]) == [0, 1, 2, 3, 4]
    with pytest.raises(UserError, match="Did you mean 'color: red'"):
        choose_concepts(concepts, ["color: rad"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--concepts", "color: none at all, ever"], "Unknown concept"),
        (["--maps", "attention", "--maps", "gradcan"], "found 'gradcan'. Did you mean 'gradcam'"),
        (["--opacity", "2"], "from 0 to 1"),
        (["--split", "tset"], "found 'tset'. Did you mean 'test'"),
        (["--show", "wrnog"], "found 'wrnog'. Did you mean 'wrong'"),
        (["--n", "0"], "at least 1"),
    ],
)
def test_bad_words(slots_run: Path, refuse: Refuse, tmp_path: Path, words: list[str], says: str) -> None:
    refuse("explain", slots_run, *words, "--out", tmp_path / "out", says=says)
    assert not (tmp_path / "out").exists()


def test_a_run_that_is_not_done(slots_run: Path, refuse: Refuse, tmp_path: Path) -> None:
    run = shutil.copytree(slots_run, tmp_path / "run")
    write_json(run / "run.json", read_json(run / "run.json") | {"status": "running"})
    refuse("explain", run, says=("is not done (running)", "conceptlens resume"))
    (tmp_path / "file").write_text("")
    refuse("explain", slots_run, "--out", tmp_path / "file", says="expected a folder, found a file")
