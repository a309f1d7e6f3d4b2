"""Methods with the same supervision of concepts form a block, and are ranked within it only."""

from conceptlens.core.errors import unknown_name
from conceptlens.core.registry import METHODS
from conceptlens.workflows.compare.file import SUPERVISIONS
from conceptlens.workflows.compare.gather import Gathered, Row

TITLES = {
    "text": "Text only",
    "class-table": "Class tables",
    "image-labels": "Labels per image",
    "class-labels": "Class labels only",
}


def supervision(row: Row, gathered: Gathered) -> str:
    """A method's supervision of concepts: from the comparison file, else from its run, else from its class.

    Where all concept labels follow from the class by the concept file's table, labels per image are a class table.
    """
    said = row.entry.supervision
    if said is not None:
        return said
    method = METHODS.get(str(row.info["method"]))
    found = str(row.info.get("supervision") or getattr(method, "supervision", "image-labels"))
    if found not in SUPERVISIONS:
        raise unknown_name(f"supervision of the method {row.info['method']}", found, SUPERVISIONS)
    return "class-table" if found == "image-labels" and gathered.by_class else found


def blocks(gathered: Gathered) -> dict[str, list[Row]]:
    """Rows by supervision, in a fixed order; a control stands behind its method."""
    by_name = {row.entry.name: row for row in gathered.rows}
    placed: dict[str, list[Row]] = {name: [] for name in SUPERVISIONS}
    for row in gathered.rows:
        of = by_name.get(row.entry.control_of or "")
        placed[supervision(of or row, gathered)].append(row)
    return {name: rows for name, rows in placed.items() if rows}
