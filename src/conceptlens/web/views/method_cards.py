"""What each registered method is: from the files in `methods/`, which come with the package and are read once."""

from functools import cache
from importlib import resources
from typing import Any

from pydantic import Field

from conceptlens.core.documents import Part
from conceptlens.core.errors import did_you_mean
from conceptlens.core.registry import METHODS
from conceptlens.web.schemas.comparison import Supervision
from conceptlens.web.schemas.methods import Evidence, MethodCard, MethodEvidence, MethodScheme
from conceptlens.web.server.problems import Problem, not_found
from conceptlens.web.views.comparison import read_results
from conceptlens.web.views.runs import RunIndex
from conceptlens.workflows.compare.supervision_blocks import TITLES

RUNS = 30  # single models that are named as evidence, at most


class _Name(Part):
    """How one name of a family differs from what the family's file says."""

    variant: str | None = None
    supervision: Supervision | None = None
    scheme: dict[str, Any] = Field(default_factory=dict)


class _Family(Part):
    """A file: methods that share a paper."""

    schema_: int = Field(alias="schema")
    title: str
    paper: str | None
    sentences: list[str] = Field(min_length=3, max_length=3)
    supervision: Supervision
    attention: bool
    scheme: dict[str, Any]
    names: dict[str, _Name]


@cache
def method_cards() -> dict[str, MethodCard]:
    """A card for each method, in the order of the registry."""
    made: dict[str, MethodCard] = {}
    for file in resources.files("conceptlens.methods.cards").iterdir():
        if file.name.endswith(".json"):
            family = _Family.model_validate_json(file.read_text("utf-8"))
            made |= {name: _card(family, name) for name in family.names}
    return {name: made[name] for name in METHODS.entries if name in made}


def _card(family: _Family, name: str) -> MethodCard:
    mine = family.names[name]
    scheme = MethodScheme.model_validate(family.scheme | mine.scheme)
    supervision = mine.supervision or family.supervision
    return MethodCard(
        name=name,
        title=family.title,
        paper=family.paper,
        sentences=family.sentences,
        variant=mine.variant,
        family=list(family.names),
        scheme=scheme,
        supervision=supervision,
        supervision_title=TITLES[supervision],
        bypass=scheme.bypass,
        attention=family.attention,
        command=f"conceptlens train blood-cells/{name}",
    )


def evidence_of(name: str, index: RunIndex) -> MethodEvidence:
    """What the served folders say of a method: rows of comparisons, and models that are in none."""
    if name not in METHODS.entries:
        raise not_found(f"No method is called {name!r}. {did_you_mean(name, METHODS.entries)}")
    cards = index.cards()
    comparisons = [card for card in cards if card.kind == "comparison" and "results" in card.has]
    rows = [row for card in comparisons for row in _rows(name, card.key, index)]
    inside = {card.key for card in cards if card.kind == "comparison"}
    single = [card for card in cards if card.kind == "bottleneck" and card.method == name and card.within not in inside]
    return MethodEvidence(method=name, rows=rows, runs=[card for card in single if card.scores][:RUNS])


def _rows(name: str, key: str, index: RunIndex) -> list[Evidence]:
    try:
        _, found = read_results(index.of_kind(key, "comparison"))
    except Problem:
        return []  # its own card and view say what is wrong with it
    return [
        Evidence(
            run=key,
            comparison=found.name,
            data=data.name,
            images=data.images,
            supervision=block.supervision,
            block=block.title,
            row=row.name,
            control=row.control_of is not None,
            verdict=block.verdicts.get(row.name),
            trainings=row.trainings,
            measures=row.measures,
        )
        for data in found.data
        for block in data.blocks
        for row in block.rows
        if row.method == name
    ]
