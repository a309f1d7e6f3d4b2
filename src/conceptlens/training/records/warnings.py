"""What a person should know of how a training went: it was short, it was still improving, groups stayed at chance."""

from collections.abc import Mapping, Sequence
from typing import Any

from conceptlens.concepts import ConceptSet
from conceptlens.data.images.names import words_of
from conceptlens.recipes import Recipe
from conceptlens.recipes.schema import AugmentConfig
from conceptlens.training.epochs import auto_epochs

SHORT = 300  # optimizer steps, below which most groups of small data stay at chance (evidence/epochs-auto)
MIRRORED = {
    "flip_horizontal": {"left", "right", "links", "rechts", "gauche", "droite", "izquierda", "derecha"},
    "flip_vertical": {"upper", "lower", "top", "bottom", "superior", "inferior", "oben", "unten"},
}
RISING = 0.01  # a gain in the last quarter of the validations from which a training would have gone on improving


def training_warnings(
    history: Sequence[Mapping[str, Any]],
    measured_on: Mapping[str, Any],
    recipe: Recipe,
    images: int,
    *,
    where: str = "validation",
) -> list[str]:
    """A sentence or two for each; none for a method that no steps trained.

    Args:
        history: Lines of `history.jsonl`.
        measured_on: The chosen model's metrics on the images of `where`.
        recipe: With its epochs as numbers.
        images: Number of training images.
        where: `validation` or `cross-validated` images.
    """
    training = recipe.training
    measured = [line for line in history if line["split"] == "val" and line["epoch"]]
    steps = measured[-1]["step"] if measured else 0
    if not steps:
        return []
    auto = auto_epochs(images, training.batch_size)
    short_of_auto = isinstance(training.epochs, int) and training.epochs < auto
    longer = f"`training.epochs: auto` (here {auto})" if short_of_auto else "more `training.epochs`"
    told = []
    if steps < SHORT:
        told.append(f"The training was short: {steps} optimizer steps. Set {longer}.")
    elif _rises(measured, training.select):
        told.append(
            f"The last epoch is the best, and validation was still improving: train longer. Set {longer}, or a higher "
            "`training.learning_rate`."
        )
    at_chance = measured_on.get("concept", {}).get("groups_at_chance", {})
    # A fold's few validation images say little of a group; all images of all folds are asked in the end.
    if at_chance.get("count") and training.loss.concept_weight and not recipe.data.split.folds:
        advice = (
            "Training longer would not help: validation was best long before the end. Label more images, check the "
            "labels of these groups, or try another `encoder.name` or a larger `encoder.image_size`."
            if _peaked(measured, training.select)
            else f"Set {longer}, a higher `training.learning_rate` (now {training.learning_rate:g}) or "
            "`training.loss.concept_weight`; check the labels of those that stay."
        )
        told.append(
            f"{at_chance['count']} of {at_chance['of']} concept groups are read no better than by chance on {where} "
            f"images: {', '.join(at_chance['names'])}. {advice}"
        )
    return told


def mirror_warnings(concepts: ConceptSet, augment: AugmentConfig) -> list[str]:
    """Values such as left and right, which do not hold any more in an image that training mirrors."""
    told = []
    for key, words in MIRRORED.items():
        turned = [name for name in concepts.names if not words.isdisjoint(words_of(name.rpartition(": ")[2]))]
        if turned and getattr(augment, key):
            told.append(f"Mirrored images would be wrong of {', '.join(turned)}. Set training.augment.{key}: false.")
    return told


def chance_warnings(measured: Mapping[str, Any], task: str) -> list[str]:
    """A result that cannot be distinguished from always naming the most frequent class, which knows no image.

    Args:
        measured: What `metrics.json` says of the images that the result is reported on.
        task: `multilabel` has no most frequent class.
    """
    classes, intervals = measured.get("class", {}), measured.get("intervals", {})
    support = [row.get("support") or 0 for row in classes.get("per_class", [])]
    if task == "multilabel" or not classes.get("n") or sum(map(bool, support)) < 2:
        return []
    majority, guess = max(support) / sum(support), 1 / sum(map(bool, support))
    low, high = intervals.get("class.balanced_accuracy") or (None, None)
    if low is None:
        low = high = classes.get("balanced_accuracy")
    if low is None or low > guess:
        return []
    return [
        f"This result cannot be distinguished from always naming the most frequent class: balanced accuracy "
        f"{classes['balanced_accuracy']:.1%} ({low:.1%} to {high:.1%}), where that gives {guess:.1%}; accuracy "
        f"{classes['accuracy']:.1%}, where it gives {majority:.1%}. More images, or other ones, are needed."
    ]


def _curve(measured: Sequence[Mapping[str, Any]], select: str) -> list[float]:
    """What the training is judged by at each validation; more is better."""
    sign, key = (-1, select[1:]) if select.startswith("-") else (1, select)
    return [sign * line[key] for line in measured if line.get(key) is not None]


def _peaked(measured: Sequence[Mapping[str, Any]], select: str) -> bool:
    """Whether no validation of the last quarter is as good as one before."""
    curve = _curve(measured, select)
    before = curve[: len(curve) * 3 // 4]
    return bool(before) and max(before) > max(curve[len(before) :])


def _rises(measured: Sequence[Mapping[str, Any]], select: str) -> bool:
    """Whether the last validation is the best, and clearly better than all before the last quarter."""
    curve = _curve(measured, select)
    before = curve[: len(curve) * 3 // 4]
    return bool(before) and curve[-1] == max(curve) and curve[-1] > max(before) + RISING
