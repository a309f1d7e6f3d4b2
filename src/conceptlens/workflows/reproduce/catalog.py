"""What is known of each table and figure: one YAML file a paper in `papers/`."""

from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.files import parse_yaml
from conceptlens.core.package_files import package_text, package_yaml_names

PACKAGE = "conceptlens.workflows.reproduce"


class Item(BaseModel):
    """A table or a figure of a paper."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    shows: str
    here: str = ""  # data and encoder of the small version
    cost: str = ""  # of the small version
    compare: dict[str, Any] | None = None  # a comparison, written to {out}/compare.yaml
    small: tuple[str, ...] = ()  # command lines; {out} is the folder for what they write
    full: tuple[str, ...] = ()  # as in evidence, from a clone of the repository; they run in the folder of the data
    full_cost: str = ""
    by_hand: str = ""  # where it was made in full, but not by one command
    missing: str = ""  # what the paper's own version needs, and where to get it
    evidence: str = ""  # folder in evidence/

    @property
    def commands(self) -> tuple[str, ...]:
        """The command lines of the small version."""
        made = ("conceptlens compare {out}/compare.yaml --out {out}/comparison",) if self.compare else ()
        return made + self.small


class Paper(BaseModel):
    """A paper and its tables and figures."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    items: dict[str, Item]


@cache
def papers() -> dict[str, Paper]:
    """All papers by name."""
    names = package_yaml_names(PACKAGE, "papers")
    return {
        name: Paper(**parse_yaml(package_text(PACKAGE, "papers", f"{name}.yaml"), where=f"{name}.yaml"))
        for name in names
    }


def find(name: str) -> Item:
    """A table or figure by its name, as `ivq-cbm/table-3`."""
    known = {f"{paper}/{item}": found for paper, each in papers().items() for item, found in each.items.items()}
    if name not in known:
        raise UserError(
            f"No table or figure {name!r}. {did_you_mean(name, known)} `conceptlens reproduce list` shows all of them."
        )
    return known[name]
