import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from conceptlens.concepts import ConceptSet
from conceptlens.data.checks.check import DataReport, check_data
from conceptlens.data.checks.duplicates import near_copies, same_pixels
from conceptlens.data.checks.survey import fine_detail, gradient_hash
from conceptlens.recipes.schema import DataConfig


def found(report: DataReport) -> dict[str, tuple[str, int]]:
    return {finding.code: (finding.level, finding.count) for finding in report.findings}


def table(folder: Path, rows: list[str], header: str = "image,class") -> DataConfig:
    (folder / "t.csv").write_text("\n".join([header, *rows]) + "\n")
    return DataConfig(str(folder / "t.csv"))


def test_the_built_in_cells_are_clean() -> None:
    report = check_data(DataConfig("blood-cells"), None, quiet=True)
    assert report.ok
    assert set(found(report)) == {"nearly-function-of-class"}
    assert report.splits == {"train": 1150, "val": 200, "test": 500}
    assert "The data is ready for training." in report.text()


def test_kinds_of_images(tmp_path: Path, cells: ConceptSet, paint) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    rows = []
    for seed in range(40):
        name = f"{seed}.png"
        options: dict[str, object] = {}
        if seed < 3:
            options = {"mode": "L"}
        elif seed < 7:
            options = {"mode": "RGBA"}
        elif seed < 9:
            options = {"exif": turned}
        elif seed == 9:
            options = {"size": (20, 60)}
        paint(tmp_path / name, seed, **options)
        rows.append(f"{name},{'Monocyte' if seed % 2 else 'Neutrophil'}")
    with Image.open(tmp_path / "3.png") as seen_through:
        seen_through.putpixel((0, 0), (0, 0, 0, 100))
        seen_through.save(tmp_path / "3.png")
    Image.fromarray(np.arange(1600, dtype=np.uint16).reshape(40, 40)).save(tmp_path / "10.png")
    (tmp_path / "11.png").write_bytes((tmp_path / "12.png").read_bytes()[:200])
    report = check_data(table(tmp_path, rows), cells, quiet=True)
    codes = found(report)
    assert codes["gray"] == ("warning", 4)
    assert codes["alpha"] == ("info", 1)
    assert codes["opaque-alpha"] == ("info", 3)
    assert codes["exif-rotated"] == ("info", 2)
    assert codes["16-bit"] == ("info", 1)
    assert codes["ragged-sizes"] == ("info", 2)
    assert codes["small-images"] == ("warning", 1)
    assert codes["unreadable"] == ("error", 1)
    assert "duplicates" not in codes
    assert not report.ok
    assert "11.png" in report.text()
    assert "turned upright" in report.text()


def test_copies_and_torn_groups(tmp_path: Path, cells: ConceptSet, paint) -> None:
    rows = []
    for seed in range(30):
        paint(tmp_path / f"{seed}.png", seed)
        side = "train" if seed < 20 else "val" if seed < 25 else "test"
        rows.append(f"{seed}.png,{'Monocyte' if seed % 2 else 'Neutrophil'},{side},p{seed}")
    for name, seed, class_, side, group in (
        ("across.png", 0, "Neutrophil", "test", "x1"),
        ("quarrel.png", 1, "Neutrophil", "train", "x2"),
        ("inside.png", 2, "Neutrophil", "train", "p25"),
    ):
        paint(tmp_path / name, seed)
        rows.append(f"{name},{class_},{side},{group}")
    Image.open(tmp_path / "3.png").save(tmp_path / "near.jpg", quality=70)
    rows.append("near.jpg,Monocyte,test,x3")
    for name in ("copy a.png", "copy b.png"):  # with its first, three on one side before one on the other
        paint(tmp_path / name, 4)
        rows.append(f"{name},Neutrophil,train,{name}")
    paint(tmp_path / "copy c.png", 4)
    rows.append("copy c.png,Neutrophil,test,c")
    for name, side in (("black.png", "train"), ("dark.png", "test")):  # equal, but no copies
        Image.new("RGB", (40, 40)).save(tmp_path / name)
        rows.append(f"{name},Monocyte,{side},{name}")
    report = check_data(table(tmp_path, rows, "image,class,split,group"), cells, quiet=True)
    codes = found(report)
    assert codes["duplicates-across-splits"] == ("error", 2)
    assert codes["blank"] == ("warning", 2)
    assert codes["contradictions"] == ("error", 1)
    assert codes["duplicates"] == ("warning", 2)
    assert codes["near-duplicates-across-splits"] == ("warning", 1)
    assert codes["groups-across-splits"] == ("error", 1)
    assert "near-duplicates" not in codes
    text = report.text()
    assert "0.png (train) = across.png (test)" in text
    assert "4.png (train) = copy c.png (test) = copy a.png (train)" in text
    assert "3.png (train) = near.jpg (test)" in text
    assert "p25" in text


