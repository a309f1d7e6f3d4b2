"""Recipes: the YAML that makes a run again."""

from conceptlens.recipes.schema import (
    AugmentConfig,
    DataConfig,
    EncoderConfig,
    LossConfig,
    MetricsConfig,
    Recipe,
    RenameConfig,
    ShapesConfig,
    SplitConfig,
    StageConfig,
    TrainingConfig,
)

__all__ = [
    "AugmentConfig",
    "DataConfig",
    "EncoderConfig",
    "LossConfig",
    "MetricsConfig",
    "Recipe",
    "RenameConfig",
    "ShapesConfig",
    "SplitConfig",
    "StageConfig",
    "TrainingConfig",
]
