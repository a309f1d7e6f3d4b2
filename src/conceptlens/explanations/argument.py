"""Why a class is said of one image: one account, the sentence that tells it, and which concepts decided."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.explanations.document import Account, LogitDecomposition
from conceptlens.explanations.logit_decomposition import MEAN, decompose_logit
from conceptlens.explanations.reasons import Flags, deciding, reasons
from conceptlens.explanations.reference import Background
from conceptlens.explanations.sentence import sentence
from conceptlens.methods.linear_head import LinearHead

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Argument:
    """What speaks for the explained class of one image."""

    decompositions: list[LogitDecomposition]  # empty where the class is no weighted sum of concepts
    account: Account
    sentence: str
    deciding: list[int]  # concepts, weightiest first


def argue(
    classes: list[str],
    concepts: ConceptSet,
    background: Background,
    head: LinearHead | None,
    bypass: str | None,
    *,
    logits: Floats,
    probabilities: Floats,
    concept_probabilities: Floats,
    bottleneck: Floats,
    says: bool,
    about: int,
    rival: int | None,
    seen: Flags | None = None,
) -> Argument:
    """Set one image against the reference.

    Args:
        classes: (C,) names.
        concepts: The vocabulary.
        background: What the image is compared with.
        head: The class head, where it is linear.
        bypass: What reaches the class besides the concepts, in words.
        logits: (C,).
        probabilities: (C,).
        concept_probabilities: (K,).
        bottleneck: (K,) what the class head read.
        says: Whether any class is predicted; a multi-label model may predict none.
        about: The class in question.
        rival: The class it is set against, if any.
        seen: (K,) whether any training image is labeled with the concept; all of them by default.
    """
    decompositions: list[LogitDecomposition] = []
    if head is not None:
        sides: list[tuple[int, int | str | None]] = [(about, None)]
        if rival is not None:
            sides += [(rival, None), (about, MEAN), (about, rival)]
        decompositions = [
            decompose_logit(head, classes, of, minus, bottleneck, background.bottleneck, logits) for of, minus in sides
        ]
    margin = decompositions[-1] if decompositions else None  # what decides between the two likeliest classes
    raised = bottleneck > background.bottleneck
    than = "than usual" if background.reference.what == "average image" else "than a score of zero"
    found, aside = reasons(concepts, concept_probabilities, margin.values if margin else None, raised, than, seen)
    account = Account(
        of=classes[about],
        minus=None if rival is None else classes[rival],
        total=margin.total if margin else None,
        base=margin.base if margin else None,
        bypass=margin.bypass if margin else None,
        reasons=found,
        aside=aside,
    )
    shares = dict(zip(classes, probabilities.tolist(), strict=True))
    words = sentence(account, shares, says, background.reference, bypass)
    return Argument(decompositions, account, words, deciding(found))
