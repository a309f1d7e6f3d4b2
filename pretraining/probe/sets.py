"""The evaluation sets: which file has which labels and belongs to which split.

Official splits where there are any. A set without a validation split lends a share of its training images, drawn anew
for every seed by the probe. Test images are those of the set's own test split, never touched before the end.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from pretraining.images.unseen import FILE, read_unseen

Integers = npt.NDArray[np.int64]
Strings = npt.NDArray[np.str_]
Places = Mapping[str, Path]  # name of a set or of a table → where it lies

BLOOD_AXES = tuple(group.column for group in ConceptSet.load("blood-cells").groups)
WATCHED = Path(__file__).parents[1] / "images" / "watched.txt"
# Two of the 516 graded fundus photographs are one and the same; the test split keeps it.
IDRID_REPEATED = "IDRiD_118"


@dataclass(frozen=True)
class Question:
    """One thing that is asked of every image."""

    name: str  # "class", or an attribute's
    values: tuple[str, ...]
    labels: Integers  # (N,), index into values


@dataclass(frozen=True)
class ImageSet:
    """N images, what is asked of them, and their splits."""

    name: str
    root: Path
    files: tuple[str, ...]  # below root
    split: Strings  # (N,) of train, val, test
    questions: tuple[Question, ...]
    lend: float = 0.1  # share of train that validates, where the set has no split for that

    def where(self, split: str) -> Integers:
        """Indices of a split's images."""
        return np.flatnonzero(self.split == split)

    @property
    def has_validation(self) -> bool:
        return bool((self.split == "val").any())


def question(name: str, answers: Sequence[str], values: Sequence[str] | None = None) -> Question:
    """Answers as numbers; the values are sorted unless given."""
    values = tuple(sorted(set(answers)) if values is None else values)
    number = {value: index for index, value in enumerate(values)}
    return Question(name, values, np.array([number[answer] for answer in answers], dtype=np.int64))


def read_table(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        raise UserError(f"{path}: expected a table, found nothing. Check the folders given with --data.")
    with path.open(newline="", encoding="utf-8-sig") as file:
        return [{(key or "").strip(): value for key, value in row.items() if key} for row in csv.DictReader(file)]


def _read_words(path: Path) -> dict[str, list[str]]:
    """Lines `number word …` by their number."""
    if not path.is_file():
        raise UserError(f"{path}: expected a list of images, found nothing. Check the folders given with --data.")
    rows = [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]
    return {row[0]: row[1:] for row in rows}


def _listing(folder: Path) -> list[str]:
    """Names of images below a folder, sorted, so that the order does not depend on the file system."""
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a folder of images, found none. Check the folders given with --data.")
    kinds = {".jpg", ".jpeg", ".png"}
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix.lower() in kinds)


def imagenette(places: Places) -> ImageSet:
    """Ten ImageNet classes; the folder `val` is the test split.

    The 500 training images that the student's training only watched validate: of those it learned from it knows the
    classes by heart, so they would choose too weak a penalty for it.
    """
    root = places["imagenette"]
    files = [f"{part}/{name}" for part in ("train", "val") for name in _listing(root / part)]
    watched = {f"train/{name}" for name in WATCHED.read_text("utf-8").split()}
    split = np.array(["test" if f.startswith("val/") else "val" if f in watched else "train" for f in files])
    return ImageSet("imagenette", root, tuple(files), split, (question("class", [f.split("/")[1] for f in files]),))


def blood(places: Places) -> ImageSet:
    """White blood cells, all of WBCAtt: the class and eleven attributes; its own three splits."""
    root = places["blood"]
    rows, split = [], []
    for part in ("train", "val", "test"):
        table = read_table(root / f"pbc_attr_v1_{part}.csv")
        rows += table
        split += [part] * len(table)
    files = [f"{row['label'].lower()}/{row['img_name']}" for row in rows]
    asked = [question("class", [row["label"] for row in rows])]
    asked += [question(axis, [row[axis] for row in rows]) for axis in BLOOD_AXES]
    return ImageSet("blood", root, tuple(files), np.array(split), tuple(asked))


def idrid(places: Places) -> ImageSet:
    """Retinopathy grades of fundus photographs; few images, so that a fifth of them validates."""
    root = places["idrid"] / "grading"
    files, grades, split = [], [], []
    for part, letter, word in (("train", "a", "Training"), ("test", "b", "Testing")):
        for row in read_table(root / "labels" / f"{letter}. IDRiD_Disease Grading_{word} Labels.csv"):
            name = row["Image name"].strip()
            if not name or (part == "train" and name == IDRID_REPEATED):
                continue
            files.append(f"1. Original Images/{letter}. {word} Set/{name}.jpg")
            grades.append(row["Retinopathy grade"].strip())
            split.append(part)
    return ImageSet("idrid", root, tuple(files), np.array(split), (question("class", grades),), lend=0.2)


def ham(places: Places) -> ImageSet:
    """Dermoscopy, split by lesion as the given table says."""
    rows = read_table(places["ham-split"])
    files = tuple(f"images/{row['image_id']}.jpg" for row in rows)
    split = np.array([row["split"] for row in rows])
    return ImageSet("ham", places["ham"], files, split, (question("class", [row["dx"] for row in rows]),))


def cub(places: Places) -> ImageSet:
    """200 kinds of birds, the official split."""
    root = places["cub"]
    images, labels = _read_words(root / "images.txt"), _read_words(root / "image_class_labels.txt")
    trains, kinds = _read_words(root / "train_test_split.txt"), _read_words(root / "classes.txt")
    names = [kind[0] for kind in kinds.values()]
    split = np.array(["train" if trains[number][0] == "1" else "test" for number in images])
    asked = question("class", [kinds[labels[number][0]][0] for number in images], names)
    return ImageSet("cub", root, tuple(f"images/{image[0]}" for image in images.values()), split, (asked,))


def unseen(places: Places) -> ImageSet:
    """Validation images of the Tiny-ImageNet classes that the student never saw; for prompts only."""
    wnids = sorted(read_unseen(places.get("unseen-classes", FILE)))
    root = places["tiny"]
    rows = _read_words(root / "val" / "val_annotations.txt")
    chosen = {name: row[0] for name, row in rows.items() if row[0] in wnids}
    files = tuple(f"val/images/{name}" for name in chosen)
    asked = question("class", list(chosen.values()), wnids)
    return ImageSet("unseen", root, files, np.array(["test"] * len(files)), (asked,))


SETS: dict[str, Callable[[Places], ImageSet]] = {
    "imagenette": imagenette,
    "blood": blood,
    "idrid": idrid,
    "ham": ham,
    "cub": cub,
    "unseen": unseen,
}
TABLES = ("tiny", "ham-split", "cub-sizes", "unseen-classes")  # what sets need besides their own folder
NEEDS = {"ham": ("ham", "ham-split"), "cub": ("cub", "cub-sizes"), "unseen": ("tiny",)}


def parse_places(given: Sequence[str]) -> dict[str, Path]:
    """`name=path` words of the command line."""
    places = {}
    for word in given:
        name, _, path = word.partition("=")
        if name not in SETS and name not in TABLES:
            raise unknown_name("data", name, [*SETS, *TABLES])
        if not path or not Path(path).exists():
            raise UserError(f"--data {word}: expected NAME=PATH of something that exists.")
        places[name] = Path(path)
    return places


def load_sets(places: Places, names: Sequence[str] = tuple(SETS)) -> dict[str, ImageSet]:
    """The sets of these names whose folders were given."""
    return {name: SETS[name](places) for name in names if all(need in places for need in NEEDS.get(name, (name,)))}
