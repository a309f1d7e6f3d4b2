"""The smallest training that has everything: drawn images, a two-block encoder, IVQ, Magnet."""

from pathlib import Path
from typing import Any

import pytest

import conceptlens as cl


def tiny(out: Path | str, **changes: Any) -> dict[str, Any]:
    """A recipe that trains in a second or two."""
    recipe: dict[str, Any] = {
        "data": {"source": "shapes", "shapes": {"n": 96, "size": 32}},
        "encoder": {"name": "builtin/vit-mini", "image_size": 32, "options": {"width": 32, "depth": 2, "heads": 2}},
        "method": {"name": "ivq-cbm"},
        "training": {
            "epochs": 3,
            "batch_size": 16,
            "learning_rate": 1e-3,
            "warmup": 1,
            "rank_every": 2,
            "rank_images": 2,
            "checkpoint_every": 2,
            "threads": 1,
        },
        "metrics": {"bootstrap": 20, "rank_images": 4},
        "out": str(out),
    }
    for key, value in changes.items():
        node = recipe
        *path, last = key.split("__")
        for step in path:
            node = node.setdefault(step, {})
        node[last] = value
    return recipe


def train_interrupted(recipe: dict[str, Any], step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train until Ctrl-C comes within an optimizer step."""
    from conceptlens.training import loop
    from conceptlens.training.optimization.optimizer import clip_gradients

    calls: list[int] = []

    def stop(*inputs: Any) -> Any:
        calls.append(1)
        if len(calls) == step:
            raise KeyboardInterrupt
        return clip_gradients(*inputs)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "clip_gradients", stop)
        with pytest.raises(KeyboardInterrupt):
            cl.train(recipe, quiet=True)
