"""The result in one sentence, and what a reader should watch."""

from conceptlens.pages.markup import Html, count, h, names, of_hundred, percent, prose, quoted
from conceptlens.reports.material import SPOKEN, Material, value_of
from conceptlens.reports.verdicts import verdict_block


def headline(material: Material) -> list[Html | None]:
    """The head of the page."""
    info = material.info
    return [
        h("p", "conceptlens report · run ", info.get("id"), class_="small"),
        h("h1", info["method"], " on ", info["data"]["name"]),
        h("p", result(material), class_="result"),
        verdict_block(material.trust),
        _watch(warnings(material)),
    ]


def result(material: Material) -> str:
    """What the model can do, in plain words."""
    images = f"On {count(material.number('class.n'))} {material.images} the model"
    accuracy, concepts = material.number("class.accuracy"), material.number("concept.accuracy")
    if accuracy is None:
        found = f"{images} could not be measured"
    elif material.task == "multilabel":
        found = f"{images} gives the right answer about a label in {of_hundred(accuracy)} of 100"
    else:
        found = f"{images} finds the right class in {of_hundred(accuracy)} of 100"
    interval = material.interval("class.accuracy")
    sure = f" ({material.confidence} interval {percent(interval[0])} to {percent(interval[1])})" if interval else ""
    read = (
        f" and the right value of a concept in {of_hundred(concepts)} of 100"
        if concepts is not None
        else "; the accuracy of its concepts is unknown, because these images have no concept labels"
    )
    if "concept" not in material.metrics:
        return f"{found}{sure}. It has no concepts: {material.info.get('bypass')} decides."
    number, groups = len(material.concepts), len(material.concepts.groups)
    bypass = material.info.get("bypass")
    through = (
        f"It predicts the class only from {number} named concepts in {groups} groups."
        if not bypass
        else f"It does not predict the class from its {number} named concepts alone: {bypass}"
    )
    return f"{found}{sure}{read}. {through}{'' if through.endswith(('.', '!')) else '.'}"


def warnings(material: Material) -> list[str]:
    """Warnings."""
    told = []
    if material.split == "val":
        told.append(
            f"There are no labeled test images. All numbers are of {SPOKEN[material.split]} images, which chose "
            "the model and its thresholds. They are therefore optimistic."
        )
    at_chance = value_of(material.metrics, "concept.groups_at_chance.names") or []
    if at_chance:
        told.append(f"Concept groups at chance: {names(at_chance)}. Do not rely on explanations that use them.")
    ceiling, interval = material.number("ceiling.accuracy"), material.interval("class.accuracy")
    if ceiling is not None and interval and interval[0] > ceiling and "concept" in material.metrics:
        told.append(
            f"The class is more often right than with the true concepts ({percent(ceiling)}): the concept scores "
            "carry class information beyond the concepts (leakage)."
        )
    empty = value_of(material.metrics, "slots.empty_slots") or []
    if empty:
        told.append(
            f"Slots that receive no patches: {names(map(quoted, (material.slot_names[slot] for slot in empty)))}."
        )
    dead = value_of(material.metrics, "codebook.dead") or []
    if dead:
        told.append(f"{len(dead)} of {value_of(material.metrics, 'codebook.codes')} codes are dead.")
    from_training = [*(material.info.get("warnings") or []), *(material.splits.get("warnings") or [])]
    return told + [str(warning) for warning in from_training]


def _watch(told: list[str]) -> Html | None:
    if not told:
        return None
    return h(
        "div", h("p", h("strong", "To watch")), h("ul", (h("li", prose(warning)) for warning in told)), class_="watch"
    )
