"""conceptlens: vision models that explain themselves in concepts people can name."""

from conceptlens.api import check_data, dry_run, evaluate, make_report, predict, resume, train
from conceptlens.core.errors import UserError
from conceptlens.core.version import __version__

__all__ = ["UserError", "__version__", "check_data", "dry_run", "evaluate", "make_report", "predict", "resume", "train"]
