"""Published folders, in small, and the tables they become."""

import csv
from pathlib import Path

import pytest
from PIL import Image

from conceptlens.api import prepare_data
from conceptlens.core.errors import UserError


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def save(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4)).save(path)


@pytest.fixture
def cub(tmp_path: Path) -> Path:
    """Two species with ten training images and one test image each, two attributes, two parts."""
    folder = tmp_path / "CUB_200_2011"
    names = [f"{1 + n // 11:03}.Bird/{n}.jpg" for n in range(22)]
    for name in names:
        picture(folder / "images" / name)
    save(folder / "images.txt", "\n".join(f"{n + 1} {name}" for n, name in enumerate(names)))
    save(folder / "image_class_labels.txt", "\n".join(f"{n + 1} {1 + n // 11}" for n in range(22)))
    save(folder / "train_test_split.txt", "\n".join(f"{n + 1} {int(n % 11 < 10)}" for n in range(22)))
    save(folder / "classes.txt", "1 001.Gull\n2 002.Tern")
    save(folder / "attributes/attributes.txt", "1 has_size::small\n2 has_wing_color::grey")
    save(folder / "attributes/class_attribute_labels_continuous.txt", "49.9 50.0\n100 0")
    save(folder / "bounding_boxes.txt", "\n".join(f"{n + 1} 1 1 3 2" for n in range(22)))
    save(folder / "parts/parts.txt", "1 left wing\n2 tail")
    save(folder / "parts/part_locs.txt", "1 1 2.0 3.0 1\n1 2 0 0 0")
    return folder


def test_cub_by_class(cub: Path, tmp_path: Path) -> None:
    made = prepare_data("cub", cub, out=tmp_path / "data")
    assert made.images == {"train": 18, "val": 2, "test": 2}
    table = rows(tmp_path / "data/cub/images.csv")
    assert [(row["class"], row["has_size::small"], row["has_wing_color::grey"]) for row in (table[0], table[11])] == [
        ("001.Gull", "0", "1"),
        ("002.Tern", "1", "0"),
    ]
    assert rows(tmp_path / "data/cub/points.csv") == [
        {"image": "images/001.Bird/0.jpg", "part": "left wing", "x": "2.0", "y": "3.0"}
    ]
    assert rows(tmp_path / "data/cub/sizes.csv")[0] == {"image": "images/001.Bird/0.jpg", "width": "6", "height": "4"}
    assert (tmp_path / "data/cub" / table[0]["image"]).is_file()
    assert "expected 11,788 images, found 22" in made.text()
    assert "data.caltech.edu" in made.text()


def test_cub_in_smaller_copies_needs_the_sizes_of_the_originals(cub: Path, tmp_path: Path) -> None:
    boxes = "\n".join(f"{n + 1} 10 10 30 20" for n in range(22))  # in pixels of the originals; these images are 6 x 4
    save(cub / "bounding_boxes.txt", boxes)
    with pytest.raises(UserError, match=r"22 of 22 boxes reach beyond their images.*--sizes"):
        prepare_data("cub", cub, out=tmp_path / "data")
    sizes = tmp_path / "sizes.csv"
    save(sizes, "image_id,width\n1,60")
    with pytest.raises(UserError, match="no column height; it has image_id, width"):
        prepare_data("cub", cub, out=tmp_path / "data", sizes=sizes)
    save(sizes, "image_id,width,height\n1,60,40")
    with pytest.raises(UserError, match="lacks 21 of 22 images, as image_id 2"):
        prepare_data("cub", cub, out=tmp_path / "data", sizes=sizes)
    save(sizes, "image_id,width,height\n" + "\n".join(f"{n + 1},60,40" for n in range(22)))
    prepare_data("cub", cub, out=tmp_path / "data", sizes=sizes)
    assert rows(tmp_path / "data/cub/sizes.csv")[0] == {"image": "images/001.Bird/0.jpg", "width": "60", "height": "40"}


