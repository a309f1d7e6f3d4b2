"""Codebook-level explanation (CORTEX paper, section 3.4 and A.4): which combination of all tokens makes a concept.

Eq. 6: E = GumbelSoftmax(P, τ) C.  Eq. 7: P ← P − η ∇P L ⊙ M, L = −f_y(E) + α ‖E‖².  Eq. 8: the most probable tokens.
P is kept for the positions in the mask only, (B, M, K). The baseline optimizes vectors and takes the nearest tokens.

The paper's f_y is a probability and its step plain; its published code takes the logit, Adam at 0.01 for 5,000 steps,
no shrink, N(0, 1) as the start, and reports the step that its judges like best; here no judge chooses.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.cortex.editing.gumbel import gumbel_noise, select_codes
from conceptlens.cortex.editing.region import check_mask
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.frozen import frozen
from conceptlens.cortex.generators.contract import lookup, nearest_tokens

See = Callable[[int, Tensor, Tensor], object]


def unseen(step: int, probability: Tensor, tokens: Tensor) -> None:
    """Nobody looks on."""


@dataclass(frozen=True)
class Found:
    """What a search came to, for B images."""

    tokens: Tensor  # (B, h, w), with the positions outside of the mask as they were
    before: Tensor  # (B, h, w); of a search from nothing, the most probable tokens at the start
    mask: Tensor  # (h, w)
    steps: tuple[int, ...]  # at which probabilities were noted
    path: Tensor  # (B, T): the concept's probability by the extractor at those steps, of the draw that was tried
    frames: Tensor  # (B, T, h, w): the tokens of those draws
    start: Tensor  # (B,): its probability before
    end: Tensor  # (B,): and after, of `tokens`

    @property
    def selected(self) -> Tensor:
        """Eq. 8: the tokens at the mask's positions, (B, M)."""
        return self.tokens[:, self.mask]

    @property
    def changed(self) -> Tensor:
        """(B, h, w): where the token is another one."""
        return self.tokens != self.before


def search_tokens(
    extractor: nn.Module,
    codebook: Tensor,
    concepts: Tensor,
    mask: Tensor,
    *,
    tokens: Tensor | None = None,
    settings: SearchSettings | None = None,
    seed: int = 0,
    note: Callable[[int], object] = lambda step: None,
    see: See = unseen,
    halt: Callable[[], bool] = lambda: False,
) -> Found:
    """Token selection (Eq. 6 to 8) for B images at once.

    Args:
        extractor: f, in evaluation mode.
        codebook: C (K, d).
        concepts: (B,), the concept y to be reached.
        mask: (h, w), the positions that may change.
        tokens: (B, h, w), the images to start from; from nothing if not given, which frees all positions.
        settings: Steps, rate, temperatures and variants.
        seed: Of start and noise.
        note: Told each step.
        see: Told what is noted: the step, the probabilities (B,) and the draws (B, h, w).
        halt: Asked after each step; the search ends there, with what it has.
    """
    settings = settings or SearchSettings()
    count, grid = len(concepts), (mask.shape[0], mask.shape[1])
    check_mask(mask, grid)
    if tokens is None and not bool(mask.all()):
        raise UserError("A search from nothing has no tokens to keep. Select all positions, or pass an image's tokens.")
    device = codebook.device
    mask, concepts = mask.to(device), concepts.to(device)
    generator = torch.Generator(device).manual_seed(seed)
    positions = mask.flatten().nonzero()[:, 0]
    logits = _start(settings, tokens, positions, (count, len(positions), len(codebook)), generator, device)
    base = logits.argmax(-1).view(count, *grid) if tokens is None else tokens.to(device).long()
    around = lookup(codebook, base)
    logits.requires_grad_()
    optimizer = _optimizer(settings, logits)
    watch = _Watch(settings, base, positions, see)
    with frozen(extractor, "A search"):
        for step in range(settings.steps):
            vectors, chosen = select_codes(
                logits,
                codebook,
                settings.temperature_at(step),
                gumbel_noise(logits.shape, generator, device),  # no name: it is let go once used
            )
            probability, loss = _judge(extractor, place(around, vectors, positions), concepts, settings)
            watch.see(step, chosen, probability)
            (logits.grad,) = torch.autograd.grad(loss, logits)
            optimizer.step()
            logits.grad = None  # as large as P: not kept through the next forward
            note(step)
            if halt():
                break
    chosen = watch.best if settings.keep == "best" else logits.detach().argmax(-1)
    return watch.found(extractor, codebook, concepts, mask, chosen)


