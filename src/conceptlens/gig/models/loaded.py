"""A model that is ready to be decomposed, and the names of its outputs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_text
from conceptlens.data.images.read import Fit
from conceptlens.data.images.window import Window
from conceptlens.gig.attribution.targets import TargetKind
from conceptlens.gig.preprocessing import Preprocessing

FRESH = "fresh"


@dataclass(frozen=True)
class Asked:
    """What the user says of a model besides its name; each is None where the model's own holds.

    Attributes:
        weights: A .safetensors file, or `fresh` for random weights.
        names: Of the outputs.
        prompt: Of a CLIP: the text of a class, with `{}` in the place of its name.
        image_size: Side in pixels.
        normalize: See `preprocessing.chosen`.
        seed: Of random weights.
    """

    weights: str | None = None
    names: list[str] | None = None
    prompt: str | None = None
    image_size: int | None = None
    normalize: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class LoadedModel:
    """A model with what must be known to give it images and to read its outputs."""

    name: str
    module: nn.Module
    image_size: int
    outputs: list[str]
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    fit: Fit = "crop"
    window: Window = "file"
    target: TargetKind = "probability"  # `logit` where outputs are not classes that exclude each other
    what: str = "class"  # what an output is, in words

    def prepare(self, images: Tensor) -> Tensor:
        """Images in [0, 1], or of bytes, (B, 3, H, W) → as the model takes them."""
        if not images.is_floating_point():
            images = images.float() / 255
        scale = (self.preprocessing.mean, self.preprocessing.std)
        mean, std = (torch.tensor(values, device=images.device).view(1, 3, 1, 1) for values in scale)
        return (images - mean) / std

    @property
    def weights_hash(self) -> str:
        """A short hash over all weights."""
        from conceptlens.encoders.freezing import weights_hash

        return weights_hash(self.module)


def class_names(classes: str | Path | Sequence[str] | None) -> list[str] | None:
    """Names of the outputs: as they are, or from a text file with a class a line."""
    if not classes:
        return None
    if isinstance(classes, str | Path):
        names, where = _read_names(Path(classes)), f"--classes {classes}"
    else:
        names, where = [str(name) for name in classes], "classes"
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise UserError(f"{where}: {repeated[0]!r} is there twice; outputs need names of their own.")
    if len(names) < 2:
        raise UserError(f"{where}: expected two classes or more, found {len(names)}.")
    return names


def _read_names(path: Path) -> list[str]:
    try:
        lines = [line.strip() for line in read_text(path).splitlines()]
    except FileNotFoundError:
        raise UserError(f"--classes {path}: no such file; expected a text file with a class a line.") from None
    except (UnicodeDecodeError, IsADirectoryError) as error:
        raise UserError(f"--classes {path}: expected a text file in UTF-8 with a class a line ({error}).") from None
    return [line for line in lines if line]


def numbered(count: int, names: Sequence[str] | None, where: str) -> list[str]:
    if names is None:
        return [f"class {number}" for number in range(count)]
    if len(names) != count:
        raise UserError(f"{where}: {len(names)} names of classes for {count} outputs.")
    return list(names)
