"""What a code of the codebook stands for: the concept whose slot its patches are mostly assigned to.

The legend of Figure 8 of the IVQ-CBM paper names each code by a concept and does not say how. Here a name is
counted: over a sample of images, the patches whose nearest code is m are shared among slots by the assignment A; the
share that goes to the slots of a concept is the confidence. A code is named after a concept, or else after a group of
concepts, that holds most of it and at least twice what it holds of all patches; otherwise it stays unnamed.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.explanations.document import CodeName

UNNAMED = "unnamed"
LEAST = 0.5  # of a code's assignment that must go to one name
LIFT = 2.0  # how much more of the code than of all patches must go there
FEW = 10  # patches in the sample from which on a code is named at all


class CoAssignment:
    """Adds up, for each code, how its patches are shared among the slots; batch by batch."""

    def __init__(self, codes: int, slots: int) -> None:
        self.mass = torch.zeros(codes, slots, dtype=torch.float64)
        self.patches = torch.zeros(codes, dtype=torch.int64)

    def update(self, codes: Tensor, assignment: Tensor) -> None:
        """Take in nearest codes (B, L) and assignments (B, L, S), whose rows sum to one over the slots."""
        flat = codes.flatten().cpu()
        shared = assignment.detach().flatten(0, 1).double().cpu()
        self.mass.index_add_(0, flat, shared)
        self.patches += torch.bincount(flat, minlength=len(self.patches))

    def names(self, concepts: ConceptSet, concept_slot: Tensor) -> list[CodeName]:
        """A name or none for each code."""
        table = self.mass.numpy()
        slots = concept_slot.cpu().numpy()
        readers = np.bincount(slots, minlength=table.shape[1])
        alone = [k for k in range(len(slots)) if readers[slots[k]] == 1]
        # A slot that several concepts read cannot speak for one of them, only for their group.
        columns = [(concepts.names[k], "concept", table[:, slots[k]]) for k in alone]
        for position, group in enumerate(concepts.groups):
            own = np.unique(slots[concepts.group_of == position])
            if all(set(concepts.group_of[slots == slot]) == {position} for slot in own):
                columns.append((group.name, "group", table[:, own].sum(1)))
        return [self._name(code, columns) for code in range(len(table))]

    def _name(self, code: int, columns: list[tuple[str, str, npt.NDArray[np.float64]]]) -> CodeName:
        sampled = int(self.patches[code])
        total, everything = float(self.mass[code].sum()), float(self.mass.sum())
        best = CodeName(code=code, name=UNNAMED, level=None, confidence=None, chance=None, sampled=sampled)
        if sampled < FEW or not total:
            return best
        for level in ("concept", "group"):
            candidates = [
                (column[code] / total, column.sum() / everything, name)
                for name, kind, column in columns
                if kind == level
            ]
            if not candidates:
                continue
            share, chance, name = max(candidates)
            if share >= LEAST and share >= LIFT * chance:
                return CodeName(code=code, name=name, level=level, confidence=share, chance=chance, sampled=sampled)
        return best
