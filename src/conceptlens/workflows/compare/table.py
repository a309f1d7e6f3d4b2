"""The tables of a comparison, for people: Markdown, LaTeX and HTML from the same cells."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conceptlens.pages.markup import MISSING, Html, h, table

COLUMNS = {
    "class.accuracy": "Accuracy",
    "class.balanced_accuracy": "Balanced acc.",
    "class.macro_auc": "AUC",
    "concept.balanced_accuracy": "Concept bal. acc.",
    "concept.auc": "Concept AUC",
    "concept.auc_within_class": "… within class",
}
NUMBERS = {"rank.effective": "Eff. rank", "effective_concepts": "Eff. concepts", "seconds": "Seconds"}


@dataclass(frozen=True)
class Line:
    """A row's words, cell by cell; `best` marks the cells that are set in bold."""

    cells: list[str]
    best: set[int]


def columns(data: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Which measures and numbers any row has."""
    rows = [row for block in data["blocks"] for row in block["rows"]]
    return (
        [name for name in COLUMNS if any(name in row["measures"] for row in rows)],
        [name for name in NUMBERS if any(name in row["numbers"] for row in rows)],
    )


def _percent(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return MISSING
    text = f"{100 * found['mean']:.1f}"
    if found["interval"] is None:
        return text
    low, high = found["interval"]
    return f"{text} ({100 * low:.1f} to {100 * high:.1f})"


def _number(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return MISSING
    digits = 0 if found["mean"] >= 100 else 1
    spread = "" if not found["sd"] else f" ± {found['sd']:.{digits}f}"
    return f"{found['mean']:.{digits}f}{spread}"


def lines(block: Mapping[str, Any], measures: Sequence[str], numbers: Sequence[str]) -> list[Line]:
    """The rows of a block."""
    made = []
    for row in block["rows"]:
        name = f"↳ {row['name']}" if row["control_of"] else row["name"]
        if row["bypass"]:
            name += f" [bypass: {row['bypass']}]"
        cells = [name, str(row["trainings"])]
        cells += [_percent(row["measures"].get(measure)) for measure in measures]
        cells += [_number(row["numbers"].get(number)) for number in numbers]
        cells.append(block["verdicts"].get(row["name"], MISSING))
        best = {2 + place for place, measure in enumerate(measures) if block["best"].get(measure) == row["name"]}
        made.append(Line(cells, best))
    return made


def _head(measures: Sequence[str], numbers: Sequence[str], primary: str) -> list[str]:
    names = [COLUMNS[name] for name in measures] + [NUMBERS[name] for name in numbers]
    return ["Method", "Trainings", *names, f"Verdict ({COLUMNS.get(primary, primary).lower()})"]


def _about(found: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """What stands above a table."""
    units = "" if data["units"] == data["images"] else f" of {data['units']:,} units (patients, lesions)"
    told = [f"{data['images']:,} test images{units}, {data['classes']} classes."]
    if found["folds"]:
        told.append(f"Cross-validation: {found['folds']['k']} folds, {found['folds']['repeats']} repeats.")
    if found["trials"]:
        told.append(f"{found['trials']} trials a method, chosen on validation; the test was looked at once.")
    for before in data["zero_shot"]:
        if before["auc"] is not None:
            within = before["auc_within_class"]
            told.append(
                f"Before any training, {before['encoder']} with {before['text']} has a zero-shot concept AUC of "
                f"{100 * before['auc']:.1f}" + ("" if within is None else f" ({100 * within:.1f} within class)") + "."
            )
    return told


def _below(found: Mapping[str, Any]) -> list[str]:
    settings = found["statistics"]
    level = f"{100 * settings['confidence']:g}"
    return [
        f"Percent, with {level} % intervals: bootstrap over test units crossed with seeds.",
        "Blocks are by what told a method about concepts, and methods are ranked within a block only.",
        f"Bold: distinguishable from every other row of its block at {settings['alpha']:g}, by a paired permutation "
        "test over units and a test over units and seeds, after Holm's correction over pairs.",
        f"The smallest detectable difference is the one found with {100 * settings['power']:g} % power.",
        "Rows with an arrow are controls: the same method with random text vectors.",
    ]


def _unfinished(found: Mapping[str, Any]) -> list[str]:
    told = []
    if found["jobs"]["done"] < found["jobs"]["of"]:
        told.append(f"Unfinished: {found['jobs']['done']} of {found['jobs']['of']} trainings are done.")
    if found["failed"]:
        told.append(f"{len(found['failed'])} jobs failed: {', '.join(each['job'] for each in found['failed'])}.")
    return told


def markdown(found: Mapping[str, Any]) -> str:
    """The whole comparison as a Markdown page."""
    parts = [f"# {_md(found['name'])}", *_unfinished(found)]
    for data in found["data"]:
        measures, numbers = columns(data)
        head = _head(measures, numbers, found["statistics"]["primary"])
        parts += [f"## {_md(data['name'])}", " ".join(_about(found, data))]
        rows = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 2) + " --- |"]
        for block in data["blocks"]:
            rows.append(f"| **{block['title']}** |" + " |" * (len(head) - 1))
            for line in lines(block, measures, numbers):
                told = [_md(cell) for cell in line.cells]
                cells = [f"**{cell}**" if place in line.best else cell for place, cell in enumerate(told)]
                rows.append("| " + " | ".join(cells) + " |")
        parts.append("\n".join(rows))
    parts.append(" ".join(_below(found)))
    return "\n\n".join(parts) + "\n"


def html(found: Mapping[str, Any]) -> Html:
    """The same in a notebook."""
    parts = [h("h4", found["name"]), *(h("p", told) for told in _unfinished(found))]
    for data in found["data"]:
        measures, numbers = columns(data)
        head, rows = _head(measures, numbers, found["statistics"]["primary"]), []
        for block in data["blocks"]:
            rows.append(h("tr", h("th", block["title"], colspan=len(head), style="text-align: left")))
            for line in lines(block, measures, numbers):
                cells = (h("b", cell) if place in line.best else cell for place, cell in enumerate(line.cells))
                rows.append(h("tr", [h("td", cell) for cell in cells]))
        parts.append(table(" ".join([f"{data['name']}.", *_about(found, data)]), head, rows))
    return h("div", parts, h("p", " ".join(_below(found))))


def _md(text: str) -> str:
    escaped = re.sub(r"([\\|*])", r"\\\1", str(text)).replace("\n", " ")
    return re.sub(r"<(?=[\w/!?])", "&lt;", escaped)  # a tag; "p < 0.001" is none


_TEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "↳": r"$\hookrightarrow$",
    "–": "--",
    "…": r"\dots{}",
    "<": r"$<$",
    ">": r"$>$",
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in str(text)).replace("\n", " ")


def latex(found: Mapping[str, Any]) -> str:
    """The tables for a paper; they need the package booktabs."""
    parts = ["% made by conceptlens compare; needs \\usepackage{booktabs}"]
    for data in found["data"]:
        measures, numbers = columns(data)
        head = [_tex(name) for name in _head(measures, numbers, found["statistics"]["primary"])]
        rows = [f"\\begin{{tabular}}{{l{'r' * (len(head) - 2)}l}}", "\\toprule", " & ".join(head) + r" \\"]
        for block in data["blocks"]:
            rows += ["\\midrule", f"\\multicolumn{{{len(head)}}}{{l}}{{\\emph{{{_tex(block['title'])}}}}} \\\\"]
            for line in lines(block, measures, numbers):
                cells = [
                    f"\\textbf{{{_tex(cell)}}}" if place in line.best else _tex(cell)
                    for place, cell in enumerate(line.cells)
                ]
                rows.append(" & ".join(cells) + r" \\")
        rows += ["\\bottomrule", "\\end{tabular}"]
        caption = _tex(" ".join([f"{data['name']}.", *_about(found, data), *_below(found), *_unfinished(found)]))
        parts.append(
            "\\begin{table}\n\\centering\n\\small\n" + "\n".join(rows) + f"\n\\caption{{{caption}}}\n\\end{{table}}"
        )
    return "\n\n".join(parts) + "\n"
