"""`FILE.json`: what must be known to use an exported file, and what it came from."""

from pathlib import Path
from typing import Literal

from conceptlens.concepts.concept_set import Kind
from conceptlens.core.documents import Document, Part
from conceptlens.core.errors import UserError
from conceptlens.core.files import file_hash
from conceptlens.data.dataset import Task
from conceptlens.data.images.read import Fit
from conceptlens.data.images.window import Window


class Input(Part):
    """The one input of the graph."""

    name: str
    shape: tuple[str, int, int, int]  # ("batch", 3, S, S)
    dtypes: list[str]
    values: str = "0 to 255, red, green, blue; normalized inside the graph"
    size: int  # S
    fit: Fit  # how an image becomes a square
    window: Window  # which values of deep gray become black and white


class Output(Part):
    """One output of the graph, in the graph's order."""

    name: str
    shape: tuple[str | int, ...]
    about: str


class ConceptEntry(Part):
    """One column of the concept probabilities, and one map."""

    name: str
    group: str
    value: str
    text: str


class GroupEntry(Part):
    """Concepts that belong together: columns `first` up to, not including, `end`."""

    name: str
    kind: Kind
    first: int
    end: int


class Check(Part):
    """How far the file and the run are apart."""

    images: int
    of: str  # the split they are from, or `drawn`
    largest_difference: float
    tolerance: float


class ExportCard(Document):
    """The file beside the file."""

    remedy = "Export again."

    kind: Literal["conceptlens export"] = "conceptlens export"
    file: str
    format: str
    precision: str = "fp32"  # of the encoder; cards of earlier versions do not say it
    hash: str
    run: str
    weights: str  # hash of the run's weights
    method: str
    bypass: str | None  # what reaches the class besides the concepts, in words
    task: Task
    classes: list[str]
    thresholds: list[float]  # of a multi-label task, by class; empty otherwise
    concepts: list[ConceptEntry]
    groups: list[GroupEntry]
    input: Input
    outputs: list[Output]
    check: Check
    versions: dict[str, str]


def card_path(file: Path) -> Path:
    """`model.pt2` → `model.pt2.json`, so that two formats of one name do not share a card."""
    return file.with_name(f"{file.name}.json")


def refuse_strangers(file: Path) -> None:
    """Files in the way are replaced only if an earlier export wrote them and nobody changed them since."""
    card = card_path(file)
    for path in (file, card):
        if path.is_dir():
            raise UserError(f"{path}: expected a file to write, found a folder. Choose another name with --out.")
    there = [path for path in (file, card) if path.exists()]
    if there and not _ours(file, card):
        raise UserError(f"{there[0]}: not a file that an export left here. Move it, or choose another with --out.")


def _ours(file: Path, card: Path) -> bool:
    try:
        known = ExportCard.read(card)
    except UserError:
        return False
    return known.file == file.name and (not file.exists() or known.hash == file_hash(file))
