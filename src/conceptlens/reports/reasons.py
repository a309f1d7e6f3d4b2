"""What speaks for a class in one image: the concepts that matter most, as a table with bars."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from conceptlens.explanations.document import Reason as Told
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
    cause: str = ""  # what adds its weight where the answer does not, as "less green than usual"


def reasons_of(story: Story, at_chance: Collection[str] = ()) -> list[Reason]:
    """The questions of a story that are reasons, those that matter most first: in the order of its account."""
    reasons = [reason for group in story.concepts for reason in _of_group(group, group.group in at_chance)]
    if story.account is not None:
        known = {reason.question: reason for reason in reasons}
        return [_as_told(known[each.question], each) for each in story.account.reasons]
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


def _as_told(reason: Reason, told: Told) -> Reason:
    """A question with what the account says of it."""
    if told.compared:
        return replace(reason, contribution=told.weight, cause=told.answer)
    agrees = None if reason.agrees is None else reason.label == told.answer
    return replace(reason, answer=told.answer, probability=told.probability, agrees=agrees, contribution=told.weight)


def bars(story: Story, reasons: list[Reason]) -> list[tuple[str, float]]:
    """What a table shows besides single reasons, in words, and how long each bar is."""
    account, rest = story.account, [reason.contribution or 0.0 for reason in reasons[MOST_CONCEPTS:]]
    found = [(f"{len(rest)} others", sum(rest))] if rest else []
    if account is None or account.total is None or account.base is None:
        return found
    if account.aside:
        why = ", ".join(f"{each.question} ({each.why})" for each in account.aside)
        found.append((f"not counted: {why}", sum(each.weight or 0.0 for each in account.aside)))
    if account.bypass:
        found.append(("besides the concepts", account.bypass))
    return [*found, ("the average image itself", account.base)]


def lengths(story: Story, reasons: list[Reason]) -> list[float]:
    """Of all bars of a table."""
    single = [reason.contribution or 0.0 for reason in reasons[:MOST_CONCEPTS]]
    return [*single, *(value for _, value in bars(story, reasons))]


def reasons_table(story: Story, reasons: list[Reason], scale: tuple[float, float]) -> Html:
    """The reasons of a story; `scale` is that of all bars of the page."""
    rows = [h("tr", _reading(reason), _bar(reason.contribution, scale)) for reason in reasons[:MOST_CONCEPTS]]
    weighed = any(reason.contribution is not None for reason in reasons)
    if weighed:
        rows += [
            h("tr", h("th", words, scope="row"), _bar(value, scale), class_="others")
            for words, value in bars(story, reasons)
        ]
    head = ["The model predicts", *(["Speaks for it"] if weighed else [])]
    columns = h("thead", h("tr", (h("th", name, scope="col") for name in head)))
    rival = story.account.minus if story.account else None
    against = f" rather than {rival}" if rival else ""
    caption = f"What speaks for {story.explained}{against}" if weighed else "Concepts as predicted"
    return h("table", h("caption", caption), columns, h("tbody", rows), class_="reasons")


def _reading(reason: Reason) -> Html:
    """A concept as the model reads it, and whether the label agrees."""
    said = [f"{reason.question}: ", h("b", reason.answer), f" {percent(reason.probability, 0)}\u00a0"]
    flag = [h("strong", "at chance", class_="flag")] if reason.at_chance else []
    flag += [h("span", reason.cause, class_="meaning")] if reason.cause else []
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
