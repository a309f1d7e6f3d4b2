"""The additive reader: a concept's logit is a sum over patches, and what a patch adds is its evidence.

Of patch l with the tokens z_l^(1) … z_l^(n) of the layers read, side by side and each normalized:

    x_l  = [norm(z_l^(1)) … norm(z_l^(n))]
    a_ls = softmax_l(⟨q_s, x_l⟩ / τ + π_sl)         attention of slot s: one a group, one a concept, or one for all
    e_lk = ⟨w̄_k, x_l⟩                               w̄_k = w_k less the mean of its exclusive group's values
    E_lk = a_l,s(k) · e_lk                           the evidence; logit_k = Σ_l E_lk + b̄_k

With `fusion: mixture`, x_l is Σ_i m_i norm(z_l^(i)) instead, m a softmax that learns. With `gated`, ⟨q_s, x_l⟩ is
⟨q_s, tanh(V x_l) ⊙ σ(U x_l)⟩ (Ilse et al., Attention-based deep multiple instance learning, ICML 2018, eq. 9).

π is where a slot is expected, if anything tells (`nn.grounding.part_places`), otherwise 0.

While it trains, a patch can also be asked what it says alone, ē_lk = e_lk + b̄_k: the loss of these, each weighed by
a_ls, holds every patch that counts to the label (`patch_loss`), where the sum asks for their mean alone.

A vector that all values of an exclusive group share changes every map and no probability: it is taken out. At fixed
attention, taking patch l away takes exactly E_lk away (Javed et al., Additive MIL, NeurIPS 2022, for classes).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError

AttentionPer = Literal["group", "concept", "shared", "uniform"]
Fusion = Literal["concatenation", "mixture"]
GATE = 128  # width of a gated attention


@dataclass(frozen=True)
class Evidence:
    """What patches say of K concepts in B images."""

    logits: Tensor  # (B, K): the sum of the evidence and the bias
    attention: Tensor  # (B, S, L)
    evidence: Tensor | None  # (B, K, L), signed; not made while training, where the sum alone is cheaper
    alone: Tensor | None = (
        None  # (B, L', K), what the L' patches that are not hidden say alone; while training, if asked
    )
    shares: Tensor | None = None  # (B, L', K), the attention that they have


class AdditiveReader(nn.Module):
    """Patches (B, L, D) of one or several layers → concept logits (B, K) and the evidence behind them.

    Args:
        concepts: The K concepts.
        widths: D of each layer read.
        attention: What has an attention of its own: each group, each concept, or nothing, all sharing one; `uniform`:
            all patches count the same, but for where a slot is expected.
        temperature: τ.
        dropout: Share of the patches that are hidden from the reader while it trains.
        alone: Whether training asks what each patch says alone.
        fusion: Whether layers stand side by side, or a learned mixture of them is read, which must be equally wide.
        gated: Whether the attention has a hidden layer with gates.
        fixed: w, (K, D'), which then does not learn, and e_lk = ⟨w̄_k, seen_l⟩ for other vectors of the same patches.
    """

    def __init__(
        self,
        concepts: ConceptSet,
        widths: Sequence[int],
        *,
        attention: AttentionPer = "group",
        temperature: float = 1.0,
        dropout: float = 0.0,
        alone: bool = False,
        fusion: Fusion = "concatenation",
        gated: bool = False,
        fixed: Tensor | None = None,
    ) -> None:
        super().__init__()
        if temperature <= 0:
            raise UserError(f"method.temperature: expected a number above 0, found {temperature}.")
        if not 0 <= dropout < 1:
            raise UserError(f"method.patch_dropout: expected a share from 0 to below 1, found {dropout}.")
        self.temperature, self.dropout, self.alone = temperature, dropout, alone
        group_of, count = torch.as_tensor(concepts.group_of), len(concepts)
        slots = {"concept": torch.arange(count), "shared": torch.zeros_like(group_of)}.get(attention, group_of)
        self.register_buffer("concept_slot", slots, persistent=False)
        self.concept_slot: Tensor  # (K,)
        self.center = GroupCenter(concepts)
        width, whole = sum(widths), sum(widths)
        self.mixture = None
        if fusion == "mixture" and len(widths) > 1:
            if len(set(widths)) > 1:
                raise UserError(
                    f"method.fusion: a mixture needs layers of one width, found {', '.join(map(str, widths))}. Set "
                    "`fusion: concatenation`, or choose other encoder.layers."
                )
            self.mixture, width = nn.Parameter(torch.zeros(len(widths))), widths[0]
        self.gates = nn.ModuleList(nn.Linear(whole, GATE) for _ in range(2)) if gated else None  # value and gate
        queries = torch.zeros(int(slots.max()) + 1 if count else 0, GATE if gated else width)  # all patches alike
        self.queries = nn.Parameter(
            nn.init.normal_(queries, std=0.02) if gated else queries
        )  # or gates would not learn
        self.queries.requires_grad_(attention != "uniform")
        self.weights: Tensor
        if fixed is None:
            self.weights = nn.Parameter(nn.init.kaiming_uniform_(torch.empty(count, width), a=5**0.5))
        else:
            self.register_buffer("weights", fixed)
        self.bias = nn.Parameter(torch.zeros(count))

    def forward(
        self,
        layers: Sequence[Tensor],
        expected: Tensor | None = None,
        seen: Tensor | None = None,
        draws: Tensor | None = None,
    ) -> Evidence:
        """Concept logits and evidence.

        Args:
            layers: (B, L, D) each.
            expected: (S, L), π.
            seen: (B, L, D'), what `fixed` weights read.
            draws: (B, 1), which decide what patches are hidden in training.
        """
        batch, patches = layers[0].shape[:2]
        kept = None
        if self.training and self.dropout:
            draws = torch.rand(batch, 1, device=layers[0].device) if draws is None else draws
            kept = kept_patches(draws, patches, self.dropout)
            layers, seen = [take(layer, kept) for layer in layers], None if seen is None else take(seen, kept)
        x = [F.layer_norm(layer, layer.shape[-1:]) for layer in layers]  # side by side in sums only, never in memory
        asked = self.ask(x)  # (B, L, S)
        if expected is not None:
            asked = asked + (expected.T if kept is None else expected.T[kept])
        attention = asked.float().softmax(1).transpose(1, 2)  # (B, S, L)
        weights = self.center(self.weights).float()
        x, weights = (x, self.spread(weights)) if seen is None else ([seen], weights)
        bias = self.centered_bias()
        if self.training and not self.alone:  # Σ_l a_ls ⟨w̄_k, x_l⟩ = ⟨w̄_k, Σ_l a_ls x_l⟩
            gathered = torch.cat([(attention.to(part.dtype) @ part).float() for part in x], -1)  # (B, S, D)
            logits = (gathered[:, self.concept_slot] * weights).sum(-1) + bias
            return Evidence(logits, whole(attention, kept, patches), None)
        values = self.project(x, weights).float()  # e, (B, L, K)
        shares = attention[:, self.concept_slot]  # (B, K, L)
        evidence = shares * values.transpose(1, 2)
        logits = evidence.sum(-1) + bias
        if self.training:
            return Evidence(logits, whole(attention, kept, patches), None, values + bias, shares.transpose(1, 2))
        return Evidence(logits, attention, evidence)

    def ask(self, x: Sequence[Tensor]) -> Tensor:
        """What each slot's query says of each patch, over τ, (B, L, S)."""
        queries = self.queries / self.temperature
        if self.gates is None:
            return self.project(x, self.spread(queries))
        value, gate = (
            self.project(x, layer.weight) + layer.bias.to(x[0].dtype)
            for layer in self.gates
            if isinstance(layer, nn.Linear)
        )
        hidden = value.tanh() * gate.sigmoid()
        asked: Tensor = hidden @ queries.to(hidden.dtype).T
        return asked

    def spread(self, rows: Tensor) -> Tensor:
        """Rows (n, D) of a mixture as rows (n, Σ D) for layers side by side: ⟨w, Σ m_i x_i⟩ = Σ ⟨m_i w, x_i⟩."""
        if self.mixture is None:
            return rows
        return torch.cat([share * rows for share in self.mixture.softmax(0)], -1)

    @staticmethod
    def project(x: Sequence[Tensor], rows: Tensor) -> Tensor:
        """⟨row, x_l⟩, (B, L, n), of rows (n, D) and patches whose D entries lie in several tensors."""
        parts = torch.split(rows, [part.shape[-1] for part in x], -1)
        # The slope of a row that is not contiguous takes ten times as long.
        products = [part @ row.to(part.dtype).contiguous().T for part, row in zip(x, parts, strict=True)]
        return torch.stack(products).sum(0) if len(products) > 1 else products[0]

    def centered_bias(self) -> Tensor:
        """b̄, (K,)."""
        centered: Tensor = self.center(self.bias[:, None])[:, 0]
        return centered


def kept_patches(draws: Tensor, patches: int, dropout: float) -> Tensor:
    """Which patches of each image are read, (B, L'), in their order: the same number of each, and one at least."""
    kept = max(round(patches * (1 - dropout)), 1)
    return patch_numbers(draws, patches).topk(kept, dim=1).indices.sort(1).values


def whole(attention: Tensor, kept: Tensor | None, patches: int) -> Tensor:
    """Attention (B, S, L') to the kept patches as attention to all, (B, S, L): hidden patches have none."""
    if kept is None:
        return attention
    places = kept.unsqueeze(1).expand_as(attention)
    return attention.new_zeros(*attention.shape[:2], patches).scatter(2, places, attention)


def take(tokens: Tensor, kept: Tensor) -> Tensor:
    """The kept patches (B, L', D) of tokens (B, L, D). Rows of one long table: many times as fast as `gather`."""
    rows = kept + tokens.shape[1] * torch.arange(len(tokens), device=tokens.device).unsqueeze(1)
    return tokens.flatten(0, 1).index_select(0, rows.flatten()).view(*kept.shape, -1)


def patch_numbers(draws: Tensor, patches: int) -> Tensor:
    """A number from 0 to 1 for each of L patches, (B, L), from one of each image, (B, 1): the same on every device."""
    seed = (draws.float() * 2**24).long()
    mixed = (seed + 1) * 6364136223846793005 + torch.arange(1, patches + 1, device=draws.device) * 1442695040888963407
    for shift in (29, 32):  # the mixing of SplitMix64, in whole numbers that wrap around
        mixed = (mixed ^ (mixed >> shift)) * -4658895280553007687
    return ((mixed >> 40) & 0xFFFFFF).float() / 2**24


class GroupCenter(nn.Module):
    """Rows (K, D) less the mean of the rows of their exclusive group; rows of independent groups stay."""

    def __init__(self, concepts: ConceptSet) -> None:
        super().__init__()
        exclusive = torch.as_tensor(concepts.exclusive, dtype=torch.bool)
        group_of = torch.as_tensor(concepts.group_of)
        sizes = torch.bincount(group_of, minlength=len(concepts.groups)).clamp(min=1)
        self.register_buffer("group_of", group_of, persistent=False)
        self.register_buffer("share", (exclusive / sizes[group_of])[:, None].float(), persistent=False)
        self.group_of: Tensor
        self.share: Tensor  # (K, 1): of a row in its group's mean
        self.groups = len(concepts.groups)

    def forward(self, rows: Tensor) -> Tensor:
        means = rows.new_zeros(self.groups, rows.shape[1]).index_add(0, self.group_of, rows * self.share)
        return rows - means[self.group_of]
