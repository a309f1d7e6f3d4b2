"""conceptlens: vision models that explain themselves in concepts people can name."""

from conceptlens.api import check_data, dry_run, evaluate, make_report, predict, resume, train
from conceptlens.core.errors import UserError
from conceptlens.core.plugins import allow_code
from conceptlens.core.registry import (
    list_data_sources,
    list_methods,
    list_regularizers,
    register_data_source,
    register_encoder,
    register_method,
    register_regularizer,
)
from conceptlens.core.version import __version__
from conceptlens.encoders import list_encoders

__all__ = [
    "UserError",
    "__version__",
    "allow_code",
    "check_data",
    "dry_run",
    "evaluate",
    "list_data_sources",
    "list_encoders",
    "list_methods",
    "list_regularizers",
    "make_report",
    "predict",
    "register_data_source",
    "register_encoder",
    "register_method",
    "register_regularizer",
    "resume",
    "train",
]
