"""From words to a VQ model: our own generator, a published checkpoint, a diffusers folder, a run, or own code."""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.core.plugins import is_code, load_object, trust
from conceptlens.cortex.generators import llamagen, var, var_tokenizer
from conceptlens.cortex.generators.adapted import as_vq_model
from conceptlens.cortex.generators.builtin.generator import CARD, load_generator
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.cortex.generators.settings import AS_USUAL, NOTHING_TOLD, CheckpointOptions, Sampling
from conceptlens.cortex.generators.taming_config import taming_config
from conceptlens.cortex.generators.torch_file import read_torch_file, tensors_of
from conceptlens.cortex.generators.vqgan import VQGAN, diffusers_layout
from conceptlens.cortex.generators.vqgan_transformer import PREFIX, GenerativeVQGAN
from conceptlens.encoders.weights_file import PICKLES, read_weights

BUILTIN = "builtin/cells"
PACKAGED = Path(__file__).parents[1] / "weights"
DIFFUSERS_WEIGHTS = "diffusion_pytorch_model.safetensors"
_ABSURD = re.compile(r"(^|\.)\d{5,}(\.|$)")
USUAL = 256  # pixels a side, where nothing says it


def open_model(
    name: Any,
    *,
    image_size: int | None = None,
    checkpoint: CheckpointOptions = NOTHING_TOLD,
    sampling: Sampling = AS_USUAL,
    user: bool = True,
) -> VQModel:
    """A model by name, on the CPU, in evaluation mode; nothing in its files is run. A model that is open stays so.

    Args:
        name: `builtin/cells`; a folder with generator.json (ours), with config.json (diffusers' VQModel) or with
            run.json (a run that has a codebook); a .safetensors, .ckpt, .pt or .pth file of a VQGAN, or of
            LlamaGen's or VAR's tokenizer; `file.py:function`, code that is run; or an object that fulfils `VQModel`.
        image_size: Side in pixels of a checkpoint's images, where no configuration says it; 256 by default.
        checkpoint: What a checkpoint does not say of itself.
        sampling: How tokens are drawn; the model's own way where nothing is given.
        user: Whether the user named it, so that code may run; a run folder may not.
    """
    model = _open(name, image_size, checkpoint, user)
    if given := sampling.given():
        if not model.generates:
            raise UserError(f"--{next(iter(given)).replace('_', '-')}: {model.name} does not generate.")
        model.set_sampling(sampling)
    return model


def _open(name: Any, image_size: int | None, checkpoint: CheckpointOptions, user: bool) -> VQModel:
    if not isinstance(name, str | Path):
        return as_vq_model(name, f"object of {type(name).__name__}")
    if is_code(str(name)):
        if user:
            trust(str(name))
        return as_vq_model(_called(str(name)), str(name))
    path = Path(name).expanduser()
    if path.is_file():
        return _checkpoint(path, image_size, checkpoint)
    if options := checkpoint.given():
        raise UserError(f"--{options[0]} is for checkpoints of published generators; {name} is not a checkpoint.")
    if str(name) == BUILTIN:
        if not (PACKAGED / CARD).exists():
            raise UserError(
                f"{BUILTIN}: this copy of the package holds no generator weights. Train them "
                "(pretraining/generator/README.md), or name a model folder."
            )
        return load_generator(PACKAGED)
    if not path.is_dir():
        raise UserError(f"{name}: no such model. Name a file, a folder, file.py:function, or {BUILTIN}.")
    if (path / CARD).exists():
        return load_generator(path)
    if (path / "run.json").exists():
        from conceptlens.cortex.generators.ivq import IVQCodebook

        return IVQCodebook(path)
    if (path / "config.json").exists():
        return _diffusers(path, image_size)
    raise UserError(
        f"{path}: expected a model folder with {CARD} (conceptlens), config.json (diffusers) or run.json (a run)."
    )


def _called(word: str) -> Any:
    build = load_object(word)
    try:
        return build()
    except UserError:
        raise
    except Exception as error:  # the user's own code may fail in any way
        raise UserError(f"{word} failed: {type(error).__name__}: {error}.") from error


def _tensors(path: Path) -> dict[str, Tensor]:
    pickled = path.suffix.lower() in PICKLES
    state = tensors_of(read_torch_file(path), path) if pickled else read_weights(path)
    absurd = next(filter(_ABSURD.search, state), None)  # depths are read from names
    if absurd is not None:
        raise UserError(f"{path}: no network has so many layers as {absurd[:200]!r} says.")
    return state


def _checkpoint(path: Path, image_size: int | None, options: CheckpointOptions) -> VQModel:
    try:
        return _published(path, image_size, options)
    except (ValueError, LookupError, TypeError, RuntimeError, ArithmeticError) as error:
        # Tensors of wrong shapes are noticed in every possible way; for the reader it is one: another structure.
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{path}: its tensors do not fit together as those of a published model ({said}).") from None


def _published(path: Path, image_size: int | None, options: CheckpointOptions) -> VQModel:
    """A VQGAN, or the tokenizer of LlamaGen or VAR, with what writes its tokens where that is there."""
    state = _tensors(path)
    for mark, kind in ((llamagen.MODEL_MARK, "a LlamaGen model"), (var.MODEL_MARK, "a VAR transformer")):
        if mark in state:
            raise UserError(
                f"{path}: this is {kind}, which writes tokens; they are read by its tokenizer. Name the "
                "tokenizer's file as the model, and this one with --transformer."
            )
    size = image_size or USUAL
    apart = llamagen.MARK in state, var_tokenizer.MARK in state
    if not any(apart):
        if options.transformer is not None:
            raise UserError(f"--transformer: {path} is a VQGAN, whose transformer is in the same file; leave it out.")
        if f"{PREFIX}tok_emb.weight" not in state:
            return VQGAN(state, str(path), size)
        config = taming_config(path, options, state)
        side = image_size or config.image_size or USUAL
        return GenerativeVQGAN(state, str(path), side, heads=config.heads, classes=config.classes)
    if options.config is not None or options.classes is not None:
        raise UserError(f"--config and --classes are for taming's checkpoints; {path} needs neither.")
    if options.transformer is None:
        if options.heads is not None:
            raise UserError("--heads is the transformer's: name its file with --transformer.")
        tokenizer = llamagen.LlamaGenTokenizer if apart[0] else var_tokenizer.VARTokenizer
        return tokenizer(state, str(path), size)
    file = Path(options.transformer).expanduser()
    if not file.is_file():
        raise UserError(f"--transformer {file}: no such file.")
    whole = llamagen.LlamaGen if apart[0] else var.VAR
    return whole(state, _tensors(file), f"{path} with {file.name}", size, heads=options.heads)


def _diffusers(folder: Path, image_size: int | None) -> VQGAN:
    config = read_json(folder / "config.json")
    kind = config.get("_class_name") if isinstance(config, dict) else None
    if kind != "VQModel":
        raise UserError(f"{folder / 'config.json'}: expected diffusers' VQModel, found {kind!r}.")
    if config.get("norm_type", "group") != "group":
        raise UserError(
            f"{folder}: this VQModel normalizes by its codes (norm_type {config['norm_type']!r}), which is not read."
        )
    weights = folder / DIFFUSERS_WEIGHTS
    if not weights.exists():
        raise UserError(
            f"{folder}: expected {DIFFUSERS_WEIGHTS}; pickled weights are not read here. Save the model again with "
            "diffusers: model.save_pretrained(folder, safe_serialization=True)."
        )
    side = image_size or int(config.get("sample_size") or 256)
    return VQGAN(diffusers_layout(read_weights(weights)), str(folder), side)