def test_classes_that_differ_in_capitals(tmp_path: Path, paint) -> None:
    for seed, kind in enumerate(["Benign", "benign", "malignant"] * 2):
        paint(tmp_path / kind / f"{seed}.png", seed, size=(33, 33))
    messages = {f.code: f.message for f in check_data(DataConfig(str(tmp_path)), None, quiet=True).findings}
    assert "1 class called like another one" in messages["classes-spelled-alike"]
    assert "data.rename.classes: {benign: Benign}" in messages["classes-spelled-alike"]


def test_labels(tmp_path: Path, paint) -> None:
    concepts = ConceptSet.from_yaml(
        "classes: [a, b, c]\n"
        "groups:\n"
        "  follows: {values: [x, y]}\n"
        "  free: {values: [x, y, never]}\n"
        "  constant: {values: [x, y]}\n"
        "  nobody: {values: [x, y]}\n"
        "  partly: {values: [x, y]}\n"
        "  signs: {kind: independent, values: [s1, s2]}\n"
    )
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(66):
        paint(tmp_path / f"{seed}.png", seed, size=(33, 33))
        first = seed < 61
        free, partly = "xy"[rng.integers(2)], "xy"[rng.integers(2)] if seed % 3 == 0 else ""
        class_, follows = ("a", "x") if first else ("b", "y")
        rows.append(f"{seed}.png,{class_},{follows},{free},x,{partly},{int(first)},{rng.integers(2)}")
    report = check_data(table(tmp_path, rows, "image,class,follows,free,constant,partly,s1,s2"), concepts, quiet=True)
    codes = found(report)
    messages = {finding.code: finding.message for finding in report.findings}
    assert codes["classes-without-images"] == ("warning", 1)
    assert codes["tiny-classes"] == ("warning", 1)
    assert "61 images, the smallest 5" in messages["imbalance"]
    assert codes["function-of-class"] == ("warning", 2)
    assert "follows, signs: s1" in messages["function-of-class"]
    assert "restates the class accuracy" in messages["function-of-class"]
    assert codes["one-value"] == ("warning", 1)
    assert codes["no-concept-labels"] == ("warning", 1)
    assert codes["unknown-labels"] == ("warning", 44)
    assert "free: never" in messages["values-never-seen"]
    assert report.classes == {"a": 61, "b": 5, "c": 0}
    assert report.ok


def test_concepts_that_do_not_tell_the_classes_apart(tmp_path: Path, paint) -> None:
    concepts = ConceptSet.from_yaml("classes: [a, b, c]\ngroups: {edema: {values: [x, y]}, rare: {values: [x, y]}}\n")
    rows = []
    for seed in range(30):
        paint(tmp_path / f"{seed}.png", seed, size=(33, 33))
        kind = "abc"[seed % 3]
        rows.append(f"{seed}.png,{kind},{'x' if kind == 'a' or seed % 6 == 1 else 'y'},{'x' if seed == 5 else ''}")
    messages = {
        f.code: f.message
        for f in check_data(table(tmp_path, rows, "image,class,edema,rare"), concepts, quiet=True).findings
    }
    # x says a, y says c, and b is never found: two of three classes
    assert "the balanced accuracy of the class is 66.7% at most" in messages["few-concepts"]


def test_labels_by_class_are_a_function_of_the_class(tmp_path: Path, cells: ConceptSet, paint) -> None:
    for seed in range(24):
        paint(tmp_path / ("Monocyte" if seed % 2 else "Neutrophil") / f"{seed}.png", seed)
    report = check_data(DataConfig(str(tmp_path)), cells, quiet=True)
    assert found(report)["function-of-class"] == ("warning", 2)  # granule type, and the sign of spots
    assert report.ok


def test_half_readable_tables_give_findings_not_failures(tmp_path: Path, cells: ConceptSet, paint) -> None:
    for seed in range(30):
        paint(tmp_path / f"{seed}.png", seed)
    rows = [f"{seed}.png,{'Monocyte' if seed % 2 else 'Neutrophil'},yes" for seed in range(30)]
    rows += ["gone.png,Monocyte,yes", "0.png,Monocyte,yes", "1,2,3,4"]
    rows[3] = "3.png,Monozyte,perhaps"
    report = check_data(table(tmp_path, rows, "image,class,vacuole"), cells, quiet=True)
    expected = {"missing-files", "repeated-images", "unknown-class", "unknown-value", "ragged-table"}
    assert expected <= set(found(report))
    assert report.images == 30
    assert "Did you mean 'Monocyte'?" in report.text()


def test_what_cannot_be_opened_at_all(tmp_path: Path, cells: ConceptSet) -> None:
    config = table(tmp_path, ["gone.png,Monocyte"])
    report = check_data(config, cells, quiet=True)
    assert list(found(report)) == ["missing-files", "cannot-open"]
    assert check_data(DataConfig(str(tmp_path / "no.csv")), cells, quiet=True).findings[0].code == "cannot-open"
    assert not report.ok


