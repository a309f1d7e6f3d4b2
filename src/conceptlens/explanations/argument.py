"""Why a class is said of one image: what the concepts add to its logit, the sentence, and which concepts decided."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.explanations.document import LogitDecomposition
from conceptlens.explanations.logit_decomposition import MEAN, decompose_logit
from conceptlens.explanations.reasons import deciding, reasons
from conceptlens.explanations.reference import Background
from conceptlens.explanations.sentence import sentence
from conceptlens.methods.linear_head import LinearHead

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Argument:
    """What speaks for the explained class of one image."""

    decompositions: list[LogitDecomposition]  # empty where the class is no weighted sum of concepts
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
    """
    decompositions: list[LogitDecomposition] = []
    if head is not None:
        sides: list[tuple[int, int | str | None]] = [(about, None)]
        if rival is not None:
            sides += [(rival, None), (about, MEAN), (about, rival)]
        decompositions = [
            decompose_logit(head, classes, of, minus, bottleneck, background.bottleneck, logits) for of, minus in sides
        ]
    against_all = decompositions[2 if rival is not None else 0].values if decompositions else None
    against_rival = decompositions[3].values if decompositions and rival is not None else None
    raised = bottleneck > background.bottleneck
    than = "than usual" if background.reference.what == "average image" else "than a score of zero"
    for_it = reasons(concepts, concept_probabilities, against_all, raised, than)
    instead = reasons(concepts, concept_probabilities, against_rival, raised, than) if against_rival else []
    words = sentence(
        classes[about] if says else None,
        (classes[about], float(probabilities[about])),
        None if rival is None else (classes[rival], float(probabilities[rival])),
        for_it,
        instead,
        weighed=bool(decompositions),
        bypass=bypass,
    )
    return Argument(decompositions, words, deciding(for_it, instead))
