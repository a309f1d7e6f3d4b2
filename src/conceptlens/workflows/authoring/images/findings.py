"""What the images say of concepts: can they be recognized, do two say the same, which labels should someone look at?"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.core.documents import Part
from conceptlens.evaluation.classification.auc import auc, auc_within
from conceptlens.stats.folds import assign_folds
from conceptlens.workflows.authoring.filters.neighbors import chance_disagreement, disagreement, nearest
from conceptlens.workflows.authoring.images.probe import held_out_scores

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int8]
NEIGHBORS = 10
BARELY = 0.6  # area under the curve below which images hardly show a concept
SAME = 0.95  # correlation from which two concepts are one
FEW = 10  # images of a label below which nothing is judged
NOISY = 0.5  # of chance disagreement


class ConceptFinding(Part):
    """One concept."""

    concept: str
    positive: int
    negative: int
    separability: float | None  # AUC of a linear probe on held-out images
    within_class: float | None  # the same among images of one class: what is more than the class
    by_text: float | None  # AUC of the cosine between image and text, where the encoder has a common space
    disagreement: float | None  # share of close neighbors with the other label
    by_chance: float | None
    verdict: str  # "" where there is nothing to object to


class RedundantPair(Part):
    """Two concepts whose labels say the same, or the opposite."""

    first: str
    second: str
    correlation: float
    images: int


class LabelToReview(Part):
    """A label that neighbors and a linear probe doubt."""

    image: str
    group: str
    given: str
    rather: str
    neighbors: float  # share that disagrees
    probe: float  # probability that a linear probe gives the label, on an image it has not seen
    score: float  # mean of disagreement and of 1 − probability


class ImageFindings(Part):
    """All of it."""

    how: str
    images: int
    by_class_only: bool  # every label is a function of the class
    concepts: list[ConceptFinding]
    redundant: list[RedundantPair]
    review: list[LabelToReview]

    def text(self) -> str:
        lines = [self.how]
        lines += [f"  - {each.concept}: {each.verdict}" for each in self.concepts if each.verdict]
        lines += [f"  - {p.first} and {p.second}: labels correlate at {p.correlation:+.2f}" for p in self.redundant]
        if self.review:
            lines.append("Labels to review first:")
        for each in self.review[:10]:
            lines.append(
                f"  {each.image}: {each.group} is {each.given}, rather {each.rather} "
                f"({each.neighbors:.0%} of neighbors disagree)"
            )
        return "\n".join(lines)


def image_findings(
    features: Floats,
    labels: Labels,
    classes: npt.NDArray[np.int64],
    ids: Sequence[str],
    concepts: ConceptSet,
    *,
    units: npt.NDArray[np.int64] | None = None,
    similarity: Floats | None = None,
    encoder: str = "the encoder",
    reviewed: int = 30,
    seed: int = 0,
) -> ImageFindings:
    """Judge concepts by N images.

    Args:
        features: (N, D) of a frozen encoder.
        labels: (N, K) of 0, 1, negative for unknown.
        classes: (N,), negative for unknown.
        ids: Names of the images.
        concepts: The vocabulary.
        units: (N,), the patient or lesion of each; neighbors and folds keep them apart.
        similarity: (N, K) cosines of images and texts, where there are any.
        encoder: Its name.
        reviewed: How many labels to list.
        seed: Of the folds.
    """
    units = np.arange(len(ids)) if units is None else units
    scores = held_out_scores(features, labels, assign_folds(units, seed=seed))
    apart = disagreement(labels, nearest(features, units, NEIGHBORS))
    found = [
        _finding(
            name, labels[:, k], scores[:, k], apart[:, k], classes, None if similarity is None else similarity[:, k]
        )
        for k, name in enumerate(concepts.names)
    ]
    follows = _follows_class(labels, classes)
    how = f"{len(ids)} images through {encoder}: a linear probe on held-out images, the {NEIGHBORS} nearest of each."
    if follows:
        how += " Every label follows from the class, so these numbers are about classes, not about concepts."
    return ImageFindings(
        how=how,
        images=len(ids),
        by_class_only=follows,
        concepts=found,
        redundant=redundancy(labels, concepts),
        review=labels_to_review(labels, scores, apart, ids, concepts)[:reviewed],
    )


def _finding(
    name: str, column: Labels, scores: Floats, apart: Floats, classes: npt.NDArray[np.int64], similarity: Floats | None
) -> ConceptFinding:
    positive, negative = int((column == 1).sum()), int((column == 0).sum())
    use = (column >= 0) & np.isfinite(scores)
    area = auc(scores[use], column[use] == 1)
    known = use & (classes >= 0)
    within = auc_within(scores[known], column[known] == 1, classes[known]) if known.any() else None
    by_text = None if similarity is None else auc(similarity[column >= 0], column[column >= 0] == 1)
    far = apart[np.isfinite(apart)]
    share, chance = float(far.mean()) if len(far) else None, chance_disagreement(column)
    verdict = ""
    if min(positive, negative) == 0:
        verdict = "every known label is the same, so images cannot show it"
    elif min(positive, negative) < FEW:
        verdict = f"only {min(positive, negative)} images of one label: too few to judge"
    elif area is not None and area < BARELY:
        verdict = f"a linear probe hardly recognizes it (AUC {area:.2f}; 0.5 is chance)"
    elif share is not None and chance and share > NOISY * chance:
        verdict = (
            f"neighbors disagree on {share:.0%} of labels, by chance it would be {chance:.0%}: noisy or hard to see"
        )
    return ConceptFinding(
        concept=name,
        positive=positive,
        negative=negative,
        separability=area,
        within_class=within,
        by_text=by_text,
        disagreement=share,
        by_chance=chance,
        verdict=verdict,
    )


def redundancy(labels: Labels, concepts: ConceptSet, same: float = SAME) -> list[RedundantPair]:
    """Pairs of concepts of different groups whose labels correlate (phi) at ±`same` or more, strongest first."""
    pairs: list[RedundantPair] = []
    for a in range(labels.shape[1]):
        for b in range(a + 1, labels.shape[1]):
            if concepts.group_of[a] == concepts.group_of[b]:
                continue
            known = (labels[:, a] >= 0) & (labels[:, b] >= 0)
            one, two = labels[known, a].astype(float), labels[known, b].astype(float)
            if len(one) < FEW or one.std() == 0 or two.std() == 0:
                continue
            phi = float(np.corrcoef(one, two)[0, 1])
            if abs(phi) >= same:
                names = concepts.names[a], concepts.names[b]
                pairs.append(RedundantPair(first=names[0], second=names[1], correlation=phi, images=len(one)))
    return sorted(pairs, key=lambda pair: -abs(pair.correlation))


def labels_to_review(
    labels: Labels, scores: Floats, apart: Floats, ids: Sequence[str], concepts: ConceptSet
) -> list[LabelToReview]:
    """Labels that neighbors and the linear probe both doubt, the most doubtful first; one entry an image and group."""
    chance = 1 / (1 + np.exp(-3 * np.nan_to_num(scores)))  # regression on ±1 as a rough probability
    found: list[LabelToReview] = []
    for group in concepts.groups:
        span = group.concepts
        for n in range(len(ids)):
            row = labels[n, span]
            if group.kind == "exclusive":
                held = np.flatnonzero(row == 1)
                if len(held) == 1:
                    best = int(np.argmax(chance[n, span]))
                    if best != held[0]:
                        at = span.start + int(held[0])
                        rather = group.values[best]
                        found += _entry(
                            ids[n], group.name, group.values[int(held[0])], rather, apart[n, at], chance[n, at]
                        )
                continue
            for place in np.flatnonzero(row >= 0):
                at = span.start + int(place)
                probability = chance[n, at] if row[place] == 1 else 1 - chance[n, at]
                given, rather = ("yes", "no") if row[place] == 1 else ("no", "yes")
                if probability < 0.5:
                    found += _entry(ids[n], concepts.names[at], given, rather, apart[n, at], probability)
    return sorted(found, key=lambda each: (-each.score, each.image, each.group))


def _entry(image: str, group: str, given: str, rather: str, apart: float, probability: float) -> list[LabelToReview]:
    if not np.isfinite(apart):
        return []
    score = (apart + 1 - probability) / 2
    entry = LabelToReview(
        image=image, group=group, given=given, rather=rather, neighbors=apart, probe=probability, score=score
    )
    return [entry] if score > 0.5 else []


def _follows_class(labels: Labels, classes: npt.NDArray[np.int64]) -> bool:
    """Whether images of one class never differ in a known label."""
    for name in np.unique(classes[classes >= 0]):
        rows = labels[classes == name]
        known = np.ma.masked_less(rows, 0)
        if ((known.max(0) != known.min(0)).filled(False)).any():
            return False
    return bool((labels >= 0).any())
