"""What an `open_clip/…` name stands for: a configuration, and where its weights lie. Nothing is ever unpickled.

- `open_clip/ViT-B-16/laion2b_s34b_b88k`: a model of open_clip's list and the tag of its weights; without a tag, fresh.
- `open_clip/hf-hub:ORGANIZATION/NAME`: a repository on the hub with `open_clip_config.json`.
- `open_clip/local-dir:PATH`: a folder with `open_clip_config.json`, weights, and the tokenizer where it needs one.
"""

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor

from conceptlens.core.errors import UserError, did_you_mean, unknown_name
from conceptlens.core.files import read_json
from conceptlens.encoders.timm.hub import from_hub, weights_in
from conceptlens.encoders.weights_file import folder_with, read_weights

PREFIX, LOCAL, HUB = "open_clip/", "local-dir:", "hf-hub:"
CONFIG, WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
NAMES = (WEIGHTS, "open_clip_pytorch_model.safetensors", "model.safetensors")
INSTEAD = (
    f"Copy the model's repository into a folder, its weights as {WEIGHTS}, and name it: "
    f"`{PREFIX}{LOCAL}FOLDER`; or start from scratch (`encoder.pretrained: false`)."
)


def open_clip() -> ModuleType:
    """The package, or how to get it."""
    try:
        import open_clip as package
    except ImportError:
        raise UserError(
            f"{PREFIX}… needs the package open_clip_torch. Install it: pip install 'conceptlens[open-clip]'"
        ) from None
    return package  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Published:
    """A CLIP model by name."""

    name: str  # as in the recipe
    plain: str  # as open_clip's own functions take it, without the tag
    model: dict[str, Any]  # embed_dim, vision_cfg, text_cfg, …
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    folder: Path | None = None  # where everything lies
    repository: str | None = None  # on the hub
    file: str = WEIGHTS  # in the repository

    @property
    def complete(self) -> bool:
        """Whether the name brings weights."""
        return self.folder is not None or self.repository is not None

    def weights(self) -> dict[str, Tensor]:
        """All tensors, those of the image tower under `visual.`, those of the text tower under `text.`."""
        if self.folder is not None:
            return split(read_weights(weights_in(self.folder, NAMES)))
        if self.repository is None:
            tags = open_clip().list_pretrained_tags_by_model(self.plain)
            raise UserError(
                f"{self.name}: expected the tag of its weights too, as in `{PREFIX}{self.plain}/TAG`. "
                f"Its tags: {', '.join(tags) or 'none'}. Or start from scratch: `encoder.pretrained: false`."
            )
        return split(read_weights(from_hub(self.name, self.repository, self.file, instead=INSTEAD)))


def open_clip_names() -> list[str]:
    """Models of open_clip's list with the tags of their weights; none if the package is not installed."""
    try:
        package = open_clip()
    except UserError:
        return []
    return [f"{PREFIX}{model}/{tag}" for model, tag in package.list_pretrained()]


def resolve(name: str, config: dict[str, Any] | None = None) -> Published:
    """What a name stands for.

    Args:
        name: `open_clip/…`.
        config: The content of `open_clip_config.json` where it is known already; nothing is looked up then.
    """
    package = open_clip()
    plain = name.removeprefix(PREFIX)
    if config is not None:
        return _described(name, plain, config, source=name)
    if plain.startswith(LOCAL):
        folder = folder_with(CONFIG, plain.removeprefix(LOCAL), name)
        path = folder / CONFIG
        return _described(name, plain, read_json(path), source=str(path), folder=folder)
    if plain.startswith(HUB):
        repository = plain.removeprefix(HUB)
        path = from_hub(name, repository, CONFIG, instead=INSTEAD)
        return _described(name, plain, read_json(path), source=f"{repository}/{CONFIG}", repository=repository)
    model, _, tag = plain.partition("/")
    own: dict[str, Any] | None = package.get_model_config(model)
    if own is None:
        raise unknown_name("encoder", name, [PREFIX + known for known in package.list_models()])
    if not tag:
        return _described(name, model, {"model_cfg": own}, source=name)
    weights: dict[str, Any] = package.get_pretrained_cfg(model, tag)
    if not weights:
        tags = package.list_pretrained_tags_by_model(model)
        raise UserError(f"{name}: {model} has no weights with the tag {tag!r}. {did_you_mean(tag, tags)}")
    # A tag says whether its weights were trained with OpenAI's quick GELU; the architecture's own flag may differ.
    own["quick_gelu"] = bool(weights.get("quick_gelu", False))
    repository, _, file = str(weights.get("hf_hub", "")).rpartition("/")
    if not repository:
        raise UserError(f"{name}: its weights are published only in a format that is never loaded. {INSTEAD}")
    safe = WEIGHTS if file in ("", "open_clip_pytorch_model.bin") else str(Path(file).with_suffix(".safetensors"))
    config = {"model_cfg": own, "preprocess_cfg": {key: weights[key] for key in ("mean", "std") if key in weights}}
    return _described(name, model, config, source=name, repository=repository, file=safe)


def _described(name: str, plain: str, config: Any, *, source: str, **places: Any) -> Published:
    """A configuration that has been looked at."""
    package = open_clip()
    model = config.get("model_cfg", config) if isinstance(config, dict) else {}
    model = model if isinstance(model, dict) else {}
    parts = {"embed_dim": int, "vision_cfg": dict, "text_cfg": dict}
    for key, kind in parts.items():
        if not isinstance(model.get(key), kind):
            raise UserError(
                f"{source}: expected open_clip's configuration with {', '.join(parts)}; {key} is not there."
            )
    preprocess = config.get("preprocess_cfg") or {}
    mean = _three(preprocess.get("mean", package.OPENAI_DATASET_MEAN), f"{source}: preprocess_cfg.mean")
    std = _three(preprocess.get("std", package.OPENAI_DATASET_STD), f"{source}: preprocess_cfg.std")
    return Published(name, plain, model, mean, std, **places)


def _three(values: Any, place: str) -> tuple[float, float, float]:
    values = [values] * 3 if isinstance(values, int | float) else values
    if not isinstance(values, list | tuple) or len(values) != 3 or not all(isinstance(v, int | float) for v in values):
        raise UserError(f"{place}: expected three numbers, found {values!r}.")
    return (float(values[0]), float(values[1]), float(values[2]))


def split(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a CLIP under `visual.` and `text.`; many files keep the text tower's beside `visual`."""
    from open_clip.model import convert_to_custom_text_state_dict

    state = {key.removeprefix("module."): value for key, value in state.items()}
    converted: dict[str, Tensor] = convert_to_custom_text_state_dict(state)
    return converted
