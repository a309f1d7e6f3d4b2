"""Several ways to say each class in English, so that the image tower is aligned with more than bare names.

    python -m pretraining.student.wordings --wordnet DIR --out wordings.json

WordNet's definitions take part; the file is work material and is not kept with the project.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conceptlens.concepts.concept_set import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json
from conceptlens.encoders.contract import TextEncoder
from pretraining.command import command
from pretraining.imagenet import NAMES, glosses

TEMPLATES = (
    "{}",
    "a {}",
    "a photo of a {}",
    "a small picture of a {}",
    "a close-up photo of a {}",
    "a photo of the {}",
    "an image that shows a {}",
)
CELL = "a {}, a kind of white blood cell"


def class_wordings(wordnet: Path | None) -> list[list[str]]:
    """Wordings × the 1,000 classes: templates and, where a WordNet folder is given, its definitions."""
    wordings = [[template.format(name) for name in NAMES] for template in TEMPLATES]
    if wordnet is not None:
        meaning = glosses(wordnet)
        wordings.append(meaning)
        wordings.append([f"{name}, {gloss}" for name, gloss in zip(NAMES, meaning, strict=True)])
    return wordings


def cell_axes() -> tuple[list[str], list[list[str]], list[str]]:
    """Axes of the blood cells, the class first: their names, their values, and all values' texts side by side."""
    concepts = ConceptSet.load("blood-cells")
    columns, values = ["label"], [list(concepts.classes)]
    texts = [CELL.format(name.lower()) for name in concepts.classes]
    for group in concepts.groups:
        columns.append(group.name)
        values.append(list(group.values))
        texts += concepts.texts[group.concepts]
    return columns, values, texts


def embed_wordings(wordings: list[list[str]], encoder: TextEncoder) -> Tensor:
    """(W, 1000, T) unit vectors."""
    return torch.stack([encoder.embed(each) for each in wordings])


def load_wordings(path: Path) -> list[list[str]]:
    """The file that this module wrote."""
    value: Any = read_json(path)
    wordings = value.get("wordings") if isinstance(value, dict) else None
    if not isinstance(wordings, list) or not all(
        isinstance(each, list) and len(each) == len(NAMES) for each in wordings
    ):
        raise UserError(f"{path}: expected wordings of {len(NAMES)} classes. Make it by pretraining.student.wordings.")
    return wordings


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, help="folder with data.noun and index.sense")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    write_json(options.out, {"schema": 1, "wordings": class_wordings(options.wordnet)})


if __name__ == "__main__":
    sys.exit(main())
