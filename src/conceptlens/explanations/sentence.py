"""One plain sentence: predicted X because …, rather than Y because …"""

from collections.abc import Sequence

from conceptlens.explanations.reasons import MOST, Reason, speaking

SURE = 0.95  # from this probability on an answer is told without it
LOUD = 0.5  # what speaks against a class is told if it weighs at least this share of what speaks for it


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


def sentence(
    predicted: str | None,
    about: tuple[str, float],
    rival: tuple[str, float] | None,
    for_it: Sequence[Reason],
    against_rival: Sequence[Reason],
    *,
    weighed: bool,
    bypass: str | None,
) -> str:
    """The sentence.

    Args:
        predicted: The class that is said; None where a multi-label model says none.
        about: The class that is explained, with its probability.
        rival: The class it is set against, with its probability, if any.
        for_it: All reasons of the class, weightiest first.
        against_rival: All reasons of the difference to the rival.
        weighed: Whether the reasons carry contributions.
        bypass: What reaches the class besides the concepts, in words.
    """
    name = f"{about[0]} ({percent(about[1])})"
    end = f" Besides the concepts, {bypass} reaches the class." if bypass else ""
    if not weighed:
        said = f"predicted {name}" if predicted else f"predicted no class; closest is {name}"
        if not for_it:
            return f"{said}. This method reads no concepts to explain it by.{end}"
        surest = told(sorted(for_it, key=lambda each: -each.probability)[:MOST])
        no_sum = "The class is no weighted sum of concepts, so none can be given its share."
        return f"{said}; surest of {surest}. {no_sum}{end}"
    if predicted is None:
        against = speaking(for_it, -1)
        why = f" because {told(against)}" if against else ""
        return f"predicted no class; {name} comes closest and is not said{why}.{end}"
    reasons = speaking(for_it)
    instead = speaking(against_rival)
    opposing = speaking(for_it, -1)
    but = ""
    if opposing and reasons and abs(opposing[0].weight) >= LOUD * reasons[0].weight:
        but = f", although {told(opposing[:1])} speaks against it"
    if rival is None:
        return f"predicted {name} because {told(reasons)}{but}.{end}" if reasons else f"{_unmoved(name)}.{end}"
    other = f"{rival[0]} ({percent(rival[1])})"
    if not reasons:
        why = f"; rather than {other} because {told(instead)}" if instead else f", before {other}"
        return f"{_unmoved(name)}{why}.{end}"
    if not instead:
        return f"predicted {name} because {told(reasons)}{but}; before {other} by its start alone.{end}"
    if {each.concept for each in reasons} == {each.concept for each in instead}:
        return f"predicted {name} rather than {other} because {told(reasons)}{but}.{end}"
    return f"predicted {name} because {told(reasons)}{but}, rather than {other} because {told(instead)}.{end}"


def _unmoved(name: str) -> str:
    return f"predicted {name}, though no concept speaks for it more than in the image it is compared with"
