"""`refine.json`: before and after a change of concepts."""

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import PrivateAttr

from conceptlens.core.documents import Document, Part, TableRow
from conceptlens.stats.estimates import Estimate

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Contrast(Part):
    """A difference between two sides."""

    name: str
    estimate: Estimate
    p: float


class Row(Part):
    """One measure."""

    measure: str  # its path in metrics.json
    name: str
    values: dict[str, Estimate]  # before, after, control
    contrasts: list[Contrast]


class Refinement(Document):
    """The file."""

    remedy = "Refine the run again with `conceptlens refine RUN`."

    run: str
    method: str
    data: str
    split: str
    images: int
    seeds: list[int]
    replaced: list[str]
    dropped: list[str]
    control: dict[str, list[str]]  # seed: the concepts that were changed instead, chosen at random
    rows: list[Row]
    runs: dict[str, list[str]]
    notes: list[str]
    _folder: Path = PrivateAttr(default=Path())

    @property
    def folder(self) -> Path:
        """Where its trainings are."""
        return self._folder

    def text(self) -> str:
        what = "; ".join([*(f"{each}" for each in self.replaced), *(f"without {each}" for each in self.dropped)])
        lines = [f"{self.run}: {what} ({len(self.seeds)} seed(s), {self.images} {self.split} images)"]
        for row in self.rows:
            text = ", ".join(f"{side} {value.text()}" for side, value in row.values.items())
            lines.append(f"  {row.name:28}{text}")
            lines += [f"    {each.name:26}{each.estimate.text()}, p = {each.p:.3f}" for each in row.contrasts]
        return "\n".join([*lines, self.verdict(), *self.notes])

    def table(self) -> list[TableRow]:
        """Every measure of every side, and their differences."""
        sides: list[TableRow] = [
            {"measure": row.measure, "of": side, **estimate.row(), "p": None}
            for row in self.rows
            for side, estimate in row.values.items()
        ]
        return sides + [
            {"measure": row.measure, "of": contrast.name, **contrast.estimate.row(), "p": contrast.p}
            for row in self.rows
            for contrast in row.contrasts
        ]

    def plot(self) -> "Figure":
        """Each measure on each side."""
        from conceptlens.workflows.refine.figure import refinement_figure

        return refinement_figure(self)

    def verdict(self) -> str:
        """The table in one sentence."""
        row = next((each for each in self.rows if each.measure == "class.balanced_accuracy"), None)
        if row is None:
            return "Nothing could be compared."
        gains = {each.name: each for each in row.contrasts}
        gain, beyond = gains["after − before"], gains.get("after − control")
        if gain.p >= 0.05:
            return f"No significant change of {row.name}: {gain.estimate.text()}."
        way = "rises" if (gain.estimate.value or 0) > 0 else "falls"
        text = f"{row.name.capitalize()} {way} with the change: {gain.estimate.text()}."
        if beyond is None:
            return f"{text} There is no control."
        if beyond.p < 0.05:
            return f"{text} It differs significantly from the control: {beyond.estimate.text()}."
        return f"{text} It does not differ significantly from the control: {beyond.estimate.text()}."
