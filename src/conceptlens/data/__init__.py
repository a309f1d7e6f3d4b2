"""Data sources: images with labels. Nothing here imports torch, except `loader`, which is imported by its own name."""

from conceptlens.data.dataset import Annotation, DataSource, Examples
from conceptlens.data.sources.open import open_source
from conceptlens.data.splits.splits import Splits, make_splits

__all__ = ["Annotation", "DataSource", "Examples", "Splits", "make_splits", "open_source"]
