"""conceptlens: vision models that explain themselves in concepts people can name."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from conceptlens.core.errors import UserError
from conceptlens.core.version import __version__

if TYPE_CHECKING:
    from conceptlens import cortex, gig
    from conceptlens.api import *  # noqa: F403
    from conceptlens.classifier import ConceptClassifier
    from conceptlens.concepts import ConceptSet
    from conceptlens.core.plugins import allow_code
    from conceptlens.core.registry import (
        list_data_sources,
        list_methods,
        list_regularizers,
        register_data_source,
        register_encoder,
        register_loss,
        register_method,
        register_metric,
        register_regularizer,
    )
    from conceptlens.data.sources.memory import ImageData
    from conceptlens.encoders import list_encoders
    from conceptlens.model import TrainedModel
    from conceptlens.runs.results import register_result
    from conceptlens.training.records.callbacks import Callback, MLflow, TensorBoard, WeightsAndBiases

# Imported when first used, so that `import conceptlens` is instant; what is not here is in `conceptlens.api`.
_LAZY = {
    "conceptlens.classifier": ("ConceptClassifier",),
    "conceptlens.concepts": ("ConceptSet",),
    "conceptlens.core.plugins": ("allow_code",),
    "conceptlens.core.registry": (
        "list_data_sources",
        "list_methods",
        "list_regularizers",
        "register_data_source",
        "register_encoder",
        "register_loss",
        "register_method",
        "register_metric",
        "register_regularizer",
    ),
    "conceptlens.data.sources.memory": ("ImageData",),
    "conceptlens.encoders": ("list_encoders",),
    "conceptlens.model": ("TrainedModel",),
    "conceptlens.runs.results": ("register_result",),
    "conceptlens.training.records.callbacks": ("Callback", "MLflow", "TensorBoard", "WeightsAndBiases"),
}
_HOME = {name: module for module, names in _LAZY.items() for name in names}

__all__ = [
    "Callback",
    "ConceptClassifier",
    "ConceptSet",
    "ImageData",
    "MLflow",
    "TensorBoard",
    "TrainedModel",
    "UserError",
    "WeightsAndBiases",
    "__version__",
    "allow_code",
    "cortex",
    "gig",
    "list_data_sources",
    "list_encoders",
    "list_methods",
    "list_regularizers",
    "register_data_source",
    "register_encoder",
    "register_loss",
    "register_method",
    "register_metric",
    "register_regularizer",
    "register_result",
]


def __getattr__(name: str) -> Any:
    if name in ("cortex", "gig"):
        return import_module(f"conceptlens.{name}")
    if name.startswith("_"):
        raise AttributeError(f"module 'conceptlens' has no attribute {name!r}")
    return getattr(import_module(_HOME.get(name, "conceptlens.api")), name)


def __dir__() -> list[str]:
    return [*__all__, *import_module("conceptlens.api").__all__]
