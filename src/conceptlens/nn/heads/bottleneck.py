"""The bottleneck: what the class head reads of the concept logits, and how it learns to take a person's answers.

    space           exclusive group g, value v               independent concept k
    probability     p = softmax(l_g / T_g)_v                 p = σ(l_k / T_g)
    log-probability log(p + ε)                               log(p + ε) − log(1 − p + ε)
    logit           l_v                                      l_k

T_g is a temperature fitted on validation, so that the probabilities that the head reads are calibrated; ε keeps them
finite, and bounds what one overconfident concept can say. An answer (value v holds) is written as p = 1 of that value
and 0 of the others. A logit has no such end: there an answer is a vector that follows the images with that label.

RandInt (Espinosa Zarlenga et al., NeurIPS 2022, section 3.3): while training, some groups of an image are set to their
labels before the class is decided. `class_gradient` α scales what of the class loss reaches the concepts: 1 is joint
training, 0 sequential (Koh et al., ICML 2020, section 3).
"""

from typing import Literal

import torch
from torch import Tensor, nn

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.nn.heads.probabilities import concept_probabilities

Reads = Literal["probability", "log-probability", "logit"]  # what a class head may read
RandInt = float | Literal["uniform"]
EPSILON = 0.003
FOLLOW = 0.01  # share of a new image in the running mean of a label's logits
ONE_IMAGE = 1.0  # a prior of T = 1, worth about an image: labels that are separated completely have no best T
SHARPEST = 20.0
ENOUGH = 4096  # validation images that a temperature is fitted on


