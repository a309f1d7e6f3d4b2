"""The pack: blinded, balanced, self-contained, small; the same for the same seed."""

import base64
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from conceptlens import api
from conceptlens.concepts import ConceptSet
from conceptlens.core.files import read_json, write_json
from conceptlens.workflows.study.cases import Case
from conceptlens.workflows.study.distractors import distractors
from conceptlens.workflows.study.key import Key
from conceptlens.workflows.study.make import Pack
from conceptlens.workflows.study.rendering import render
from conceptlens.workflows.study.sampling import draw_concepts, draw_images
from conceptlens.workflows.study.shuffle import moved, shuffle
from conceptlens.workflows.study.trials import build
from tests.conftest import Refuse


def content(pack: Pack) -> dict[str, Any]:
    page = (pack.folder / "study.html").read_text("utf-8")
    found = re.search(r'<script type="application/json" id="study">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_the_folder_says_what_it_is(pack: Pack, refuse: Refuse, shapes_run: Path, tmp_path: Path) -> None:
    info, key = read_json(pack.folder / "run.json"), Key.read(pack.folder / "key.json")
    assert (info["kind"], info["status"], info["run"]) == ("study", "done", key.run)
    assert (info["images"], info["catch"], info["questions"]) == (key.images, key.catch, len(key.trials))
    write_json(tmp_path / "run.json", {"kind": "bottleneck", "status": "done", "data": {}})
    refuse("study", "make", shapes_run, "--n", 12, "--out", tmp_path, says="holds another result")


def test_the_page_shows_what_the_key_knows(pack: Pack) -> None:
    shown, key = content(pack), Key.read(pack.folder / "key.json")
    assert (key.images, key.catch) == (9, 3)
    assert [trial["id"] for trial in shown["trials"]] == [trial.id for trial in key.trials]
    assert len({trial.id for trial in key.trials}) == len(key.trials)
    kinds = Counter(trial.kind for trial in key.trials)
    assert kinds["attention"] == 2
    asked = Counter((trial.image, trial.kind) for trial in key.trials if trial.kind != "attention")
    assert max(asked.values()) == 1  # an image gets one question of each kind, or one if one group can be asked about
    assert len({image for image, _ in asked}) == 12
    assert kinds["choice"] >= 6
    for trial, known in zip(shown["trials"], key.trials, strict=True):
        assert trial["kind"] == ("choice" if known.kind == "choice" else "likert")
        if known.kind == "choice":
            assert [option["id"] for option in trial["options"]] == known.options
            assert known.answer in known.options
            assert known.answer == known.concept
        elif known.kind == "likert":
            assert trial["concept"]["id"] == known.concept
        else:
            assert known.answer is not None
            assert trial["concept"]["name"].endswith(f"please answer {known.answer}")


def test_nothing_on_the_page_tells_truth_or_catch(pack: Pack) -> None:
    shown, page = content(pack), (pack.folder / "study.html").read_text("utf-8")
    assert set(shown) == {"study", "images", "maps", "trials", "colors"}
    for trial in shown["trials"]:
        assert set(trial) == {"id", "kind", "image", "map", "options" if trial["kind"] == "choice" else "concept"}
    assert all(set(each) == {"grid", "values"} for each in shown["maps"])
    for word in ("catch", "shuffle", "truth", "true", "false", "control", "moved"):
        assert word not in json.dumps({**shown, "images": [], "maps": []}).lower()
    for trial in pack.key.trials:
        assert trial.image not in page  # names of files hold classes
    # A map is shown once, so comparing maps of one image finds nothing; and no question names another's answer.
    assert sorted(trial["map"] for trial in shown["trials"]) == list(range(len(shown["trials"])))
    named = {(trial["image"], trial["concept"]["id"]) for trial in shown["trials"] if trial["kind"] == "likert"}
    for trial, known in zip(shown["trials"], pack.key.trials, strict=True):
        if known.kind == "choice":
            assert not any((trial["image"], option) in named for option in known.options)


def some_cases(count: int, side: int = 16) -> tuple[list[Case], ConceptSet, np.random.Generator]:
    concepts, generator = ConceptSet.load("blood-cells"), np.random.default_rng(0)
    photo = Image.fromarray(generator.integers(0, 255, (side // 4, side // 4, 3), dtype=np.uint8))
    photo = photo.resize((side, side), Image.Resampling.BICUBIC)
    cases = []
    for n in range(count):
        grids = {"choice": generator.random((14, 14)), "likert": generator.random((14, 14))}
        asked = {"choice": 0, "likert": 5}
        cases.append(Case(f"{n}", None, photo, np.ones(len(concepts), dtype=bool), asked, grids))  # type: ignore[arg-type]
    return cases, concepts, generator


def built(cases: list[Case], catch: int, concepts: ConceptSet, generator: np.random.Generator) -> Any:
    vectors = np.eye(len(concepts))
    return build(cases, catch, concepts, vectors, control="moved", options=5, attention=4, generator=generator)


def test_places_on_the_page_do_not_depend_on_the_kind() -> None:
    cases, concepts, generator = some_cases(200)
    page, keys = built(cases, 100, concepts, generator)
    places = np.array([n for n, trial in enumerate(keys) if trial.catch]) / len(keys)
    assert abs(places.mean() - 0.5) < 0.08  # more than three standard errors
    images = np.array([page["trials"][n]["image"] for n, trial in enumerate(keys) if trial.catch]) / len(cases)
    assert abs(images.mean() - 0.5) < 0.08


def test_a_check_of_attention_shows_the_map_that_is_shown() -> None:
    cases, concepts, generator = some_cases(8)
    page, keys = built(cases, 8, concepts, generator)
    maps = [each["values"] for each in page["maps"]]
    for n, trial in enumerate(keys):
        if trial.kind == "attention":
            assert maps.count(maps[page["trials"][n]["map"]]) == 2
    assert len(set(maps)) == 16


def test_pictures_are_encoded_anew_and_nothing_is_loaded(pack: Pack) -> None:
    page = (pack.folder / "study.html").read_text("utf-8")
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    shown = content(pack)
    for address in shown["images"]:
        image = Image.open(io.BytesIO(base64.b64decode(address.removeprefix("data:image/webp;base64,"))))
        assert not image.getexif()
    for each in shown["maps"]:
        values = np.frombuffer(base64.b64decode(each["values"]), dtype=np.uint8)
        assert len(values) == each["grid"][0] * each["grid"][1]
        assert values.max() == 255


def test_the_same_seed_gives_the_same_study(pack: Pack, shapes_run: Path, tmp_path: Path) -> None:
    again = api.make_study(shapes_run, out=tmp_path / "again", n=12, attention=2, catch_share=0.25, seed=3)
    assert again.key == pack.key
    other = api.make_study(shapes_run, out=tmp_path / "other", n=12, attention=2, catch_share=0.25, seed=4)
    assert other.key.study != pack.key.study


def test_shuffled_maps_are_elsewhere_and_look_alike() -> None:
    generator = np.random.default_rng(0)
    y, x = np.mgrid[0:14, 0:14]
    blob = np.exp(-((y - 6.5) ** 2 + (x - 6.5) ** 2) / 8)
    for control in ("moved", "patches"):
        other = shuffle(control, [blob], 0, generator)
        assert np.allclose(np.sort(other.ravel()), np.sort(blob.ravel()))
        assert (other * blob).sum() < 0.6 * (blob * blob).sum()
    assert (moved(blob, generator) * blob).sum() < 0.15 * (blob * blob).sum()
    assert np.array_equal(shuffle("other", [blob, 2 * blob], 0, generator), 2 * blob)


def test_images_are_drawn_evenly_over_classes() -> None:
    classes = np.array([0] * 50 + [1] * 50 + [2] * 3)
    chosen = draw_images(classes, 23, np.random.default_rng(0))
    assert len(set(chosen.tolist())) == 23
    assert Counter(classes[chosen].tolist()) == {0: 10, 1: 10, 2: 3}


def test_concepts_are_used_evenly() -> None:
    allowed = [[0], [0, 1], [0, 1, 2], [0, 1, 2], []]
    chosen = draw_concepts(allowed, np.random.default_rng(0))
    assert chosen[0] == 0
    assert chosen[4] is None
    assert Counter(chosen[:3]) == {0: 1, 1: 1, 2: 1}


def test_distractors_are_true_of_the_image_and_elsewhere() -> None:
    concepts = ConceptSet.load("blood-cells")
    truth = concepts.index("nucleus shape", "irregular")
    present = np.zeros(len(concepts), dtype=bool)
    elsewhere = [concepts.index("granularity", "yes"), concepts.index("cytoplasm colour", "blue")]
    present[[*elsewhere, truth, concepts.index("chromatin density", "densely")]] = True
    vectors = np.eye(len(concepts))
    chosen = distractors(concepts, truth, present, vectors, 4, np.random.default_rng(0))
    assert set(elsewhere) <= set(chosen)  # what the image shows at another part comes first
    assert all(concepts.concepts[k].part != "nucleus" for k in chosen)
    groups = [int(concepts.group_of[k]) for k in (truth, *chosen)]
    assert len(set(groups)) == 5
    some = [k for k in range(len(concepts)) if concepts.concepts[k].value not in ("no", "nil")]
    offered = distractors(concepts, truth, present, vectors, 4, np.random.default_rng(0), offered=some)
    assert set(offered) <= set(some)
    without = distractors(concepts, truth, present, vectors, 4, np.random.default_rng(0), elsewhere[0])
    assert not any(concepts.concepts[k].group == "granularity" for k in without)


def test_two_hundred_images_stay_small() -> None:
    """Pictures at full size, and full of noise, which compresses worse than any photograph."""
    cases, concepts, generator = some_cases(10, side=384)
    page, _ = built(cases, 2, concepts, generator)
    size = len(render({"study": "x", **page}))
    assert 20 * size < 20e6


def test_a_name_cannot_become_markup() -> None:
    page = render(
        {"study": "x", "trials": [{"name": "</script><script>alert(1)</script><!--"}], "images": [], "maps": []}
    )
    assert "<script>alert" not in page
    assert page.count("<script") == 2


def test_bad_input(refuse: Refuse, shapes_run: Path, tmp_path: Path) -> None:
    refuse("study", "make", tmp_path / "nothing", says="no such run")
    refuse("study", "make", shapes_run, "--n", 5, says="at least 10 images")
    refuse("study", "make", shapes_run, "--n", 100_000, says="were asked for")
    refuse("study", "make", shapes_run, "--n", 12, "--control", "move", says=("--control", "moved", "patches"))
    refuse("study", "make", shapes_run, "--n", 12, "--options", 20, says="expected 2 to 9")
    refuse("study", "make", shapes_run, "--n", 12, "--concepts", "wing spam", says="Unknown concept")
    refuse("study", "make", shapes_run, "--n", 12, "--catch-share", 1.5, says="between 0 and 1")
    refuse("study", "analyze", tmp_path, tmp_path / "r.json", says="key.json")


def test_raters_see_what_speaks_for_a_concept(evidence_run: Path, tmp_path: Path) -> None:
    """`auto` takes evidence; what speaks against a concept, and values without a place, are left out."""
    pack = api.make_study(evidence_run, out=tmp_path, n=10, attention=0, catch_share=0.1, control="patches")
    key = Key.read(pack.folder / "key.json")
    assert key.map == "evidence"
    asked = {trial.concept for trial in key.trials} | {each for trial in key.trials for each in trial.options}
    assert "body pattern: plain" not in asked
    maps = [np.frombuffer(base64.b64decode(each["values"]), dtype=np.uint8) for each in content(pack)["maps"]]
    assert all(each.max() == 255 for each in maps)
    assert any((each == 0).any() for each in maps)  # where evidence speaks against it
