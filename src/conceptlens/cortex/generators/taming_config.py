"""What the YAML beside a taming checkpoint says that its tensors do not: heads, classes, image size.

A transformer whose first token is not a class (an image's depth, a place, nothing at all) is refused: its checkpoint
looks the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_yaml
from conceptlens.cortex.generators.settings import CheckpointOptions

CLASS_STAGE, SAME_ORDER = "Labelator", "Identity"


@dataclass(frozen=True)
class TamingConfig:
    """Of a class-conditional transformer."""

    heads: int
    classes: int
    image_size: int | None = None


def taming_config(checkpoint: Path, options: CheckpointOptions, names: Iterable[str]) -> TamingConfig:
    """Heads and classes of a transformer, from its YAML or as given.

    Args:
        checkpoint: Its file; `configs/*-project.yaml` beside the file's folder is found by itself.
        options: What the user said; it goes before the YAML.
        names: Of the checkpoint's tensors.
    """
    if any(name.startswith("cond_stage_model.") for name in names):
        raise UserError(
            f"{checkpoint}: its transformer is conditioned on something that a network of its own encodes (depth, "
            "segmentation, …), not on classes, and cannot be asked for one. Its first stage alone is read from a file "
            "without the transformer."
        )
    path = Path(options.config).expanduser() if options.config else _beside(checkpoint)
    if path is not None:
        config = _read(path)
        return TamingConfig(options.heads or config.heads, options.classes or config.classes, config.image_size)
    if options.heads is None or options.classes is None:
        raise UserError(
            f"{checkpoint}: tensors do not say how many heads the transformer has, nor whether it is class-"
            "conditional. Name the YAML of its training with --config, or both --heads and --classes. (The authors' "
            "transformer of ImageNet's 1,000 classes, 48 blocks of width 1536, has 24 heads.)"
        )
    return TamingConfig(options.heads, options.classes)


def _beside(checkpoint: Path) -> Path | None:
    found = sorted((checkpoint.resolve().parent.parent / "configs").glob("*project.yaml"))
    return found[0] if len(found) == 1 else None


def _read(path: Path) -> TamingConfig:
    model = _part(read_yaml(path), path, "model", "params")
    stage = model.get("cond_stage_config")
    target = stage.get("target") if isinstance(stage, Mapping) else stage
    if not str(target).endswith(CLASS_STAGE) or model.get("unconditional"):
        raise UserError(
            f"{path}: expected a class-conditional transformer (cond_stage_config of taming's {CLASS_STAGE}), found "
            f"{target}. Other transformers cannot be asked for a class and are not read."
        )
    order = model.get("permuter_config")
    if isinstance(order, Mapping) and not str(order.get("target")).endswith(SAME_ORDER):
        raise UserError(f"{path}: its transformer writes tokens in another order ({order.get('target')}); not read.")
    transformer = _part(model, path, "transformer_config", "params")
    first = model.get("first_stage_config", {})
    shape = _part(first, path, "params", "ddconfig") if isinstance(first, Mapping) and first else {}
    try:
        size = shape.get("resolution")
        return TamingConfig(
            int(transformer["n_head"]), int(_part(stage, path, "params")["n_classes"]), int(size) if size else None
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: expected n_head and n_classes as whole numbers ({error}).") from None


def _part(value: Any, path: Path, *keys: str) -> Mapping[str, Any]:
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            raise UserError(f"{path}: expected the YAML of a taming transformer; `{key}` is missing.")
        value = value[key]
    if not isinstance(value, Mapping):
        raise UserError(f"{path}: expected settings under `{keys[-1]}`, found {type(value).__name__}.")
    return value
