"""What a training run of the student is made of, read from recipe.yaml."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.files import read_yaml

RECIPE = Path(__file__).with_name("recipe.yaml")


@dataclass(frozen=True)
class Stage:
    """One stretch of training.

    Args:
        shares: Source → how often it is drawn.
        steps: How long.
        falling: Let the rate fall to zero over the steps, or keep it.
        start: The stage whose last checkpoint this one starts from; None for a new network.
    """

    shares: dict[str, float]
    steps: int
    falling: bool = False
    start: str | None = None


@dataclass(frozen=True)
class Settings:
    """Settings shared by all stages.

    Args:
        batch: Views the student learns from in a step.
        fresh: New views the teachers judge in a step.
        ring: Views kept; a multiple of `fresh`.
        blended: Share of the new views that are a blend of two.
        rate: AdamW's, after `warmup` steps.
        teachers: Teacher → side in pixels at which it looks.
        grids: Teacher → components of its map that are taught.
        alike: Teachers whose patches' likeness is taught, some of `grids`.
        stages: In the order of training.
    """

    seed: int = 0
    batch: int = 512
    fresh: int = 128
    ring: int = 32768
    blended: float = 0.5
    rate: float = 1e-3
    weight_decay: float = 0.05
    warmup: int = 400
    watch: int = 500
    save_every: int = 500
    teachers: dict[str, int] = field(
        default_factory=lambda: {"resnet50": 224, "efficientnet_lite0": 224, "mobile_sam": 224}
    )
    grids: dict[str, int] = field(
        default_factory=lambda: {"resnet50": 256, "efficientnet_lite0": 128, "mobile_sam": 128}
    )
    alike: tuple[str, ...] = ("resnet50", "efficientnet_lite0")
    stages: dict[str, Stage] = field(default_factory=dict)


def _known(given: dict[str, Any], kind: type, where: str) -> dict[str, Any]:
    names = [each.name for each in fields(kind)]
    for name in given:
        if name not in names:
            raise UserError(f"{where}: no setting {name!r}. {did_you_mean(name, names)}")
    return given


def read_settings(path: Path = RECIPE) -> Settings:
    """A recipe, checked."""
    value = read_yaml(path)
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected settings by name, got {type(value).__name__}.")
    stages = {
        name: Stage(**_known(stage, Stage, f"{path}: stages.{name}")) for name, stage in value.pop("stages", {}).items()
    }
    settings = Settings(**_known(value, Settings, str(path)), stages=stages)
    if settings.ring % settings.fresh:
        raise UserError(f"{path}: ring must be a multiple of fresh, got {settings.ring} and {settings.fresh}.")
    return settings
