"""`analysis.html`: the study's result for people. One file, no scripts."""

from collections.abc import Sequence

from conceptlens.pages.markup import MISSING, Html, decimal, h, percent, table
from conceptlens.pages.shell import render_page
from conceptlens.workflows.study.analyze import Analysis
from conceptlens.workflows.study.table import HEAD, rows

STYLE = """
.figures td { white-space: nowrap; }
.between { display: block; color: var(--soft); font-size: .86rem; }
"""


def result_page(found: Analysis, studies: Sequence[Analysis]) -> str:
    """The whole page."""
    sections = [
        ("result", "The result", table(_caption(found), HEAD, _lines(rows(studies)), class_="figures")),
        ("chance", "Is it more than chance?", _chance(found)),
        ("agreement", "Do raters agree?", _agreement(found)),
        ("raters", "Each rater", _raters(found)),
    ]
    header = [h("h1", "What people see in the maps"), h("p", _headline(found), class_="result")]
    return render_page(f"Study of {found.method} on {found.data}", header, sections, style=STYLE)


def _lines(cells: Sequence[Sequence[str]]) -> list[Html]:
    """Rows of numbers, intervals under them."""

    def cell(value: str) -> Html:
        number, bracket, rest = value.partition(" [")
        return h("td", number, h("span", f"[{rest}", class_="between") if bracket else None)

    return [h("tr", h("th", line[0], scope="row"), (cell(value) for value in line[1:])) for line in cells]


def _headline(found: Analysis) -> str:
    likert, choice = found.result.likert, found.result.choice
    if likert.true.value is None:
        return "No rating to speak of."
    told = f"{len(found.result.raters)} raters gave the maps {likert.true.value:.2f} of 5"
    if likert.shuffled.value is not None:
        told += f", and shuffled ones {likert.shuffled.value:.2f}"
    if choice.value is not None:
        told += f"; they named the feature of {percent(choice.value, 0)} of maps"
        told += f", by guessing it would be {percent(found.result.chance, 0)}" if found.result.chance else ""
    return told + "."


def _caption(found: Analysis) -> str:
    return (
        f"Study {found.study} of the run {found.run}: {found.map} maps, control: {found.control}. Intervals: 95 %, "
        "over images."
    )


def _chance(found: Analysis) -> list[Html]:
    numbers = found.result
    likert = numbers.likert
    facts = []
    if likert.p is not None:
        facts.append(f"Permutation test of true against shuffled maps, over images: p = {likert.p:.4f}.")
    if likert.above is not None:
        facts.append(f"A true map is rated above a shuffled one with chance {percent(likert.above)} (50 %: nothing).")
    if numbers.choice_shuffled.value is not None and numbers.choice.value is not None:
        facts.append(
            f"With shuffled maps {percent(numbers.choice_shuffled.value)} of choices are right: so much can be "
            "seen in the picture alone."
        )
    return [h("p", fact) for fact in facts] or [h("p", "Nothing can be said: one of the two kinds of map is missing.")]


def _agreement(found: Analysis) -> Html:
    lines = []
    for name, each in (("ratings", found.result.likert_agreement), ("choices", found.result.choice_agreement)):
        between = MISSING if each.low is None else f"{each.low:.2f} to {each.high:.2f}"
        lines.append([name, decimal(each.kappa, 2), between, decimal(each.linear_kappa, 2), decimal(each.alpha, 2)])
        lines += [[pair, decimal(value, 2), MISSING, MISSING, MISSING] for pair, value in each.pairs.items()]
    columns = ("answers", "κ (ratings: quadratic weights)", "95 %", "κ, linear weights", "Krippendorff's α")
    return table(
        "1 is full agreement, 0 is chance; the mean over pairs, then each pair.",
        columns,
        _lines(lines),
        class_="figures",
    )


def _raters(found: Analysis) -> list[Html | None]:
    lines = [
        [
            each.rater,
            f"{each.answered} of {each.of}",
            decimal(each.true, 2),
            decimal(each.shuffled, 2),
            percent(each.above),
            each.choice.text(),
            percent(each.skill),
            each.checks,
            MISSING if each.median_ms is None else f"{each.median_ms / 1000:.1f} s",
            "yes" if each.passed else "no",
        ]
        for each in found.raters
    ]
    scores = ("true maps", "shuffled", "true above shuffled", "choices right", "known, not guessed")
    columns = ("rater", "answered", *scores, "checks of attention", "median time", "counted")
    caption = "Raters who did not look are left out of the result; how they judge the maps is never a reason."
    out = [(each.rater, "; ".join(each.why_not)) for each in found.raters if not each.passed]
    said = [(each.rater, each.comment) for each in found.raters if each.comment]
    return [table(caption, columns, _lines(lines), class_="figures"), _list("Left out", out), _list("Comments", said)]


def _list(title: str, entries: Sequence[tuple[str, str]]) -> Html | None:
    """What there is to say of some raters."""
    if not entries:
        return None
    return h("div", h("h3", title), h("ul", (h("li", h("b", rater), f": {text}") for rater, text in entries)))
