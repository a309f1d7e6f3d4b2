"""`timm/…`: a model of timm's list, of a repository on the hub, or in a folder, with its classifier."""

from pathlib import Path

import torch
from torch import nn

from conceptlens.core.errors import UserError
from conceptlens.gig.models.loaded import FRESH, Asked, LoadedModel, numbered
from conceptlens.gig.preprocessing import chosen, of_timm

INSTEAD = (
    "Give a local file (--weights FILE.safetensors; of a judge: timm/NAME=FILE.safetensors), or try it with random "
    f"weights (--weights {FRESH})."
)


def open_timm(word: str, asked: Asked) -> LoadedModel:
    from timm.data.config import resolve_model_data_config

    from conceptlens.encoders.timm.encoder import create
    from conceptlens.encoders.timm.published import resolve

    published = resolve(word, kind="model")
    with torch.random.fork_rng():
        torch.manual_seed(asked.seed)  # random weights are the same when a decomposition is continued
        model = create(published, {}, classes=len(asked.names) if asked.names else None)
    if asked.weights != FRESH:
        config = dict(getattr(model, "pretrained_cfg", {}))
        _load(model, Path(asked.weights) if asked.weights else published.weights(config, INSTEAD))
    data = resolve_model_data_config(model)  # type: ignore[no-untyped-call]
    count = int(getattr(model, "num_classes", 0))
    if count < 1:
        raise UserError(f"{word}: this model has no classifier; choose one with classes, or name them with --classes.")
    names = asked.names or _label_names(published.structure, count)
    if names is None and count == 1000 and asked.weights != FRESH:  # a random network has not learned them
        names = imagenet_names()
    return LoadedModel(
        name=published.name,
        module=model.eval(),
        image_size=asked.image_size or int(data["input_size"][-1]),
        outputs=numbered(count, names, "--classes"),
        preprocessing=chosen(asked.normalize, of_timm(model)),
    )


def imagenet_names() -> list[str]:
    """ImageNet's 1,000 classes, each name once."""
    from timm.data import ImageNetInfo  # type: ignore[attr-defined]

    info = ImageNetInfo("imagenet-1k")
    names = [info.index_to_description(number).split(",")[0] for number in range(1000)]
    return [name if names.count(name) == 1 else f"{name} ({number})" for number, name in enumerate(names)]


def _label_names(structure: dict[str, object] | None, count: int) -> list[str] | None:
    """Names of the classes that a model's configuration brings."""
    config = (structure or {}).get("pretrained_cfg") or {}
    names = (structure or {}).get("label_names") or (config.get("label_names") if isinstance(config, dict) else None)
    return [str(name) for name in names] if isinstance(names, list) and len(names) == count else None


def _load(model: nn.Module, path: Path) -> None:
    from conceptlens.encoders.timm.layouts import in_layout_of
    from conceptlens.encoders.weights_file import load_weights, read_weights

    state = in_layout_of(model, read_weights(path))
    hint = "Is it of this model? If it has other classes, name them with --classes FILE."
    load_weights(model, state, source=str(path), hint=hint)
