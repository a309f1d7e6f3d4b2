"""What is said of an image before any map: classes, what the concepts add, the sentence, which concepts decided."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.data.dataset import Task
from conceptlens.explanations.document import Account, ClassReading
from conceptlens.explanations.logit_decomposition import MEAN, decompose_logit
from conceptlens.explanations.reasons import deciding, reasons
from conceptlens.explanations.reference import Background
from conceptlens.explanations.sentence import sentence
from conceptlens.explanations.subjects import Subject
from conceptlens.methods.contract import ConceptModel, ConceptOutput
from conceptlens.methods.linear_head import LinearHead
from conceptlens.nn.heads.probabilities import class_probabilities, concept_probabilities_of
from conceptlens.runs.saved import Card

Floats = npt.NDArray[np.float64]


def class_readings(
    task: Task, classes: Sequence[str], thresholds: Sequence[float], shares: Floats, logits: Floats
) -> list[ClassReading]:
    """What a model gives to each class; thresholds are a matter of multi-label tasks."""
    cuts: Sequence[float | None] = thresholds if task == "multilabel" else [None] * len(classes)
    return [
        ClassReading(name=name, probability=share, logit=logit, threshold=cut)
        for name, share, logit, cut in zip(classes, shares.tolist(), logits.tolist(), cuts, strict=True)
    ]


@dataclass(frozen=True)
class Verdict:
    """What is said of one image, before its maps."""

    subject: Subject
    shares: Floats  # (C,)
    logits: Floats  # (C,)
    scores: Floats  # (K,) concept logits
    read: Floats  # (K,) concept probabilities
    predicted: list[str]
    about: int
    rival: int | None
    accounts: list[Account]
    sentence: str
    concepts: list[int]  # whose maps are shown


@dataclass(frozen=True)
class Judge:
    """Reads verdicts from a model's output.

    Attributes:
        wanted: Concepts whose maps are wanted; None for those that decided each image.
    """

    model: ConceptModel
    card: Card
    concepts: ConceptSet
    background: Background
    wanted: Sequence[int] | None

    def of(self, subjects: Sequence[Subject], output: ConceptOutput) -> list[Verdict]:
        """The verdicts of a batch."""
        logits = output.logits.detach().float().cpu().numpy()
        shares = class_probabilities(logits, self.card.task)
        scores = output.concept_logits.detach().float().cpu().numpy()
        read = concept_probabilities_of(scores, self.concepts)
        bottleneck = output.bottleneck.detach().double().cpu().numpy()
        head = LinearHead.of(self.model, output.bottleneck.detach(), output.logits)
        return [
            self._verdict(subject, shares[n], logits[n].astype(np.float64), scores[n], read[n], bottleneck[n], head)
            for n, subject in enumerate(subjects)
        ]

    def _verdict(
        self,
        subject: Subject,
        shares: Floats,
        logits: Floats,
        scores: Floats,
        read: Floats,
        bottleneck: Floats,
        head: LinearHead | None,
    ) -> Verdict:
        names, card = self.card.classes, self.card
        rival: int | None = None
        if card.task == "multilabel":
            predicted = [name for name, share, cut in zip(names, shares, card.thresholds, strict=True) if share >= cut]
            about = int((shares - np.asarray(card.thresholds)).argmax())
        else:
            order = np.argsort(-shares, kind="stable")
            about = int(order[0])
            predicted, rival = [names[about]], int(order[1]) if len(names) > 1 else None
        accounts: list[Account] = []
        if head is not None:
            sides: list[tuple[int, int | str | None]] = [(about, None)]
            if rival is not None:
                sides += [(rival, None), (about, MEAN), (about, rival)]
            reference = self.background.bottleneck
            accounts = [decompose_logit(head, names, of, minus, bottleneck, reference, logits) for of, minus in sides]
        against_all = accounts[2 if rival is not None else 0].values if accounts else None
        against_rival = accounts[3].values if accounts and rival is not None else None
        raised = bottleneck > self.background.bottleneck
        than = "than usual" if self.background.reference.what == "average image" else "than a score of zero"
        for_it = reasons(self.concepts, read, against_all, raised, than)
        instead = reasons(self.concepts, read, against_rival, raised, than) if against_rival else []
        said = sentence(
            names[about] if predicted else None,
            (names[about], float(shares[about])),
            None if rival is None else (names[rival], float(shares[rival])),
            for_it,
            instead,
            weighed=bool(accounts),
            bypass=self.model.bypass,
        )
        chosen = deciding(for_it, instead) if self.wanted is None else list(self.wanted)
        return Verdict(subject, shares, logits, scores, read, predicted, about, rival, accounts, said, chosen)
