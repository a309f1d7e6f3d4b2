"""Your own model: a function in a file that you name, or a module in memory."""

from pathlib import Path

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.core.plugins import load_object
from conceptlens.gig.models.loaded import Asked, LoadedModel, numbered
from conceptlens.gig.network import logits_of
from conceptlens.gig.preprocessing import chosen, of_timm


def open_own(word: str, asked: Asked) -> LoadedModel:
    """Run a function that the user named or allowed."""
    if asked.weights:
        raise UserError("--weights: your own function loads its weights itself; leave this out.")
    file, _, function = word.rpartition(":") if ".py:" in word else (word, "", "")
    path = Path(file)
    if not path.is_file():
        raise UserError(f"{path}: no such file. Your own model is named as path/to/file.py:function.")
    if not function:
        raise UserError(f"{word}: which function makes the model? Name it, as {word}:build.")
    build = load_object(word)
    try:
        module = build()
    except UserError:
        raise
    except Exception as error:  # the user's own code may fail in any way
        raise UserError(f"{word} failed: {type(error).__name__}: {error}.") from error
    if not isinstance(module, nn.Module):
        raise UserError(f"{word} returned {type(module).__name__}; expected a torch.nn.Module.")
    return open_module(module, word, asked)


def open_module(module: nn.Module, name: str, asked: Asked) -> LoadedModel:
    """A module that is in memory; its attributes `image_size` and `classes` are read where they exist.

    Args:
        module: Images (B, 3, H, W) to outputs (B, classes), or to an object whose `logits` they are.
        name: What to call it.
        asked: What the user says of it.
    """
    size = asked.image_size or getattr(module, "image_size", 224)
    if not isinstance(size, int) or size < 1:
        raise UserError(f"{name}: image_size of the module is {size!r}; expected a positive whole number.")
    own_names = getattr(module, "classes", None)
    labels = asked.names or (list(map(str, own_names)) if own_names is not None else None)
    return LoadedModel(
        name=name,
        module=module,
        image_size=size,
        outputs=numbered(count_outputs(module, name, size), labels, name),
        preprocessing=chosen(asked.normalize, of_timm(module)),
    )


@torch.no_grad()
def count_outputs(module: nn.Module, name: str, size: int) -> int:
    """How many outputs a module has for an image of that side; what has none is refused."""
    try:
        like = next((p for p in module.parameters() if p.is_floating_point()), torch.zeros(1))
        outputs = logits_of(module.eval()(torch.zeros(1, 3, size, size).to(like)))
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{name} does not take images of {size} pixels: {reason}. Set --image-size.") from error
    if not isinstance(outputs, Tensor) or outputs.ndim != 2:
        shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise UserError(f"{name}: expected outputs (B, classes), got {shape}.")
    return int(outputs.shape[1])
