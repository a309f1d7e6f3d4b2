"""Table 5 of the CORTEX paper: images of one concept edited towards another, both ways, and judged from outside.

Concepts are paired; each image of one is optimized towards its partner within a fixed region, by token selection and by
the embedding baseline. Eq. 14: ΔP = P(optimized) − P(initial), of the original and of the target concept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.cortex.editing.edit import METHODS
from conceptlens.cortex.editing.search import search_embeddings, search_tokens
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.extractors.trained import InformationExtractor
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.cortex.masking import Judge
from conceptlens.cortex.samples import Samples


@dataclass(frozen=True)
class PairResult:
    """A row of Table 5: one judge and one way of optimizing."""

    judge: str
    method: str
    images: int
    accuracy: float  # of the judge on the initial images
    original: float  # mean probability of the original concept, initially
    target: float
    original_change: float  # ΔP_Orig
    target_change: float  # ΔP_Targ


def judge_pairs(
    model: VQModel,
    extractor: InformationExtractor,
    samples: Samples,
    pairs: Sequence[tuple[str, str]],
    mask: Tensor,
    judges: Mapping[str, Judge],
    *,
    images: int = 50,
    settings: SearchSettings | None = None,
    batch: int = 64,
    seed: int = 0,
) -> list[PairResult]:
    """Edit up to `images` of each concept of each pair towards the other, and judge.

    Args:
        model: Decodes.
        extractor: What is optimized.
        samples: Where images of the concepts come from.
        pairs: Reciprocal: each name is original once and target once.
        mask: (h, w), the fixed region.
        judges: Probabilities over the extractor's concepts, in its order.
        images: Of each concept.
        settings: Of the search.
        batch: Images searched at once.
        seed: Of the search.
    """
    if not pairs:
        raise UserError("Expected at least one pair of concepts.")
    extractor.check_codebook(model.codebook)
    codebook = model.codebook.detach()
    starts, labels, targets = [], [], []
    for pair in pairs:
        for original, target in (pair, pair[::-1]):
            mine = samples.of(extractor.concept(original), images)
            if not len(mine):
                raise UserError(f"No sample shows {original!r}: there is nothing to edit.")
            starts.append(mine)
            labels.append(torch.full((len(mine),), extractor.concept(original)))
            targets.append(torch.full((len(mine),), extractor.concept(target)))
    tokens, label, target_of = torch.cat(starts), torch.cat(labels), torch.cat(targets)
    before = _judged(model, tokens, judges, batch)
    rows = []
    for method in METHODS[::-1]:
        parts = []
        for some, wanted in zip(torch.split(tokens, batch), torch.split(target_of, batch), strict=True):
            if method == "tokens":
                found = search_tokens(extractor, codebook, wanted, mask, tokens=some, settings=settings, seed=seed)
            else:
                found = search_embeddings(extractor, codebook, wanted, mask, tokens=some, settings=settings)
            parts.append(found.tokens.cpu())
        after = _judged(model, torch.cat(parts), judges, batch)
        for name in judges:
            old, new = before[name], after[name]
            rows.append(
                PairResult(
                    judge=name,
                    method=method,
                    images=len(tokens),
                    accuracy=float((old.argmax(1) == label).double().mean()),
                    original=_mean(old, label),
                    target=_mean(old, target_of),
                    original_change=_mean(new, label) - _mean(old, label),
                    target_change=_mean(new, target_of) - _mean(old, target_of),
                )
            )
    return rows


@torch.no_grad()
def _judged(model: VQModel, tokens: Tensor, judges: Mapping[str, Judge], batch: int) -> dict[str, Tensor]:
    parts: dict[str, list[Tensor]] = {name: [] for name in judges}
    for some in torch.split(tokens, batch):
        images = model.decode(some)
        for name, judge in judges.items():
            parts[name].append(judge(images).cpu())
    return {name: torch.cat(part) for name, part in parts.items()}


def _mean(probabilities: Tensor, classes: Tensor) -> float:
    return float(probabilities.gather(1, classes[:, None]).mean())
