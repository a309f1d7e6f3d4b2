"""How extractors are trained (CORTEX paper, A.3.4) and measured (Table 1).

CE and RE: Adam at 1e-3, weight decay 1e-4, a tenth of the rate every 20 of 80 epochs, batches of 256. TE: AdamW,
warm-up over a tenth of all steps, then a cosine, mixed precision on a GPU. Kept are the weights of the epoch with the
lowest loss on validation samples, as the published code does; without such samples, those of the last epoch.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.cortex.extractors.trained import InformationExtractor
from conceptlens.cortex.generators.contract import lookup
from conceptlens.cortex.samples import TokenBatches

TOP = (1, 3, 5, 10)


@dataclass(frozen=True)
class ExtractorTraining:
    """Settings of A.3.4."""

    epochs: int = 80
    batch: int = 256
    rate: float = 1e-3
    weight_decay: float = 1e-4
    step_epochs: int = 0  # CE and RE: after so many epochs the rate falls; 0: 20, or two thirds of a short training
    gamma: float = 0.1  # to this part
    warmup: float = 0.1  # TE: share of all steps

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 2 or self.rate <= 0:
            raise UserError("Extractor: expected at least one epoch, batches of at least two and a rate above 0.")

    def rate_at(self, network: str, step: int, steps_an_epoch: int) -> float:
        """Learning rate of a step, from 0."""
        if network != "TE":
            every = self.step_epochs or max(1, min(20, 2 * self.epochs // 3))
            return self.rate * self.gamma ** (step // steps_an_epoch // every)
        total = self.epochs * steps_an_epoch
        warm = max(1, round(self.warmup * total))
        if step < warm:
            return self.rate * (step + 1) / warm
        return self.rate * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm))) / 2


@dataclass(frozen=True)
class Epoch:
    """What an epoch came to."""

    epoch: int
    loss: float
    accuracy: float  # on the training batches, as they passed
    validation_loss: float | None = None


def top_accuracy(logits: Tensor, labels: Tensor, tops: tuple[int, ...] = TOP) -> dict[str, float]:
    """Share of samples whose concept is among the k most probable; k above the number of concepts is left out."""
    order = logits.argsort(dim=1, descending=True, stable=True)
    hits = order == labels[:, None]
    return {f"top-{k}": float(hits[:, :k].any(1).double().mean()) for k in tops if k <= logits.shape[1]}


@torch.no_grad()
def measure(extractor: InformationExtractor, codebook: Tensor, samples: TokenBatches) -> dict[str, float]:
    """Top-1, 3, 5 and 10 accuracy on samples (Table 1)."""
    extractor.eval()
    found = [
        (extractor(lookup(codebook, tokens.to(codebook.device))).float().cpu(), labels)
        for tokens, labels in samples.batches(256, 0)
    ]
    if not sum(len(labels) for _, labels in found):
        raise UserError("There are no samples to measure the extractor on: draw more of each concept.")
    logits, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
    return top_accuracy(logits, labels)


@torch.no_grad()
def mean_loss(extractor: InformationExtractor, codebook: Tensor, samples: TokenBatches) -> float:
    """Cross-entropy over samples, in evaluation mode."""
    extractor.eval()
    total, seen = 0.0, 0
    for tokens, labels in samples.batches(256, 0):
        logits = extractor(lookup(codebook, tokens.to(codebook.device))).float()
        total += float(F.cross_entropy(logits, labels.to(codebook.device), reduction="sum"))
        seen += len(labels)
    return total / seen


def train_extractor(
    extractor: InformationExtractor,
    codebook: Tensor,
    train: TokenBatches,
    *,
    validation: TokenBatches | None = None,
    test: TokenBatches | None = None,
    settings: ExtractorTraining | None = None,
    seed: int = 0,
    note: Callable[[Epoch], object] = lambda epoch: None,
) -> InformationExtractor:
    """Train where the extractor and the codebook are; returns it in evaluation mode, its accuracy in its card.

    Args:
        extractor: CE, RE or TE.
        codebook: C (K, d).
        train: Samples.
        validation: Others, that choose the epoch.
        test: Others, for the accuracy.
        settings: Of A.3.4 by default.
        seed: Of the dropout; the order of samples follows from the epoch.
        note: Told each epoch.
    """
    settings = settings or ExtractorTraining()
    if train.concepts != extractor.card.concepts:
        raise UserError(f"The samples show {train.concepts}; the extractor was made for {extractor.card.concepts}.")
    kind = torch.optim.AdamW if extractor.card.network == "TE" else torch.optim.Adam
    optimizer = kind(extractor.parameters(), lr=settings.rate, weight_decay=settings.weight_decay)
    a_epoch = max(1, -(-len(train) // settings.batch))
    mixed = extractor.card.network == "TE" and codebook.device.type == "cuda"
    torch.manual_seed(seed)
    step, lowest, best = 0, math.inf, None
    for epoch in range(settings.epochs):
        extractor.train()
        total, right, seen = 0.0, 0, 0
        for tokens, labels in train.batches(settings.batch, epoch):
            if len(labels) < 2:
                continue  # one sample has no batch statistics
            labels = labels.to(codebook.device)
            for group in optimizer.param_groups:
                group["lr"] = settings.rate_at(extractor.card.network, step, a_epoch)
            with torch.autocast(codebook.device.type, torch.bfloat16, enabled=mixed):
                logits = extractor(lookup(codebook, tokens.to(codebook.device)))
            loss = F.cross_entropy(logits.float(), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            step += 1
            total += float(loss.detach()) * len(labels)
            right += int((logits.argmax(1) == labels).sum())
            seen += len(labels)
        if not seen:
            raise UserError("There are fewer than two samples to train the extractor on.")
        left = mean_loss(extractor, codebook, validation) if validation is not None and len(validation) else None
        if left is not None and left < lowest:
            lowest, best = left, copy.deepcopy(extractor.state_dict())
        note(Epoch(epoch, total / seen, right / seen, left))
    if best is not None:
        extractor.load_state_dict(best)
    extractor.eval()
    if test is not None:
        extractor.card = replace(extractor.card, accuracy=measure(extractor, codebook, test))
    return extractor
