"""CSV text that is safe to open in a spreadsheet: a name such as `=HYPERLINK(…)` stays a name.

A cell of words that a spreadsheet would take for a formula gets an apostrophe in front, as people write it there; the
readers here take it off again. Numbers such as -0.5 stay numbers.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

from conceptlens.core.errors import UserError

LONGEST_LINE = 2**24  # characters; a line break that never comes would fill the memory
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\x00-\x1f\x7f]")  # with apostrophes of its own, one more tells it apart
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
# In countries with a decimal comma a spreadsheet splits lines at semicolons, whatever is quoted: a cell begins there.
_INNER = re.compile(rf"([;\t\r\n] *)(?!{_NUMBER.pattern}(?:[;\t\r\n]|$))('*[=+\-@＝＋－＠])")
_QUOTED_INNER = re.compile(r"([;\t\r\n] *)'('*[=+\-@＝＋－＠])")


def safe_cell(value: object) -> str:
    """A cell as text."""
    text = _INNER.sub(lambda found: f"{found[1]}'{found[found.re.groups]}", "" if value is None else str(value))
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def read_cell(text: str) -> str:
    """What `safe_cell` was given."""
    text = text[1:] if text.startswith("'") and _FORMULA.match(text) else text
    return _QUOTED_INNER.sub(r"\1\2", text)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    buffer = io.StringIO()
    for row in rows:
        cells = [safe_cell(cell) for cell in row]
        # Python before 3.13 leaves a lone carriage return unquoted, which readers take for the end of a row.
        split = any("\r" in cell for cell in cells)
        csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL if split else csv.QUOTE_MINIMAL).writerow(cells)
    return buffer.getvalue()


def bounded_lines(file: io.TextIOBase, source: str) -> Iterator[str]:
    """The lines of a text file; one that is too long for a table is refused before it is read whole."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise UserError(
                f"{source}: expected a table, found a line of {LONGEST_LINE:,} characters or more. Is it a text file?"
            )
        yield line
