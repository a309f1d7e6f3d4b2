"""Targeted editing (CORTEX paper, sections 3.5 and 5.2, Fig. 5): a region's tokens searched for a target concept."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.cortex.editing.search import Found, See, search_embeddings, search_tokens, unseen
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.extractors.trained import InformationExtractor
from conceptlens.cortex.generators.contract import VQModel

METHODS = ("tokens", "embeddings")


@dataclass(frozen=True)
class Edit:
    """One image before and after."""

    target: str
    method: str
    found: Found

    def to_json(self) -> dict[str, Any]:
        """Everything but pixels."""
        before, after = self.found.before[0], self.found.tokens[0]
        places = self.found.changed[0].nonzero().tolist()
        return {
            "target": self.target,
            "method": self.method,
            "region": self.found.mask.nonzero().tolist(),
            "probability_before": float(self.found.start[0]),
            "probability_after": float(self.found.end[0]),
            "path": [
                {"step": step, "probability": float(value)}
                for step, value in zip(self.found.steps, self.found.path[0], strict=True)
            ],
            "changed": [
                {"row": row, "column": column, "from": int(before[row, column]), "to": int(after[row, column])}
                for row, column in places
            ],
            "tokens": after.tolist(),
        }

    def text(self) -> str:
        changed = int(self.found.changed.sum())
        return (
            f"{self.target}: {float(self.found.start[0]):.3f} → {float(self.found.end[0]):.3f} by the extractor, "
            f"{changed} of {int(self.found.mask.sum())} tokens of the region changed"
        )


def edit_image(
    model: VQModel,
    extractor: InformationExtractor,
    tokens: Tensor,
    mask: Tensor,
    target: str,
    *,
    method: str = "tokens",
    settings: SearchSettings | None = None,
    seed: int = 0,
    see: See = unseen,
    halt: Callable[[], bool] = lambda: False,
) -> Edit:
    """Change an image's tokens (h, w) within a mask (h, w) towards a concept.

    Args:
        model: Whose tokens they are.
        extractor: Trained on them.
        tokens: (h, w).
        mask: Which may change.
        target: A concept of the extractor.
        method: `tokens`, or the baseline `embeddings`.
        settings: The budget of steps, and how.
        seed: Of the search.
        see: Told the path as it is found, as `search_tokens` has it.
        halt: Asked after each step whether to stop there.
    """
    if method not in METHODS:
        raise unknown_name("editing method", method, METHODS)
    if tuple(tokens.shape) != tuple(mask.shape):
        raise UserError(f"Expected a mask for {tuple(tokens.shape)} tokens, found one of {tuple(mask.shape)}.")
    extractor.check_codebook(model.codebook)
    concepts = torch.tensor([extractor.concept(target)])
    codebook = model.codebook.detach()
    if method == "tokens":
        found = search_tokens(
            extractor, codebook, concepts, mask, tokens=tokens[None], settings=settings, seed=seed, see=see, halt=halt
        )
    else:
        found = search_embeddings(
            extractor, codebook, concepts, mask, tokens=tokens[None], settings=settings, see=see, halt=halt
        )
    return Edit(target, method, found)


@torch.no_grad()
def strip(model: VQModel, edit: Edit, frames: int = 6) -> Tensor:
    """Images (frames + 2, 3, H, W): before, the draws along the way, after; as Figure 5."""
    found = edit.found
    count = min(frames, found.frames.shape[1])
    chosen = torch.linspace(0, found.frames.shape[1] - 1, count).round().long()
    grids = torch.cat([found.before[:1], found.frames[0, chosen], found.tokens[:1]])
    return model.decode(grids)
