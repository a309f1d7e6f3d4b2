"""Comparisons as they were written: read and checked, cut to what was asked for, and as tables for papers."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import ValidationError

from conceptlens.core.errors import did_you_mean
from conceptlens.core.files import read_json
from conceptlens.web.schemas.comparison import Comparison
from conceptlens.web.server.folders import RunEntry
from conceptlens.web.server.kinds import command_for
from conceptlens.web.server.problems import Problem, bad, missing
from conceptlens.workflows.compare.file import slug
from conceptlens.workflows.compare.table import latex, markdown

RESULTS = "results.json"
Form = Literal["md", "tex"]


def read_results(entry: RunEntry) -> tuple[dict[str, Any], Comparison]:
    """`results.json` of a comparison, raw and checked."""
    path = entry.file(RESULTS)
    if path is None:
        command = command_for("comparison", "results", entry.shown)
        raise missing(f"{entry.shown}: no training of this comparison is done yet.", command)
    raw = read_json(path)
    try:
        return raw, Comparison.model_validate({key: value for key, value in raw.items() if key != "schema"})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Problem(409, "broken", f"{entry.shown}/{RESULTS}: {place}: {first['msg']}. Compare again.") from None


def comparison_of(entry: RunEntry, served: Sequence[RunEntry]) -> Comparison:
    """The comparison, with the keys of the runs behind each row, where they are served."""
    _, found = read_results(entry)
    inside = [each for each in served if each.within == entry.key]
    for data in found.data:
        for row in (row for block in data.blocks for row in block.rows):
            row.runs = _trainings(data.name, row.name, inside)
    return found


def _trainings(data: str, row: str, inside: Sequence[RunEntry]) -> list[str]:
    """By the names that `compare` gives its runs: data, row, seed, fold, hash; those of trials have a number more."""
    named = re.compile(rf"{re.escape(slug(data))}-{re.escape(slug(row))}-s\d+(-r\d+f\d+)?-[0-9a-f]{{10}}")
    return sorted((each.key for each in inside if named.fullmatch(each.path.name)), key=_natural)


def _natural(key: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", key)]


def table_of(entry: RunEntry, form: Form, data: Sequence[str], supervision: Sequence[str]) -> str:
    """The table as `compare` would write it, of these data sets and blocks; of all where none are named."""
    raw, _ = read_results(entry)
    known = [each["name"] for each in raw["data"]]
    for name in data:
        if name not in known:
            raise bad(f"data: no data set is called {name!r}. {did_you_mean(name, known)}")
    cut = {**raw, "data": [_blocks(each, supervision) for each in raw["data"] if not data or each["name"] in data]}
    cut["data"] = [each for each in cut["data"] if each["blocks"]]
    return markdown(cut) if form == "md" else latex(cut)


def _blocks(data: Mapping[str, Any], supervision: Sequence[str]) -> dict[str, Any]:
    """A data set with these blocks alone; with all of them where none are named."""
    return {
        **data,
        "blocks": [each for each in data["blocks"] if not supervision or each["supervision"] in supervision],
    }
