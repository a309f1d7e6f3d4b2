"""`judgement.html`: every concept that was judged, and why it stays or goes. One file, no scripts, safe by default."""

from typing import Any

from conceptlens.pages.markup import MISSING, Html, decimal, h, names, percent, table
from conceptlens.pages.shell import render_page
from conceptlens.workflows.authoring.filters.judgement import Judgement
from conceptlens.workflows.authoring.images.findings import ImageFindings

STYLE = "td { text-align: left; overflow-wrap: break-word; min-width: 6.5rem; }"


def page(judged: Judgement, images: ImageFindings | None = None) -> str:
    """The whole page."""
    sections = [
        ("removed", "What should go, and why", _removed(judged)),
        *([("images", "What the images say", _images(images))] if images else []),
        ("kept", "What stays", _kept(judged)),
        ("how", "How it was judged", _how(judged)),
    ]
    header = [h("h1", "What these concepts are worth"), h("p", _headline(judged), class_="result")]
    return render_page(f"Concepts of {judged.what}", header, sections, style=STYLE)


def _headline(judged: Judgement) -> str:
    return (
        f"{judged.what}: {len(judged.kept)} concepts stay, {len(judged.gone)} should go, for {len(judged.classes)} "
        "classes."
    )


def _rows(rows: list[list[Any]]) -> list[Html]:
    return [h("tr", (h("td", cell) for cell in row)) for row in rows]


def _removed(judged: Judgement) -> list[Html]:
    if not judged.removed:
        return [h("p", "Nothing: no filter objects to any concept.")]
    counts = "; ".join(f"{code}: {number}" for code, number in judged.counts().items())
    rows = [
        [
            each.concept,
            each.text,
            each.code + (" (kept by hand)" if each.overruled else ""),
            each.reason,
            f"all {len(judged.classes)}"
            if len(each.classes) == len(judged.classes)
            else names(each.classes) or MISSING,
            each.merged_into or MISSING,
        ]
        for each in judged.removed
    ]
    columns = ("concept", "text", "why", "what gave it away", "classes said to show it", "merged into")
    return [h("p", counts), table("Each removal with its reason.", columns, _rows(rows))]


def _kept(judged: Judgement) -> Html:
    rows = [[each.concept, each.text, names(each.classes) or MISSING] for each in judged.kept]
    return table("Concepts that stay.", ("concept", "text", "classes said to show it"), _rows(rows))


def _how(judged: Judgement) -> list[Html]:
    rules = judged.rules
    told = [
        *(f"{role} {name}" for role, name in judged.models.items()),
        f"texts compared by {judged.text_encoder}: repeats from cosine {decimal(rules.repeats_above, 2)} where the "
        f"words do not differ on purpose, class names from {decimal(rules.class_above, 2)}",
        f"at most {rules.most_words} words a text and {rules.name_longest} characters a name",
        *judged.notes,
        *(f"no concept tells {first} from {second}" for first, second in judged.indistinct),
    ]
    return [h("ul", (h("li", each) for each in told))]


def _images(found: ImageFindings) -> list[Html]:
    concepts = [
        [
            each.concept,
            each.positive,
            each.negative,
            decimal(each.separability, 2),
            decimal(each.within_class, 2),
            decimal(each.by_text, 2),
            percent(each.disagreement),
            percent(each.by_chance),
            each.verdict or MISSING,
        ]
        for each in found.concepts
    ]
    columns = ("concept", "with", "without", "separable", "within class", "by its text", "neighbors disagree")
    pieces = [
        h("p", found.how),
        table("Each concept in the images (areas under the ROC curve).", (*columns, "by chance", ""), _rows(concepts)),
    ]
    if found.redundant:
        pairs = [[each.first, each.second, decimal(each.correlation, 2), each.images] for each in found.redundant]
        pieces.append(
            table("Concepts whose labels say the same.", ("one", "other", "correlation", "images"), _rows(pairs))
        )
    if found.review:
        labels = [
            [each.image, each.group, each.given, each.rather, percent(each.neighbors), percent(each.probe)]
            for each in found.review
        ]
        heads = ("image", "group", "label given", "rather", "neighbors that disagree", "probability of the label")
        pieces.append(table("Labels to review first.", heads, _rows(labels)))
    return pieces
