"""What raters are shown, read back from a pack's page: everything that may be known while they answer.

Whoever serves a pack needs no more than this: the key is not opened before the study is closed.
"""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, ValidationError

from conceptlens.core.documents import Part
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_checked

AGAIN = "Make the pack again with `conceptlens study make`."
LARGEST = 100_000_000  # bytes of a page
STUDY = r"^[0-9a-f]{8,64}$"
PICTURE = r"^data:image/webp;base64,[A-Za-z0-9+/=]+$"
_DATA = re.compile(r'<script type="application/json" id="study">(.*?)</script>', re.DOTALL)


class Words(Part):
    """A concept, or a request to press a number."""

    id: str = Field(max_length=400)
    name: str = Field(max_length=400)
    text: str = Field(max_length=4000)


class Grid(Part):
    """A map."""

    grid: tuple[Annotated[int, Field(ge=1, le=1024)], Annotated[int, Field(ge=1, le=1024)]]
    values: str  # bytes, row by row, in base64


class ShownTrial(Part):
    """A question."""

    id: str = Field(max_length=80)
    kind: Literal["choice", "likert"]
    image: int = Field(ge=0)
    map: int = Field(ge=0)
    options: list[Words] | None = None
    concept: Words | None = None

    @property
    def answers(self) -> list[str]:
        """What may be answered."""
        return [each.id for each in self.options or []] if self.kind == "choice" else [str(n) for n in range(1, 6)]


class Shown(Part):
    """The page's content."""

    study: str = Field(pattern=STUDY)
    images: list[Annotated[str, Field(pattern=PICTURE)]]
    maps: list[Grid]
    trials: list[ShownTrial]
    colors: str = Field(max_length=4000, validation_alias=AliasChoices("colors", "colours"))  # as 0.1 called them


def read_shown(page: Path) -> Shown:
    """The content of a pack's page; one that is not as `study make` writes it is refused."""
    try:
        found = _DATA.search(read_checked(page, LARGEST).decode("utf-8"))
        if found is None:
            raise UserError(f"{page}: no study in this page. {AGAIN}")
        shown = Shown.model_validate_json(found[1])
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{page}: cannot be read ({error}).") from None
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{page}: {place}: {first['msg']}. {AGAIN}") from None
    known = len({trial.id for trial in shown.trials})
    inside = all(trial.image < len(shown.images) and trial.map < len(shown.maps) for trial in shown.trials)
    if not shown.trials or known != len(shown.trials) or not inside:
        raise UserError(f"{page}: its questions do not fit together. {AGAIN}")
    return shown
