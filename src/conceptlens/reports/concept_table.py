"""How well each concept is read, group by group."""

from typing import Any

from conceptlens.pages.markup import Html, count, decimal, h, join, percent, table, table_row
from conceptlens.reports.material import Material

HEAD = (
    "Concept group",
    "Labeled",
    "Chance",
    "Balanced accuracy",
    "… prior-corrected",
    "AUC",
    "AUC within class",
    "Calibration error",
)


def concept_table(material: Material) -> Html:
    """Section 5."""
    found = material.metrics.get("concept")
    if found is None:
        return h("p", "This method has no concepts, so there is nothing to measure here.")
    if "per_group" not in found:
        return h("p", "Each fold chose concepts of its own: the reports of the folds say how well they are read.")
    rows = [_row(material, row) for row in found["per_group"]]
    note = (
        "Chance is the balanced accuracy of a guess without looking at the image. A group is flagged as at chance when "
        "its balanced accuracy is not clearly above that. AUC within class compares images of one class only: it "
        "measures what the concept adds to the class. A dash marks what cannot be computed from these images, for "
        "instance because all have the same value."
    )
    main = table(f"Concept groups, {material.images}", HEAD, rows, class_="figures concepts")
    return join([main, h("p", note, class_="note"), _single(material, found.get("per_concept", []))])


def _row(material: Material, row: dict[str, Any]) -> Html:
    group = next((group for group in material.concepts.groups if group.name == row["group"]), None)
    values = ", ".join(group.values) if group else ""
    kind = "" if row.get("kind") == "exclusive" else " (each yes or no)"
    flag = h("strong", "at chance", class_="flag") if row.get("at_chance") else None
    return table_row(
        [h("span", row["group"], class_="name"), flag, h("span", values + kind, class_="meaning")],
        count(row.get("n")),
        *(percent(row.get(key)) for key in ("chance", "balanced_accuracy", "balanced_accuracy_prior_corrected")),
        *(decimal(row.get(key)) for key in ("auc", "auc_within_class")),
        percent(row.get("ece")),
        class_="at-chance" if row.get("at_chance") else None,
    )


def _single(material: Material, found: list[dict[str, Any]]) -> Html | None:
    if not found:
        return None
    rows = [
        table_row(
            *(row["concept"], count(row.get("positives")), count(row.get("n"))),
            *(decimal(row.get(key)) for key in ("auc", "auc_within_class")),
        )
        for row in found
    ]
    head = ("Concept", "Present in", "of labeled", "AUC", "AUC within class")
    return h(
        "details",
        h("summary", f"All {len(found)} concepts one by one"),
        table(f"Single concepts, {material.images}", head, rows, class_="figures"),
    )
