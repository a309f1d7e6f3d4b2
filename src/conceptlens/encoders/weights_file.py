"""Weights from a .safetensors file, loaded whole or refused. A pickle can run code when it is opened: none ever is."""

import hashlib
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, load_file
from torch import Tensor, nn

from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_bytes, read_json, stored

PICKLES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".tar"}
CONVERT = (
    'python -c "import torch, safetensors.torch as st; '
    "w = torch.load('{name}', map_location='cpu', weights_only=True); w = w.get('state_dict', w.get('model', w)); "
    "st.save_file({{k: v.contiguous().clone() for k, v in w.items()}}, '{target}')\""
)


def folder_with(file: str, path: str, name: str) -> Path:
    """The folder of a `local-dir:` name, which must hold a model's configuration.

    Args:
        file: The configuration's name.
        path: The folder as it was typed.
        name: The encoder's name, for the error.
    """
    folder = Path(path).expanduser()
    if not (folder / file).is_file():
        found = "only other files" if folder.is_dir() else "no folder"
        raise UserError(f"{name}: expected a folder with {file}, found {found}. Check the path.")
    return folder


def convert_command(pickle: Path | str, target: Path | str) -> str:
    """The line that a user who trusts a pickle runs once."""
    return CONVERT.format(name=pickle, target=target)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file, or of one that gzip packed (`.safetensors.gz`), on the CPU."""
    path = stored(path)
    if path.suffix.lower() in PICKLES:
        convert = convert_command(path.name, f"{path.stem}.safetensors")
        raise UserError(
            f"{path}: expected a .safetensors file. Pickled weights ({path.suffix}) can run code when opened and are "
            f"never loaded. If you trust the file, convert it once:\n  {convert}"
        )
    if not path.is_file():
        found = "a folder" if path.is_dir() else "nothing there"
        raise UserError(f"{path}: expected a .safetensors file with weights, found {found}. Check encoder.weights.")
    manifest.check(path)
    try:
        return load(read_bytes(path)) if path.suffix == ".gz" else load_file(path)
    except (SafetensorError, OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: expected weights in the safetensors format, but {error}.") from None


def _some(names: Iterable[str], limit: int = 3) -> str:
    names = sorted(names)
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def load_weights(
    module: nn.Module,
    weights: dict[str, Tensor],
    *,
    source: str,
    hint: str,
    ignore: Callable[[str], bool] = lambda name: False,
) -> None:
    """Copy `weights` into `module`; everything must fit but the names that `ignore` lets pass.

    Args:
        module: What receives the weights.
        weights: Name → tensor.
        source: The file, for the error.
        hint: What the user can do if the file does not fit.
        ignore: True for names that may be missing on either side, such as a classifier's.
    """
    own = {name: value for name, value in module.state_dict().items() if not ignore(name)}
    given = {name: value for name, value in weights.items() if not ignore(name)}
    problems = []
    if missing := own.keys() - given.keys():
        problems.append(f"it lacks {len(missing)} of {len(own)} tensors ({_some(missing)})")
    if unexpected := given.keys() - own.keys():
        problems.append(f"it has {len(unexpected)} tensors that the encoder does not know ({_some(unexpected)})")
    shapes = [
        f"{name}: {tuple(given[name].shape)} in the file, {tuple(own[name].shape)} in the encoder"
        for name in own.keys() & given.keys()
        if own[name].shape != given[name].shape
    ]
    if shapes:
        problems.append(f"{len(shapes)} shapes differ ({_some(shapes, 2)})")
    if problems:
        raise UserError(f"{source} does not fit: {'; '.join(problems)}. {hint}")
    module.load_state_dict(given, strict=False)


def check_package_weights(path: Path) -> None:
    """The package's weights must be those its JSON names: a damaged or swapped file is refused."""
    expected = str(read_json(path.with_suffix(".json")).get("sha256"))
    digest = hashlib.sha256(read_bytes(path)).hexdigest()
    if digest != expected:
        raise UserError(
            f"{path}: expected sha256 {expected}, found {digest}: the file is damaged. "
            "Install conceptlens again, or set `encoder.pretrained: false`."
        )
