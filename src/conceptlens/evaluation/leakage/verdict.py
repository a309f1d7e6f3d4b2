"""Do scores carry the class? A verdict from the excess over a reader that never saw it, and from the ceiling."""

from conceptlens.evaluation.leakage.excess import LIMIT, Excess
from conceptlens.evaluation.leakage.findings import MEANING, Finding
from conceptlens.evaluation.leakage.information import ConceptInformation
from conceptlens.evaluation.leakage.signs import Signs
from conceptlens.evaluation.verdict import Verdict
from conceptlens.runs.readout import Readout
from conceptlens.stats.estimates import Estimate

FOLLOW = "Every image of a class has the same concept labels, so leakage beyond labels cannot be told from the class."
FOLLOW_IN_TRAINING = (
    "Every training image of a class has the same concept labels, so no reader of concepts can be made that does not "
    "learn the class."
)
NO_READER = "There is no reference reader to compare with: leave out --no-reference."


def judge_leakage(excess: Excess | None, above: Estimate, why: str = "") -> Verdict:
    """The verdict.

    Args:
        excess: Over the reference reader, the larger one of two.
        above: Class accuracy less the ceiling.
        why: Why there is no reference reader.
    """
    if excess is None or excess.counts.interval is None:
        return Verdict(outcome="unmeasured", reason=why or "There are too few labeled images for a reference reader.")
    found = []
    size = f"{excess.counts.text()} nats"
    those = f"those of a reader that never saw the class ({excess.reader})"
    if excess.within:
        reader = f"The scores carry no more class information than {those}: an excess of {size}"
    elif (excess.counts.value or 0.0) >= LIMIT:
        found.append(
            f"The scores carry more class information than {those}, by {size} where at most {LIMIT} nats are allowed, "
            f"most of all in {', '.join(excess.questions)}"
        )
    else:
        found.append(
            f"A leak cannot be excluded: the excess over a reader that never saw the class ({excess.reader}) is "
            f"{size}, and it passes only below {LIMIT} nats. More images make the interval smaller"
        )
    if above.low is not None and above.low > 0:
        found.append(f"The class accuracy is above what the true concepts allow, by {above.text()}")
    if found:
        return Verdict(outcome="finding", reason=". ".join(found) + ".")
    return Verdict(outcome="pass", reason=f"{reader}; the class accuracy is not above what the true concepts allow.")


def summarize(
    verdict: Verdict,
    follows: bool,
    signs: Signs,
    readout: Readout,
    findings: list[Finding],
    concepts: list[ConceptInformation],
) -> str:
    """The verdict where there is one; otherwise what the permutation test says of the labels, and why there is none."""
    words = []
    if verdict.outcome != "unmeasured":
        words.append(verdict.reason)
        if signs.leaks is not None:
            words.append(
                "The permutation test is significant; it also is for graded scores without a leak."
                if signs.leaks
                else "The permutation test is not significant."
            )
    elif follows:
        words.append("The concept labels follow from the class here, so leakage cannot be tested.")
    elif signs.leaks:
        bad = [MEANING[each.name] for each in findings if each.verdict == "bad"]
        words.append(f"This bottleneck leaks: {'; '.join(bad)}.")
        leaking = [row for row in concepts if row.chance is not None and row.chance.adjusted <= signs.level]
        if leaking:
            worst = sorted(leaking, key=_beyond, reverse=True)[:3]
            words.append(
                f"{len(leaking)} of {len(concepts)} concepts carry more class information than their label does, most "
                f"of all "
                f"{', '.join(row.concept for row in worst)}."
            )
    elif signs.leaks is not None:
        words.append("No significant leakage was found.")
    if verdict.outcome == "unmeasured" and not follows:
        words.append(verdict.reason)
    if signs.leaks is not None and signs.everything is None:
        words.append(
            "Images with equal labels hardly ever have different classes, so leakage beyond all labels cannot occur."
        )
    if readout.bypass:
        words.append(readout.describe_bypass("The class head also reads {}."))
    return " ".join(words)


def _beyond(concept: ConceptInformation) -> float:
    return concept.beyond_label.value or 0.0
