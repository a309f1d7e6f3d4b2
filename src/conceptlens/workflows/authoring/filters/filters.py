"""The filters in order, each concept judged by the first that objects; what repeats another hands its classes over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import Field

from conceptlens.core.documents import Part
from conceptlens.core.errors import unknown_name
from conceptlens.workflows.authoring.candidates import Candidate
from conceptlens.workflows.authoring.filters.class_names import Names, means_a_class, names_a_class
from conceptlens.workflows.authoring.filters.length import too_long
from conceptlens.workflows.authoring.filters.removal import Code, Removal
from conceptlens.workflows.authoring.filters.repeats import repeats
from conceptlens.workflows.authoring.filters.separability import indistinct, tells_nothing_apart
from conceptlens.workflows.authoring.filters.visible import not_visible, says_nothing

if TYPE_CHECKING:
    from conceptlens.encoders.contract import TextEncoder

# Cosines have another scale in each text space. Those of builtin/text were chosen by hand on pairs of phrases that say
# the same and pairs that do not (tests/workflows/authoring/test_filters.py holds them).
CUTOFFS = {"builtin/text": (0.85, 0.72), "builtin/hashed-text": (0.80, 0.80)}
ELSEWHERE = (0.92, 0.90)


class Rules(Part):
    """What is allowed."""

    most_words: int = 20
    name_longest: int = 45
    repeats_above: float | None = None  # cosine; None: what suits the text encoder
    class_above: float | None = None
    keep: list[str] = Field(default_factory=list)  # concepts or groups that stay whatever the filters say

    def for_encoder(self, name: str) -> "Rules":
        repeat, like_class = CUTOFFS.get(name, ELSEWHERE)
        return self.model_copy(
            update={
                "repeats_above": repeat if self.repeats_above is None else self.repeats_above,
                "class_above": like_class if self.class_above is None else self.class_above,
            }
        )


@dataclass
class Judged:
    """What stays and what goes."""

    kept: list[Candidate]
    removed: list[Removal]
    indistinct: list[tuple[str, str]] = field(default_factory=list)  # classes that nothing tells apart


@dataclass
class Judge:
    """One judgement of a list of candidates."""

    classes: Sequence[str]
    text: "TextEncoder"
    rules: Rules
    domain: str = ""

    def __post_init__(self) -> None:
        self.rules = self.rules.for_encoder(self.text.name)

    @cached_property
    def names(self) -> Names:
        return Names(self.classes, self.domain)

    def of(self, candidates: Sequence[Candidate], objected: Mapping[int, str] | None = None) -> Judged:
        """Judge them all; `objected` holds what a second model said, by position."""
        current = list(candidates)
        kept_by_hand = self._kept_by_hand(current)
        gone: dict[int, Removal] = {}

        def take(code: Code, reasons: Mapping[int, str]) -> None:
            for at, reason in reasons.items():
                if at not in gone:
                    each = current[at]
                    gone[at] = Removal(
                        concept=each.name,
                        text=each.text,
                        code=code,
                        reason=reason,
                        classes=sorted(each.classes),
                        overruled=at in kept_by_hand,
                    )

        def left() -> list[int]:
            return [at for at in range(len(current)) if at not in gone or gone[at].overruled]

        assert self.rules.repeats_above is not None
        assert self.rules.class_above is not None
        take("names a class", names_a_class(current, self.names))
        take("says nothing to look for", says_nothing(current))
        take("not visible", not_visible(current))
        take("too long", too_long(current, self.rules.most_words, self.rules.name_longest))
        take("second model objects", objected or {})
        if current:
            vectors = self.text.embed([each.text for each in current])
            if self.classes:
                names = self.text.embed(list(self.classes))
                take("names a class", means_a_class(vectors, names, self.classes, self.rules.class_above))
            for pair in repeats(current, vectors, self.rules.repeats_above, self.text.embed, left()):
                take("repeats another", {pair.gone: pair.reason(current)})
                if gone[pair.gone].code == "repeats another" and pair.gone not in kept_by_hand:
                    stays, goes = current[pair.stays], current[pair.gone]
                    classes = stays.classes | goes.classes
                    current[pair.stays] = replace(stays, classes=classes, without=stays.without - classes)
                    gone[pair.gone].merged_into = stays.name
        take("tells no classes apart", tells_nothing_apart(current, self.classes))
        kept = [current[at] for at in left()]
        told = bool(self.classes) and any(each.classes for each in kept)
        removed = [gone[at] for at in sorted(gone)]
        return Judged(kept, removed, indistinct(kept, self.classes) if told else [])

    def _kept_by_hand(self, candidates: Sequence[Candidate]) -> set[int]:
        known = {each.name for each in candidates} | {each.group for each in candidates}
        for name in self.rules.keep:
            if name not in known:
                raise unknown_name("concept to keep", name, sorted(known))
        return {at for at, each in enumerate(candidates) if {each.name, each.group} & set(self.rules.keep)}
