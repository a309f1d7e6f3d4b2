"""Some images one by one: what the model says, what is true, and which concepts decided."""

from dataclasses import dataclass

from conceptlens.report.charts import signed_bar
from conceptlens.report.markup import Html, h, join, names, percent
from conceptlens.report.material import SPOKEN, Material
from conceptlens.report.stories import GroupReading, Stories, Story
from conceptlens.report.thumbnails import CREDITS, Picture, Pictures

MOST_CONCEPTS = 5
TITLES = {
    "right": ("The surest that are right", "Right"),
    "wrong": ("The surest that are wrong", "Wrong"),
    "unsure": ("The least sure", "Unsure"),
}


@dataclass(frozen=True)
class Line:
    """One question about an image: an exclusive group, or one concept of an independent one."""

    question: str
    answer: str
    probability: float
    label: str
    agrees: bool | None
    contribution: float | None


def story_cards(material: Material, pictures: Pictures) -> Html:
    """Section 7."""
    stories = material.stories
    if stories is None or not stories.stories:
        return h("p", "This run tells no single images: it has no stories.json, or no labelled images to choose from.")
    lines = {story.image: lines_of(story) for story in stories.stories}
    weights = [0.0, *(weight for told in lines.values() for weight in _weights(told))]
    scale = (min(weights), max(weights))
    parts = [h("p", _introduction(material, stories))]
    if pictures.reason:
        parts.append(h("p", f"Pictures are missing: {pictures.reason.rstrip('.')}.", class_="watch"))
    for kind, (title, badge) in TITLES.items():
        told = [story for story in stories.stories if story.kind == kind]
        if told:
            cards = [_card(material, story, lines[story.image], badge, scale, pictures) for story in told]
            parts += [h("h3", title), h("div", cards, class_="cards")]
    credit = CREDITS.get(str(material.info["data"]["name"])) if pictures.found else None
    parts.append(h("p", credit, class_="note") if credit else Html(""))
    return join(parts)


def _introduction(material: Material, stories: Stories) -> str:
    chosen = (
        f"Chosen from the {SPOKEN.get(stories.split, stories.split)} images by rule, not by taste: the surest right, "
        "the surest wrong and the least sure, of different classes where possible. "
    )
    if not stories.average_of:
        return chosen + "Listed are the concepts that the model is surest of. ✓: as labelled."
    exclusive = any(group.kind == "exclusive" for group in material.concepts.groups)
    summed = " A group's bar adds up all its values." if exclusive else ""
    besides = ", besides what bypasses them" if material.info.get("bypass") else ""
    others = "" if material.task == "multilabel" else " and with the other classes"
    return chosen + (
        "A bar to the right speaks for the class, one to the left against it, compared with an average image (the mean "
        f"of {stories.average_of}){others}; all bars have one scale.{summed} They are exact, as the class is a "
        f"weighted sum of concept scores{besides}. ✓: as labelled."
    )


def _weights(lines: list[Line]) -> list[float]:
    """The bars of a story: its first concepts one by one, the others together."""
    weights = [line.contribution or 0.0 for line in lines]
    return [*weights[:MOST_CONCEPTS], sum(weights[MOST_CONCEPTS:])]


def lines_of(story: Story) -> list[Line]:
    """All questions of a story, those that matter most first."""
    lines = [line for group in story.concepts for line in _lines(group)]
    return sorted(lines, key=lambda line: -(line.probability if line.contribution is None else abs(line.contribution)))


def _lines(group: GroupReading) -> list[Line]:
    if not group.exclusive:
        return [
            Line(
                f"{group.group}: {each.value}",
                "yes" if each.probability >= 0.5 else "no",
                max(each.probability, 1 - each.probability),
                "not labelled" if each.label is None else "yes" if each.label else "no",
                None if each.label is None else each.label == (each.probability >= 0.5),
                each.contribution,
            )
            for each in group.values
        ]
    said = max(group.values, key=lambda each: each.probability)
    true = [each.value for each in group.values if each.label]
    added = [each.contribution for each in group.values if each.contribution is not None]
    agrees = said.value in true if true else None
    return [
        Line(
            group.group,
            said.value,
            said.probability,
            names(true) or "not labelled",
            agrees,
            sum(added) if added else None,
        )
    ]


def _card(
    material: Material, story: Story, lines: list[Line], badge: str, scale: tuple[float, float], pictures: Pictures
) -> Html:
    said, true = names(story.predicted) or "no class", names(story.truth) or "no class"
    share = percent(story.probabilities.get(story.explained), 0)
    facts = [("Truth", true)]
    if material.task == "multilabel":
        facts = [("Model says", said), *facts, ("Told below", f"{story.explained} ({share})")]
    elif story.kind == "right":
        facts = [("Model says", f"{said} ({share})"), *facts]
    else:
        facts = [("Model says", f"{said} ({share})"), ("Its second choice", _second(story)), *facts]
    picture = pictures.found.get(story.image)
    if story.kind == "unsure":
        badge += ", right" if story.right else ", wrong"
    about = h(
        "div",
        h("p", h("strong", badge, class_=f"badge {story.kind}")),
        h("dl", (h("div", h("dt", name), h("dd", value)) for name, value in facts)),
    )
    top = h("div", _image(story, picture, true) if picture else None, about, class_="top")
    return h("article", top, _reasons(story, lines, scale), h("p", story.image, class_="file"), class_="card")


def _second(story: Story) -> str:
    others = sorted((-share, name) for name, share in story.probabilities.items() if name not in story.predicted)
    return f"{others[0][1]} ({percent(-others[0][0], 0)})" if others else "none"


def _image(story: Story, picture: Picture, true: str) -> Html:
    return h(
        "img", src=picture.address, width=picture.width, height=picture.height, alt=f"Image of {true}: {story.image}"
    )


def _reasons(story: Story, lines: list[Line], scale: tuple[float, float]) -> Html:
    """The concepts that matter most for one class, and the sum of the others."""
    shown, rest = lines[:MOST_CONCEPTS], lines[MOST_CONCEPTS:]
    rows = [h("tr", _reading(line), _weight(line.contribution, scale)) for line in shown]
    weighed = any(line.contribution is not None for line in lines)
    if weighed and rest:
        others = sum(line.contribution or 0.0 for line in rest)
        rows.append(h("tr", h("th", f"{len(rest)} others", scope="row"), _weight(others, scale), class_="others"))
    head = ["The model reads", *(["Speaks for it"] if weighed else [])]
    columns = h("thead", h("tr", (h("th", name, scope="col") for name in head)))
    caption = f"What speaks for {story.explained}" if weighed else "What the model reads"
    return h("table", h("caption", caption), columns, h("tbody", rows), class_="reasons")


def _reading(line: Line) -> Html:
    """A concept as the model reads it, and whether the label agrees."""
    said = [f"{line.question}: ", h("b", line.answer), f" {percent(line.probability, 0)}\u00a0"]
    if line.agrees:
        mark = [h("span", "✓", class_="agrees", aria_hidden="true"), h("span", "as labelled", class_="unseen")]
    elif line.agrees is None:
        mark = [h("span", line.label, class_="meaning")]
    else:
        mark = [
            h("span", "✗", class_="differs", aria_hidden="true"),
            h("span", f"labelled {line.label}", class_="meaning"),
        ]
    return h("th", said, mark, scope="row")


def _weight(value: float | None, scale: tuple[float, float]) -> Html | None:
    if value is None:
        return None
    return h("td", signed_bar(value, scale), h("span", f"{value:+.2f}".replace("-", "−"), class_="small"))
