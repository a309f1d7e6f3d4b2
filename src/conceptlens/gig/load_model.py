"""From a word to a model: of timm, torchvision or transformers, a CLIP with texts, your own function, or a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import nn

from conceptlens.core.errors import UserError
from conceptlens.encoders import OPEN_CLIP, TRANSFORMERS
from conceptlens.gig.models.loaded import Asked, LoadedModel
from conceptlens.gig.models.own import open_own
from conceptlens.gig.models.run import open_run
from conceptlens.gig.models.timm import open_timm
from conceptlens.gig.models.torchvision import PREFIX as TORCHVISION
from conceptlens.gig.models.torchvision import open_torchvision
from conceptlens.gig.models.transformers import open_transformers
from conceptlens.gig.models.zero_shot import open_zero_shot


def open_model(word: str, asked: Asked | None = None) -> LoadedModel:
    """The model that a word names.

    Args:
        word: `timm/…` (or a timm name alone), `torchvision/NAME`, `transformers/…`; `open_clip/…` or `builtin/vit`,
            whose outputs are texts; `path/to/file.py:function`, which is *code that will be run*; or a folder of a
            conceptlens run.
        asked: What the user says of it.
    """
    asked = asked or Asked()
    if asked.image_size is not None and asked.image_size < 1:
        raise UserError(f"--image-size: expected a positive whole number, got {asked.image_size}.")
    texts = word.startswith((OPEN_CLIP, "builtin/"))
    if asked.prompt is not None and not texts:
        raise UserError("--prompt: only models whose outputs are texts have one, open_clip/… and builtin/vit.")
    if (Path(word) / "run.json").exists():
        return open_run(Path(word), asked)
    if ".py:" in word or word.endswith(".py"):
        return open_own(word, asked)
    if texts:
        return open_zero_shot(word, asked)
    if word.startswith(TORCHVISION):
        return open_torchvision(word, asked)
    if word.startswith(TRANSFORMERS):
        return open_transformers(word, asked)
    if Path(word).is_dir() or word.startswith((".", "/", "~")):
        raise UserError(f"{word}: expected a run folder with a run.json, a timm name or file.py:function.")
    return open_timm(word, asked)


@contextmanager
def restored(module: nn.Module | None) -> Iterator[None]:
    """Afterwards a module is on its device, in its mode and as trainable as it was before."""
    parameters = list(module.parameters()) if module is not None else []
    modes = [(part, part.training) for part in module.modules()] if module is not None else []
    trainable = [parameter.requires_grad for parameter in parameters]
    device = parameters[0].device if parameters else None
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
        for parameter, needed in zip(parameters, trainable, strict=True):
            parameter.requires_grad_(needed)
        if module is not None and device is not None:
            module.to(device)
