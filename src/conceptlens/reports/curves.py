"""How training went: losses, validation and rank by epoch, from `history.jsonl`."""

import math
from typing import Any

from conceptlens.pages.charts import Series, line_chart
from conceptlens.pages.markup import Html, count, decimal, h, join, percent, table, table_row
from conceptlens.reports.material import Material

MOST_ROWS = 200
LOSSES = {"class": "class", "concept": "concepts", "ivq": "IVQ", "l2": "L2"}


def curves(material: Material) -> Html:
    """Section 3."""
    epochs, chosen = material.epochs, material.chosen_epoch
    if not epochs:
        return h("p", "The history of this run is empty.")
    parts = [key for key in dict.fromkeys(key for line in epochs for key in line) if key.startswith("loss_")]
    losses = [Series("total", _points(epochs, "loss"), 1)]
    losses += [Series(_loss_name(key), _points(epochs, key), 2 + place % 4) for place, key in enumerate(parts)]
    quality = [
        Series("class", _points(epochs, "class.balanced_accuracy"), 1),
        Series("concepts", _points(epochs, "concept.balanced_accuracy"), 2),
    ]
    ranks = [
        Series("published, validation", _points(epochs, "rank.published"), 1),
        Series("published, training", _while_training(material, "rank_published"), 1, faint=True),
        Series("effective, validation", _points(epochs, "rank.effective"), 2),
        Series("effective, training", _while_training(material, "rank_effective"), 2, faint=True),
    ]
    inner = [
        Series("codes in use", _points(epochs, "codebook.use"), 1),
        Series("assignment entropy", _points(epochs, "slots.assignment_entropy"), 2),
    ]
    charts = [
        line_chart("Training loss", losses, mark=chosen),
        line_chart("Balanced accuracy on validation images", quality, y_range=(0.0, 1.0), mark=chosen),
        line_chart("Rank of the patches", ranks, mark=chosen),
        line_chart("Codebook and slots on validation images", inner, y_range=(0.0, 1.0), mark=chosen),
    ]
    return join([h("p", _told(material)), h("div", charts, class_="charts"), _values(epochs, parts, chosen)])


def _loss_name(key: str) -> str:
    name = key.removeprefix("loss_")
    return LOSSES.get(name, name.replace("_", " "))


def _points(epochs: list[dict[str, Any]], key: str) -> list[tuple[float, float]]:
    return [(line["epoch"], line[key]) for line in epochs if _finite(line.get(key))]


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _while_training(material: Material, key: str) -> list[tuple[float, float]]:
    """Measurements within epochs, at their place between them."""
    steps = next((line["step"] / line["epoch"] for line in reversed(material.epochs) if line.get("step")), None)
    if not steps:
        return []
    return [
        (line["step"] / steps, line[key])
        for line in material.history
        if line.get("kind") == "rank" and _finite(line.get(key))
    ]


def _told(material: Material) -> str:
    epochs, chosen = material.epochs, material.chosen_epoch
    last = epochs[-1]["epoch"]
    select = material.select
    measure = select.removeprefix("-").replace(".", " ").replace("_", " ")
    best = "smallest" if select.startswith("-") else "largest"
    told = [f"{last} epochs."]
    if chosen is not None:
        told.append(f"The model of epoch {chosen} was kept: its {measure} on validation images is the {best}.")
    care = [line for line in material.history if line.get("kind") == "upkeep"]
    known = (("codes_dead", "codes were found dead"), ("slots_refilled", "empty slots were refilled"))
    done = [
        f"{count(sum(line.get(key, 0) for line in care))} {words}"
        for key, words in known
        if any(key in line for line in care)
    ]
    if done:
        told.append(f"Between epochs, {' and '.join(done)}.")
    return " ".join(told)


def _values(epochs: list[dict[str, Any]], parts: list[str], chosen: int | None) -> Html:
    """The curves as a table, for those who cannot see them or want the figures."""
    step = math.ceil(len(epochs) / MOST_ROWS)
    shown = [
        line for place, line in enumerate(epochs) if place % step == 0 or line["epoch"] in (chosen, epochs[-1]["epoch"])
    ]
    measures = ["Class, balanced", "Concepts, balanced", "Rank, published", "Rank, effective"]
    head = ["Epoch", "Loss", *(f"… {_loss_name(key)}" for key in parts), *measures]
    rows = [
        table_row(
            [line["epoch"], " (chosen)" if line["epoch"] == chosen else None],
            *(decimal(line.get(key)) for key in ("loss", *parts)),
            *(percent(line.get(key)) for key in ("class.balanced_accuracy", "concept.balanced_accuracy")),
            *(decimal(line.get(key), 1) for key in ("rank.published", "rank.effective")),
            class_="chosen" if line["epoch"] == chosen else None,
        )
        for line in shown
    ]
    caption = "Mean losses of training, and measures on validation images, after each epoch"
    return h("details", h("summary", "The curves as a table"), table(caption, head, rows, class_="figures"))
