"""Labeling: order, raters, undo, the table, and the forecast."""

import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.workflows.label.curve import concept_accuracy, extrapolate, forecast
from conceptlens.workflows.label.labeling import Labeling, agreed, read_sheet, write_sheet
from conceptlens.workflows.label.log import UNSURE, RaterLog
from conceptlens.workflows.label.queue import farthest_first, next_images

CONCEPTS = """
classes: [a, b]
groups:
  border: {values: [sharp, blurred]}
  signs: {kind: independent, values: [hair], columns: {hair: has_hair}}
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    generator = np.random.default_rng(0)
    rows = []
    for number in range(12):
        Image.fromarray(generator.integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{'ab'[number % 2]},,site {number}")
    (tmp_path / "images.csv").write_text("\n".join(["image,class,border,site", *rows]) + "\n")
    (tmp_path / "concepts.yaml").write_text(CONCEPTS)
    (tmp_path / "recipe.yaml").write_text("data: images.csv\nconcepts: concepts.yaml\n")
    monkeypatch.setattr(Labeling, "features", generator.normal(size=(12, 3)))
    return tmp_path / "recipe.yaml"


def cells(recipe: Path) -> dict[str, dict[str, str]]:
    with (recipe.parent / "images.csv").open(encoding="utf-8") as file:
        return {row["image"]: row for row in csv.DictReader(file)}


def test_labels_land_in_the_table(recipe: Path) -> None:
    labeling = Labeling(recipe, "ann")
    labeling.keep("0.png", {"border": "sharp", "signs: hair": "yes"})
    labeling.keep("1.png", {"border": "blurred", "signs: hair": UNSURE})
    report = labeling.finish()
    found = cells(recipe)
    assert (found["0.png"]["border"], found["0.png"]["has_hair"]) == ("sharp", "yes")
    assert (found["1.png"]["border"], found["1.png"]["has_hair"]) == ("blurred", "")
    assert found["2.png"]["site"] == "site 2"  # everything else stays
    assert (report.labeled, report.images, report.raters) == (2, 12, {"ann": 2})
    assert "2 of 12 images" in report.text()
    again = Labeling(recipe, "ann")  # as a new process: nothing is asked twice
    assert "0.png" not in again.queue(20)
    with pytest.raises(UserError, match="not one of its answers"):
        again.keep("2.png", {"border": "green"})
    with pytest.raises(UserError, match="no such image"):
        again.keep("x.png", {"border": "sharp"})


def test_an_image_under_another_spelling_of_its_path_gets_its_label(recipe: Path) -> None:
    table = recipe.parent / "images.csv"
    table.write_text(table.read_text().replace("\n0.png", "\n./0.png"))
    labeling = Labeling(recipe, "ann")
    labeling.keep("0.png", {"border": "sharp"})
    labeling.finish()
    assert cells(recipe)["./0.png"]["border"] == "sharp"


def test_a_column_of_lists_becomes_columns_of_yes_and_no(recipe: Path) -> None:
    """What the reader of tables prefers would hide single answers otherwise."""
    table = recipe.parent / "images.csv"
    head, *rows = table.read_text().splitlines()
    lists = ["hair", "none", "", *["hair"] * (len(rows) - 3)]
    lines = [f"{head},signs", *(f"{row},{cell}" for row, cell in zip(rows, lists, strict=True))]
    table.write_text("\n".join(lines) + "\n")
    labeling = Labeling(recipe, "ann")
    labeling.keep("0.png", {"signs: hair": "no"})
    labeling.finish()
    assert [cells(recipe)[f"{number}.png"]["has_hair"] for number in range(4)] == ["no", "no", "", "yes"]
    found = Labeling(recipe, "ann").source.examples.concepts[:, -1]
    assert found[:4].tolist() == [0, 0, -1, 1]


def test_undo_takes_back_one_image(recipe: Path) -> None:
    log = Labeling(recipe, "ann").log
    log.add("0.png", {"border": "sharp", "signs: hair": "no"})
    log.add("1.png", {"border": "sharp"})
    assert log.undo() == "1.png"
    assert log.answers() == {("0.png", "border"): "sharp", ("0.png", "signs: hair"): "no"}
    assert log.undo() == "0.png"
    assert log.undo() is None
    log.add("1.png", {"border": "blurred"})
    assert RaterLog(log.path.parent, "ann").answers() == {("1.png", "border"): "blurred"}
    with pytest.raises(UserError, match="short name"):
        RaterLog(log.path.parent, "../x")


def test_two_raters(recipe: Path) -> None:
    ann, bob = Labeling(recipe, "ann"), Labeling(recipe, "bob")
    for number in range(6):
        ann.keep(f"{number}.png", {"border": "sharp" if number < 3 else "blurred"})
        bob.keep(f"{number}.png", {"border": "sharp" if number < 2 else "blurred"})
        if number == 3:
            ann.finish()  # what bob will not agree with is in the table by then
    assert len(set(bob.queue(5)) & {f"{number}.png" for number in range(6)}) == 0
    report = bob.finish()
    assert report.disagreements == 1
    found = cells(recipe)
    assert [found[f"{number}.png"]["border"] for number in range(4)] == ["sharp", "sharp", "", "blurred"]
    # Krippendorff's alpha by hand: 5 of 6 pairs agree; 5 sharp, 7 blurred of 12: D_o = 1/6, D_e = 2·5·7/(12·11).
    assert report.agreement["border"] == pytest.approx(1 - (1 / 6) / (70 / 132))
    carl = Labeling(recipe, "carl").queue(5)
    assert carl[0] in {f"{number}.png" for number in range(6)}  # a fifth of a new rater's images is shared


def test_a_second_rater_gets_a_fifth_of_the_first_ones_images(recipe: Path) -> None:
    ann = Labeling(recipe, "ann")
    images = ann.queue(6)
    for image in images:
        ann.keep(image, {"border": "sharp"})
    bob = Labeling(recipe, "bob").queue(5)
    assert len(set(bob) & set(images)) == 1
    assert set(Labeling(recipe, "bob").queue(20)) == set(ann.source.examples.ids)  # the others of hers come last


def test_a_torn_row_does_not_harm_the_next(recipe: Path) -> None:
    log = Labeling(recipe, "ann").log
    log.add("0.png", {"border": "sharp"})
    with log.path.open("a") as file:
        file.write("2026-01-01,1.png,bor")  # killed here
    log.add("2.png", {"border": "sharp"})
    assert log.answers() == {("0.png", "border"): "sharp", ("2.png", "border"): "sharp"}


def test_answers_of_raters_together() -> None:
    key = ("i", "q")
    assert agreed([{key: "a"}, {key: "a"}, {key: UNSURE}]) == {key: "a"}
    assert agreed([{key: "a"}, {key: "b"}]) == {key: None}
    assert agreed([{key: UNSURE}, {}]) == {key: UNSURE}


def test_a_sheet_to_fill_in(recipe: Path, tmp_path: Path) -> None:
    labeling, sheet = Labeling(recipe, "ann"), tmp_path / "sheet.csv"
    assert write_sheet(labeling, sheet, 3) == 3
    with pytest.raises(UserError, match="perhaps with answers"):
        write_sheet(labeling, sheet, 3)
    head, first, *rest = sheet.read_text().splitlines()
    assert head == "image,border,signs: hair"
    sheet.write_text("\n".join([head, first.replace(",,", ",Sharp,1"), *rest]))
    assert read_sheet(labeling, sheet) == 1
    image = first.split(",")[0]
    assert labeling.log.answers() == {(image, "border"): "sharp", (image, "signs: hair"): "yes"}
    rows = [head, first.replace(",,", ",green,1"), rest[0].replace(",,", ",blurred,0"), "99.png,sharp,perhaps"]
    sheet.write_text("\n".join(rows))
    with pytest.raises(UserError) as refused:
        read_sheet(labeling, sheet)
    for said in (
        "nothing was read",
        "row 2, 'border': 'green' is none of sharp, blurred",
        "row 4, 'signs: hair': 'perhaps' is none of yes, no",
        "row 4: there is no image '99.png'",
    ):
        assert said in str(refused.value)
    assert len(labeling.log.answers()) == 2  # the good row neither
    sheet.write_text(f"image,edge\n{image},sharp\n")
    with pytest.raises(UserError, match="none of the questions border, signs: hair has a column"):
        read_sheet(labeling, sheet)


def test_what_cannot_be_labeled(recipe: Path) -> None:
    recipe.write_text("data: images.csv\nmethod: black-box\n")
    with pytest.raises(UserError, match="names no concepts"):
        Labeling(recipe, "ann")
    recipe.write_text("data: blood-cells\nconcepts: concepts.yaml\n")
    with pytest.raises(UserError, match="CSV table"):
        Labeling(recipe, "ann")


def test_far_images_come_first() -> None:
    points = np.array([[0.0], [1.0], [2.0], [9.0], [10.0]])
    everyone = np.arange(5)
    # The middle is 4.4: image 2 is nearest; then 4, 8 away; then 0.
    assert farthest_first(points, everyone, np.array([], dtype=np.int64), 3) == [2, 4, 0]
    assert farthest_first(points, np.array([1, 3]), np.array([0, 4]), 5) == [1, 3]


def test_uncertain_images_come_first() -> None:
    concepts = ConceptSet.from_yaml("classes: [a, b]\ngroups:\n  border: {values: [sharp, blurred]}\n")
    features = np.concatenate([np.linspace(-5, -3, 30), np.linspace(3, 5, 30), np.linspace(-0.05, 0.05, 10)])[:, None]
    labels = np.full((70, 2), -1, dtype=np.int8)
    labels[:20], labels[30:50] = [1, 0], [0, 1]
    assert set(next_images(features, labels, concepts, 2)) <= set(range(60, 70))


def test_the_forecast_continues_the_curve() -> None:
    sizes = np.array([25, 50, 100, 200])
    curve = 0.9 - 1.5 * sizes**-0.5
    assert extrapolate(sizes, curve, 400) == pytest.approx(0.9 - 1.5 / 20, abs=1e-6)
    assert extrapolate(sizes, np.full(4, 0.7), 1000) == pytest.approx(0.7)
    assert extrapolate(sizes, np.array([0.5, 0.6, 0.8, 0.99]), 10**6) <= 1
    concepts = ConceptSet.from_yaml("classes: [a, b]\ngroups:\n  border: {values: [sharp, blurred]}\n")
    generator = np.random.default_rng(0)
    truth = np.arange(120) % 2
    features = generator.normal(size=(120, 20)) + 1.2 * truth[:, None] * (np.arange(20) < 2)
    labels = np.stack([truth == 0, truth == 1], 1).astype(np.int8)
    labels[60:] = -1
    units = [str(row) for row in range(120)]
    now, ahead = forecast(features, labels, concepts, units)
    assert now == pytest.approx(concept_accuracy(features[:60], labels[:60], concepts, units[:60], 0), abs=0.1)
    assert [each.more for each in ahead] == [50]
    assert now is not None
    assert now <= ahead[0].accuracy <= 1
    assert [each.more for each in forecast(features[:80], labels[:80], concepts, units[:80])[1]] == [
        20
    ]  # all that is left
    assert forecast(features[:60], labels[:60], concepts, units[:60])[1] == []
    few = np.where(np.arange(120)[:, None] < 30, labels, -1)
    assert forecast(features, few, concepts, units) == (None, [])
    patients = np.repeat(np.arange(30), 8)  # whose labels are random, and whose images are alike
    truth, look = generator.integers(0, 2, 30)[patients], generator.normal(size=(30, 40))[patients]
    alike, answers = look + 0.3 * generator.normal(size=look.shape), np.stack([truth == 0, truth == 1], 1)
    found = concept_accuracy(alike, answers.astype(np.int8), concepts, [str(each) for each in patients], 0)
    assert found < 0.7
