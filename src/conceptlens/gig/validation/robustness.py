"""The same image, disturbed: Gaussian noise and a targeted attack, and which concepts stay (GIG paper, App. J)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.core.documents import Part
from conceptlens.core.errors import UserError
from conceptlens.gig.document import Graph

Logits = Callable[[Tensor], Tensor]  # images in [0, 1], (B, 3, H, W) → (B, N)


def noisy(image: Tensor, sigma: float, *, seed: int = 0) -> Tensor:
    """Gaussian noise on an image in [0, 1]; `sigma` in the 256 steps of a byte, as the paper's 70."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(image.shape, generator=generator).to(image)
    return (image + noise * (sigma / 255)).clamp(0, 1)


@dataclass(frozen=True)
class Attack:
    """What a targeted attack found."""

    image: Tensor  # (3, H, W) in [0, 1]
    reached: bool  # the target class wins
    distance: float  # l2 of the change, over all pixels and channels
    weight: float  # c of the attack's last success


def attack(
    logits: Logits,
    image: Tensor,
    target: int,
    *,
    confidence: float = 0.0,
    steps: int = 100,
    searches: int = 4,
    rate: float = 0.01,
    weight: float = 1.0,
) -> Attack:
    """The l2 attack of Carlini & Wagner (2017): the smallest change found that makes `target` win.

    Minimizes ‖x′ − x‖² + c · max(max_{i ≠ t} z_i − z_t, −κ) over w, with x′ = (tanh w + 1) / 2; c grows by ten until
    the target is reached, then is halved between what failed and what did not.

    Args:
        logits: The network.
        image: (3, H, W) in [0, 1].
        target: The class to reach.
        confidence: κ.
        steps: Of Adam for each c.
        searches: How many c are tried.
        rate: Of Adam.
        weight: The first c.
    """
    if searches < 1 or steps < 1:
        raise UserError(f"An attack needs at least one search of one step; got {searches} of {steps}.")
    start = torch.atanh((image.clamp(0, 1) * 2 - 1) * 0.999999).detach()
    low, high = 0.0, float("inf")
    best = Attack(image, False, float("inf"), weight)
    closest = (float("inf"), image)
    for _ in range(searches):
        w = start.clone().requires_grad_()
        optimizer = torch.optim.Adam([w], lr=rate)
        won = False
        for _ in range(steps):
            with torch.enable_grad():
                there = (w.tanh() + 1) / 2
                z = logits(there[None])[0]
                others = torch.cat([z[:target], z[target + 1 :]]).max()
                gap = others - z[target]
                change = (there - image).square().sum()
                loss = change + weight * gap.clamp_min(-confidence)
            behind, distance = gap.item(), change.item() ** 0.5
            if behind < 0 and behind <= -confidence:
                won = True
                if distance < best.distance:
                    best = Attack(there.detach(), True, distance, weight)
            if behind < closest[0]:
                closest = (behind, there.detach())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        low, high = (low, weight) if won else (weight, high)
        weight = (low + high) / 2 if high < float("inf") else weight * 10
    if best.reached:
        return best
    return Attack(closest[1], False, float((closest[1] - image).norm()), weight)


class Kept(Part):
    """How two graphs of one image agree, layer by layer."""

    layer: str
    first: int  # concepts of the undisturbed graph
    kept: int  # of them in the disturbed graph too
    alike: int  # of them with a concept in the disturbed graph whose vector has a cosine above the threshold
    threshold: float


def kept_concepts(clean: Graph, disturbed: Graph, cosines: dict[str, Tensor], *, threshold: float = 0.9) -> list[Kept]:
    """Which concepts of a graph stay when the image is disturbed.

    Args:
        clean: Of the image as it is.
        disturbed: Of the disturbed one.
        cosines: Of each layer: concept vectors of unit length, (k, C).
        threshold: From where on two vectors are alike; the paper speaks of 0.9.
    """
    found = []
    for row in clean.rows:
        before, after = (
            [node.concept for node in graph.nodes if node.layer == row.layer and node.concept is not None]
            for graph in (clean, disturbed)
        )
        unit = cosines[row.layer]
        alike = (unit[before] @ unit[after].T >= threshold).any(1) if before and after else torch.zeros(0)
        found.append(
            Kept(
                layer=row.layer,
                first=len(before),
                kept=len(set(before) & set(after)),
                alike=int(alike.sum()),
                threshold=threshold,
            )
        )
    return found