def test_without_a_concept_file(tmp_path: Path, paint) -> None:
    for seed in range(24):
        paint(tmp_path / "ab"[seed % 2] / f"{seed}.png", seed)
    report = check_data(DataConfig(str(tmp_path)), None, quiet=True)
    assert report.ok
    assert list(found(report)) == ["no-concepts"]


def test_one_class_and_too_few(tmp_path: Path, paint) -> None:
    for seed in range(2):
        paint(tmp_path / "a" / f"{seed}.png", seed)
    codes = found(check_data(DataConfig(str(tmp_path)), None, quiet=True))
    assert codes["one-class"][0] == codes["cannot-split"][0] == "error"


def test_json(tmp_path: Path, cells: ConceptSet) -> None:
    report = check_data(table(tmp_path, ["gone.png,Monocyte"]), cells, quiet=True)
    value = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert value["ok"] is False
    assert value["findings"][0] == {
        "level": "error",
        "code": "missing-files",
        "message": report.findings[0].message,
        "count": 1,
        "examples": ["gone.png"],
    }


def test_the_report_does_not_depend_on_threads(tmp_path: Path, cells: ConceptSet, paint) -> None:
    for seed in range(70):
        paint(
            tmp_path / ("Monocyte" if seed % 2 else "Neutrophil") / f"{seed}.png", seed // 2 * 2 if seed > 60 else seed
        )
    one, four = (check_data(DataConfig(str(tmp_path)), cells, quiet=True, workers=workers) for workers in (1, 4))
    assert one == four
    assert found(one)["contradictions"] == ("error", 5)


def photograph(seed: int) -> Image.Image:
    """A shared layout, a bright disc on black, with detail of its own."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:120, :120]
    disc = ((x - 60) ** 2 + (y - 60) ** 2 < 55**2) * 150.0
    detail = np.asarray(
        Image.fromarray(rng.normal(0, 25, (20, 20)).astype(np.float32)).resize((120, 120), Image.Resampling.BICUBIC)
    )
    return Image.fromarray(np.clip(disc + detail * (disc > 0), 0, 255).astype(np.uint8)).convert("RGB")


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer)


def marks(images: list[Image.Image]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    grays = [image.convert("L") for image in images]
    details = [fine_detail(gray) for gray in grays]
    return (
        np.array([gradient_hash(gray) for gray in grays]),
        np.stack([detail for detail, _ in details]),
        np.array([brightness for _, brightness in details], dtype=np.float32),
        np.ones(len(images), dtype=bool),
    )


def test_near_copies_are_found_among_look_alikes() -> None:
    images = [photograph(seed) for seed in range(60)]
    copies = {
        0: jpeg(images[0], 60),
        1: images[1].resize((200, 200), Image.Resampling.BICUBIC),
        2: images[2].resize((72, 72), Image.Resampling.BICUBIC),
        3: ImageEnhance.Brightness(images[3]).enhance(1.04),
    }
    pairs = near_copies(*marks([*images, *copies.values()]))
    assert pairs.tolist() == [[0, 60], [1, 61], [2, 62], [3, 63]]


def test_flat_images_are_compared_by_brightness() -> None:
    images = [Image.new("RGB", (30, 30), (level,) * 3) for level in (0, 2, 120, 250)]
    assert near_copies(*marks(images)).tolist() == [[0, 1]]
    assert near_copies(*marks(images[:1])).shape == (0, 2)


def test_hashes_within_four_bits_meet_in_a_band() -> None:
    rng = np.random.default_rng(0)
    hashes = rng.integers(0, 2**63, 200, dtype=np.uint64)
    flipped = hashes.copy()
    for row in range(200):
        for bit in rng.choice(64, 4, replace=False):
            flipped[row] ^= np.uint64(1 << int(bit))
    detail = rng.integers(-64, 64, (200, 576)).astype(np.int8)
    pairs = near_copies(
        np.concatenate([hashes, flipped]),
        np.concatenate([detail, detail]),
        np.zeros(400, np.float32),
        np.ones(400, dtype=bool),
    )
    assert pairs.tolist() == [[row, row + 200] for row in range(200)]


def test_gradient_hash_by_hand() -> None:
    rising = Image.fromarray(np.tile(np.arange(9, dtype=np.uint8) * 20, (8, 1)))
    assert gradient_hash(rising) == np.uint64(2**64 - 1)
    assert gradient_hash(rising.transpose(Image.Transpose.FLIP_LEFT_RIGHT)) == 0


@pytest.mark.parametrize("usable", [[True] * 5, [True, True, False, True, True]])
def test_same_pixels(usable: list[bool]) -> None:
    sets = same_pixels(np.array([7, 3, 7, 7, 1], dtype=np.uint64), np.array(usable))
    assert [same.tolist() for same in sets] == [[i for i in (0, 2, 3) if usable[i]]]