class Bottleneck(nn.Module):
    """Concept logits (B, K) → what the class head reads, (B, K).

    Args:
        concepts: The K concepts.
        space: What the head reads.
        randint: Chance that a group of an image is set to its labels in training; `uniform`: a chance of its own, drawn
            between 0 and 1, for each image.
        class_gradient: α, the share of the class loss's gradient that reaches the concepts.
        calibrate: Whether T_g is fitted on validation; otherwise it is 1.
        draw_together: RandInt tells all images of a batch the same groups, as the published code of CEM.
    """

    def __init__(
        self,
        concepts: ConceptSet,
        space: Reads = "logit",
        randint: RandInt = 0.0,
        class_gradient: float = 1.0,
        calibrate: bool = False,
        draw_together: bool = False,
    ) -> None:
        super().__init__()
        if randint != "uniform" and not 0 <= randint <= 1:
            raise UserError(f"method.randint: expected a chance from 0 to 1, or uniform, found {randint}.")
        if not 0 <= class_gradient <= 1:
            raise UserError(f"method.class_gradient: expected a share from 0 to 1, found {class_gradient}.")
        self.space, self.randint, self.class_gradient, self.groups = space, randint, class_gradient, concepts.groups
        self.calibrate, self.draw_together = calibrate and space != "logit", draw_together
        group_of, exclusive = torch.as_tensor(concepts.group_of), torch.as_tensor(concepts.exclusive)
        count = len(concepts)
        # One label says all values of an exclusive group: they are told together, others one by one.
        draw_of = torch.where(exclusive, group_of, len(self.groups) + torch.arange(count))
        self.register_buffer("group_of", group_of, persistent=False)
        self.register_buffer("exclusive", exclusive, persistent=False)
        self.register_buffer("draw_of", draw_of, persistent=False)
        self.register_buffer("sharpness", torch.ones(len(self.groups)), persistent=self.calibrate)  # 1 / T
        self.group_of: Tensor
        self.exclusive: Tensor
        self.draw_of: Tensor  # (K,): which draw decides whether a concept is told
        self.sharpness: Tensor
        self.follows = space == "logit" and randint != 0
        if self.follows:
            self.register_buffer("answers", 5 * (2 * torch.eye(count) - 1).expand(2, -1, -1).clone())
            self.answers[0] *= -1
        self.answers: Tensor  # (2, K, K): what is written of a concept's columns where it is told 0 or 1

    def calibrated(self, logits: Tensor) -> Tensor:
        """Logits (B, K) at the temperature of their group."""
        return logits if not self.calibrate else logits * self.sharpness[self.group_of].to(logits.dtype)

    def forward(self, logits: Tensor) -> Tensor:
        if self.space == "logit":
            return logits
        return self.of_probabilities(concept_probabilities(self.calibrated(logits), self.groups))

    def of_probabilities(self, p: Tensor) -> Tensor:
        """Probabilities (B, K) as the head reads them; not of logits, which no probability gives back."""
        return p if self.space == "probability" else log_probability(p, self.exclusive)

    def pass_on(self, read: Tensor) -> Tensor:
        """The same numbers, with the share of the class loss's gradient that may reach the concepts."""
        alpha = self.class_gradient
        return read if alpha == 1 else read.detach() if alpha == 0 else alpha * read + (1 - alpha) * read.detach()

    def write(self, labels: Tensor, read: Tensor) -> Tensor:
        """Labels (B, K) of 0, 1, UNKNOWN as the head reads them; where nobody knows, what was read."""
        if self.space != "logit":
            written = self.of_probabilities(labels.clamp_min(0).to(read.dtype))
        elif self.follows:
            written = self.write_logits(labels).to(read.dtype)
        else:
            raise UserError("Without RandInt, a head of logits has learned no answers. Set method.randint.")
        return torch.where(labels == UNKNOWN, read, written)

    def write_logits(self, labels: Tensor) -> Tensor:
        """Mean logits of images with these labels, (B, K): of its told value in an exclusive group."""
        own = self.answers.diagonal(dim1=1, dim2=2)  # (2, K)
        alone = torch.where(labels == 1, own[1], own[0])
        same = (self.group_of[:, None] == self.group_of).to(alone.dtype)
        told = (labels == 1).to(alone.dtype)
        has = told @ same > 0  # (B, K): some value of the group is told
        return torch.where(self.exclusive & has, told @ (self.answers[1] * same), alone)

    @property
    def draws(self) -> int:
        """Numbers that RandInt needs of an image: of each group, of each concept alone, and one for its chance."""
        return len(self.groups) + len(self.draw_of) + 1

    def rehearse(self, read: Tensor, labels: Tensor, chance: Tensor | None = None) -> Tensor:
        """RandInt: what was read (B, K) with some groups of each image set to their labels, where known.

        Args:
            read: What the head would read.
            labels: (B, K) of 0, 1, UNKNOWN.
            chance: (B, draws) of numbers from 0 to 1, the same however a batch is split; drawn here if not given.
        """
        if self.follows:
            self.follow(read, labels)
        if chance is None:
            chance = torch.rand(len(read), self.draws, device=read.device)
        if self.draw_together:
            chance = chance[:1]
        told = chance[:, self.draw_of] < (chance[:, -1:] if self.randint == "uniform" else self.randint)
        return torch.where(told, self.write(labels, read), read)

    @torch.no_grad()
    def follow(self, read: Tensor, labels: Tensor) -> None:
        """Move the mean logits of each label towards those of these images."""
        logits = read.detach().to(self.answers.dtype)
        for side in (0, 1):
            members = (labels == side).to(logits.dtype)
            count = members.sum(0).unsqueeze(1)
            mean = members.T @ logits / count.clamp_min(1)
            self.answers[side].lerp_(mean, 1 - (1 - FOLLOW) ** count)

    @torch.no_grad()
    def fit_temperature(self, logits: Tensor, labels: Tensor) -> dict[str, float]:
        """Change each group's temperature so that *calibrated* logits (N, K) fit their labels (N, K) best.

        The surprise is convex in 1/T: bisection finds where its slope changes sign.
        """
        if not self.calibrate:
            return {}
        rows = torch.linspace(0, len(logits) - 1, min(len(logits), ENOUGH)).long()
        scores, known = logits[rows].double().cpu(), labels[rows].cpu()
        found = torch.ones(len(self.groups), dtype=torch.float64)
        for place, group in enumerate(self.groups):
            part, said = scores[:, group.concepts], known[:, group.concepts]
            if group.kind == "exclusive":
                kept = (said == 1).sum(1) == 1
                part, target = part[kept], (said[kept] == 1).double()
            else:
                kept = said != UNKNOWN
                part, target = part[kept].unsqueeze(1), said[kept].double().unsqueeze(1)
            if len(part):
                found[place] = sharpness(part, target)
        # A group that says nothing yet would get an endless T: nothing could be learned through it, or bring it back.
        self.sharpness.mul_(found.to(self.sharpness)).clamp_(1 / SHARPEST, SHARPEST)
        return {"mean_temperature": float((1 / self.sharpness).mean())}


def log_probability(p: Tensor, exclusive: Tensor) -> Tensor:
    """Of probabilities (B, K): their logarithms in exclusive groups, log-odds elsewhere; `exclusive` (K,)."""
    yes = (p + EPSILON).log()
    return torch.where(exclusive, yes, yes - (1 - p + EPSILON).log())


def sharpness(logits: Tensor, target: Tensor) -> float:
    """1 / T that fits logits (n, V) to one-hot labels best, by softmax; of one column to 0 or 1, by a sigmoid."""
    low, high = 0.0, SHARPEST
    for _ in range(40):
        middle = (low + high) / 2
        p = (middle * logits).softmax(1) if logits.shape[1] > 1 else (middle * logits).sigmoid()
        slope = ((p - target) * logits).sum() + ONE_IMAGE * (middle - 1)
        low, high = (middle, high) if slope < 0 else (low, middle)
    return (low + high) / 2