def search_embeddings(
    extractor: nn.Module,
    codebook: Tensor,
    concepts: Tensor,
    mask: Tensor,
    *,
    tokens: Tensor,
    settings: SearchSettings | None = None,
    note: Callable[[int], object] = lambda step: None,
    see: See = unseen,
    halt: Callable[[], bool] = lambda: False,
) -> Found:
    """The baseline of A.5: vectors in the mask are optimized, then each becomes its nearest token. No draws."""
    settings = settings or SearchSettings()
    check_mask(mask, (mask.shape[0], mask.shape[1]))
    device = codebook.device
    mask, concepts, base = mask.to(device), concepts.to(device), tokens.to(device).long()
    positions = mask.flatten().nonzero()[:, 0]
    around = lookup(codebook, base)
    vectors = around.flatten(2)[:, :, positions].transpose(1, 2).clone().requires_grad_()  # (B, M, d)
    optimizer = _optimizer(settings, vectors)
    watch = _Watch(settings, base, positions, see)

    def quantized() -> Tensor:
        return nearest_tokens(vectors.detach().transpose(1, 2).unsqueeze(-1), codebook)[..., 0]

    with frozen(extractor, "A search"):
        for step in range(settings.steps):
            probability, loss = _judge(extractor, place(around, vectors, positions), concepts, settings)
            if watch.due(step):
                watch.see(step, quantized(), probability)
            (vectors.grad,) = torch.autograd.grad(loss, vectors)
            optimizer.step()
            note(step)
            if halt():
                break
    return watch.found(extractor, codebook, concepts, mask, quantized())


def place(frozen: Tensor, vectors: Tensor, positions: Tensor) -> Tensor:
    """Embeddings (B, d, h, w) with vectors (B, M, d) at flat positions (M,)."""
    flat = frozen.flatten(2).index_copy(2, positions, vectors.transpose(1, 2).to(frozen.dtype))
    return flat.view_as(frozen)


def _judge(
    extractor: nn.Module, embeddings: Tensor, concepts: Tensor, settings: SearchSettings
) -> tuple[Tensor, Tensor]:
    """Probabilities (B,) of the concepts, without a gradient, and the loss over all images."""
    scores = extractor(embeddings).float()
    probability = scores.softmax(1).gather(1, concepts[:, None])[:, 0]
    wanted = probability if settings.objective == "probability" else scores.gather(1, concepts[:, None])[:, 0]
    return probability.detach(), -wanted.sum() + settings.norm_weight * _size(embeddings, settings)


def _size(embeddings: Tensor, settings: SearchSettings) -> Tensor:
    """‖E‖² of all images, summed; or of each image its mean square, summed."""
    squares = embeddings.square().flatten(1)
    return (squares.sum(1) if settings.norm_reduction == "sum" else squares.mean(1)).sum()


def _start(
    settings: SearchSettings,
    tokens: Tensor | None,
    positions: Tensor,
    shape: tuple[int, int, int],
    generator: torch.Generator,
    device: torch.device,
) -> Tensor:
    """P at the positions of the mask, (B, M, K)."""
    if settings.start == "normal":
        return torch.randn(shape, generator=generator, device=device)
    logits = torch.zeros(shape, device=device)
    if settings.start == "image":
        if tokens is None:
            raise UserError("A search from nothing has no image to start from: choose the start `normal` or `uniform`.")
        own = tokens.to(device).long().flatten(1)[:, positions]
        logits.scatter_(2, own[..., None], settings.start_bias)
    return logits


def _optimizer(settings: SearchSettings, leaf: Tensor) -> torch.optim.Optimizer:
    if settings.optimizer == "adam":
        return torch.optim.Adam([leaf], lr=settings.learning_rate)
    return torch.optim.SGD([leaf], lr=settings.learning_rate)


class _Watch:
    """Notes draws and their probabilities as the search goes."""

    def __init__(self, settings: SearchSettings, base: Tensor, positions: Tensor, tell: See) -> None:
        self.settings, self.base, self.positions, self.tell = settings, base, positions, tell
        self.steps: list[int] = []
        self.paths: list[Tensor] = []
        self.frames: list[Tensor] = []
        self.best = base.flatten(1)[:, positions].clone()
        self.height = torch.full((len(base),), -torch.inf, device=base.device)

    def due(self, step: int) -> bool:
        return step % self.settings.record_every == 0 or step == self.settings.steps - 1

    def see(self, step: int, chosen: Tensor, probability: Tensor) -> None:
        better = probability > self.height
        self.height = torch.where(better, probability, self.height)
        self.best = torch.where(better[:, None], chosen, self.best)
        if self.due(step):
            self.steps.append(step)
            self.paths.append(probability)
            self.frames.append(self.whole(chosen))
            self.tell(step, probability, self.frames[-1])

    def whole(self, chosen: Tensor) -> Tensor:
        """Grids (B, h, w) with tokens (B, M) at the mask's positions."""
        return self.base.flatten(1).index_copy(1, self.positions, chosen).view_as(self.base)

    @torch.no_grad()
    def found(self, extractor: nn.Module, codebook: Tensor, concepts: Tensor, mask: Tensor, chosen: Tensor) -> Found:
        after = self.whole(chosen)

        def probability(tokens: Tensor) -> Tensor:
            return extractor(lookup(codebook, tokens)).float().softmax(1).gather(1, concepts[:, None])[:, 0]  # type: ignore[no-any-return]

        return Found(
            tokens=after,
            before=self.base,
            mask=mask,
            steps=tuple(self.steps),
            path=torch.stack(self.paths, 1),
            frames=torch.stack(self.frames, 1),
            start=probability(self.base),
            end=probability(after),
        )
