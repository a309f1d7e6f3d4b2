"""conceptlens: vision models that explain themselves in concepts people can name."""

from conceptlens.api import check_data, dry_run, evaluate, make_report, predict, resume, train
from conceptlens.core.errors import UserError

__version__ = "0.1.0"
__all__ = ["UserError", "__version__", "check_data", "dry_run", "evaluate", "make_report", "predict", "resume", "train"]
