"""One account in words: predicted X rather than Y because …, and what the image it is compared with has already."""

from collections.abc import Sequence

from conceptlens.explanations.document import Account, Aside, Reason, Reference
from conceptlens.explanations.reasons import FAINT, MOST, speaking

SURE = 0.95  # from this probability on an answer is told without it
LOUD = 0.5  # what speaks against a class is told if it weighs at least this share of what speaks for it
HARDLY = 0.1  # concepts that move less than this share of all that moves are given as no reason


def percent(share: float) -> str:
    """Whole percent; what is neither 0 nor 1 is not rounded to them."""
    whole = round(100 * share)
    if whole == 0 and share > 0:
        return "<1%"
    if whole == 100 and share < 1:
        return ">99%"
    return f"{whole}%"


def listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def told(found: Sequence[Reason]) -> str:
    """The reasons; those that the model is not sure of with how sure it is."""
    return listed(
        [
            each.words if each.compared or each.probability >= SURE else f"{each.words} ({percent(each.probability)})"
            for each in found
        ]
    )


def sentence(account: Account, shares: dict[str, float], says: bool, reference: Reference, bypass: str | None) -> str:
    """The account in words.

    Args:
        account: What speaks for the class, against which other.
        shares: The probability of each class.
        says: Whether any class is predicted; a multi-label model may predict none.
        reference: What the image is compared with.
        bypass: What reaches the class besides the concepts, in words.
    """
    name = f"{account.of} ({percent(shares[account.of])})"
    besides = f" Besides the concepts, {bypass} reaches the class." if bypass else ""
    if account.total is None:
        said = f"predicted {name}" if says else f"predicted no class; closest is {name}"
        if not account.reasons:
            return f"{said}. This method reads no concepts to explain it by.{besides}"
        no_sum = "The class is no weighted sum of concepts, so none can be given its share."
        return f"{said}; surest of {told(account.reasons[:MOST])}. {no_sum}{besides}"
    said = f"predicted {name}" if says else f"predicted no class; {name} comes closest and is not said"
    if says and account.minus is not None:
        said += f" rather than {account.minus} ({percent(shares[account.minus])})"
    return f"{said}{_why(account, says, reference)}.{_baseline(account, reference)}{_uncounted(account)}{besides}"


def _why(account: Account, says: bool, reference: Reference) -> str:
    if account.concept_share < HARDLY:
        return f"; the concepts hardly move this decision from {reference.words}, so no reason is given"
    sign = 1 if says else -1  # why a class is not said is what speaks against it
    first, other = speaking(account.reasons, sign), speaking(account.reasons, -sign)
    if sign * account.added < 0:
        return f", although the concepts speak {'against' if says else 'for'} it: {told(other)}"
    but = ""
    if says and other and abs(other[0].weight or 0) >= LOUD * abs(first[0].weight or 0):
        but = f", although {told(other[:1])}, which speaks against it"
    return f" because {told(first)}{but}"


def _baseline(account: Account, reference: Reference) -> str:
    """What is not due to the concepts of this image: the same number as the chart's first row."""
    share = account.base_share
    start = f" It is compared with {reference.words}, which"
    if share is None or account.total is None or account.base is None:
        return f"{start} has the same logits."
    if account.minus is None:
        logits = f"has a logit of {account.base:+.2f}; this image has {account.total:+.2f}".replace("-", "−")
        return f"{start} {logits}."
    if share < 0:
        return f"{start} would favor {account.minus}."
    if share > 1:
        return f"{start} would favor {account.of} even more."
    return f"{start} makes up {percent(share)} of the margin."


def _uncounted(account: Account) -> str:
    """What is set aside and would have been a reason by its weight."""
    strongest = max((abs(each.weight or 0) for each in account.reasons), default=0.0)
    loud = [each for each in account.aside if abs(each.weight or 0) > FAINT * strongest]
    return f" Not counted: {listed([_excuse(each) for each in loud])}." if loud else ""


def _excuse(each: Aside) -> str:
    return f"{each.question} ({each.why})"
