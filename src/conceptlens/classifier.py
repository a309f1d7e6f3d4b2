"""A concept bottleneck as a scikit-learn estimator."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from conceptlens.api.training import train
from conceptlens.core.errors import UserError
from conceptlens.data.labels.classes import class_index
from conceptlens.data.sources.memory import ImageData
from conceptlens.model import TrainedModel
from conceptlens.recipes.parse import merge, read_recipe, recipe_names


class ConceptClassifier(ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Classify images through concepts that people can name.

    Args:
        method: Name of the method, as `cl.list_methods()` lists them.
        concepts: A concept file, or the name of a ready one; made of the concept labels' own values by default.
        encoder: What turns images into tokens.
        epochs: Passes over the training images; the recipe's own by default.
        recipe: Further settings, which override the method's ready recipe.
        validation: Share of the images that choose the model.
        seed: Of everything random.
        out: The run folder; a temporary one by default, which is removed with the estimator.
        quiet: Show no progress.

    Attributes:
        model_: The `TrainedModel`.
        classes_: The classes, as they were given.

    >>> import numpy as np
    >>> images = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
    >>> y, color = np.arange(40) % 2, np.array(["red", "blue"] * 20)
    >>> images[y == 1, :, :, 0] //= 4
    >>> small = {"encoder": {"name": "builtin/vit-mini", "image_size": 32, "options": {"width": 16, "depth": 1,
    ...          "heads": 2}}, "training": {"batch_size": 8}}
    >>> classifier = ConceptClassifier(method="cbm", epochs=1, recipe=small)
    >>> classifier = classifier.fit(images, y, concepts={"color": color})
    >>> classifier.predict_proba(images).shape, classifier.get_feature_names_out().tolist()
    ((40, 2), ['color: blue', 'color: red'])
    """

    def __init__(
        self,
        method: str = "evidence-cbm",
        *,
        concepts: str | Path | None = None,
        encoder: str | None = None,
        epochs: int | None = None,
        recipe: Mapping[str, Any] | None = None,
        validation: float = 0.15,
        seed: int = 0,
        out: str | Path | None = None,
        quiet: bool = True,
    ) -> None:
        self.method = method
        self.concepts = concepts
        self.encoder = encoder
        self.epochs = epochs
        self.recipe = recipe
        self.validation = validation
        self.seed = seed
        self.out = out
        self.quiet = quiet

    def _recipe(self) -> dict[str, Any]:
        """The method's ready recipe, whose settings suit a laptop, with this estimator's own laid over it."""
        ready = f"blood-cells/{self.method}"
        base = read_recipe(ready)[0] if ready in recipe_names() else {"method": self.method}
        own: dict[str, Any] = {
            "data": {"split": {"val": self.validation, "test": 0.0}},
            "metrics": {"bootstrap": 0, "test": False},
            "seed": self.seed,
        }
        if self.concepts is not None:
            own["concepts"] = str(self.concepts)
        if self.encoder is not None:
            own["encoder"] = {"name": self.encoder}
        if self.epochs is not None:
            own["training"] = {"epochs": self.epochs}
        if self.out is not None:
            own["out"] = str(self.out)
        base.pop("data", None)
        return merge(merge(base, own), dict(self.recipe or {}))

    def fit(self, X: Any, y: Any, concepts: Any = None, groups: Any = None) -> Self:
        """Train on images, classes and concept labels.

        Args:
            X: N images: paths, PIL images, arrays, tensors, or a torch `Dataset`.
            y: N classes.
            concepts: Concept labels: columns by name (a mapping or a data frame), or an array (N, K) of 0, 1 and NaN.
                In a search or a pipeline pass a data frame or an array, which scikit-learn can divide.
            groups: N names of what must stay on one side of the validation split, as patients.
        """
        labels = np.asarray(y)
        if labels.ndim != 1 or len(labels) != len(X):
            raise UserError(f"y: expected one class for each of {len(X)} images, found shape {labels.shape}.")
        self.classes_: npt.NDArray[Any] = np.unique(labels)
        data = ImageData(X, [str(label) for label in labels.tolist()], concepts, groups)
        self.model_: TrainedModel = train(self._recipe(), data=data, overwrite=self.out is not None, quiet=self.quiet)
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Class probabilities (N, C), in the order of `classes_`."""
        check_is_fitted(self)
        predictions = self.model_.predict(X)
        order = [class_index(str(name), self.model_.classes) for name in self.classes_.tolist()]  # 3.0 is its `3`
        return predictions.probabilities[:, np.array(order, dtype=np.int64)]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Classes (N,), as they were given to `fit`."""
        classes: npt.NDArray[Any] = self.classes_[self.predict_proba(X).argmax(1)]
        return classes

    def transform(self, X: Any) -> npt.NDArray[np.float64]:
        """Concept probabilities (N, K)."""
        check_is_fitted(self)
        return self.model_.predict(X).concept_probabilities

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """The concepts' names, in the order of `transform`'s columns."""
        check_is_fitted(self)
        return np.asarray(self.model_.concept_names, dtype=object)
