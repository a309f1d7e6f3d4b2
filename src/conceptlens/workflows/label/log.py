"""What raters said: one file for each, which only grows. Undo takes the last answer back; labeling resumes from it."""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_text
from conceptlens.core.spreadsheet import read_cell, safe_cell

FOLDER = "labels"  # beside the table
COLUMNS = ("time", "image", "question", "answer")
UNDONE = "(taken back)"
UNSURE = "(unsure)"  # looked at, and left without a label
_NAME = re.compile(r"[\w-]{1,40}")
Answers = dict[tuple[str, str], str]  # (image, question) → answer


class RaterLog:
    """The answers of one rater.

    Args:
        folder: Where the files of all raters are.
        rater: A short name.
    """

    def __init__(self, folder: Path, rater: str) -> None:
        if not _NAME.fullmatch(rater):
            raise UserError(f"--rater: expected a short name of letters and digits, found {rater!r}.")
        self.path, self.rater = folder / f"{rater}.csv", rater
        if self.path.is_symlink():  # the folder may be a stranger's: answers would be added to any file of this user
            raise UserError(f"{self.path}: a link; answers are not written through it. Put the file itself there.")

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Every row in order; a torn last one, of a killed process, is left out."""
        if not self.path.exists():
            return []
        try:
            lines = io.StringIO(read_text(self.path), newline="")
            rows = [[*map(read_cell, row)] for row in csv.reader(lines) if len(row) == len(COLUMNS)]
        except (OSError, ValueError, csv.Error) as error:
            raise UserError(f"{self.path}: expected what a rater said, as a table; but {error}.") from None
        return [(row[0], row[1], row[2], row[3]) for row in rows if row[0] != COLUMNS[0]]

    def answers(self) -> Answers:
        """The last answer to each question that was not taken back."""
        found: Answers = {}
        for _, image, question, answer in self.rows():
            if answer == UNDONE:
                found.pop((image, question), None)
            else:
                found[image, question] = answer
        return found

    def add(self, image: str, answers: Mapping[str, str]) -> None:
        """Append answers about one image."""
        self._append((image, question, answer) for question, answer in answers.items())

    def undo(self) -> str | None:
        """Take back the answers about the image that was labeled last; returns that image."""
        answers = self.answers()
        order = [image for _, image, question, answer in self.rows() if (image, question) in answers]
        if not order:
            return None
        last = order[-1]
        self._append((last, question, UNDONE) for image, question in answers if image == last)
        return last

    def _append(self, rows: Iterable[tuple[str, str, str]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        torn = not new and not self.path.read_bytes().endswith(b"\n")  # by a kill: what follows needs a line of its own
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write("\n" * torn)
            writer = csv.writer(file)
            if new:
                writer.writerow(COLUMNS)
            writer.writerows((now, *map(safe_cell, row)) for row in rows)


def all_raters(folder: Path) -> dict[str, Answers]:
    """Rater → answers, of every file in the folder that is called like a rater."""
    raters = [path.stem for path in sorted(folder.glob("*.csv")) if _NAME.fullmatch(path.stem)]
    return {rater: RaterLog(folder, rater).answers() for rater in raters}
