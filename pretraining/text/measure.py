"""How well the text tower stands in for its teacher."""

from collections.abc import Sequence

import torch
from torch import Tensor

NEGATIONS = (
    ("a cell with granules", "a cell without granules"),
    ("a white blood cell with visible granules", "a white blood cell with no granules"),
    ("a fundus photograph with hard exudates", "a fundus photograph without hard exudates"),
    ("a bird with a crest", "a bird without a crest"),
    ("a red nucleus in blue cytoplasm", "a blue nucleus in red cytoplasm"),
    ("a dog on a horse", "a horse on a dog"),
)


def agreement(student: Tensor, teacher: Tensor, *, most: int = 4000) -> dict[str, float]:
    """Both (n, D), unit length.

    Returns:
        cosine: Mean cosine of a phrase's two vectors.
        cosine_p10: The cosine that a tenth of the phrases stay below.
        found: Share of phrases whose teacher's vector is the nearest of all to their student's, among `most` at most.
        likeness: Correlation of the two cosine matrices, off the diagonal; not of fewer than three phrases.
    """
    student, teacher = student.float(), teacher.float()
    cosines = (student * teacher).sum(1)
    count = min(len(student), most)
    few = torch.linspace(0, len(student) - 1, count, device=student.device).long()  # phrases come sorted: from all over
    nearest = (student[few] @ teacher[few].T).argmax(1)
    found = {
        "cosine": float(cosines.mean()),
        "cosine_p10": float(cosines.kthvalue(max(1, len(cosines) // 10)).values),
        "found": float((nearest == torch.arange(count, device=nearest.device)).float().mean()),
        "phrases": len(student),
    }
    if count > 2:
        above = torch.triu_indices(count, count, 1, device=student.device)
        pairs = torch.stack([(each[few] @ each[few].T)[above[0], above[1]] for each in (student, teacher)])
        found["likeness"] = float(torch.corrcoef(pairs)[0, 1])
    return found


def negations(student: Tensor, teacher: Tensor) -> list[dict[str, str | float]]:
    """Cosine of a phrase and its opposite, by the tower and by its teacher; vectors of `negation_texts`, in order."""
    return [
        {
            "phrase": first,
            "opposite": second,
            "student": float(student[2 * place] @ student[2 * place + 1]),
            "teacher": float(teacher[2 * place].float() @ teacher[2 * place + 1].float()),
        }
        for place, (first, second) in enumerate(NEGATIONS)
    ]


def negation_texts() -> Sequence[str]:
    return [text for pair in NEGATIONS for text in pair]
