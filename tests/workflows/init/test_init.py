"""`conceptlens init` on folders that nobody prepared."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.checks.check import check_data
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.parse import load_recipe
from conceptlens.workflows.init.columns import column_roles, marked_class, one_spelling, slips
from conceptlens.workflows.init.init import ask_person, default_answers, init_folder


def photo(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 256, (40, 48, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def mask(path: Path, covered: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros((40, 48), dtype=np.uint8)
    pixels[:covered, :10] = 255
    Image.fromarray(pixels).save(path)


def images(folder: Path, n: int) -> None:
    for number in range(n):
        photo(folder / f"{number}.png", number)


def table(path: Path, rows: Sequence[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def clinic(root: Path, n: int = 40) -> Path:
    """Photographs with a sheet: patients, a diagnosis, a color, marks with X, an age; and masks of two parts."""
    rows = []
    for number in range(n):
        name = f"IMG_{number:03d}"
        photo(root / "photos" / f"{name}.png", number)
        mask(root / "photos" / "masks" / f"{name}_lesion.png", 20)
        if number % 4 == 0:
            mask(root / "photos" / "masks" / f"{name}_vessel.png", 5)
        rows.append(
            {
                "File": name,
                "patient_id": f"P{number // 2}",
                "diagnosis": ("benign", "malignant")[number // 2 % 2],
                "lesion colour": ("red", "brown", "black")[number % 3],
                "ulcer": "X" if number % 5 == 0 else "",
                "age": str(30 + number),
                "remarks": "",
            }
        )
    table(root / "sheet.csv", rows)
    return root


def test_a_sheet_with_patients_marks_and_masks(tmp_path: Path) -> None:
    out = tmp_path / "clinic-setup"
    setup = init_folder(clinic(tmp_path / "clinic"), out=out)
    assert setup.check.ok, setup.text()
    assert setup.check.images == 40
    recipe = load_recipe(setup.recipe)
    assert (recipe.data.class_column, recipe.data.group_column) == ("diagnosis", "patient_id")
    assert recipe.data.folds == 5
    assert recipe.method["name"] == "evidence-cbm"
    assert recipe.data.regions.mask_columns == {"lesion": "mask: lesion", "vessel": "mask: vessel"}
    concepts = ConceptSet.load(str(recipe.concepts))
    assert open_source(recipe.data, concepts)[0].name == "clinic"
    assert concepts.classes == ("benign", "malignant")
    assert concepts.group("lesion colour").values == ("black", "brown", "red")
    # Marks are answers, and so is a part that some of the annotated images lack.
    assert concepts.group("findings").values == ("ulcer", "vessel")
    assert recipe.data.regions.concepts == {"findings: vessel": "vessel"}
    with (out / "images.csv").open(encoding="utf-8") as file:
        first, second = list(csv.DictReader(file))[:2]
    assert first["image"] == "photos/IMG_000.png"
    assert (first["ulcer"], second["ulcer"], first["vessel"], second["vessel"]) == ("yes", "no", "yes", "no")
    assert "remarks" not in first
    assert any("patient_id" in line for line in setup.assumed)
    text = setup.recipe.read_text()
    assert all(line in text for line in setup.assumed)
    assert "conceptlens train" in setup.text()
    assert setup.to_dict()["check"]["ok"]


def test_what_is_there_is_not_replaced(tmp_path: Path) -> None:
    init_folder(clinic(tmp_path / "clinic"), out=tmp_path / "out")
    with pytest.raises(UserError, match="--overwrite"):
        init_folder(tmp_path / "clinic", out=tmp_path / "out")
    init_folder(tmp_path / "clinic", out=tmp_path / "out", overwrite=True)


def test_answers_of_a_person_count(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(question: str, default: str, others: Sequence[str]) -> str:
        asked.append(question)
        if "blank" in question or "without a mask" in question:
            return "no"
        return "lesion colour" if "the class" in question else "none" if "belongs together" in question else default

    setup = init_folder(clinic(tmp_path / "clinic"), out=tmp_path / "out", ask=ask)
    recipe = load_recipe(setup.recipe)
    assert recipe.data.class_column == "lesion colour"
    assert recipe.data.group_column == "group"  # the default: none
    assert len(asked) == 5 or "findings" not in setup.recipe.read_text()
    assert recipe.concepts is None  # a mark without a no, a diagnosis that is no longer the class
    assert recipe.method["name"] == "black-box"


def test_tables_of_a_split_with_equal_names(tmp_path: Path) -> None:
    """As IDRiD: 001 is one image in the training set and another in the test set; the tables' names tell them apart."""
    root = tmp_path / "retina"
    for side, word in (("a. Training Set", 0), ("b. Testing Set", 100)):
        for number in range(20):
            photo(root / "1. Images" / side / f"eye_{number:03d}.png", number + word)
        rows = [{"Image name": f"eye_{n:03d}", "Retinopathy grade": str(n % 3)} for n in range(20)]
        table(root / "labels" / f"{side.replace('Set', 'Labels')}.csv", rows)
    setup = init_folder(root, out=tmp_path / "out")
    assert setup.check.ok, setup.text()
    recipe = load_recipe(setup.recipe)
    assert (recipe.data.class_column, recipe.data.split_column, recipe.data.folds) == ("Retinopathy grade", "split", 0)
    assert setup.check.splits["test"] == 20
    assert setup.check.images == 40


