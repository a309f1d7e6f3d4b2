"""What speaks for a class in one image: the concepts that matter most, as a table with bars."""

from collections.abc import Collection
from dataclasses import dataclass

from conceptlens.pages.charts import signed_bar
from conceptlens.pages.markup import Html, h, names, percent
from conceptlens.reports.stories import GroupReading, Story

MOST_CONCEPTS = 5


@dataclass(frozen=True)
class Reason:
    """One question about an image: an exclusive group, or one concept of an independent one."""

    question: str
    answer: str
    probability: float
    label: str
    agrees: bool | None  # with the label; None where there is none
    contribution: float | None
    at_chance: bool = False  # its group is read no better than by guessing


def reasons_of(story: Story, at_chance: Collection[str] = ()) -> list[Reason]:
    """All questions of a story, those that matter most first."""
    reasons = [reason for group in story.concepts for reason in _of_group(group, group.group in at_chance)]
    return sorted(
        reasons, key=lambda each: -(each.probability if each.contribution is None else abs(each.contribution))
    )


def _of_group(group: GroupReading, at_chance: bool) -> list[Reason]:
    if not group.exclusive:
        return [
            Reason(
                question=f"{group.group}: {each.value}",
                answer="yes" if each.probability >= 0.5 else "no",
                probability=max(each.probability, 1 - each.probability),
                label="not labeled" if each.label is None else "yes" if each.label else "no",
                agrees=None if each.label is None else each.label == (each.probability >= 0.5),
                contribution=each.contribution,
                at_chance=at_chance,
            )
            for each in group.values
        ]
    said = max(group.values, key=lambda each: each.probability)
    true = [each.value for each in group.values if each.label]
    added = [each.contribution for each in group.values if each.contribution is not None]
    return [
        Reason(
            question=group.group,
            answer=said.value,
            probability=said.probability,
            label=names(true) or "not labeled",
            agrees=said.value in true if true else None,
            contribution=sum(added) if added else None,
            at_chance=at_chance,
        )
    ]


def bars(reasons: list[Reason]) -> list[float]:
    """The first reasons one by one, the others together."""
    weights = [reason.contribution or 0.0 for reason in reasons]
    return [*weights[:MOST_CONCEPTS], sum(weights[MOST_CONCEPTS:])]


def reasons_table(story: Story, reasons: list[Reason], scale: tuple[float, float]) -> Html:
    """The reasons of a story; `scale` is that of all bars of the page."""
    shown, rest = reasons[:MOST_CONCEPTS], reasons[MOST_CONCEPTS:]
    rows = [h("tr", _reading(reason), _bar(reason.contribution, scale)) for reason in shown]
    weighed = any(reason.contribution is not None for reason in reasons)
    if weighed and rest:
        together = h("th", f"{len(rest)} others", scope="row")
        rows.append(h("tr", together, _bar(bars(reasons)[-1], scale), class_="others"))
    head = ["The model predicts", *(["Speaks for it"] if weighed else [])]
    columns = h("thead", h("tr", (h("th", name, scope="col") for name in head)))
    caption = f"What speaks for {story.explained}" if weighed else "Concepts as predicted"
    return h("table", h("caption", caption), columns, h("tbody", rows), class_="reasons")


def _reading(reason: Reason) -> Html:
    """A concept as the model reads it, and whether the label agrees."""
    said = [f"{reason.question}: ", h("b", reason.answer), f" {percent(reason.probability, 0)}\u00a0"]
    flag = h("strong", "at chance", class_="flag") if reason.at_chance else None
    if reason.agrees:
        mark = [h("span", "✓", class_="agrees", aria_hidden="true"), h("span", "as labeled", class_="unseen")]
        return h("th", said, mark, " ", flag, scope="row")
    cross = h("span", "✗", class_="differs", aria_hidden="true") if reason.agrees is False else None
    label = reason.label if reason.agrees is None else f"labeled {reason.label}"
    return h("th", said, cross, " ", flag, h("span", label, class_="meaning"), scope="row")


def _bar(value: float | None, scale: tuple[float, float]) -> Html | None:
    if value is None:
        return None
    return h("td", signed_bar(value, scale), h("span", f"{value:+.2f}".replace("-", "−"), class_="small"))
