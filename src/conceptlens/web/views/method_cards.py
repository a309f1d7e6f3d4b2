"""What each registered method is: from the front matter of the files in `methods/cards`, and of registered cards."""

from functools import cache
from importlib import resources
from typing import Any

from pydantic import Field, ValidationError

from conceptlens.core.documents import Part
from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.files import parse_yaml
from conceptlens.core.registry import CARDS, METHODS
from conceptlens.recipes.parse import recipe_names
from conceptlens.web.schemas.comparison import Supervision
from conceptlens.web.schemas.methods import Evidence, MethodCard, MethodEvidence, MethodScheme
from conceptlens.web.server.problems import not_found
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

    title: str
    order: int = 1000  # where it stands among the others
    paper: str | None = None
    sentences: list[str] = Field(min_length=3, max_length=3)
    supervision: Supervision
    attention: bool
    evidence: bool = False
    scheme: dict[str, Any]
    names: dict[str, _Name]


def method_cards() -> dict[str, MethodCard]:
    """A card for each method that has one, families in their order."""
    registered = [(_read_family(text, where=f"the card of {name}"), name) for name, text in CARDS.items()]
    own = {name: _card(family, name) for family, name in registered if name in family.names}
    return {name: card for name, card in _packaged_cards().items() if name in METHODS.entries} | own


@cache
def _packaged_cards() -> dict[str, MethodCard]:
    files = resources.files("conceptlens.methods.cards").iterdir()
    families = [_read_family(file.read_text("utf-8"), file.name) for file in files if file.name.endswith(".md")]
    families.sort(key=lambda family: (family.order, family.title))
    return {name: _card(family, name) for family in families for name in family.names}


def _read_family(text: str, where: str) -> _Family:
    """The front matter of a card, between two lines of three dashes."""
    start, *rest = text.split("---\n", 2)
    if start or len(rest) != 2:
        raise UserError(f"{where}: expected front matter between two lines of `---` at the top.")
    try:
        return _Family.model_validate(parse_yaml(rest[0], where=where))
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


def _card(family: _Family, name: str) -> MethodCard:
    mine = family.names[name]
    scheme = MethodScheme.model_validate(family.scheme | mine.scheme)
    supervision = mine.supervision or family.supervision
    ready = f"blood-cells/{name}"
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
        evidence=family.evidence,
        command=f"conceptlens train {ready if ready in recipe_names() else f'RECIPE --method {name}'}",
    )


def evidence_of(name: str, index: RunIndex) -> MethodEvidence:
    """What the served folders say of a method: rows of comparisons, and models that are in none."""
    if name not in METHODS:
        raise not_found(f"No method is called {name!r}. {did_you_mean(name, METHODS.names())}")
    cards = index.cards()
    comparisons = [card for card in cards if card.kind == "comparison" and "results" in card.has]
    rows = [row for card in comparisons for row in _rows(name, card.key, index)]
    inside = {card.key for card in cards if card.kind == "comparison"}
    single = [card for card in cards if card.kind == "bottleneck" and card.method == name and card.within not in inside]
    return MethodEvidence(method=name, rows=rows, runs=[card for card in single if card.scores][:RUNS])


def _rows(name: str, key: str, index: RunIndex) -> list[Evidence]:
    try:
        _, found = read_results(index.of_kind(key, "comparison"))
    except Exception:
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
