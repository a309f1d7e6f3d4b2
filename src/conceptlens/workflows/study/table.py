"""The paper's Table 6 with what it leaves out: intervals, the control, chance, and agreement."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from conceptlens.workflows.study.analyze import Analysis

HEAD = (
    "data set",
    "localization: mean rating, 1–5",
    "the same, shuffled maps",
    "difference",
    "choice: accuracy",
    "the same, shuffled maps",
    "chance",
    "raters",
    "agreement on ratings (weighted κ)",
)


def rows(studies: Sequence["Analysis"]) -> list[list[str]]:
    """A row for each study, and their average where there are several."""
    found = []
    for each in studies:
        numbers = each.result
        kappa = numbers.likert_agreement.kappa
        found.append(
            [
                each.data,
                numbers.likert.true.text(),
                numbers.likert.shuffled.text(),
                numbers.likert.difference.text(),
                numbers.choice.text(),
                numbers.choice_shuffled.text(),
                "–" if numbers.chance is None else f"{numbers.chance:.0%}",
                str(len(numbers.raters)),
                "–" if kappa is None else f"{kappa:.2f}",
            ]
        )
    if len(studies) > 1:
        found.append(_average(studies))
    return found


def _average(studies: Sequence["Analysis"]) -> list[str]:
    """Means over studies, each counting the same, as in the paper."""

    def mean(values: Sequence[float | None], form: str) -> str:
        known = [value for value in values if value is not None]
        return format(float(np.mean(known)), form) if known else "–"

    results = [each.result for each in studies]
    return [
        "average",
        mean([each.likert.true.value for each in results], ".2f"),
        mean([each.likert.shuffled.value for each in results], ".2f"),
        mean([each.likert.difference.value for each in results], ".2f"),
        mean([each.choice.value for each in results], ".0%"),
        mean([each.choice_shuffled.value for each in results], ".0%"),
        mean([each.chance for each in results], ".0%"),
        "",
        mean([each.likert_agreement.kappa for each in results], ".2f"),
    ]


def table_six(studies: Sequence["Analysis"]) -> str:
    """The table in Markdown."""
    lines = [HEAD, tuple("---" for _ in HEAD), *rows(studies)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