def test_cub_by_image(cub: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"image_attribute_labels\.txt"):
        prepare_data("cub", cub, out=tmp_path / "data", image_labels=True)
    save(cub / "attributes/image_attribute_labels.txt", "1 1 1 4 9.5\n1 2 0 2 1.0 0\n2 1 1 1 3.0\n2 2 1 3 2.0")
    prepare_data("cub", cub, out=tmp_path / "data", image_labels=True)
    first, second, third = rows(tmp_path / "data/cub/images.csv")[:3]
    assert [first[name] for name in ("has_size::small", "has_wing_color::grey", "certainty")] == ["1", "0", "0.6667"]
    assert [second[name] for name in ("has_size::small", "has_wing_color::grey", "certainty")] == ["", "1", "0.6667"]
    assert [third[name] for name in ("has_size::small", "certainty")] == ["", "0.0000"]


def test_ham10000_is_split_by_lesion(tmp_path: Path) -> None:
    known = [(f"HAM_{n // 2}", f"ISIC_{n}", "nv" if n < 40 else "mel") for n in range(60)]
    text = "\n".join(f"{lesion},{image},{label}" for lesion, image, label in known)
    save(tmp_path / "ham/HAM10000_metadata.csv", f"lesion_id,image_id,dx\n{text}")
    for _, image, _ in known:
        picture(tmp_path / "ham/part" / f"{image}.jpg")
    made = prepare_data("ham10000", tmp_path / "ham", out=tmp_path / "data")
    assert made.images == {"train": 42, "val": 6, "test": 12}
    sides: dict[str, set[str]] = {}
    for row in rows(tmp_path / "data/ham10000.csv"):
        sides.setdefault(row["group"], set()).add(row["split"])
    assert all(len(side) == 1 for side in sides.values())
    save(tmp_path / "split.csv", "image_id,lesion_id,dx,split\nISIC_3,HAM_1,nv,val")
    given = prepare_data("ham10000", tmp_path / "ham", out=tmp_path / "other", split=tmp_path / "split.csv")
    assert given.images == {"val": 1}


def test_idrid_keeps_the_shared_photograph_in_test(tmp_path: Path) -> None:
    folder = tmp_path / "B"
    for letter, numbers in (("a. Training Set", (1, 2, 3, 4, 5, 118)), ("b. Testing Set", (64,))):
        lines = [f"IDRiD_{n:03},2,1" for n in numbers]
        save(
            folder / f"2. Groundtruths/{letter[0]}. x.csv",
            "\n".join(["Image name,Retinopathy grade,Risk of macular edema ", *lines]),
        )
        for n in numbers:
            picture(folder / "1. Original Images" / letter / f"IDRiD_{n:03}.jpg")
    made = prepare_data("idrid", folder, out=tmp_path / "data")
    assert made.images == {"train": 4, "val": 1, "test": 1}
    assert "train_IDRiD_118.jpg" not in {row["image"] for row in rows(tmp_path / "data/idrid.csv")}


def test_blood_cells(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        save(tmp_path / f"pbc/pbc_attr_v1_{split}.csv", f"img_name,label,cell_size,path\n{split}.jpg,Basophil,big,x/y")
        picture(tmp_path / f"pbc/basophil/{split}.jpg")
    made = prepare_data("blood-cells", tmp_path / "pbc", out=tmp_path / "data")
    assert rows(tmp_path / "data/blood.csv")[1] == {
        "image": "val.jpg", "class": "Basophil", "split": "val", "cell_size": "big"
    }  # fmt: skip
    assert "pbc_attr_v1_val.csv is not the file that evidence was made from" in made.text()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cub"):
        prepare_data("cubs", tmp_path)
    with pytest.raises(UserError, match=r"data\.caltech\.edu"):
        prepare_data("cub", tmp_path / "none")
    with pytest.raises(UserError, match=r"images\.txt"):
        prepare_data("cub", tmp_path, out=tmp_path / "out")
    with pytest.raises(UserError, match="--split is for ham10000"):
        prepare_data("cub", tmp_path, split=tmp_path / "a.csv")
