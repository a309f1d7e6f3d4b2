"""Some images one by one: what the model says, what is true, and which concepts decided."""

from conceptlens.explanations.caution import UNLIKE
from conceptlens.explanations.pictures.panel import capital, largest
from conceptlens.pages.markup import Html, h, join, names, percent
from conceptlens.reports.material import SPOKEN, Material, value_of
from conceptlens.reports.reasons import Reason, lengths, reasons_of, reasons_table
from conceptlens.reports.stories import Stories, Story
from conceptlens.reports.thumbnails import CREDITS, Picture, Pictures
from conceptlens.runs.folds import FOLDS

TITLES = {
    "right": ("Most confident correct predictions", "Right"),
    "wrong": ("Most confident wrong predictions", "Wrong"),
    "unsure": ("Least confident predictions", "Unsure"),
}


EVIDENCE = (
    "The gray picture shows the evidence of a card's weightiest concept that has a place: blue patches add to its "
    "logit, striped orange ones take away. "
)


def story_cards(material: Material, pictures: Pictures) -> Html:
    """Section 7."""
    stories = material.stories
    if stories is None or not stories.stories:
        return h("p", "There are no example images: this run has no stories.json, or no labeled images.")
    at_chance = value_of(material.metrics, "concept.groups_at_chance.names") or []
    told = [(story, reasons_of(story, at_chance)) for story in stories.stories]
    found = [0.0, *(length for each in told for length in lengths(*each))]
    scale = (min(found), max(found))
    parts = [h("p", _introduction(material, stories))]
    if pictures.reason:
        parts.append(h("p", f"Pictures are missing: {pictures.reason.rstrip('.')}.", class_="watch"))
    for kind, (title, _) in TITLES.items():
        cards = [
            _card(material, *each, scale, pictures.found.get(each[0].image), pictures.maps.get(each[0].image))
            for each in told
            if each[0].kind == kind
        ]
        if cards:
            parts += [h("h3", title), h("div", cards, class_="cards")]
    credit = CREDITS.get(str(material.info["data"]["name"])) if pictures.found else None
    if credit:
        parts.append(h("p", credit, class_="note"))
    return join(parts)


def _introduction(material: Material, stories: Stories) -> str:
    chosen = (
        f"Chosen from the {SPOKEN.get(stories.split, stories.split)} images by a fixed rule: the most confident "
        "correct and wrong predictions and the least confident ones, of different classes where possible. "
    )
    if material.split == FOLDS:
        chosen += "They chose the model; images that a model has not seen are in the report of each fold, RUN/folds/1. "
    if any(story.map for story in stories.stories):
        chosen += EVIDENCE
    if not any(story.concepts for story in stories.stories):
        return chosen + "This method has no concepts, so there are no reasons to show."
    if not stories.average_of:
        return chosen + "The concepts with the most confident predictions are listed. ✓: as labeled."
    exclusive = any(group.kind == "exclusive" for group in material.concepts.groups)
    summed = " A group's bar adds up all its values." if exclusive else ""
    besides = ", besides what bypasses them" if material.info.get("bypass") else ""
    told = any(story.account for story in stories.stories)  # runs of earlier versions were set against all classes
    others = "" if material.task == "multilabel" else f" and with the {'second choice' if told else 'other classes'}"
    return chosen + (
        "A bar to the right speaks for the class, one to the left against it, compared with an average image (the mean "
        f"of {stories.average_of}){others}; all bars have one scale.{summed} They are exact, as the class is a "
        f"weighted sum of concept scores{besides}. ✓: as labeled."
    )


def _card(
    material: Material,
    story: Story,
    reasons: list[Reason],
    scale: tuple[float, float],
    picture: Picture | None,
    drawn: Picture | None,
) -> Html:
    badge = TITLES[story.kind][1]
    if story.kind == "unsure":
        badge += ", right" if story.right else ", wrong"
    about = h(
        "div",
        h("p", h("strong", badge, class_=f"badge {story.kind}")),
        h("dl", (h("div", h("dt", name), h("dd", value)) for name, value in _facts(story, material.task))),
    )
    top = h("div", _image(story, picture) if picture else None, about, class_="top")
    told = reasons_table(story, reasons, scale) if reasons else None
    why = h("p", capital(story.sentence)) if story.sentence else None
    cautions = [h("p", capital(words), class_="watch" if words == UNLIKE else "note") for words in story.cautions]
    place = _map(story, drawn, material.map_captions.get("evidence")) if drawn else None
    return h("article", top, cautions, why, told, place, h("p", story.image, class_="file"), class_="card")


def _facts(story: Story, task: str) -> list[tuple[str, str]]:
    said, true = names(story.predicted) or "no class", names(story.truth) or "no class"
    share = percent(story.probabilities.get(story.explained), 0)
    if task == "multilabel":
        return [("Model says", said), ("Truth", true), ("Explained below", f"{story.explained} ({share})")]
    second = [] if story.kind == "right" else [("Its second choice", _second(story))]
    return [("Model says", f"{said} ({share})"), *second, ("Truth", true)]


def _second(story: Story) -> str:
    others = sorted((-share, name) for name, share in story.probabilities.items() if name not in story.predicted)
    return f"{others[0][1]} ({percent(-others[0][0], 0)})" if others else "none"


def _map(story: Story, drawn: Picture, doubt: str | None) -> Html | None:
    """The evidence of one concept, with the sum that it is part of."""
    if story.map is None:
        return None
    evidence = story.map.evidence
    words = f"Evidence of {story.map.concept}, {largest(evidence)} logits; {evidence.words}."
    told = f"{words} {capital(doubt)}." if doubt else words
    image = h("img", src=drawn.address, width=drawn.width, height=drawn.height, alt=f"Evidence of {story.map.concept}")
    return h("div", image, h("p", told, class_="note"), class_="top map")


def _image(story: Story, picture: Picture) -> Html:
    told = f"Image of {names(story.truth) or 'no class'}: {story.image}"
    return h("img", src=picture.address, width=picture.width, height=picture.height, alt=told)
