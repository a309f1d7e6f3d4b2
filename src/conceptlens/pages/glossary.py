"""The glossary: the terms of conceptlens, their meaning and a reference, read from the table in `glossary.md`."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("glossary.md")


@dataclass(frozen=True)
class GlossaryEntry:
    """One term; `reference` is None for terms of conceptlens itself."""

    meaning: str
    reference: str | None


@cache
def glossary() -> dict[str, GlossaryEntry]:
    """Entries by term, in the order of the file."""
    rows = [line for line in FILE.read_text("utf-8").splitlines() if line.startswith("| ")][2:]
    entries: dict[str, GlossaryEntry] = {}
    for row in rows:
        term, meaning, reference = (cell.strip() for cell in row.strip("|").split(" | "))
        entries[term] = GlossaryEntry(meaning, None if reference == "–" else reference)
    return entries
