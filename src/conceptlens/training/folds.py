"""Cross-validation: a run for each fold below the final model's, and one result from all of their test images.

`RUN/folds/1`, `RUN/folds/2`, … are whole runs. Each image is tested once, by a model that saw neither it nor anything
of its group. The final model, `RUN` itself, learns from all images; nothing is left to test it on.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_text
from conceptlens.data.dataset import DataSource, Examples
from conceptlens.evaluation.classification.balanced import mean_of
from conceptlens.evaluation.concepts.concepts import MEANS
from conceptlens.evaluation.concepts.groups import concept_priors
from conceptlens.evaluation.summary import full_summary
from conceptlens.recipes import Recipe
from conceptlens.recipes.parse import load_recipe, recipe_yaml
from conceptlens.runs.folds import FOLDS, fold_folders
from conceptlens.runs.predict import Predictions
from conceptlens.runs.predictions import load_predictions, save_predictions
from conceptlens.training.paths import with_absolute_paths

MEASURES = ("class.accuracy", "class.balanced_accuracy", "class.macro_auc", "concept.balanced_accuracy", "concept.auc")
Train = Callable[[Recipe], object]


def for_final_model(recipe: Recipe, examples: Examples) -> tuple[Recipe, Examples]:
    """Recipe and examples by which the final model is split: every image that is in use, none of them for the test."""
    if not recipe.data.folds:
        return recipe, examples
    split = replace(recipe.data.split, test=0.0, folds=0, fold=0)
    given = None if examples.split is None else tuple("train" if side else "" for side in examples.split)
    return replace(recipe, data=replace(recipe.data, split=split)), replace(examples, split=given)


def keep_asked(recipe: Recipe, run: Path) -> None:
    """Keep the recipe as it was asked for: each fold settles for itself what is `auto`."""
    if recipe.data.folds:
        write_text(run / FOLDS / "recipe.yaml", recipe_yaml(with_absolute_paths(recipe)))


def train_folds(run: Path, start: Train, resume: Callable[[Path], object], note: Callable[[str], object]) -> None:
    """Train every fold that is not done.

    Args:
        run: The final model's folder.
        start: Trains a recipe.
        resume: Goes on with a run that was stopped; one that is done stays as it is.
        note: Says how far it is.
    """
    asked = load_recipe(run / FOLDS / "recipe.yaml")
    count = asked.data.folds
    for number in range(count):
        note(f"fold {number + 1} of {count}")
        out = run / FOLDS / str(number + 1)
        if (out / "run.json").exists():
            resume(out)
            continue
        split = replace(asked.data.split, folds=count, fold=number)
        start(replace(asked, data=replace(asked.data, folds=0, split=split), out=str(out)))


def pooled_result(run: Path, source: DataSource, concepts: ConceptSet, recipe: Recipe) -> dict[str, Any]:
    """The result over the test images of all folds, as in `metrics.json`; their predictions are kept as `folds`.

    A method may choose other concepts in each fold. Their scores cannot be put together: concepts are then measured in
    each fold, and the means are given.
    """
    folders = fold_folders(run)
    stored = [load_predictions(folder) for folder in folders]
    alike = all(ConceptSet.load(folder / "concepts.yaml").names == concepts.names for folder in folders)
    columns = slice(None) if alike else slice(0)
    place = {name: index for index, name in enumerate(source.examples.ids)}
    indices = np.array([place[name] for part in stored for name in part.ids], dtype=np.int64)
    if len(set(indices.tolist())) != len(indices):
        raise UserError(f"{run / FOLDS}: an image is in the test of two folds; train again with --overwrite.")
    pooled = Predictions(
        indices=indices,
        logits=np.concatenate([part.logits for part in stored]),
        concept_logits=np.concatenate([part.concept_logits[:, columns] for part in stored]),
    )
    thresholds = np.mean([part.thresholds for part in stored], axis=0).tolist()
    priors = concept_priors(source.examples.concepts[indices], concepts)
    config = recipe.metrics
    result = full_summary(pooled, source, concepts, None, config, thresholds=thresholds, priors=priors)
    found = [read_json(folder / "metrics.json")["splits"]["test"] for folder in folders]
    means: dict[str, tuple[str, ...]] = {
        "ceiling": ("accuracy", "balanced_accuracy"),
        "black_box": ("accuracy", "balanced_accuracy"),
    }
    if not alike:
        means["concept"] = MEANS
    for section, keys in means.items():
        result[section] = {key: mean_of([_at(each, f"{section}.{key}") for each in found]) for key in keys}
    result["per_fold"] = [{path: _at(each, path) for path in MEASURES if _at(each, path) is not None} for each in found]
    save_predictions(run, FOLDS, pooled, source, thresholds)
    return result


def _at(tree: Any, path: str) -> float | None:
    for step in path.split("."):
        tree = tree.get(step) if isinstance(tree, dict) else None
    return tree if isinstance(tree, (int, float)) else None
