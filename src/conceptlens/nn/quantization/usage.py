"""Whether a codebook's codes are in use and Magnet's slots are fed: counted over a split, batch by batch.

`CodebookUse` looks at the nearest code of each patch; `AssignmentUse` at Magnet's soft assignment A (B, L, S) of
patches to slots (Eq. 5 of the IVQ-CBM paper), whose rows sum to one over the slots.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.errors import UserError


def codebook_use(counts: Tensor) -> float | None:
    """Share of codes that are the nearest of at least one patch, from counts (M,); None without patches."""
    return float((counts > 0).double().mean()) if counts.sum() > 0 else None


def perplexity(counts: Tensor) -> float | None:
    """exp of the entropy of the counts (M,): how many equally used codes would be as spread; None without patches."""
    if counts.sum() <= 0:
        return None
    shares = counts.double() / counts.sum()
    return float(torch.special.entr(shares).sum().exp())


class CodebookUse:
    """Counts the nearest codes of patches as they pass."""

    def __init__(self, codes: int) -> None:
        self.counts = torch.zeros(codes, dtype=torch.int64)

    def update(self, nearest: Tensor) -> None:
        """Take in the nearest codes of a batch, integers of any shape, such as (B, L)."""
        flat = nearest.detach().reshape(-1)
        if flat.numel() and (flat.min() < 0 or flat.max() >= len(self.counts)):
            raise UserError(
                f"Codes of a codebook of {len(self.counts)} must lie in 0 to {len(self.counts) - 1}; "
                f"found {int(flat.min())} to {int(flat.max())}."
            )
        self.counts += torch.bincount(flat, minlength=len(self.counts)).cpu()

    def add(self, other: "CodebookUse") -> None:
        """Take in what another process counted."""
        self.counts += other.counts

    def summary(self) -> dict[str, Any]:
        """`codes`, `use`, `perplexity`, and `dead`: the codes nearest to no patch."""
        seen = bool(self.counts.sum() > 0)
        return {
            "codes": len(self.counts),
            "use": codebook_use(self.counts),
            "perplexity": perplexity(self.counts),
            "dead": (self.counts == 0).nonzero()[:, 0].tolist() if seen else None,
        }


class AssignmentUse:
    """Adds up entropy and slot mass of assignments as they pass; kept on their device until asked."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.patches = 0
        self._entropy: Tensor | float = 0.0
        self._mass: Tensor | float = 0.0

    def update(self, assignment: Tensor) -> None:
        """Take in the assignments of a batch, (B, L, S), rows summing to one over the slots."""
        if assignment.shape[-1] != self.slots:
            raise UserError(f"Expected assignments (B, L, {self.slots}), found {tuple(assignment.shape)}.")
        flat = assignment.detach().double().reshape(-1, self.slots)
        self.patches += len(flat)
        self._entropy = self._entropy + torch.special.entr(flat).sum()
        self._mass = self._mass + flat.sum(0)

    def add(self, other: "AssignmentUse") -> None:
        """Take in what another process added up."""
        self.patches += other.patches
        self._entropy = float(self._entropy) + float(other._entropy)
        self._mass = torch.as_tensor(self._mass).cpu() + torch.as_tensor(other._mass).cpu()

    def to_tensors(self) -> dict[str, Tensor]:
        """What was added up, to be read by `from_tensors`."""
        parts = (torch.tensor(self.patches), torch.as_tensor(self._entropy), torch.as_tensor(self._mass))
        return dict(zip(("patches", "entropy", "mass"), (part.cpu() for part in parts), strict=True))

    @classmethod
    def from_tensors(cls, values: Mapping[str, Tensor]) -> "AssignmentUse":
        use = cls(len(values["mass"]))
        use.patches, use._entropy, use._mass = int(values["patches"]), values["entropy"], values["mass"]
        return use

    def summary(self, *, empty_below: float = 0.01) -> dict[str, Any]:
        """What the slots got.

        Args:
            empty_below: A slot is empty if its mass is below this part of an even share, `empty_below` / S of the
            total.

        Returns:
            `slots`; `assignment_entropy`, the mean entropy of the patches' assignments over ln S: 0 is one slot a
            patch, 1 uniform; `slot_mass`, the share of the patches' mass that each slot receives, summing to one;
            `empty_slots`, their positions. None before the first patch, and the entropy also for a single slot.
        """
        result: dict[str, Any] = {
            "slots": self.slots,
            "assignment_entropy": None,
            "slot_mass": None,
            "empty_slots": None,
        }
        if not self.patches:
            return result
        mass = torch.as_tensor(self._mass).cpu()
        share = mass / mass.sum()
        if self.slots > 1:
            result["assignment_entropy"] = float(self._entropy) / self.patches / math.log(self.slots)
        result["slot_mass"] = share.tolist()
        result["empty_slots"] = (share < empty_below / self.slots).nonzero()[:, 0].tolist()
        return result
