"""JSON files with a fixed shape: written whole, and checked when they are read back."""

from pathlib import Path
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json


class Part(BaseModel):
    """A part of a document: no unknown keys, no infinities."""

    model_config = ConfigDict(allow_inf_nan=False, extra="forbid")


class Document(Part):
    """A file."""

    remedy: ClassVar[str]  # what to do about one that is damaged

    def write(self, path: Path) -> None:
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file, or a `UserError` that names what is wrong with it."""
        raw = read_json(path)
        if isinstance(raw, dict):
            raw.pop("schema", None)
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            first = error.errors()[0]
            raise UserError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}. {cls.remedy}") from None
