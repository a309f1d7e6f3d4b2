"""Class and concepts of any images, image by image; one that cannot be read does not stop the others."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.figures import new_figure
from conceptlens.core.files import write_json, write_text
from conceptlens.core.spreadsheet import csv_text
from conceptlens.data.checks.findings import counted
from conceptlens.explanations.answer import Answerer
from conceptlens.explanations.caution import UNLIKE, set_words
from conceptlens.explanations.image_answer import Answer
from conceptlens.explanations.subjects import Images, find_images, subjects
from conceptlens.pages.markup import h
from conceptlens.runs.folder import check_writable
from conceptlens.runs.opened import OpenedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

DRAWN = 16  # images in a figure
CAUTION = ("unlike_training", "prediction_set")  # columns
COLUMNS = ("image", "class", "probability", "prediction set", "concepts")  # of the table in a notebook


@dataclass(frozen=True)
class Prediction:
    """What the model says of one image; `error` instead, where it could not be read."""

    image: str
    predicted: str | list[str] | None = None
    probabilities: dict[str, float] | None = None  # by class
    concepts: dict[str, dict[str, float]] | None = None  # group → value → probability
    error: str | None = None
    unlike_training: bool | None = None  # whether the image is unlike the training images; None: not known
    prediction_set: list[str] | None = None  # classes that cannot be excluded; None: not known

    @classmethod
    def of(cls, answer: Answer) -> "Prediction":
        """The part of an answer that `predict` tells."""
        if answer.error is not None:
            return cls(answer.image, error=answer.error)
        card, vocabulary = answer.answerer.card, answer.answerer.concepts
        # In single precision, as the files of earlier versions have them.
        logits = torch.from_numpy(answer.logits)
        shares = (logits.sigmoid() if card.task == "multilabel" else logits.softmax(-1)).tolist()
        concepts = {
            group.name: dict(zip(group.values, answer.concept_probabilities[group.concepts].tolist(), strict=True))
            for group in vocabulary.groups
        }
        predicted = answer.predicted if card.task == "multilabel" else answer.predicted[0]
        return cls(
            answer.image,
            predicted,
            dict(zip(card.classes, shares, strict=True)),
            concepts,
            unlike_training=answer.unlike_training,
            prediction_set=answer.prediction_set,
        )

    @property
    def names(self) -> list[str]:
        """The predicted class, or classes."""
        return [self.predicted] if isinstance(self.predicted, str) else list(self.predicted or [])

    def line(self, independent: Collection[str] = ()) -> str:
        """For people; of the groups called `independent`, all values that hold are told."""
        if self.error or self.probabilities is None or self.concepts is None:
            return f"{self.image}: {self.error}"
        head = ", ".join(
            f"{name} ({self.probabilities[name]:.0%})" if name in self.probabilities else name
            for name in self.names or ["no class"]
        )
        told = set_words(self.prediction_set, len(self.probabilities), several=not isinstance(self.predicted, str))
        lines = [f"{self.image}: {head}" + (f"; {told}" if told else "")]
        if self.unlike_training:
            lines.append(UNLIKE)
        return "\n    ".join(filter(None, [*lines, self.concept_words(independent)]))

    def concept_words(self, independent: Collection[str] = ()) -> str:
        """What the model reads of the concepts, for people."""
        parts = []
        for group, values in (self.concepts or {}).items():
            best = max(values, key=lambda name: values[name])
            held = [name for name in values if values[name] >= 0.5] if group in independent else [best]
            parts.append(f"{group}: {', '.join(f'{name} ({values[name]:.0%})' for name in held) or 'none'}")
        return "; ".join(parts)


@dataclass(frozen=True, repr=False)
class Predictions(Sequence[Prediction]):
    """Predictions of several images, in their order."""

    items: list[Prediction]
    path: Path | None = None  # where they were written
    independent: frozenset[str] = frozenset()  # groups of which several values may hold
    run: str = ""
    classes: list[str] = field(default_factory=list)
    concepts: ConceptSet | None = None
    notes: tuple[str, ...] = ()  # what cannot be said of any image, and why

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Any) -> Any:
        return self.items[place]

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.items)

    @property
    def failed(self) -> list[Prediction]:
        return [item for item in self.items if item.error]

    @property
    def probabilities(self) -> npt.NDArray[np.float64]:
        """Class probabilities (N, C), in the order of `classes`; NaN for an image that could not be read."""
        rows = [[(item.probabilities or {}).get(name, np.nan) for name in self.classes] for item in self.items]
        return np.array(rows, dtype=np.float64).reshape(len(self.items), len(self.classes))

    @property
    def concept_probabilities(self) -> npt.NDArray[np.float64]:
        """Concept probabilities (N, K), in the order of the bottleneck; NaN for an image that could not be read."""
        concepts = () if self.concepts is None else self.concepts.concepts
        rows = [
            [(item.concepts or {}).get(each.group, {}).get(each.value, np.nan) for each in concepts] for item in self
        ]
        return np.array(rows, dtype=np.float64).reshape(len(self.items), len(concepts))

    def text(self) -> str:
        lines = [item.line(self.independent) for item in self.items if not item.error]
        if self.path:
            lines.append(f"{counted(len(self.items) - len(self.failed), 'prediction')} written to {self.path}")
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        """What a console shows."""
        return "\n".join([self.text(), *(item.line() for item in self.failed)]).strip()

    def to_dict(self) -> dict[str, Any]:
        """What the JSON file holds."""
        return {"run": self.run, "predictions": [item.__dict__ for item in self.items]}

    def rows(self) -> list[list[Any]]:
        """A header, and a row for each image: class, probabilities of classes and concepts, cautions, error."""
        concepts = () if self.concepts is None else self.concepts.concepts
        shares = [f"p({name})" for name in self.classes]
        rows: list[list[Any]] = [
            ["image", "class", *shares, *[concept.name for concept in concepts], *CAUTION, "error"]
        ]
        for item in self.items:
            if item.probabilities is None or item.concepts is None:
                rows.append([item.image, None, *[None] * (len(self.classes) + len(concepts) + 2), item.error])
                continue
            values = [item.probabilities[name] for name in self.classes]
            values += [item.concepts[concept.group][concept.value] for concept in concepts]
            unlike = None if item.unlike_training is None else "yes" if item.unlike_training else "no"
            held = None if item.prediction_set is None else ";".join(item.prediction_set)
            rows.append([item.image, ";".join(item.names), *values, unlike, held, None])
        return rows

    def to_csv(self) -> str:
        """The rows, with six digits."""
        return csv_text([f"{cell:.6f}" if isinstance(cell, float) else cell for cell in row] for row in self.rows())

    def to_pandas(self) -> "DataFrame":
        """The rows as a data frame."""
        try:
            import pandas
        except ImportError:
            raise UserError("to_pandas needs pandas, which is not installed: pip install pandas.") from None
        header, *rows = self.rows()
        return pandas.DataFrame(rows, columns=header)

    def plot(self) -> "Figure":
        """Bars of the class probabilities, an image a panel; of the first few images that could be read."""
        drawn = [item for item in self.items if item.probabilities is not None][:DRAWN]
        if not drawn:
            raise UserError("There is no prediction to draw: no image could be read.")
        columns = min(4, len(drawn))
        rows = -(-len(drawn) // columns)
        figure = new_figure(3.2 * columns, (0.9 + 0.25 * len(self.classes)) * rows)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, item in zip(axes, drawn, strict=False):
            shares = item.probabilities or {}
            colors = ["tab:blue" if name in item.names else "lightgrey" for name in shares]
            axis.barh(list(shares), list(shares.values()), color=colors)
            axis.set(xlim=(0, 1), title=Path(item.image).name)
            axis.invert_yaxis()
        for axis in axes[len(drawn) :]:
            axis.set_axis_off()
        return figure

    def _repr_html_(self) -> str:
        left = "text-align: left"  # notebooks put cells at the right, as numbers
        head = h("tr", [h("th", word, style=left) for word in COLUMNS])
        body = [h("tr", [h("td", cell, style=left) for cell in self._cells(item)]) for item in self.items]
        return str(h("table", h("thead", head), h("tbody", body)))

    def _cells(self, item: Prediction) -> list[str]:
        if item.probabilities is None:
            return [item.image, "", "", "", item.error or ""]
        concepts = item.concept_words(self.independent)
        shares = ", ".join(f"{item.probabilities[name]:.0%}" for name in item.names)
        unlike = f" ({UNLIKE})" if item.unlike_training else ""
        held = "" if item.prediction_set is None else ", ".join(item.prediction_set) or "empty"
        return [item.image, (", ".join(item.names) or "no class") + unlike, shares, held, concepts]


def predict(run: OpenedRun, images: Images) -> Predictions:
    """Class and concepts of images, in memory; nothing is written.

    Args:
        run: The run.
        images: Files, folders, PIL images, arrays, tensors, a `Dataset`, a `DataLoader`, or a list of them.
    """
    answerer = Answerer.of(run)
    answers = answerer.stream(subjects(images, run.card, pictures=False))
    return Predictions(
        [Prediction.of(answer) for answer in answers],
        independent=frozenset(group.name for group in run.concepts.groups if group.kind == "independent"),
        run=run.name,
        classes=run.card.classes,
        concepts=run.read_concepts,
        notes=(*run.unverified, *answerer.caution.without),
    )


def predict_run(
    path: str | Path | OpenedRun, images: Sequence[str | Path], *, out: str | Path | None = None
) -> Predictions:
    """Predict image files with a run; `out` may be a .csv or a .json file."""
    if out is not None and Path(out).suffix not in (".csv", ".json"):
        raise UserError(f"--out {out}: expected a file that ends in .csv or .json.")
    if not images:
        raise UserError("No image was named: conceptlens predict RUN cell.png folder/ …")
    if out is not None and Path(out).parent.is_dir():
        check_writable(Path(out).parent)  # before the work, not after it
    predictions = predict(OpenedRun.open(path), find_images(images))
    if out is None:
        return predictions
    if Path(out).suffix == ".json":
        write_json(Path(out), predictions.to_dict())
    else:
        write_text(Path(out), predictions.to_csv())
    return Predictions(**{**predictions.__dict__, "path": Path(out)})
