"""What examinations of a run found, as a block at the top of a page: findings first."""

from collections.abc import Callable

from conceptlens.evaluation.examination import Trust
from conceptlens.evaluation.verdict import Outcome
from conceptlens.pages.markup import Html, h

OUTCOMES: dict[Outcome, str] = {"finding": "Finding", "pass": "Passed", "unmeasured": "Not measured"}


def verdict_block(trust: Trust | None, clean: Callable[[str], str] = str) -> Html:
    """The block.

    Args:
        trust: What `conceptlens trust` wrote; None where nobody asked it.
        clean: Takes away from a text what a reader should not see.
    """
    if trust is None:
        told = h("p", h("strong", "Not examined yet"), ": run ", h("code", "conceptlens trust RUN"), ".")
        return h("div", told, class_="watch verdicts")
    rows = [
        h(
            "li",
            h("strong", OUTCOMES[verdict.outcome], class_=f"badge {verdict.outcome}"),
            h("strong", side.capitalize()),
            f": {clean(verdict.reason)}",
        )
        for side, verdict in trust.ordered()
    ]
    split = {"val": "validation", "train": "training", "folds": "cross-validated"}.get(trust.split, trust.split)
    head = h("p", h("strong", f"Examined on {split} images"))
    return h("div", head, h("ul", rows), class_="watch verdicts" if trust.has_findings else "watch calm verdicts")
