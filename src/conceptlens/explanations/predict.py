"""Class and concepts of any image files, image by image; a file that cannot be read does not stop the others."""

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_json, write_text
from conceptlens.data.images.read import SUFFIXES, open_image, resize_square
from conceptlens.data.labels.words import printable
from conceptlens.methods.contract import ConceptModel, Pipeline
from conceptlens.nn.heads.probabilities import concept_probabilities_of
from conceptlens.runs.folder import RunFolder, check_writable
from conceptlens.runs.saved import Card, load_pipeline


@dataclass(frozen=True)
class Prediction:
    """What the model says of one image; `error` instead, where it could not be read."""

    image: str
    predicted: str | list[str] | None = None
    probabilities: dict[str, float] | None = None  # by class
    concepts: dict[str, dict[str, float]] | None = None  # group → value → probability
    error: str | None = None

    def line(self, independent: Collection[str] = ()) -> str:
        """For people; of the groups called `independent`, all values that hold are told."""
        if self.error or self.probabilities is None or self.concepts is None:
            return f"{self.image}: {self.error}"
        names = [self.predicted] if isinstance(self.predicted, str) else list(self.predicted or ["no class"])
        head = ", ".join(
            f"{name} ({self.probabilities[name]:.0%})" if name in self.probabilities else name for name in names
        )
        told = []
        for group, values in self.concepts.items():
            best = max(values, key=lambda name: values[name])
            held = [name for name in values if values[name] >= 0.5] if group in independent else [best]
            told.append(f"{group}: {', '.join(f'{name} ({values[name]:.0%})' for name in held) or 'none'}")
        return f"{self.image}: {head}" + ("\n    " + "; ".join(told) if told else "")


def find_images(paths: Sequence[str | Path]) -> list[Path]:
    """Files as named, and all images below folders as named, sorted."""
    found: list[Path] = []
    for entry in map(Path, paths):
        if entry.is_dir():
            inside = sorted(file for file in entry.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
            if not inside:
                raise UserError(f"{entry}: no image in this folder.")
            found += inside
        else:
            found.append(entry)
    return found


def read_concepts(model: ConceptModel, concepts: ConceptSet) -> ConceptSet:
    """The concepts that a model speaks of: none, for a method that reads none."""
    return concepts if model.reads_concepts else ConceptSet("none", (), (), ())


@torch.inference_mode()
def predict_images(
    pipeline: Pipeline, card: Card, concepts: ConceptSet, files: Iterable[Path], *, batch: int = 32
) -> Iterator[Prediction]:
    """Predictions in the order of the files."""
    device = next(pipeline.parameters()).device
    concepts = read_concepts(pipeline.model, concepts)
    waiting: list[tuple[Path, np.ndarray[Any, np.dtype[np.uint8]] | str]] = []

    def flush() -> Iterator[Prediction]:
        pixels = [entry for _, entry in waiting if not isinstance(entry, str)]
        output = pipeline(torch.from_numpy(np.stack(pixels)).to(device)) if pixels else None
        classes = concept_rows = iter(())
        if output is not None:
            shares = output.logits.float().sigmoid() if card.task == "multilabel" else output.logits.float().softmax(-1)
            classes = iter(shares.cpu().numpy())
            concept_rows = iter(concept_probabilities_of(output.concept_logits.float().cpu().numpy(), concepts))
        for file, entry in waiting:
            if isinstance(entry, str):
                yield Prediction(printable(str(file)), error=entry)
            else:
                yield _prediction(printable(str(file)), next(classes), next(concept_rows), card, concepts)
        waiting.clear()

    for file in files:
        try:
            image = open_image(file, name=printable(str(file)), at_least=card.image_size, window=card.window)
            waiting.append((file, resize_square(image, card.image_size, card.fit)))
        except UserError as error:
            waiting.append((file, str(error)))
        if len(waiting) == batch:
            yield from flush()
    yield from flush()


def _prediction(
    name: str, row: np.ndarray[Any, Any], concept_row: np.ndarray[Any, Any], card: Card, concepts: ConceptSet
) -> Prediction:
    chosen: str | list[str] = card.classes[int(row.argmax())]
    if card.task == "multilabel":
        chosen = [label for label, share, cut in zip(card.classes, row, card.thresholds, strict=True) if share >= cut]
    values = {
        group.name: dict(zip(group.values, map(float, concept_row[group.concepts]), strict=True))
        for group in concepts.groups
    }
    return Prediction(name, chosen, dict(zip(card.classes, map(float, row), strict=True)), values)


@dataclass(frozen=True)
class PredictionList:
    """Predictions of several files."""

    items: list[Prediction]
    path: Path | None
    independent: frozenset[str] = frozenset()  # groups of which several values may hold

    @property
    def failed(self) -> list[Prediction]:
        return [item for item in self.items if item.error]

    def text(self) -> str:
        lines = [item.line(self.independent) for item in self.items if not item.error]
        if self.path:
            lines.append(f"{len(self.items) - len(self.failed)} predictions written to {self.path}")
        return "\n".join(lines)


def predict_run(path: str | Path, images: Sequence[str | Path], *, out: str | Path | None = None) -> PredictionList:
    """Predict image files with a finished run; `out` may be a .csv or a .json file."""
    if out is not None and Path(out).suffix not in (".csv", ".json"):
        raise UserError(f"--out {out}: expected a file that ends in .csv or .json.")
    if not images:
        raise UserError("No image was named: conceptlens predict RUN cell.png folder/ …")
    if out is not None and Path(out).parent.is_dir():
        check_writable(Path(out).parent)  # before the work, not after it
    run = RunFolder.open(path)
    if not (run.path / "model").exists():
        if run.info["status"] == "done":
            raise UserError(f"{run.path / 'model'}: no such folder. Copy the whole run folder.")
        raise UserError(f"{run.path}: no model yet ({run.info['status']}). Finish the run with {run.how_to_go_on}.")
    pipeline, card, concepts = load_pipeline(run.path)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    items = list(predict_images(pipeline.to(device), card, concepts, find_images(images)))
    file = Path(out) if out else None
    if file and file.suffix == ".json":
        write_json(file, {"run": run.path.name, "predictions": [item.__dict__ for item in items]})
    elif file:
        write_text(file, _csv(items, card, read_concepts(pipeline.model, concepts)))
    independent = frozenset(group.name for group in concepts.groups if group.kind == "independent")
    return PredictionList(items, file, independent)


def _csv(items: list[Prediction], card: Card, concepts: ConceptSet) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(
        [
            "image",
            "class",
            *[f"p({name})" for name in card.classes],
            *[concept.name for concept in concepts.concepts],
            "error",
        ]
    )
    for item in items:
        if item.probabilities is None or item.concepts is None:
            writer.writerow([item.image, *[""] * (1 + len(card.classes) + len(concepts)), item.error])
            continue
        named = item.predicted if isinstance(item.predicted, str) else ";".join(item.predicted or [])
        shares = [f"{item.probabilities[name]:.6f}" for name in card.classes]
        values = [f"{item.concepts[concept.group][concept.value]:.6f}" for concept in concepts.concepts]
        writer.writerow([item.image, named, *shares, *values, ""])
    return buffer.getvalue()
