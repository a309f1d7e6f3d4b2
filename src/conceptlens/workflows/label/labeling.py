"""Labels of several raters: questions, agreement, and the table that the recipe reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN, ConceptSet, Group
from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_text
from conceptlens.core.spreadsheet import csv_text
from conceptlens.data.checks.findings import Problems
from conceptlens.data.dataset import DataSource
from conceptlens.data.labels.columns import read_columns
from conceptlens.data.labels.concept_labels import list_labels
from conceptlens.data.labels.rename import rename_cells
from conceptlens.data.labels.words import match_value, yes_no
from conceptlens.data.sources.open import open_source
from conceptlens.data.sources.table import image_folder, tidy_name
from conceptlens.encoders import AUTO, BUILTIN, make_encoder
from conceptlens.encoders.features import image_features
from conceptlens.recipes import Recipe
from conceptlens.recipes.parse import load_recipe
from conceptlens.recipes.schema import EncoderConfig
from conceptlens.runs.predictions import units_of
from conceptlens.workflows.label.curve import LEAST, Forecast, forecast
from conceptlens.workflows.label.log import FOLDER, UNSURE, RaterLog, all_raters
from conceptlens.workflows.label.queue import next_images
from conceptlens.workflows.study.agreement import krippendorff_alpha

YES_NO = ("yes", "no")
MOST_SHOWN = 20  # wrong cells of a table that was filled in


@dataclass(frozen=True)
class Question:
    """One question about an image: the value of an exclusive group, or a yes or no."""

    name: str  # as the log calls it: a group, or `group: value`
    column: str  # of the table
    values: tuple[str, ...]


def questions_of(concepts: ConceptSet) -> list[Question]:
    """What is asked of each image."""
    return [question for group in concepts.groups for question in _asked(group)]


def _asked(group: Group) -> list[Question]:
    if group.kind == "exclusive":
        return [Question(group.name, group.column, group.values)]
    pairs = zip(group.values, group.columns, strict=True)
    return [Question(f"{group.name}: {value}", column, YES_NO) for value, column in pairs]


@dataclass(frozen=True, repr=False)
class LabelReport(ResultMixin):
    """Where labeling stands."""

    file: str
    images: int
    labeled: int  # with a label of some question
    raters: Mapping[str, int]  # images of each
    agreement: Mapping[str, float | None]  # question → Krippendorff's alpha, of images with two raters or more
    disagreements: int
    accuracy: float | None  # of the concepts, held out, with the labels so far
    ahead: Sequence[Forecast] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "raters": dict(self.raters), "ahead": [vars(each) for each in self.ahead]}

    def text(self) -> str:
        lines = [f"{self.file}: {self.labeled:,} of {self.images:,} images have concept labels"]
        lines += [f"  {rater}: {count:,} images" for rater, count in self.raters.items()]
        if self.agreement:
            lines.append("  agreement of raters (Krippendorff's alpha: 1 is full agreement, 0 is chance)")
        for question, alpha in self.agreement.items():
            lines.append(f"    {question}: " + ("not known" if alpha is None else f"{alpha:.2f}"))
        if self.disagreements:
            lines.append(f"  {self.disagreements:,} labels on which raters disagree are left blank in the table")
        if self.accuracy is not None:
            lines.append(f"  concept accuracy with these labels: {self.accuracy:.2f} (a linear model, held out)")
        lines += [f"  with {f.more} more images: {f.accuracy:.2f} ± {f.spread:.2f}" for f in self.ahead]
        if self.accuracy is not None and self.labeled == self.images:
            lines.append("  every image has labels: only new images can bring more")
        if self.accuracy is None:
            lines.append("  from 40 labeled images on, an estimate says what more labels would bring")
        return "\n".join(lines)


class Labeling:
    """A recipe's images, its questions, and what was said of them.

    Args:
        recipe: A recipe file whose data is a CSV table, as `conceptlens init` writes it.
        rater: Who labels.
    """

    def __init__(self, recipe: str | Path, rater: str) -> None:
        self.recipe: Recipe = load_recipe(recipe, trusted=True)
        if self.recipe.concepts is None:
            raise UserError(
                f"{recipe}: there is nothing to label: it names no concepts. Write a concept file, or draft one with "
                "`conceptlens concepts draft`, and name it in the recipe as `concepts:`."
            )
        self.table = Path(self.recipe.data.source)
        if self.table.suffix.lower() != ".csv":
            raise UserError(
                f"{self.table}: labels are written into a CSV table. `conceptlens init` makes one of any folder."
            )
        self.concepts = ConceptSet.load(self.recipe.concepts)
        self.questions = questions_of(self.concepts)
        self.folder = self.table.parent / FOLDER
        self.log = RaterLog(self.folder, rater)
        self.source: DataSource = open_source(self.recipe.data, self.concepts)[0]

    @cached_property
    def features(self) -> npt.NDArray[np.float64]:
        """(N, D): what an encoder sees."""
        name = BUILTIN if self.recipe.encoder.name == AUTO else self.recipe.encoder.name
        encoder = make_encoder(EncoderConfig(name=name, image_size=self.recipe.encoder.image_size))
        return image_features(encoder, self.source, np.arange(len(self.source)), self.recipe.data.fit)

    def labels(self, rater: str | None = None) -> npt.NDArray[np.int8]:
        """(N, K): the table's labels, with those that one rater, or all raters in agreement, gave."""
        labels = self.source.examples.concepts.copy()
        place = {name: row for row, name in enumerate(self.source.examples.ids)}
        by_rater = all_raters(self.folder)
        chosen = [by_rater.get(rater, {})] if rater else list(by_rater.values())
        for (image, name), answer in agreed(chosen).items():
            if image in place and answer != UNSURE:
                _set(labels[place[image]], self.concepts, name, answer)
        return self.concepts.mask_hierarchy(labels)

    def queue(self, n: int) -> list[str]:
        """The next images for this rater, the most useful first; what others labeled comes too, for agreement."""
        ids = self.source.examples.ids
        mine = {image for image, _ in self.log.answers()}
        labels = self.labels(self.log.rater)
        others = {
            image for rater, found in all_raters(self.folder).items() if rater != self.log.rater for image, _ in found
        }
        order = next_images(self.features, labels, self.concepts, min(n + len(mine | others), len(ids)))
        twice = sorted(others - mine)[: n // 5]  # a fifth is labeled twice
        left = [ids[index] for index in order if ids[index] not in mine and ids[index] not in twice]
        return [*twice, *sorted(left, key=lambda image: image in others)][:n]  # the rest of theirs comes last

    def keep(self, image: str, answers: Mapping[str, str]) -> None:
        """Check and keep answers about one image."""
        if image not in self.source.examples.ids:
            raise UserError(f"{image}: no such image in {self.table}.")
        known = {question.name: question for question in self.questions}
        for name, answer in answers.items():
            if name not in known or answer not in (*known[name].values, UNSURE):
                raise UserError(f"{name}: {answer!r} is not one of its answers.")
        self.log.add(image, answers)

    def finish(self) -> LabelReport:
        """Write the agreed labels into the table, and say where labeling stands."""
        by_rater = all_raters(self.folder)
        final = agreed(list(by_rater.values()))
        # What raters disagree on is blanked, also where the first of them has already put it into the table.
        self._write_table({key: answer or "" for key, answer in final.items() if answer != UNSURE})
        labels = self.labels()
        accuracy, ahead = (
            (None, [])
            if (labels >= 0).any(1).sum() < LEAST
            else forecast(self.features, labels, self.concepts, units_of(self.source, np.arange(len(self.source))))
        )
        return LabelReport(
            file=str(self.table),
            images=len(self.source),
            labeled=int((labels >= 0).any(1).sum()),
            raters={rater: len({image for image, _ in found}) for rater, found in by_rater.items()},
            agreement=self._agreement(by_rater) if len(by_rater) > 1 else {},
            disagreements=sum(answer is None for answer in final.values()),
            accuracy=accuracy,
            ahead=ahead,
        )

    def _agreement(self, by_rater: Mapping[str, Mapping[tuple[str, str], str]]) -> dict[str, float | None]:
        found = {}
        images = sorted({image for answers in by_rater.values() for image, _ in answers})
        for question in self.questions:
            codes = {value: code for code, value in enumerate(question.values)}
            table = [
                [codes.get(answers.get((image, question.name), ""), -1) for image in images]
                for answers in by_rater.values()
            ]
            found[question.name] = krippendorff_alpha(np.array(table), len(codes), "none")
        return found

    def _write_table(self, answers: Mapping[tuple[str, str], str]) -> None:
        """The table with the labels in the columns that the concept file names; everything else stays.

        A column that lists values, as `hair; ruler`, cannot say that one of them is not known: where one of its
        questions was answered, a yes/no column for each value takes its place.
        """
        read = read_columns(self.table, Problems(strict=False), expect=self.recipe.data.image_column)
        image = read.find(self.recipe.data.image_column)
        assert image is not None  # the source was opened with it
        columns = {column.name: list(column.texts()) for column in read.columns}
        base, renamed = image_folder(self.table, self.recipe.data), self.recipe.data.rename
        rows: dict[str, int] = {}
        for row, text in enumerate(image.texts()):
            rows.setdefault(tidy_name(text, base), row)
        told = {asked for _, asked in answers}
        column_of = {}
        for group in self.concepts.groups:
            questions = _asked(group)
            if not told & {question.name for question in questions}:
                continue
            own = read.find(renamed.columns.get(group.name, group.column))
            if group.kind == "independent" and own is not None:
                if group.name in renamed.columns:
                    raise UserError(
                        f"{self.table}: the column {own.name!r} lists values, so single answers cannot be written into "
                        f"it. Call it {group.column!r} there instead of in data.rename.columns."
                    )
                del columns[own.name]
                own = rename_cells(own, renamed.values.get(group.name, {}), group)
                for name, known in zip(group.columns, list_labels(own, group, read, Problems(False)).T, strict=True):
                    columns[name] = [{0: "no", 1: "yes"}.get(label, "") for label in known.tolist()]
            for question in questions:
                found = own if group.kind == "exclusive" else read.find(question.column)
                column_of[question.name] = found.name if found and found.name in columns else question.column
                columns.setdefault(column_of[question.name], [""] * len(read))
        for (name, asked), answer in answers.items():
            if name in rows and asked in column_of:
                columns[column_of[asked]][rows[name]] = answer
        write_text(self.table, csv_text([[*columns], *zip(*columns.values(), strict=True)]))


def agreed(raters: Sequence[Mapping[tuple[str, str], str]]) -> dict[tuple[str, str], str | None]:
    """The answer to each question that raters gave: None where two disagree; one who is unsure has no say."""
    said: dict[tuple[str, str], set[str]] = {}
    for answers in raters:
        for key, answer in answers.items():
            said.setdefault(key, set()).add(answer)
    final: dict[tuple[str, str], str | None] = {}
    for key, found in said.items():
        sure = found - {UNSURE}
        final[key] = UNSURE if not sure else sure.pop() if len(sure) == 1 else None
    return final


def _set(row: npt.NDArray[np.int8], concepts: ConceptSet, question: str, answer: str | None) -> None:
    """Lay one answer over the labels (K,) of an image; None: raters disagree, so that nothing is known."""
    if question in concepts.names:
        row[concepts.names.index(question)] = UNKNOWN if answer is None else int(bool(yes_no(answer)))
        return
    group = concepts.group(question)
    if answer is None:
        row[group.concepts] = UNKNOWN
        return
    value = match_value(answer, {name: at for at, name in enumerate(group.values)})
    if value is not None:
        row[group.concepts] = 0
        row[group.concepts.start + value] = 1


def write_sheet(labeling: Labeling, path: Path, n: int) -> int:
    """A table of the next n images with a blank column for each question, to be filled in a spreadsheet.

    A file that is there may hold answers that nobody has read yet: it stays. Without images left none is written.
    """
    if path.exists():
        raise UserError(f"{path}: is already there, perhaps with answers. Read it with --read, or name another file.")
    images = labeling.queue(n)
    if not images:
        return 0
    header = ["image", *(question.name for question in labeling.questions)]
    write_text(path, csv_text([header, *([image, *([""] * len(labeling.questions))] for image in images)]))
    return len(images)


def read_sheet(labeling: Labeling, path: Path) -> int:
    """Take over the answers of a filled-in table; a blank is no answer. Returns how many images it speaks of."""
    table = read_columns(path, Problems(), expect="image")
    image = table.find("image")
    if image is None:
        raise UserError(f"{path}: expected a column `image`, as `conceptlens label --table` writes it.")
    if not any(table.find(question.name) for question in labeling.questions):
        names = ", ".join(question.name for question in labeling.questions)
        raise UserError(f"{path}: none of the questions {names} has a column; there are {', '.join(table.names)}.")
    given: dict[str, dict[str, str]] = {}
    wrong = []
    for row, name in enumerate(image.texts()):
        answers = {}
        for question in labeling.questions:
            column = table.find(question.name)
            word = column.texts()[row] if column else ""
            if word:
                at = match_value(word, {value: number for number, value in enumerate(question.values)})
                if at is None:
                    one_of = ", ".join(question.values)
                    wrong.append(f"row {table.rows[row]}, {question.name!r}: {word!r} is none of {one_of}")
                else:
                    answers[question.name] = question.values[at]
        if answers and name not in labeling.source.examples.ids:
            wrong.append(f"row {table.rows[row]}: there is no image {name!r} in {labeling.table}")
        if answers:
            given[name] = answers
    if wrong:
        more = [f"and {len(wrong) - MOST_SHOWN} more"] if len(wrong) > MOST_SHOWN else []
        shown = "".join(f"\n  - {line}" for line in [*wrong[:MOST_SHOWN], *more])
        raise UserError(f"{path}: nothing was read. Correct these and read it again:{shown}")
    for name, answers in given.items():
        labeling.keep(name, answers)
    return len(given)
