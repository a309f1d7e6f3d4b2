"""Which classes are recognized and which are confused."""

from collections.abc import Sequence
from typing import Any

from conceptlens.pages.charts import heat
from conceptlens.pages.markup import Html, count, decimal, h, join, percent, table, table_row
from conceptlens.reports.material import Material

LARGEST_MATRIX = 16  # classes; beyond, the most frequent confusions are listed instead
MOST_CONFUSIONS = 20
MOST_PROBABLE = (
    "When each image gets its most probable class, recall is the share of a class that is found, and precision the "
    "share of the images predicted as a class that belong to it."
)
OPERATING_POINT = (
    "Sensitivity, specificity, positive (PPV) and negative (NPV) predictive value compare one class with the rest at a "
    "threshold chosen on validation images. Predictive values hold for classes as frequent as in these images; at "
    "another frequency, as in a clinic, they differ."
)


def classes(material: Material) -> Html:
    """Section 4."""
    found = material.metrics["class"]
    parts: list[Html] = []
    if found.get("confusion"):
        draw = matrix if len(material.classes) <= LARGEST_MATRIX else confusions
        parts.append(draw(found["confusion"], material.classes))
    parts.append(per_class(material, found.get("per_class", [])))
    return join(parts)


def matrix(counts: Sequence[Sequence[int]], names: Sequence[str]) -> Html:
    """True classes in rows, predicted ones in columns; shaded by the share of the true class."""
    rows = []
    for truth, line in enumerate(counts):
        total = sum(line) or 1
        cells = [
            h("td", count(n), style=heat(n / total, right=truth == said) if n else None) for said, n in enumerate(line)
        ]
        rows.append(h("tr", h("th", names[truth], scope="row"), cells))
    head = [Html("True class ↓ &nbsp; predicted →"), *names]
    caption = (
        "Confusion matrix: number of images. Blue: correct; orange: confused with another class; "
        "a stronger color is a larger share of the row"
    )
    return table(caption, head, rows, class_="matrix")


def confusions(counts: Sequence[Sequence[int]], names: Sequence[str]) -> Html:
    """The pairs that are confused most often, for many classes."""
    pairs = [
        (n, n / sum(line), truth, said)
        for truth, line in enumerate(counts)
        for said, n in enumerate(line)
        if n and truth != said
    ]
    pairs.sort(key=lambda pair: (-pair[0], -pair[1], pair[2], pair[3]))
    rows = [
        h(
            "tr",
            h("th", names[truth], scope="row"),
            h("td", names[said], class_="word"),
            h("td", count(n)),
            h("td", percent(share)),
        )
        for n, share, truth, said in pairs[:MOST_CONFUSIONS]
    ]
    if not rows:
        return h("p", "No image was assigned to a wrong class.")
    caption = (
        f"The most frequent confusions, {len(rows)} of {len(pairs)} pairs "
        f"(a matrix of {len(names)} classes would not be readable)"
    )
    return table(caption, ("True class", "Predicted", "Images", "Of the class"), rows, class_="figures")


def per_class(material: Material, found: Sequence[dict[str, Any]]) -> Html:
    """Each class against the rest, at the threshold that validation chose."""
    several = material.task == "multilabel"
    first = (("Accuracy", "accuracy"), ("F1", "f1")) if several else (("Recall", "recall"), ("Precision", "precision"))
    shares = (*first, ("Sensitivity", "sensitivity"), ("Specificity", "specificity"), ("PPV", "ppv"), ("NPV", "npv"))
    head = ["Class", "Images", "AUC", *(name for name, _ in shares), "Threshold"]
    rows = [
        table_row(
            *(row["class"], count(row.get("support")), decimal(row.get("auc"))),
            *(percent(row.get(key)) for _, key in shares),
            decimal(row.get("threshold")),
        )
        for row in found
    ]
    note = OPERATING_POINT if several else f"{MOST_PROBABLE} {OPERATING_POINT}"
    main = table(f"Each class on its own, {material.images}", head, rows, class_="figures")
    return join([main, h("p", note, class_="note")])
