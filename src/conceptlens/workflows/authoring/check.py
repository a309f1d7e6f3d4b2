"""`conceptlens concepts check`: a concept file judged as a draft is, and with data by what the images say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.concepts import ConceptSet
from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_json, write_text
from conceptlens.workflows.authoring.candidates import from_concepts
from conceptlens.workflows.authoring.filters.filters import Judge, Rules
from conceptlens.workflows.authoring.filters.judgement import Judgement, judgement
from conceptlens.workflows.authoring.images.findings import ImageFindings, image_findings
from conceptlens.workflows.authoring.page import page

JSON, PAGE = "judgement.json", "judgement.html"


@dataclass(frozen=True, repr=False)
class Checked(ResultMixin):
    """What was found."""

    judgement: Judgement
    images: ImageFindings | None
    folder: Path | None

    @property
    def ok(self) -> bool:
        """Whether no filter objects."""
        return not self.judgement.gone

    @property
    def has_findings(self) -> bool:
        """Whether some filter objects to a concept."""
        return not self.ok

    def to_dict(self) -> dict[str, Any]:
        images = {"images": self.images.model_dump(mode="json")} if self.images else {}
        return {**self.judgement.to_dict(), **images}

    def text(self) -> str:
        pieces = [self.judgement.text()]
        if self.images:
            pieces.append(self.images.text())
        if self.folder:
            pieces.append(f"written: {self.folder / JSON} and {PAGE} beside it")
        return "\n".join(pieces)


def check_concepts(
    file: str | Path,
    data: Mapping[str, Any] | None = None,
    *,
    domain: str = "",
    text: str = "builtin/text",
    rules: Rules | None = None,
    encoder: str = "builtin/vit",
    n: int = 2000,
    out: str | Path | None = None,
    note: Callable[[str], object] = lambda words: None,
) -> Checked:
    """Judge a concept file.

    Args:
        file: The file, or the name of a ready one.
        data: Keys of a recipe's `data` section with images and labels, to hear what they say.
        domain: What the images show: its words are not taken for a class name.
        text: The text encoder that compares texts.
        rules: Limits of the filters.
        encoder: The image encoder.
        n: At most so many images.
        out: Folder for the files; none are written without.
        note: Told of progress.
    """
    from conceptlens.encoders import make_text_encoder

    concepts = ConceptSet.load(file)
    if n < 20:
        raise UserError(f"--n: expected at least 20 images, found {n}.")
    candidates, text_encoder = from_concepts(concepts), make_text_encoder(text)
    domain = domain or concepts.name.replace("-", " ")
    classes = concepts.classes or tuple(concepts.by_class)
    judge = Judge(classes, text_encoder, rules or Rules(), domain)
    notes = [] if concepts.by_class else ["the file has no table by class, so it is not known what tells classes apart"]
    found = judgement(
        judge.of(candidates),
        what=str(file),
        domain=domain,
        classes=classes,
        models={},
        text_encoder=text_encoder.name,
        rules=judge.rules,
        said=len(candidates),
        notes=notes,
    )
    images = None if data is None else _images(data, concepts, encoder, n, note)
    folder = Path(out) if out else None
    if folder and folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: expected a folder, found a file. Choose another one with --out.")
    checked = Checked(found, images, folder)
    if folder:
        write_json(folder / JSON, checked.to_dict())
        write_text(folder / PAGE, page(found, images))
    return checked


def _images(
    data: Mapping[str, Any], concepts: ConceptSet, encoder: str, n: int, note: Callable[[str], object]
) -> ImageFindings:
    from conceptlens.data.sources.open import open_source
    from conceptlens.recipes.parse import load_recipe
    from conceptlens.workflows.authoring.images.features import look

    config = load_recipe({"data": dict(data)}).data
    source, concepts = open_source(config, concepts)
    if not (source.examples.concepts >= 0).any():
        raise UserError(f"{config.source}: no image has a label of any of these concepts, so they cannot be checked.")
    note(f"looking at up to {n} of {len(source)} images")
    seen = look(source, config, concepts, encoder, n)
    examples = source.examples
    classes = examples.labels[seen.indices]
    if classes.ndim > 1:  # images with the same set of classes are of one kind
        classes = np.unique(classes, axis=0, return_inverse=True)[1].reshape(-1)
    units = None
    if examples.group is not None:
        units = np.unique([examples.group[i] for i in seen.indices], return_inverse=True)[1].reshape(-1)
    return image_findings(
        seen.features,
        examples.concepts[seen.indices],
        classes,
        [examples.ids[i] for i in seen.indices],
        concepts,
        units=units,
        similarity=seen.similarity,
        encoder=seen.encoder,
    )
