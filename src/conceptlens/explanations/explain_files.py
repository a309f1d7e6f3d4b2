"""Explanations as files: JSON first, pictures from it; an image that cannot be read stops no other."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import write_bytes
from conceptlens.data.dataset import SPLITS
from conceptlens.explanations.answer import Answerer
from conceptlens.explanations.document import Explanation
from conceptlens.explanations.explain import check_maps, choose_concepts, explain_each, usual_maps
from conceptlens.explanations.file_names import Names
from conceptlens.explanations.pictures.concept_sheet import ConceptSheets
from conceptlens.explanations.pictures.overlay import OPACITY
from conceptlens.explanations.pictures.panel import panel
from conceptlens.explanations.pictures.part_panels import PartPanels
from conceptlens.explanations.pictures.sheet import png
from conceptlens.explanations.subjects import Subject, choose_subjects, find_images
from conceptlens.runs.image_choice import Show
from conceptlens.runs.opened import OpenedRun


@dataclass(frozen=True)
class Explained:
    """One image: where its explanation is, or why there is none."""

    image: str
    sentence: str = ""
    path: Path | None = None
    error: str | None = None
    cautions: list[str] = field(default_factory=list)

    def load(self) -> Explanation:
        """Everything that was found out."""
        if self.path is None:
            raise UserError(f"{self.image}: there is no explanation: {self.error}")
        return Explanation.read(self.path)

    def line(self) -> str:
        return "\n    ".join([f"{self.image}: {self.error or self.sentence}", *self.cautions])


@dataclass(frozen=True)
class Explanations:
    """All of them, in the order asked for."""

    items: list[Explained]
    folder: Path
    sheets: list[Path] = field(default_factory=list)
    pages: list[Path] = field(default_factory=list)  # of parts, for methods whose slots are parts
    notes: tuple[str, ...] = ()  # what cannot be said of any image, and why

    @property
    def failed(self) -> list[Explained]:
        return [item for item in self.items if item.error]

    def text(self) -> str:
        lines = [item.line() for item in self.items if not item.error]
        count = len(lines)
        lines.append(f"{count} explanation{'' if count == 1 else 's'} written to {self.folder}")
        if self.sheets:
            lines.append(f"{len(self.sheets)} sheets of one concept each beside them, {self.sheets[0].name} the first")
        if self.pages:
            lines.append(f"parts: {', '.join(page.name for page in self.pages)}, and NAME-parts.png of each image")
        return "\n".join([*lines, *self.notes])


def explain_run(
    path: str | Path | OpenedRun,
    images: Sequence[str | Path] = (),
    *,
    out: str | Path | None = None,
    concepts: Sequence[str] | None = None,
    maps: Sequence[str] = (),
    sheet: bool = False,
    split: str = "test",
    n: int = 12,
    show: str = "all",
    opacity: float = OPACITY,
) -> Explanations:
    """Explain image files, or images of the run's own data, into a folder.

    Args:
        path: A finished run.
        images: Files and folders; none for images of the run's own data.
        out: Folder for the files; `explain/` in the run folder by default.
        concepts: Whose maps are wanted: concepts, groups, or `all`; by default those that decided each image.
        maps: Of `evidence`, `attention`, `gradcam` and `index`; by default the method's own, `gradcam` and `index`.
        sheet: Also draw, for each concept, the maps of all images on one sheet.
        split: Of the run's own data.
        n: At most so many of its images.
        show: Which: `right` and `wrong`, the surest first; `uncertain`, the least sure first; `all`, evenly spread.
        opacity: Of a map where it is largest, 0 to 1.
    """
    kinds = check_maps(maps, opacity)
    # Before the weights are read: a slip of the pen should not take seconds to tell.
    for kind, name, known in (("split", split, SPLITS), ("choice of images", show, get_args(Show))):
        if name not in known:
            raise unknown_name(kind, name, known)
    if n < 1:
        raise UserError(f"--n: expected at least 1, found {n}.")
    run = OpenedRun.open(path)
    files = find_images(images)
    if out and Path(out).is_file():
        raise UserError(f"{out}: expected a folder, found a file. Choose another one with --out.")
    run.need_concepts("there is nothing to explain its classes by")
    wanted = None if concepts is None else choose_concepts(run.concepts, concepts)
    folder = run.out_folder(out, "explain")
    subjects = choose_subjects(run, files, split=split, n=n, show=show)
    names, sheets = Names(folder), ConceptSheets(opacity)
    answerer = Answerer.of(run, keep=True)
    kinds = kinds or usual_maps(run.pipeline.model)
    parts = PartPanels.of(run.pipeline, folder, opacity, answerer.map_captions.get("attention"))
    items: list[Explained] = []
    for subject, explanation in explain_each(answerer, run.name, subjects, kinds, wanted, opacity):
        if explanation is None:
            items.append(Explained(subject.image, error=subject.error))
            continue
        items.append(_write(explanation, subject, folder, names, sheets if sheet else None))
        if parts and items[-1].path:
            parts.add(items[-1].path.stem, subject)
    pages = parts.write() if parts else []
    return Explanations(items, folder, sheets.write(folder), pages, answerer.caution.without)


def _write(
    explanation: Explanation, subject: Subject, folder: Path, names: Names, sheets: ConceptSheets | None
) -> Explained:
    """The file, then its picture."""
    assert subject.picture is not None
    name = names.of(subject.image)
    explanation.picture = f"{name}.png"
    path = folder / f"{name}.json"
    explanation.write(path)
    write_bytes(folder / explanation.picture, png(panel(explanation, subject.picture)))
    if sheets:
        sheets.add(explanation, path.name, subject.picture)
    return Explained(subject.image, explanation.sentence, path, cautions=explanation.cautions)
