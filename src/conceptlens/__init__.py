"""conceptlens: vision models that explain themselves in concepts people can name."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from conceptlens.core.errors import UserError
from conceptlens.core.version import __version__

if TYPE_CHECKING:
    from conceptlens import cortex, gig
    from conceptlens.api import check_data, dry_run, evaluate, make_report, predict
    from conceptlens.classifier import ConceptClassifier
    from conceptlens.concepts import ConceptSet
    from conceptlens.data.sources.memory import ImageData
    from conceptlens.model import TrainedModel, load, resume, train

# Imported when first used, so that `import conceptlens` is instant.
_LAZY = {
    "conceptlens.api": ("check_data", "dry_run", "evaluate", "make_report", "predict"),
    "conceptlens.classifier": ("ConceptClassifier",),
    "conceptlens.concepts": ("ConceptSet",),
    "conceptlens.data.sources.memory": ("ImageData",),
    "conceptlens.model": ("TrainedModel", "load", "resume", "train"),
}
_HOME = {name: module for module, names in _LAZY.items() for name in names}

__all__ = [
    "ConceptClassifier",
    "ConceptSet",
    "ImageData",
    "TrainedModel",
    "UserError",
    "__version__",
    "check_data",
    "cortex",
    "dry_run",
    "evaluate",
    "gig",
    "load",
    "make_report",
    "predict",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in ("cortex", "gig"):
        return import_module(f"conceptlens.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'conceptlens' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
