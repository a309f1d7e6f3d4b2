"""Labels that people corrected: `corrections.csv`, as the page writes it, laid over the labels of a data source.

A row is one label: the image by its id, `concept`, a group that has one value, a single yes/no concept by its full
name or the word `class`, and `after`, the new label. Of two rows about the same label the later one counts. The file
only ever grows; a recipe remembers how many rows it read, so that a run made with it can be made again when there are
more.
"""

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core import manifest
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.regular import check_regular
from conceptlens.core.spreadsheet import bounded_lines, read_cell
from conceptlens.data.dataset import DataSource
from conceptlens.data.labels.words import match_value, yes_no
from conceptlens.recipes.schema import DataConfig

COLUMNS = ("time", "rater", "image", "concept", "before", "said", "after")
CLASS = "class"  # in place of a concept: the image's class is corrected
NEEDED = ("image", "concept", "after")


@dataclass(frozen=True)
class Correction:
    """One label that a person gave."""

    time: str
    rater: str
    image: str
    concept: str
    before: str  # the label on file; empty: none
    said: str  # what the model said
    after: str


def read_corrections(path: Path, rows: int | None = None) -> list[Correction]:
    """The rows of a file, or its first so many; only `image`, `concept` and `after` are needed."""
    check_regular(path)
    manifest.check(path)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(bounded_lines(file, str(path)))
            lacking = [name for name in NEEDED if name not in (reader.fieldnames or ())]
            if lacking:
                raise UserError(f"{path}: expected the columns {', '.join(NEEDED)}; {lacking[0]!r} is missing.")
            found = [Correction(*(read_cell((row.get(name) or "").strip()) for name in COLUMNS)) for row in reader]
    except FileNotFoundError:
        raise UserError(f"{path}: no such file. The page writes one when a concept is corrected.") from None
    except (IsADirectoryError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: expected a table of corrections, but {error}.") from None
    if rows is not None and rows > len(found):
        raise UserError(f"{path}: {rows} corrections were read when the run was made, {len(found)} are left of them.")
    return found[:rows]


def correct_labels(config: DataConfig, source: DataSource, concepts: ConceptSet) -> None:
    """Lay the corrections that a recipe names over a source's labels; the recipe remembers how many it read."""
    assert config.corrections is not None
    path = Path(config.corrections).expanduser().absolute()
    rows = read_corrections(path, config.corrections_read)
    config.corrections, config.corrections_read = str(path), len(rows)
    place = {name: index for index, name in enumerate(source.examples.ids)}
    labels = source.examples.concepts.copy()
    classes = source.examples.labels.copy()
    groups = {group.name: group for group in concepts.groups}
    for number, row in enumerate(rows, start=2):
        where = f"{path}: row {number}"
        if row.image not in place:
            raise UserError(f"{where}: {unknown_name('image', row.image, place)} These are corrections of other data.")
        index = place[row.image]
        if row.concept in groups:
            group = groups[row.concept]
            value = match_value(row.after, {name: at for at, name in enumerate(group.values)})
            if value is None or group.kind != "exclusive":
                raise UserError(f"{where}: {unknown_name(f'value of {group.name!r}', row.after, group.values)}")
            labels[index, group.concepts] = 0
            labels[index, group.concepts.start + value] = 1
        elif row.concept in concepts.names:
            answer = yes_no(row.after)
            if answer is None:
                raise UserError(f"{where}: {row.concept!r} is a yes or a no, found {row.after!r}.")
            column = concepts.names.index(row.concept)
            group = concepts.groups[concepts.group_of[column]]
            if group.kind == "exclusive" and (answer or labels[index, column] == 1):
                labels[index, group.concepts] = 0 if answer else UNKNOWN  # yes to one is no to the others
            labels[index, column] = int(answer)
        elif row.concept == CLASS and classes.ndim == 1:
            label = match_value(row.after, {name: at for at, name in enumerate(source.classes)})
            if label is None:
                raise UserError(f"{where}: {unknown_name('class', row.after, source.classes)}")
            classes[index] = label
        else:
            raise UserError(f"{where}: {unknown_name('concept', row.concept, [*groups, *concepts.names])}")
    certainty = source.examples.certainty
    if certainty is not None:  # a person has looked: what they changed counts in full
        certainty = np.where(labels != source.examples.concepts, np.float32(1), certainty)
    concept_labels = concepts.mask_hierarchy(labels)
    source.examples = replace(source.examples, labels=classes, concepts=concept_labels, certainty=certainty)
