"""The two towers of a CLIP, each built by open_clip from its configuration: one can be had without the other."""

import importlib.util
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.encoders.open_clip.files import INSTEAD, Published
from conceptlens.encoders.timm.hub import from_hub
from conceptlens.encoders.weights_file import load_weights


def build_image_tower(model: Published) -> Any:
    """open_clip's image tower with fresh weights: its own ViT, or its wrapper around a timm trunk."""
    from open_clip.model import _build_vision_tower

    config = {**model.model["vision_cfg"], "timm_model_pretrained": False}
    trunk = config.get("timm_model_name")
    if trunk:
        import timm

        if not timm.is_model(trunk):
            raise UserError(
                f"{model.name}: its image tower is timm's {trunk!r}, which this timm does not have. Update it."
            )
    if isinstance(config.get("layers"), list | tuple):
        raise UserError(
            f"{model.name}: open_clip's own ResNets hand out no tokens. Use timm's, such as timm/resnet50_clip.openai."
        )
    if config.get("attentional_pool"):
        raise UserError(f"{model.name}: image towers with attentional pooling (CoCa) are not read. Choose another.")
    return _built(_build_vision_tower, model, config)


def build_text_tower(model: Published) -> Any:
    """open_clip's text tower with fresh weights: its own transformer, or its wrapper around a Hugging Face one."""
    from open_clip.model import _build_text_tower

    config = {**model.model["text_cfg"], "hf_model_pretrained": False, "output_tokens": False}
    if config.get("hf_model_name"):
        config["hf_model_name"] = str(_text_config(model, str(config["hf_model_name"])).parent)
    return _built(_build_text_tower, model, config)


def _built(build: Any, model: Published, config: dict[str, Any]) -> Any:
    quick = bool(model.model.get("quick_gelu", False))
    try:
        return build(model.model["embed_dim"], config, quick)
    except (TypeError, ValueError, AssertionError, RuntimeError, KeyError, OSError) as error:
        problem = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{model.name}: open_clip cannot build a tower from its configuration: {problem}.") from None


def need_transformers(model: Published) -> None:
    """A Hugging Face text tower or tokenizer needs the package transformers."""
    if importlib.util.find_spec("transformers") is None:
        raise UserError(
            f"{model.name}: its texts are read by a Hugging Face model, which needs the package transformers. "
            "Install it: pip install 'conceptlens[open-clip]'"
        )


def _text_config(model: Published, name: str) -> Path:
    """`config.json` of a Hugging Face text tower: beside the weights, or under its own name on the hub."""
    need_transformers(model)
    from open_clip.hf_configs import arch_dict

    beside = model.folder / "config.json" if model.folder else None
    path = beside if beside and beside.is_file() and read_json(beside).get("model_type") in arch_dict else None
    if path is None:
        put = f"Put the config.json of {name} into {model.folder}." if model.folder else INSTEAD
        path = from_hub(model.name, name, "config.json", instead=put)
    described = read_json(path)
    if described.get("model_type") not in arch_dict or "auto_map" in described:
        raise UserError(f"{path}: expected a text model of the kinds {', '.join(arch_dict)}, without code of its own.")
    return path


def load_tower(tower: nn.Module, model: Published, state: dict[str, Tensor], part: str, source: str) -> None:
    """Copy the tensors of one part, `visual` or `text`, into its tower."""
    own = {key.removeprefix(f"{part}."): value for key, value in state.items() if key.startswith(f"{part}.")}
    own.pop("transformer.embeddings.position_ids", None)  # older Hugging Face models kept what newer ones count
    load_weights(tower, own, source=source, hint=f"Is it a file for {model.name}?")
