"""`encoder.name: auto`: the encoder at hand by which a linear probe recognizes most classes.

The probe is cross-validated over training and validation images: fifty validation images alone leave much to chance.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import DataSource
from conceptlens.data.splits.splits import Splits
from conceptlens.data.splits.spread import spread
from conceptlens.encoders import AUTO, make_encoder
from conceptlens.encoders.at_hand import encoders_at_hand
from conceptlens.encoders.features import image_features
from conceptlens.evaluation.classification.balanced import balanced_accuracy
from conceptlens.recipes import Recipe
from conceptlens.recipes.schema import EncoderConfig
from conceptlens.runs.predictions import units_of
from conceptlens.stats.folds import assign_folds, sides

IMAGES = 400  # of each side that are looked at
Indices = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def with_encoder(
    recipe: Recipe,
    source: DataSource,
    splits: Splits,
    note: Callable[[str], object],
    known: dict[str, dict[int, Floats]] | None = None,
) -> Recipe:
    """The recipe with an encoder's name in the place of `auto`: the one that the run folder keeps.

    Args:
        recipe: As the user gave it.
        source: The data.
        splits: Its division; the probe looks at training and validation images.
        note: Says what was chosen.
        known: Vectors of images by encoder and position, from another fold of the same data; new ones are added.
    """
    if recipe.encoder.name != AUTO:
        return recipe
    names = encoders_at_hand()
    if recipe.encoder.weights is not None:
        raise UserError("encoder.weights: a file of weights belongs to one encoder; name it in encoder.name, not auto.")
    chosen, said = names[0], "it is the only encoder at hand"
    if len(names) > 1:
        scores = {name: probe(name, source, splits, recipe, known) for name in names}
        chosen = max(names, key=lambda name: scores[name])  # the first of equals: the built-in one
        shown = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
        said = f"balanced accuracy of a linear probe, cross-validated: {shown}"
    note(f"encoder {chosen}: {said}")
    return replace(recipe, encoder=replace(recipe.encoder, name=chosen))


def probe(
    name: str, source: DataSource, splits: Splits, recipe: Recipe, known: dict[str, dict[int, Floats]] | None = None
) -> float:
    """How well a linear model of an encoder's vectors recognizes the classes of images that it did not learn from."""
    labels = source.examples.labels if source.task == "multilabel" else source.examples.labels[:, None]
    indices = np.concatenate([spread(splits[side], IMAGES) for side in ("train", "val")])
    vectors = {} if known is None else known.setdefault(name, {})
    missing = np.array([index for index in indices.tolist() if index not in vectors], dtype=np.int64)
    if len(missing):
        encoder = make_encoder(EncoderConfig(name=name, image_size=recipe.encoder.image_size))
        vectors |= zip(missing.tolist(), image_features(encoder, source, missing, recipe.data.fit), strict=True)
    seen, fold = np.stack([vectors[index] for index in indices.tolist()]), assign_folds(units_of(source, indices))
    return float(np.mean([probe_accuracy(seen, column, fold) for column in labels[indices].T]))


def probe_accuracy(vectors: Floats, labels: Indices, fold: Indices) -> float:
    """Balanced accuracy of logistic regression over folds; images without a label (below 0) are left out."""
    predicted = np.full(len(labels), -1, dtype=np.int64)
    for learn, ask in sides(fold):
        learned = learn[labels[learn] >= 0]
        if len(np.unique(labels[learned])) > 1:
            model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500, class_weight="balanced", C=0.1))
            predicted[ask] = model.fit(vectors[learned], labels[learned]).predict(vectors[ask])
    asked = (labels >= 0) & (predicted >= 0)
    if not asked.any():
        return 0.0
    return float(balanced_accuracy(predicted[asked], labels[asked], int(labels.max()) + 1) or 0.0)