def test_a_folder_alone(tmp_path: Path) -> None:
    for number in range(24):
        photo(tmp_path / "cells" / ("round", "long")[number % 2] / f"{number}.png", number)
    setup = init_folder(tmp_path / "cells", out=tmp_path / "out")
    recipe = load_recipe(setup.recipe)
    assert (recipe.method["name"], recipe.concepts, recipe.data.class_column) == ("black-box", None, "class")
    assert (recipe.encoder.train, recipe.training.learning_rate) == ("none", 1e-3)  # a linear classifier learns
    assert setup.check.classes == {"long": 12, "round": 12}
    assert "no concepts yet" in setup.text()


def test_copies_stay_together_and_contradictions_are_left_out(tmp_path: Path) -> None:
    root = tmp_path / "cells"
    for number in range(20):
        photo(root / ("a", "b")[number % 2] / f"{number}.png", number)
    photo(root / "a" / "again.png", 2)  # the same picture, the same class
    photo(root / "a" / "wrong.png", 3)  # the same picture as b/3.png
    setup = init_folder(root, out=tmp_path / "out")
    assert setup.check.images == 20
    assert load_recipe(setup.recipe).data.group_column == "same picture"
    assert any("different classes" in line for line in setup.assumed)


def test_images_without_a_class_are_refused(tmp_path: Path) -> None:
    photo(tmp_path / "x" / "1.png", 0)
    photo(tmp_path / "x" / "2.png", 1)
    with pytest.raises(UserError, match="no class of any"):
        init_folder(tmp_path / "x", out=tmp_path / "out")
    with pytest.raises(UserError, match="no such folder"):
        init_folder(tmp_path / "y")
    table(tmp_path / "x" / "t.csv", [{"image": "1", "kind": "k"}, {"image": "2", "kind": "k"}])
    with pytest.raises(UserError, match="--class-column"):
        init_folder(tmp_path / "x", out=tmp_path / "out")


