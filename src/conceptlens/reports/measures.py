"""The numbers of a run, each with its interval and a sentence on what it means."""

from collections.abc import Callable, Mapping
from typing import Any

from conceptlens.pages.charts import interval_bar
from conceptlens.pages.markup import Html, count, decimal, h, join, names, percent, table
from conceptlens.reports.material import Material, value_of
from conceptlens.reports.meanings import CLASS, CONCEPT, INSIDE, RANKS, SEVERAL_LABELS

DECIMAL = {"class.macro_auc", "class.quadratic_weighted_kappa", "class.f1_macro", "slots.assignment_entropy"}
DECIMAL |= {"concept.auc", "concept.auc_within_class"}
UNBOUNDED = {"rank.published", "rank.effective", "codebook.perplexity"}  # no scale from 0 to 1


def numbers(material: Material) -> Html:
    """Section 2."""
    classes = SEVERAL_LABELS if material.task == "multilabel" else CLASS
    words, chance = _words(material), _chance(material)
    bodies = []
    for title, measures in (("Classes", classes), ("Concepts", CONCEPT), ("Inside the model", INSIDE)):
        rows = [
            _row(material, path, name, meaning.format(**words), chance.get(path))
            for path, (name, meaning) in measures.items()
            if material.number(path) is not None
        ]
        rows += _groups_at_chance(material) if measures is CONCEPT else []
        if rows:
            bodies.append(h("tbody", h("tr", h("th", title, colspan=4, scope="rowgroup", class_="part")), rows))
    head = ("Measure", "Value", f"{material.confidence} interval", "Between 0 and 1")
    columns = h("thead", h("tr", (h("th", each, scope="col") for each in head)))
    caption = h("caption", f"Measured on {count(material.number('class.n'))} {material.images}")
    resamples = value_of(material.recipe, "metrics.bootstrap")
    note = (
        "An interval shows how much the number may change with other images of the same kind "
        f"({count(resamples)} bootstrap resamples). A small vertical line marks chance."
        if material.metrics.get("intervals")
        else "This run was measured without bootstrap intervals."
    )
    whole = h("table", caption, columns, bodies, class_="numbers")
    return join([whole, h("p", note, class_="note"), _ranks(material)])


def _row(material: Material, path: str, name: str, meaning: str, chance: float | None) -> Html:
    value, interval, show = material.number(path), material.interval(path), _show(path)
    drawn = None if value is None or path in UNBOUNDED else interval_bar(value, interval, chance)
    return h(
        "tr",
        h("th", h("span", name, class_="name"), h("span", meaning, class_="meaning"), scope="row"),
        h("td", show(value), class_="value"),
        h("td", f"{show(interval[0])} to {show(interval[1])}" if interval else None, class_="between"),
        h("td", drawn, class_="drawn"),
    )


def _show(path: str) -> Callable[[Any], str]:
    if path in UNBOUNDED:
        return lambda value: decimal(value, 1)
    return decimal if path in DECIMAL else percent


def _words(material: Material) -> dict[str, str]:
    """What the meanings leave open."""
    common = most_frequent(material)
    return {
        "images": material.images,
        "usual": "" if common is None else f" Always naming the most frequent class would give {percent(common)}.",
        "guess": percent(0.5 if material.task == "multilabel" else 1 / len(material.classes)),
        "ceiling": percent(material.number("ceiling.balanced_accuracy")),
        "codes": count(material.number("codebook.codes")),
    }


def _chance(material: Material) -> Mapping[str, float | None]:
    """The value of a guess without looking at the image, where it is known."""
    groups = [row.get("chance") for row in (value_of(material.metrics, "concept.per_group") or [])]
    known = [chance for chance in groups if chance is not None]
    concept = sum(known) / len(known) if known else None
    several = material.task == "multilabel"
    return {
        "class.accuracy": None if several else most_frequent(material),
        "class.balanced_accuracy": 0.5 if several else 1 / len(material.classes),
        "class.macro_auc": 0.5,
        "concept.balanced_accuracy": concept,
        "concept.balanced_accuracy_prior_corrected": concept,
        "concept.auc": 0.5,
        "concept.auc_within_class": 0.5,
    }


def most_frequent(material: Material) -> float | None:
    """Share of the most frequent class."""
    images = material.number("class.n")
    found = [row.get("support", 0) for row in material.metrics["class"].get("per_class", [])]
    return max(found) / images if images and found else None


def _groups_at_chance(material: Material) -> list[Html]:
    found = value_of(material.metrics, "concept.groups_at_chance")
    if not found or not found.get("of"):
        return []
    told = "The model predicts these concept groups no better than a guess without the image. Do not rely on them"
    told += f": {names(found['names'])}." if found["names"] else ". None is best."
    return [
        h(
            "tr",
            h("th", h("span", "Groups at chance", class_="name"), h("span", told, class_="meaning"), scope="row"),
            h("td", f"{found['count']} of {found['of']}", class_="value"),
            h("td", class_="between"),
            h("td", class_="drawn"),
        )
    ]


def _ranks(material: Material) -> Html | None:
    found = value_of(material.metrics, "rank")
    if not found:
        return None
    rows = [
        h(
            "tr",
            h("th", name.replace("_", ", "), scope="row"),
            h("td", RANKS.get(name), class_="word"),
            h("td", decimal(value, 1)),
        )
        for name, value in found.items()
    ]
    caption = f"Mean rank of an image's patch matrix, {material.images}"
    return h("details", h("summary", "All definitions of rank"), table(caption, ("Rank", "Definition", "Value"), rows))
