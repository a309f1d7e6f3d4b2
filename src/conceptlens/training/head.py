"""The class head fitted once more at the end, partly on readings of validation images.

Of small data, the concepts of training images are read almost without error, and a head that learns from these readings
never sees which groups are read badly in new images. A share of them is therefore replaced: question by question (a
group of exclusive values, or one independent concept), by what was read of a random validation image with the same
label. Class labels of validation images are not looked at. What it brings and costs: evidence/own-data.
"""

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.concepts import UNKNOWN
from conceptlens.data.dataset import UNLABELED
from conceptlens.data.labels.class_table import labels_follow_from_class
from conceptlens.nn.heads.bottleneck import Bottleneck
from conceptlens.runs.predict import predict
from conceptlens.training.optimization.losses import class_weights
from conceptlens.training.session import Session

STEPS, FINAL = 2000, 0.05  # of the optimizer; the last rate relative to the first


@dataclass(frozen=True)
class Partners:
    """Of each image and question, the validation images with the same label: a stretch of `order`."""

    question: Tensor  # (K,): which question each concept belongs to, from 0 on
    order: Tensor  # (Q, V): positions of validation images, those with equal labels side by side
    first: Tensor  # (N, Q)
    count: Tensor  # (N, Q): 0 where nobody knows, or no validation image has this label

    @classmethod
    def find(cls, said: Tensor, others: Tensor, question: Tensor) -> "Partners":
        """Of labels (N, K), among others (V, K), of 0, 1, UNKNOWN."""
        names, question = torch.unique(question, return_inverse=True)
        orders, firsts, counts = [], [], []
        for number in range(len(names)):
            columns = question == number
            mine, theirs = said[:, columns], others[:, columns]
            values, value = torch.unique(torch.cat([mine, theirs]), dim=0, return_inverse=True)
            theirs = value[len(mine) :]
            sizes = theirs.bincount(minlength=len(values))
            starts = sizes.cumsum(0) - sizes
            sizes = torch.where((values == UNKNOWN).any(1), 0, sizes)
            orders.append(theirs.argsort(stable=True))
            firsts.append(starts[value[: len(mine)]])
            counts.append(sizes[value[: len(mine)]])
        return cls(question, torch.stack(orders), torch.stack(firsts, 1), torch.stack(counts, 1))

    def draw(self, rows: Tensor, read: Tensor, others: Tensor, chance: Tensor) -> Tensor:
        """What was read (B, K) of the images at `rows`, replaced by that of others (V, K) by `chance` (B, Q)."""
        place = self.first[rows] + (chance * self.count[rows]).long()  # (B, Q)
        partner = self.order[torch.arange(len(self.order)), place.clamp_max(self.order.shape[1] - 1)]
        return torch.where(self.count[rows][:, self.question] > 0, others.gather(0, partner[:, self.question]), read)


def fit_again(session: Session) -> None:
    """Fit the head of the chosen model again, if its method asks for that (`validation_readings`)."""
    model, examples, splits = session.pipeline.model, session.source.examples, session.splits
    share = float(getattr(model, "validation_readings", 0.0))
    if not share or not len(splits.val):
        return
    if session.source.task == "multilabel":
        session.progress.note("the class head is not fitted again: images have several classes")
        return
    train = splits.train[examples.labels[splits.train] != UNLABELED]
    if labels_follow_from_class(examples.concepts[train], examples.labels[train]):
        session.progress.note("the class head is not fitted again: the concept labels follow from the class")
        return
    read, others = (
        torch.from_numpy(found.concept_logits if found.bottleneck is None else found.bottleneck).float()
        for found in (
            predict(session.pipeline, session.inputs, rows, processes=session.processes) for rows in (train, splits.val)
        )
    )
    training = session.recipe.training
    labels = torch.from_numpy(examples.labels[train])
    weights = class_weights(training.loss, examples.labels[train], len(session.blueprint.classes), "single")
    fitted = fit_head(
        model.bottleneck,
        read,
        torch.from_numpy(examples.concepts[train]).long(),
        labels,
        others,
        torch.from_numpy(examples.concepts[splits.val]).long(),
        weights=weights,
        share=share,
        batch_size=training.batch_size,
        rate=training.learning_rate * float(getattr(model.head.weight, "rate", 1.0)),
        decay=training.weight_decay,
        smoothing=training.loss.label_smoothing,
        seed=session.recipe.seed,
    )
    with torch.no_grad():
        model.head.weight.copy_(fitted.weight)
        model.head.bias.copy_(fitted.bias)
    session.processes.agree(model.head)
    session.progress.note(f"class head fitted again, {share:.0%} on readings of validation images with the same labels")


def fit_head(
    bottleneck: Bottleneck,
    read: Tensor,
    concepts: Tensor,
    labels: Tensor,
    others: Tensor,
    others_concepts: Tensor,
    *,
    weights: Tensor,
    share: float,
    batch_size: int,
    rate: float,
    decay: float,
    smoothing: float,
    seed: int,
    steps: int = STEPS,
) -> nn.Linear:
    """A linear head of fixed readings (N, K), a share of which are those of `others` (V, K) with equal labels.

    RandInt then tells labels as ever. Every number drawn follows from the seed; on a CPU whatever the model is on.
    """
    generator = torch.Generator().manual_seed(seed)
    bottleneck = deepcopy(bottleneck).cpu()
    partners = Partners.find(concepts, others_concepts, bottleneck.draw_of)
    head = nn.Linear(read.shape[1], len(weights))
    bound = read.shape[1] ** -0.5
    for parameter in head.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    optimizer = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=decay)
    batch = min(batch_size, len(read))
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * FINAL ** (step / steps)
        rows = torch.randperm(len(read), generator=generator)[:batch]
        chance = torch.rand(batch, 1 + len(partners.order), generator=generator)
        drawn = partners.draw(rows, read[rows], others, chance[:, 1:])
        seen = torch.where(chance[:, :1] < share, drawn, read[rows])
        if bottleneck.randint:
            told = torch.rand(batch, bottleneck.draws, generator=generator)
            seen = bottleneck.rehearse(seen, concepts[rows], told)
        optimizer.zero_grad()
        F.cross_entropy(head(seen), labels[rows], weights, label_smoothing=smoothing).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return head