def test_roles_of_columns() -> None:
    n = 60
    cells = {
        "dx": [("nv", "mel")[i % 2] for i in range(n)],
        "dx_type": [("histo", "consensus")[i // 3 % 2] for i in range(n)],
        "code": [("7", "9")[i % 2] for i in range(n)],  # says what the class says
        "lesion_id": [f"L{i // 2}" for i in range(n)],
        "patient": [f"p{i // 4}" for i in range(n)],
        "sex": [("f", "m")[i // 5 % 2] for i in range(n)],
        "border": [("sharp", "blurred", "")[i % 3] for i in range(n)],
        "hair": [("0", "1")[i // 7 % 2] for i in range(n)],
        "mark": [("x", "")[i // 11 % 2] for i in range(n)],
        "size_mm": [f"{i}.5" for i in range(n)],
        "set": [("train", "test")[i // 50] for i in range(n)],
    }
    roles = {found.name: found.role for found in column_roles(cells)}
    assert roles == {
        "dx": "class",
        "dx_type": "metadata",
        "code": "metadata",
        "lesion_id": "metadata",
        "patient": "group",  # a patient rather than a lesion
        "sex": "metadata",
        "border": "concept",
        "hair": "finding",
        "mark": "finding",
        "size_mm": "metadata",
        "set": "split",
    }
    halves = [("left", "right")[i // 2 % 2] for i in range(n)]
    for name, role in (
        ("Patient", "group"),
        ("eye", "metadata"),
        ("病变", "concept"),
    ):  # two sides keep nothing together, two patients do
        found = column_roles({"dx": cells["dx"], name: halves})
        assert found[1].role == role


def test_default_answers() -> None:
    ask = default_answers({"the class": "dx", "belongs together": ""})
    assert ask("Which column is the class", "y", ()) == "dx"
    assert ask("Which column says what belongs together", "none", ()) == "none"


def test_folders_of_slices_named_by_a_table(tmp_path: Path) -> None:
    """A series of slices has one row; its slices belong together."""
    root = tmp_path / "ct"
    for scan in range(12):
        for slice_ in range(20):
            photo(root / "scans" / f"scan{scan:02d}" / f"{slice_:03d}.png", 100 * scan + slice_)
    table(root / "reads.csv", [{"scan": f"scan{scan:02d}", "diagnosis": "ab"[scan % 2]} for scan in range(12)])
    setup = init_folder(root, out=tmp_path / "out")
    recipe = load_recipe(setup.recipe)
    assert (recipe.data.class_column, recipe.data.group_column) == ("diagnosis", "series")
    assert setup.check.images == 12 * 16  # evenly spread
    assert setup.check.ok, setup.text()


def test_frames_of_dicom_files_and_patients_in_headers(tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    from tests.data.images.test_dicom import dicom

    root = tmp_path / "echo"
    for number in range(12):
        folder = root / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (10, 24, 24), dtype=np.uint8)
        (folder / f"{number}.dcm").write_bytes(dicom(pixels, NumberOfFrames=10, PatientID=f"secret {number // 2}"))
    setup = init_folder(root, out=tmp_path / "out")
    text = (tmp_path / "out" / "images.csv").read_text()
    assert "a/0.dcm#1" in text
    assert setup.check.images == 12 * 8
    assert "secret" not in text  # a number stands for the patient
    assert load_recipe(setup.recipe).data.group_column == "patient"
    assert any(finding.code == "patient-fields" for finding in setup.check.findings)
    assert setup.check.ok, setup.text()


def test_a_table_that_is_not_used_says_why(tmp_path: Path) -> None:
    images(tmp_path / "photos", 6)
    (tmp_path / "a.xls").write_bytes(b"\xd0\xcf\x11\xe0")
    (tmp_path / "b.csv").write_bytes(b"Bild;Gr\x81\xf6e\n0.png;x\n")  # neither UTF-8 nor what Windows writes
    (tmp_path / "c.csv").write_text("id,class\n" + "".join(f"case {n},x\n" for n in range(6)))
    (tmp_path / "d.csv").write_text("image,class\n0.png,x\n" + "".join(f"gone{n}.png,y\n" for n in range(9)))
    with pytest.raises(UserError) as refused:
        init_folder(tmp_path, out=tmp_path / "setup")
    for said in (
        "a.xls cannot be read: " + str(tmp_path / "a.xls") + ": the old format of Excel is not read. Save it as .xlsx",
        "save it as “CSV UTF-8",
        "c.csv names none of the images (columns 'id', 'class'); it is not used.",
        "d.csv: 1 of 10 rows name an image, in the column 'image'",
        "Not here: gone0.png, gone1.png, gone2.png.",
    ):
        assert said in str(refused.value)


def test_a_table_of_more_images_than_are_here(tmp_path: Path) -> None:
    images(tmp_path / "photos", 6)
    (tmp_path / "t.csv").write_text("image,class\n" + "".join(f"{n}.png,{'ab'[n % 2]}\n" for n in range(60)))
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    assert "54 rows of t.csv without an image here, left out: 6.png, 7.png, 8.png …." in setup.assumed


def test_rows_that_disagree_say_nothing(tmp_path: Path) -> None:
    images(tmp_path / "photos", 6)
    rows = [f"{n}.png,{'ab'[n % 2]},s{n}" for n in range(6)]
    (tmp_path / "t.csv").write_text("\n".join(["image,class,site", *rows, "0.png,b,s0", "2.png,a,s2"]) + "\n")
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    assert "Several rows disagree about 1 image (0.png): there nothing is taken from 'class'." in setup.assumed
    with (tmp_path / "setup" / "images.csv").open() as file:
        found = {Path(row["image"]).name: row for row in csv.DictReader(file)}
    assert (found["0.png"]["class"], found["0.png"]["site"], found["2.png"]["class"]) == ("", "s0", "a")


def test_a_title_above_the_header_and_a_sheet_in_front(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    images(tmp_path / "photos", 6)
    book = openpyxl.Workbook()
    book.active.append(["Read me first"])
    sheet = book.create_sheet("Labels")
    for row in (["Study of 2021"], [], ["Filename", "Diagnosis"], *([str(n), "ab"[n % 2]] for n in range(6))):
        sheet.append(row)
    book.save(tmp_path / "labels.xlsx")
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    assert "The class is 'Diagnosis', by its name: a (3), b (3)." in setup.assumed


def test_many_columns_are_not_all_listed(tmp_path: Path) -> None:
    images(tmp_path / "photos", 6)
    names = [f"c{n}" for n in range(40)]
    rows = [f"{n}.png," + ",".join("01"[(n + place) % 2] for place in range(40)) for n in range(6)]
    (tmp_path / "t.csv").write_text("\n".join([",".join(["image", *names]), *rows]) + "\n")
    with pytest.raises(UserError, match=r"c11 and 28 more\. Name it: --class-column"):
        init_folder(tmp_path, out=tmp_path / "setup")


def test_a_sheet_of_patients_in_front_and_words_of_another_language(tmp_path: Path) -> None:
    """Several sheets hold tables; the class is called Diagnose, answers are ja and nein."""
    openpyxl = pytest.importorskip("openpyxl")
    root = tmp_path / "Läsionen 2024"
    images(root / "Fotos", 24)
    book = openpyxl.Workbook()
    for row in (["Patient", "Alter"], ["P1", 60], ["P2", 70]):
        book.active.append(row)
    sheet = book.create_sheet("Daten")
    sheet.append(["Bild", "Diagnose", "Patient", "Geschlecht", "Haar"])
    for n in range(24):
        sheet.append(
            [str(n), ("Nävus", "Melanom")[n % 2], f"P{n // 2 % 8}", "wm"[n % 3 % 2], ("ja", "nein")[n % 3 > 0]]
        )
    book.save(root / "Tabelle.xlsx")
    setup = init_folder(root, out=tmp_path / "my setup")
    text = setup.text()
    assert "Tabelle.xlsx, sheet 'Daten': the column 'Bild' names the image." in text
    assert "Tabelle.xlsx, sheet 'Sheet' names none of the images (columns 'Patient', 'Alter'); it is not used." in text
    assert "The class is 'Diagnose', by its name: Nävus (12), Melanom (12)." in text
    assert "What belongs together is 'Patient'" in text
    assert "kept to compare subgroups: Geschlecht." in text
    assert "Yes or no in each image: Haar." in text
    assert f'conceptlens train "{tmp_path / "my setup" / "recipe.yaml"}"' in text


def slipped(root: Path) -> Path:
    """A rare value spelled almost like a usual one, one in capitals, a broken image, a row and an image too many."""
    images(root, 26)
    (root / "25.png").write_bytes(b"broken")
    kinds = {2: "BENIGN ", 5: "malignat"}
    rows = [{"image": str(n), "diagnosis": kinds.get(n, ("benign", "malignant")[n % 2])} for n in range(24)]
    table(root / "sheet.csv", [*rows, {"image": "25", "diagnosis": "benign"}, {"image": "99", "diagnosis": "benign"}])
    return root


def test_slips_of_the_pen_are_asked_and_what_is_left_out_is_named(tmp_path: Path) -> None:
    setup = init_folder(slipped(tmp_path / "photos"), out=tmp_path / "out")
    assert setup.check.ok, setup.text()
    text = " ".join(setup.assumed)
    assert "In 'diagnosis' capitals and gaps do not matter: BENIGN as benign." in text
    assert "'malignat' (1) is spelled almost like 'malignant' (11) and counts as another value." in text
    assert "1 image that cannot be read, left out: 25.png." in text
    assert "1 row of sheet.csv without an image here, left out: 99." in text
    assert "1 image without a row in sheet.csv, left out: 24.png." in text
    assert load_recipe(setup.recipe).data.folds == 5  # one odd row does not decide

    def agree(question: str, default: str, others: Sequence[str]) -> str:
        return "yes" if "the same as" in question else default

    setup = init_folder(tmp_path / "photos", out=tmp_path / "out", overwrite=True, ask=agree)
    assert setup.check.classes == {"benign": 12, "malignant": 12}


def test_what_is_no_slip_of_the_pen() -> None:
    assert slips(["grade 1"] * 20 + ["grade 2"]) == []
    assert slips(["typical"] * 20 + ["atypical"]) == []
    assert slips(["melanoma"] * 20 + ["melanom"] * 10) == []
    assert slips(["melanoma"] * 20 + ["melanom"]) == [("melanom", "melanoma")]
    assert slips(["Melanom"] * 20 + ["Melanon"]) == [("Melanon", "Melanom")]


def test_an_answer_that_fits_nothing_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip in the patients' column, taken for `none`, would put a patient on both sides of a split."""
    given = {
        "the class": ["diagnossis", ""],
        "together": ["patient", "Patient-ID"],
        "visible": ["ulcer, hair", "ulcer"],
    }
    monkeypatch.setattr(
        "builtins.input", lambda asked: next((said.pop(0) for key, said in given.items() if key in asked and said), "")
    )
    setup = init_folder(clinic(tmp_path / "clinic"), out=tmp_path / "out", ask=ask_person({}))
    said = capsys.readouterr().out
    assert "'diagnossis': Did you mean 'diagnosis'?" in said
    assert "'patient': Did you mean 'patient_id'?" in said
    assert "'hair': " in said
    recipe = load_recipe(setup.recipe)
    assert recipe.data.group_column == "patient_id"
    assert ConceptSet.load(str(recipe.concepts)).group("findings").values == ("vessel",)
    with pytest.raises(UserError, match=r"what belongs together.*patient_id"):
        init_folder(tmp_path / "clinic", out=tmp_path / "out", group_column="patiend_id", overwrite=True)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_a_table_as_excel_writes_it_on_windows(tmp_path: Path, encoding: str) -> None:
    images(tmp_path / "fotos", 12)
    lines = [
        "Bild;Diagnose;Rötung",
        *(f"{n}.png;{('Nävus', 'Ödem')[n % 2]};{('ja', 'nein')[n // 2 % 2]}" for n in range(12)),
    ]
    (tmp_path / "tabelle.csv").write_text("\n".join(lines), encoding=encoding)
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    assert setup.check.classes == {"Nävus": 6, "Ödem": 6}
    assert any(f"it was read as {encoding}" in line for line in setup.assumed)
    assert "Yes or no in each image: Rötung." in setup.assumed


def test_numbers_that_lost_their_zeros_in_a_spreadsheet(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    for number in range(12):
        photo(tmp_path / "photos" / f"{number:03d}.png", number)
    book = openpyxl.Workbook()
    for row in (["image", "class"], *([n, "ab"[n % 2]] for n in range(12))):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    assert init_folder(tmp_path, out=tmp_path / "setup").check.classes == {"a": 6, "b": 6}


def test_a_sign_is_no_trifle() -> None:
    """Classes -1 and 1 were one class: a hyphen was taken for a gap."""
    for cells in (("-1", "1", "1"), ("A-", "A", "A"), ("-", "a b", "c")):
        assert one_spelling(cells) == (cells, {})
    assert one_spelling(("PT-12", "pt 12", "PT-12")) == (("PT-12", "PT-12", "PT-12"), {"pt 12": "PT-12"})


def test_classes_minus_one_and_one(tmp_path: Path) -> None:
    images(tmp_path, 20)
    table(tmp_path / "labels.csv", [{"image": f"{n}.png", "class": ("-1", "1")[n % 2]} for n in range(20)])
    assert init_folder(tmp_path, out=tmp_path / "setup").check.classes == {"-1": 10, "1": 10}


def test_a_column_of_measurements_does_not_name_images(tmp_path: Path) -> None:
    """7.5 was taken for 007.png, and so each image got the labels of another one."""
    for number in range(10):
        photo(tmp_path / f"{number:03d}.png", number)
    rows = [{"thickness": f"{9 - n}.5", "file": f"{n:03d}.png", "class": ("mole", "nevus")[n // 5]} for n in range(10)]
    table(tmp_path / "labels.csv", rows)
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    assert "labels.csv: the column 'file' names the image." in setup.text()


def test_a_sheet_that_cannot_be_read_leaves_the_others(tmp_path: Path) -> None:
    from openpyxl import Workbook

    images(tmp_path, 10)
    book = Workbook()
    book.active.append(["image", "class"])
    for number in range(10):
        book.active.append([f"{number}.png", ("mole", "nevus")[number % 2]])
    pivot = book.create_sheet("Pivot")
    pivot.append(["count", "count"])
    pivot.append([1, 2])
    book.save(tmp_path / "labels.xlsx")
    text = init_folder(tmp_path, out=tmp_path / "setup").text()
    assert "labels.xlsx, sheet 'Sheet': the column 'image' names the image." in text
    assert "labels.xlsx, sheet 'Pivot' cannot be read: " in text


def test_folders_of_a_class_may_differ_in_capitals(tmp_path: Path) -> None:
    for number in range(24):
        kind = ("benign", "malignant")[number % 2]
        photo(tmp_path / "photos" / (kind.upper() if number % 6 < 2 else kind) / f"{number}.png", number)
    setup = init_folder(tmp_path / "photos", out=tmp_path / "out")
    assert setup.check.classes == {"benign": 12, "malignant": 12}
    said = "In the folders' names capitals and gaps do not matter: BENIGN as benign, MALIGNANT as malignant."
    assert said in setup.assumed


def test_a_sheet_with_a_row_for_each_patient_is_joined(tmp_path: Path) -> None:
    """The diagnosis and the age lie in the sheet of patients; a legend of some codes does not."""
    openpyxl = pytest.importorskip("openpyxl")
    images(tmp_path / "photos", 24)
    book = openpyxl.Workbook()
    for row in (["PatientID", "Age", "Diagnosis"], *([f"P{n}", 50 + n, "ab"[n % 2]] for n in range(9))):
        book.active.append(row)
    sheet = book.create_sheet("Images")
    for row in (["File", "Patient ID", "Vessels"], *([str(n), f"P{n // 3}", "X" * (n % 2)] for n in range(24))):
        sheet.append(row)
    legend = book.create_sheet("Legend")
    for row in (["Patient ID", "Note"], ["P1", "x"], ["P1", "y"]):  # two rows of one patient
        legend.append(row)
    book.save(tmp_path / "study.xlsx")
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    joined = "study.xlsx, sheet 'Sheet' has a row for each 'Patient ID': Age, Diagnosis are taken from there."
    assert joined in setup.assumed
    assert any("sheet 'Legend' names none of the images" in line for line in setup.assumed)
    assert setup.check.classes == {"a": 12, "b": 12}
    recipe = load_recipe(setup.recipe)
    assert (recipe.data.class_column, recipe.data.group_column) == ("Diagnosis", "Patient ID")


def test_measures_with_a_decimal_comma_are_no_concepts() -> None:
    cells = {"dx": [("nv", "mel")[i % 2] for i in range(60)], "width": [f"{i // 7 % 5},5" for i in range(60)]}
    assert [role.role for role in column_roles(cells)] == ["class", "metadata"]


def test_masks_without_a_class_are_named(tmp_path: Path) -> None:
    images(tmp_path / "all", 4)
    for number in range(4):
        mask(tmp_path / "all" / f"{number}_lesion.png", 20)
    with pytest.raises(UserError, match="4 images and 4 masks of them, but no class"):
        init_folder(tmp_path, out=tmp_path / "out")


def test_what_is_said_of_a_lesion_names_none() -> None:
    n = 60
    cells = {
        "lesion diagnosis": [("nv", "mel")[i % 2] for i in range(n)],
        "lesion color": [("red", "brown", "black")[i // 3 % 3] for i in range(n)],
        "lesion visible": [("ja", "nein")[i // 7 % 2] for i in range(n)],
        "Pat.-Nr.": [str(i // 4) for i in range(n)],
    }
    assert [found.role for found in column_roles(cells)] == ["class", "concept", "finding", "group"]


def test_numbered_masks_are_of_one_part(tmp_path: Path) -> None:
    images(tmp_path / "a", 12)
    for number in range(12):
        photo(tmp_path / "b" / f"b{number}.png", 100 + number)
        mask(tmp_path / "a" / f"{number}_mask.png", 20)
        mask(tmp_path / "a" / f"{number}_mask2.png", 10)
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    assert load_recipe(setup.recipe).data.regions.mask_columns == {"object": "mask: object"}


def test_nothing_is_left(tmp_path: Path) -> None:
    images(tmp_path / "a", 3)
    images(tmp_path / "b", 3)
    with pytest.raises(UserError, match=r"no image with a class is left:[\s\S]*equal pictures with different classes"):
        init_folder(tmp_path, out=tmp_path / "setup")


def test_tables_of_the_same_images_and_of_patients_with_plain_numbers(tmp_path: Path) -> None:
    """Attributes of some images lie in a second table; a patient's number is not the image with that number."""
    images(tmp_path / "photos", 24)
    table(tmp_path / "a.csv", [{"image": str(n), "dx": "ab"[n % 2], "Patient": str(n // 2)} for n in range(24)])
    table(tmp_path / "b.csv", [{"file": f"{n}.png", "border": ("sharp", "soft")[n // 2 % 2]} for n in range(12)])
    table(tmp_path / "c.csv", [{"Pat.-ID": str(n), "age": str(50 + n)} for n in range(12)])
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    assert "b.csv speaks of the same images: border is taken from there." in setup.assumed
    assert "c.csv has a row for each 'Patient': age is taken from there." in setup.assumed
    with (tmp_path / "setup" / "images.csv").open(encoding="utf-8") as file:
        rows = {Path(row["image"]).stem: row for row in csv.DictReader(file)}
    assert (rows["3"]["border"], rows["20"]["border"], rows["20"]["age"]) == ("soft", "", "60")


def test_patients_in_headers_keep_series_together_and_blank_slices_are_left_out(tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    from tests.data.images.test_dicom import dicom

    root, rows = tmp_path / "ct", []
    for scan in range(12):
        (folder := root / f"scan{scan:02d}").mkdir(parents=True)
        for slice_ in range(4):
            pixels = np.random.default_rng(9 * scan + slice_).integers(0, 256, (24, 24), dtype=np.uint8)
            who = {"PatientID": f"secret {scan // 2}", "AccessionNumber": f"A{scan}"}
            (folder / f"{slice_}.dcm").write_bytes(dicom(pixels * (slice_ > 0), **who))
        rows.append({"accession": f"A{scan}", "diagnosis": "ab"[scan % 2]})
    table(root / "reads.csv", rows)
    setup = init_folder(root, out=tmp_path / "out")
    assert load_recipe(setup.recipe).data.group_column == "patient"
    assert "12 images equally bright from edge to edge, left out: 0.dcm, 0.dcm, 0.dcm …." in setup.assumed
    assert setup.check.ok, setup.text()
    assert setup.check.images == 12 * 3


def test_days_are_no_concepts() -> None:
    columns = {"class": ["a", "b"] * 8, "recorded": ["2024-01-03", "2024-02-03"] * 8}
    assert {role.name: role.role for role in column_roles(columns)}["recorded"] == "metadata"


def test_a_sheet_with_a_legend_above_and_a_column_for_each_class(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    images(tmp_path / "photos", 12)
    sheet = (book := openpyxl.Workbook()).active
    sheet.append([None, None, None, "Legends"])
    sheet.append([None, None, None, "Asymmetry", 0, "none"])  # narrower than the table below
    sheet.append([None, None, "Diagnosis", None, None, None, "Colors"])
    names = ["Asymmetry\n(0/1/2)", "Veil (A/P)", "Dots (A/P)", "Red"]
    sheet.append(["Image", "Histological\nDiagnosis", "Nevus", "Melanoma", *names])
    for n in range(12):
        classes = ("X", None) if n % 2 else (None, "X")
        seen = [n % 3, "AP"[n // 6], "AP"[n // 4 % 2], ("X", None)[n % 3 > 0]]
        sheet.append([str(n), ("a", "b", *[None] * 10)[n], *classes, *seen])
    book.save(tmp_path / "labels.xlsx")
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    said = "\n".join(setup.assumed)
    assert "The class is 'class', by the columns 'Nevus', 'Melanoma', of which each image has one marked" in said
    assert "Melanoma (6), Nevus (6)" in said or "Nevus (6), Melanoma (6)" in said
    groups = ConceptSet.load(tmp_path / "setup" / "concepts.yaml").groups
    assert [group.name for group in groups] == ["Asymmetry (0/1/2)", "Veil (A/P)", "Dots (A/P)", "findings"]
    assert groups[-1].values == ("Red",)


def test_marks_of_which_an_image_may_have_two_are_no_class() -> None:
    n = 20
    columns = {
        "red": ["X" if k % 2 else "" for k in range(n)],
        "blue": ["X" if k % 3 else "" for k in range(n)],
        "shape: round": ["1" if k % 4 == 0 else "0" for k in range(n)],
        "shape: long": ["0" if k % 4 == 0 else "1" for k in range(n)],
    }
    assert marked_class(columns, None)[0] == ["shape: round", "shape: long"]
    folders = ["ab"[k % 2] for k in range(n)]  # the folders say the class, and the marks something else
    assert marked_class(columns, folders)[0] == []
    assert marked_class({**columns, "diagnosis": folders}, None)[0] == []
    assert marked_class({"red": columns["red"], "blue": columns["blue"]}, None)[0] == []


def test_a_folder_for_each_patient_within_that_of_the_class(tmp_path: Path) -> None:
    for n in range(60):
        photo(tmp_path / "us" / ("Benign", "Malignant")[n // 30] / f"P{n // 3:03d}" / f"{n % 3}.png", n)
    setup = init_folder(tmp_path / "us", out=tmp_path / "setup")
    assert setup.check.classes == {"Benign": 30, "Malignant": 30}
    assert "What belongs together is 'folder' (20 of them), by numbered folders within" in "\n".join(setup.assumed)
    assert "group_column: folder" in setup.recipe.read_text()
    for n in range(60):  # grades of two hospitals are no patients
        photo(tmp_path / "eyes" / "AB"[n // 30] / f"grade {n % 3}" / f"{n}.png", n)
    setup = init_folder(tmp_path / "eyes", out=tmp_path / "other")
    assert setup.check.classes == {"grade 0": 20, "grade 1": 20, "grade 2": 20}


def test_classes_that_only_the_names_of_files_say(tmp_path: Path) -> None:
    for n in range(24):
        photo(tmp_path / "us" / f"{('benign', 'malignant')[n % 2]} ({n}).png", n)
        photo(tmp_path / "trip" / f"{('IMG', 'holiday')[n % 2]}_{n}.png", n)
    setup = init_folder(tmp_path / "us", out=tmp_path / "setup")
    assert setup.check.classes == {"benign": 12, "malignant": 12}
    assert "An image's name begins with its class" in setup.assumed[0]
    with pytest.raises(UserError, match="no class of any"):
        init_folder(tmp_path / "trip", out=tmp_path / "other")  # a camera's names are no classes


def test_a_diagnosis_rather_than_how_it_was_made() -> None:
    cells = {"Histology": ["histo", "follow-up"] * 10, "Diagnosis (final)": ["nevus"] * 10 + ["melanoma"] * 10}
    roles = {role.name: role.role for role in column_roles(cells)}
    assert roles == {"Histology": "metadata", "Diagnosis (final)": "class"}
    assert [role.role for role in column_roles({"dx_type": cells["Histology"], "dx": cells["Diagnosis (final)"]})] == [
        "metadata",
        "class",
    ]


def test_classes_in_words_rather_than_in_numbers() -> None:
    columns = {
        "class label": ["1", "2"] * 4,
        "cell type": ["round cell", "long cell"] * 4,
        "size": ["s", "s", "l", "l"] * 2,
    }
    assert {role.name: role.role for role in column_roles(columns)}["cell type"] == "class"


def test_regions_marked_here_and_there_are_no_findings(tmp_path: Path) -> None:
    for n in range(40):
        photo(tmp_path / "ab"[n % 2] / f"I{n}.png", n)
        mask(tmp_path / "ab"[n % 2] / f"I{n}_lesion.png", 20)
        if n < 3:
            mask(tmp_path / "ab"[n % 2] / f"I{n}_R{n}_Label4.png", 5)
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    said = "\n".join(setup.assumed)
    assert "43 files are masks (label4, lesion)" in said
    assert not setup.concepts
    assert "Every image stands alone: no column names a patient or a lesion." in said


def test_a_class_in_which_there_is_nothing_to_describe(tmp_path: Path) -> None:
    images(tmp_path / "photos", 60)
    rows = [
        {
            "image": f"{n}.png",
            "diagnosis": ("benign", "malignant", "normal")[n % 3],
            "shape": ("oval", "round")[n // 3 % 2] if n % 3 < 2 else "",
        }
        for n in range(60)
    ]
    table(tmp_path / "labels.csv", rows)
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    assert "No image of 'normal' is described: there is nothing to describe in them." in "\n".join(setup.assumed)
    recipe = load_recipe(setup.recipe)
    concepts = ConceptSet.load(str(recipe.concepts))
    assert concepts.group("shape").under == ("findings", "object")
    source, _ = open_source(recipe.data, concepts)
    present = source.examples.concepts[:, concepts.index("findings", "object")]
    normal = source.examples.labels == concepts.classes.index("normal")
    assert (present == ~normal).all()

    def no(question: str, default: str, others: Sequence[str]) -> str:
        return "no" if "nothing to describe" in question else default

    setup = init_folder(tmp_path, out=tmp_path / "other", ask=no)
    assert [group.name for group in ConceptSet.load(str(tmp_path / "other" / "concepts.yaml")).groups] == ["shape"]


def test_images_that_are_not_described_yet_are_unknown(tmp_path: Path) -> None:
    images(tmp_path / "photos", 60)
    rows = [
        {
            "image": f"{n}.png",
            "diagnosis": ("a", "b", "c")[n % 3],
            "shape": ("oval", "round")[n % 2] if n < 20 and n % 3 else "",
        }
        for n in range(60)
    ]
    table(tmp_path / "labels.csv", rows)
    said = "\n".join(init_folder(tmp_path, out=tmp_path / "setup").assumed)
    assert "'shape' is a concept" in said
    assert "nothing to describe" not in said


def test_a_mask_of_other_proportions_is_left_out(tmp_path: Path) -> None:
    for n in range(12):
        photo(tmp_path / "ab"[n % 2] / f"I{n}.png", n)
        mask(tmp_path / "ab"[n % 2] / f"I{n}_mask.png", 20)
    Image.new("L", (48, 48)).save(tmp_path / "a" / "I4_mask_1.png")
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    assert "1 mask of other proportions than the image, left out: I4_mask_1.png." in setup.assumed
    source, _ = open_source(load_recipe(setup.recipe).data, ConceptSet.none())
    assert source.places is not None
    assert source.places.annotation(source.examples.ids.index("a/I4.png")).masks["object"].any()
    named = (tmp_path / "setup" / "images.csv").read_text().replace("a/I4_mask.png", "a/I4_mask_1.png")
    (tmp_path / "setup" / "images.csv").write_text(named)
    (told,) = [each for each in check_data(load_recipe(setup.recipe).data, None).findings if "mask" in each.code]
    assert (told.level, told.count, told.examples) == ("warning", 1, ("I4_mask_1.png",))


def test_what_a_patient_tells_is_not_seen_in_an_image() -> None:
    told = ["smoke", "skin_cancer_history", "background_father", "itch", "biopsed", "management", "fitspatrick"]
    columns = {"diagnosis": ["a", "b"] * 8, **{name: ["True", "False", "False", "True"] * 4 for name in told}}
    columns["elevation"] = ["True", "True", "False", "False"] * 4
    roles = {role.name: role.role for role in column_roles(columns)}
    assert {roles[name] for name in told} == {"metadata"}
    assert roles["elevation"] == "finding"


def test_two_columns_of_images_are_told(tmp_path: Path) -> None:
    images(tmp_path / "photos", 16)
    rows = [{"clinic": f"{n}.png", "derm": f"{8 + n}.png", "diagnosis": "ab"[n % 2]} for n in range(8)]
    table(tmp_path / "labels.csv", rows)
    setup = init_folder(tmp_path, out=tmp_path / "setup")
    assert setup.check.images == 8
    assert "The column 'derm' names other images of the same rows, which are not used." in "\n".join(setup.assumed)
