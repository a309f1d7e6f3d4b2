"""From words to a VQ model: our own generator, a taming-style checkpoint, a diffusers folder, or an IVQ-CBM run."""

from pathlib import Path

from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.cortex.generators.builtin.generator import CARD, load_generator
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.cortex.generators.torch_file import read_torch_file, tensors_of
from conceptlens.cortex.generators.vqgan import VQGAN, diffusers_layout
from conceptlens.cortex.generators.vqgan_transformer import PREFIX, GenerativeVQGAN
from conceptlens.encoders.weights_file import PICKLES, read_weights

BUILTIN = "builtin/cells"
PACKAGED = Path(__file__).parents[1] / "weights"
DIFFUSERS_WEIGHTS = "diffusion_pytorch_model.safetensors"


def open_model(name: str | Path | VQModel, *, image_size: int | None = None) -> VQModel:
    """A model by name, on the CPU, in evaluation mode; nothing in its files is run. A model that is open stays so.

    Args:
        name: `builtin/cells`; a folder with generator.json (ours), with config.json (diffusers' VQModel) or with
            run.json (a run that has a codebook); or a .safetensors, .ckpt, .pt or .pth file of a VQGAN.
        image_size: Side in pixels of a VQGAN's images, where no configuration says it; 256 by default.
    """
    if isinstance(name, VQModel):
        return name.eval()
    if str(name) == BUILTIN:
        if not (PACKAGED / CARD).exists():
            raise UserError(
                f"{BUILTIN}: this copy of the package holds no generator weights. Train them "
                "(pretraining/generator/README.md), or name a model folder."
            )
        return load_generator(PACKAGED)
    path = Path(name).expanduser()
    if path.is_dir():
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
    if not path.exists():
        raise UserError(f"{name}: no such model. Name a file, a folder, or {BUILTIN}.")
    if path.suffix.lower() in PICKLES:
        return _vqgan(tensors_of(read_torch_file(path), path), path, image_size)
    return _vqgan(read_weights(path), path, image_size)


def _vqgan(state: dict[str, Tensor], path: Path, image_size: int | None) -> VQGAN:
    """With its transformer, where the file holds one."""
    if f"{PREFIX}tok_emb.weight" in state:
        return GenerativeVQGAN(state, str(path), image_size or 256)
    return VQGAN(state, str(path), image_size or 256)


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
