"""What a training of the generator is made of, read from recipe.yaml."""

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.files import read_yaml

RECIPE = Path(__file__).with_name("recipe.yaml")


@dataclass(frozen=True)
class AutoencoderSettings:
    """The first stage, with the weights of its terms."""

    steps: int = 12_000
    stop: int | None = None  # end at this step, though the rate falls as if it went on
    batch: int = 64
    rate: float = 4e-4
    adversary_from: int = 3000
    pixels: float = 1.0
    perceptual: float = 1.0
    commitment: float = 0.25
    adversarial: float = 0.3

    @property
    def last(self) -> int:
        return self.steps if self.stop is None else min(self.stop, self.steps)


@dataclass(frozen=True)
class TransformerSettings:
    """The second stage."""

    steps: int = 6000
    batch: int = 256
    rate: float = 1e-3
    null: float = 0.1

    @property
    def last(self) -> int:
        return self.steps


@dataclass(frozen=True)
class Settings:
    """Everything. `sizes` are settings of the generator itself: channels, codes, width, …"""

    seed: int = 0
    image_size: int = 128
    encoder: str = "builtin/vit"
    layers: tuple[int, ...] = (1, 3, 5)
    autoencoder: AutoencoderSettings = field(default_factory=AutoencoderSettings)
    transformer: TransformerSettings = field(default_factory=TransformerSettings)
    average: float = 0.999
    warmup: int = 500
    save_every: int = 1000
    sizes: dict[str, Any] = field(default_factory=dict)


def read_settings(path: Path = RECIPE) -> Settings:
    """Settings from a YAML file; unknown keys are refused."""
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise UserError(f"{path}: expected keys and values.")
    stages: dict[str, type[AutoencoderSettings] | type[TransformerSettings]] = {
        "autoencoder": AutoencoderSettings,
        "transformer": TransformerSettings,
    }
    given = dict(raw)
    for name, kind in stages.items():
        section = given.get(name, {})
        _check(section, kind, f"{path}: {name}")
        given[name] = kind(**section)
    _check(given, Settings, str(path))
    given["layers"] = tuple(given.get("layers", Settings.layers))
    return Settings(**given)


def _check(section: dict[str, Any], kind: type, where: str) -> None:
    known = [each.name for each in fields(kind)]
    for key in section:
        if key not in known:
            raise UserError(f"{where}: unknown key {key!r}. {did_you_mean(key, known)}")
