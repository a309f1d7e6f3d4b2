"""Explain images with a finished run: files first, pictures from them; a file that cannot be read stops no other."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import get_args

import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import write_bytes
from conceptlens.data.dataset import SPLITS
from conceptlens.explanations.document import AnyMap, Explanation
from conceptlens.explanations.explainer import Teller
from conceptlens.explanations.file_names import Names
from conceptlens.explanations.pictures.concept_sheet import ConceptSheets
from conceptlens.explanations.pictures.overlay import OPACITY, drawing
from conceptlens.explanations.pictures.panel import panel
from conceptlens.explanations.pictures.part_panels import PartPanels
from conceptlens.explanations.pictures.sheet import png
from conceptlens.explanations.predict import find_images
from conceptlens.explanations.reference import background
from conceptlens.explanations.subjects import Subject, from_files, from_own
from conceptlens.runs.folder import RunFolder, check_writable
from conceptlens.runs.images import OwnImages, Show
from conceptlens.runs.saved import load_pipeline

BATCH = 32
MAPS: tuple[AnyMap, ...] = get_args(AnyMap)


@dataclass(frozen=True)
class Explained:
    """One image: where its explanation is, or why there is none."""

    image: str
    sentence: str = ""
    path: Path | None = None
    error: str | None = None

    def load(self) -> Explanation:
        """Everything that was found out."""
        if self.path is None:
            raise UserError(f"{self.image}: there is no explanation: {self.error}")
        return Explanation.read(self.path)

    def line(self) -> str:
        return f"{self.image}: {self.error or self.sentence}"


@dataclass(frozen=True)
class Explanations:
    """All of them, in the order asked for."""

    items: list[Explained]
    folder: Path
    sheets: list[Path] = field(default_factory=list)
    pages: list[Path] = field(default_factory=list)  # of parts, for methods whose slots are parts

    @property
    def failed(self) -> list[Explained]:
        return [item for item in self.items if item.error]

    def text(self) -> str:
        lines = [item.line() for item in self.items if not item.error]
        made = len(lines)
        lines.append(f"{made} explanation{'' if made == 1 else 's'} written to {self.folder}")
        if self.sheets:
            lines.append(f"{len(self.sheets)} sheets of one concept each beside them, {self.sheets[0].name} the first")
        if self.pages:
            lines.append(f"parts: {', '.join(page.name for page in self.pages)}, and NAME-parts.png of each image")
        return "\n".join(lines)


def explain_run(
    path: str | Path,
    images: Sequence[str | Path] = (),
    *,
    out: str | Path | None = None,
    concepts: Sequence[str] | None = None,
    maps: Sequence[str] = MAPS,
    sheet: bool = False,
    split: str = "test",
    n: int = 12,
    show: str = "all",
    opacity: float = OPACITY,
) -> Explanations:
    """Explain image files, or images of the run's own data.

    Args:
        path: A finished run.
        images: Files and folders; none for images of the run's own data.
        out: Folder for the files; `explain/` in the run folder by default.
        concepts: Whose maps are wanted: concepts, groups, or `all`; by default those that decided each image.
        maps: Of `attention`, `gradcam` and `index`.
        sheet: Also draw, for each concept, the maps of all images on one sheet.
        split: Of the run's own data.
        n: At most so many of its images.
        show: Which: `right` and `wrong`, the surest first; `uncertain`, the least sure first; `all`, evenly spread.
        opacity: Of a map where it is largest, 0 to 1.
    """
    kinds = _check(maps, opacity)
    for kind, given, known in (("split", split, SPLITS), ("choice of images", show, get_args(Show))):
        if given not in known:
            raise unknown_name(kind, given, known)
    if n < 1:
        raise UserError(f"--n: expected at least 1, found {n}.")
    run = RunFolder.open(path)
    if run.info["status"] != "done":
        raise UserError(f"{run.path}: this run is not done ({run.info['status']}). Finish it with {run.how_to_go_on}.")
    files = find_images(images)
    folder = Path(out) if out else run.path / "explain"
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: expected a folder, found a file. Choose another one with --out.")
    pipeline, card, vocabulary = load_pipeline(run.path)
    if not pipeline.model.reads_concepts:
        raise UserError(
            f"{run.path}: {run.info['method']} reads no concepts, so there is nothing to explain its classes by. "
            "Explain a run of a method that does, such as ivq-cbm."
        )
    wanted = None if concepts is None else choose_concepts(vocabulary, concepts)
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder)  # before the work, not after it
    pipeline.to("cuda" if torch.cuda.is_available() else "cpu").requires_grad_(False)
    own = OwnImages(run, vocabulary)
    if files:
        subjects = from_files(files, card)
    else:
        subjects = from_own(own, own.choose(pipeline, card, split=split, show=show, n=n), split, card)
    teller = Teller(
        pipeline,
        card,
        vocabulary,
        background(run.path, pipeline, card, vocabulary, own),
        run.path.name,
        wanted,
        kinds,
        drawing(opacity),
    )
    names, sheets = Names(folder), ConceptSheets(opacity)
    parts = PartPanels.of(pipeline, folder, opacity)
    items: list[Explained] = []
    for batch in _batches(subjects):
        told = iter(teller.tell(readable) if (readable := [each for each in batch if not each.error]) else [])
        for subject in batch:
            if subject.error:
                items.append(Explained(subject.image, error=subject.error))
                continue
            items.append(_write(next(told), subject, folder, names, sheets if sheet else None))
            if parts and items[-1].path:
                parts.add(items[-1].path.stem, subject)
    pages = parts.write() if parts else []
    return Explanations(items, folder, sheets.write(folder), pages)


def _write(told: Explanation, subject: Subject, folder: Path, names: Names, sheets: ConceptSheets | None) -> Explained:
    """The file, then its picture."""
    assert subject.picture is not None
    name = names.of(subject.image)
    told.picture = f"{name}.png"
    path = folder / f"{name}.json"
    told.write(path)
    write_bytes(folder / told.picture, png(panel(told, subject.picture)))
    if sheets:
        sheets.add(told, path.name, subject.picture)
    return Explained(subject.image, told.sentence, path)


def _batches(subjects: Iterable[Subject]) -> Iterator[list[Subject]]:
    rest = iter(subjects)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _check(maps: Sequence[str], opacity: float) -> list[AnyMap]:
    for name in maps:
        if name not in MAPS:
            raise unknown_name("map", name, MAPS)
    if not 0 <= opacity <= 1:
        raise UserError(f"--opacity: expected a number from 0 to 1, found {opacity}.")
    return [kind for kind in MAPS if kind in maps]


def choose_concepts(concepts: ConceptSet, wanted: Sequence[str]) -> list[int]:
    """Positions of concepts by name ("group: value"), of all of a group, or of all; each may list several by commas."""
    groups = {group.name: list(range(group.concepts.start, group.concepts.stop)) for group in concepts.groups}
    known = {"all": list(range(len(concepts))), **groups, **{name: [k] for k, name in enumerate(concepts.names)}}
    found: list[int] = []
    for word in wanted:
        for name in [word] if word.strip() in known else word.split(","):
            if name.strip() not in known:
                raise unknown_name("concept", name.strip(), known)
            found += known[name.strip()]
    return list(dict.fromkeys(found))
