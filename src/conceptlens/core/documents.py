"""Results and their JSON files: shown in a notebook, as a table or a figure; written whole, checked when read back."""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError

from conceptlens.core.errors import UserError
from conceptlens.core.figures import png_bytes
from conceptlens.core.files import read_json, write_bytes, write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

TableRow = dict[str, str | float | bool | None]


class ResultMixin:
    """What every result can do. A subclass says what it is in `text`, `table` and `plot`, as far as it has them."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as in its file; of a dataclass, its fields."""
        values: Any = self
        return asdict(values)

    def text(self) -> str:
        """What a person reads in a terminal."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, default=str)

    def __repr__(self) -> str:
        """What a console shows: its words, not its fields. A dataclass needs `repr=False` for it."""
        return self.text()

    def __str__(self) -> str:
        return self.text()

    def table(self) -> list[TableRow]:
        """The main numbers: the same columns in each row."""
        raise UserError(f"{type(self).__name__} is no table. Use `to_dict()` for its values.")

    def to_pandas(self) -> "DataFrame":
        """`table` as a data frame; needs pandas."""
        rows = self.table()
        try:
            from pandas import DataFrame
        except ImportError:
            raise UserError("A data frame needs pandas: pip install pandas. `table()` has the same rows.") from None
        return DataFrame(rows)

    def plot(self) -> "Figure":
        """A matplotlib figure."""
        raise UserError(f"{type(self).__name__} has no figure. Use `text()` or `to_dict()`.")

    @property
    def has_figure(self) -> bool:
        return type(self).plot is not ResultMixin.plot

    def _pictures(self) -> Sequence[bytes]:
        """What a notebook shows below the words, as PNG."""
        return [png_bytes(self.plot())] if self.has_figure else []

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        name = escape(type(self).__name__)
        drawn = (
            f'<img src="data:image/png;base64,{b64encode(png).decode()}" alt="{name}">' for png in self._pictures()
        )
        return f"<h4>{name}</h4><pre>{escape(self.text())}</pre>{''.join(drawn)}"


@dataclass(frozen=True, repr=False)
class TextResult(ResultMixin):
    """A result that is words alone."""

    words: str

    def text(self) -> str:
        return self.words


class Part(BaseModel):
    """A part of a document: no unknown keys, no infinities."""

    model_config = ConfigDict(allow_inf_nan=False, extra="forbid")


class Document(ResultMixin, Part):
    """A result with a file of its own."""

    remedy: ClassVar[str]  # what to do about one that is damaged
    _files: tuple[Path, ...] = PrivateAttr(default=())  # the document's own first

    def __eq__(self, other: object) -> bool:
        """Equal content; where it is written does not matter."""
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def printed(self) -> dict[str, Any]:
        """What the option `--json` of a command prints: the file, unless a document has something shorter."""
        return self.to_dict()

    @property
    def written_to(self) -> Path | None:
        """The file it was written to or read from."""
        return self._files[0] if self._files else None

    def written_text(self) -> str:
        """Where it was written, in words; empty if it was not."""
        return f"written to {', drawn in '.join(map(str, self._files))}" if self._files else ""

    def write(self, path: str | Path) -> None:
        """The file alone."""
        write_json(Path(path), self.to_dict())
        self._files = (Path(path),)

    def save(self, path: str | Path) -> Self:
        """Write the file, and the figure beside it where there is one."""
        self.write(path)
        if self.has_figure:
            picture = Path(path).with_suffix(".png")
            write_bytes(picture, png_bytes(self.plot()))
            self._files = (Path(path), picture)
        return self

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file, or a `UserError` that names what is wrong with it."""
        raw = read_json(path)
        if isinstance(raw, dict):
            raw.pop("schema", None)
        try:
            document = cls.model_validate(raw)
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}. {cls.remedy}") from None
        document._files = (path,)
        return document
