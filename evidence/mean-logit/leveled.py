"""`rows.jsonl` → the table of README.md."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.files import write_text

HERE = Path(__file__).parent
LOSSES = {"group": "cross-entropy within groups", "bce": "yes/no for every value"}
Row = dict[str, Any]


def read() -> list[Row]:
    return [json.loads(line) for line in (HERE / "rows.jsonl").read_text("utf-8").splitlines()]


def percent(rows: list[Row], name: str) -> str:
    values = [100 * row[name] for row in rows]
    return f"{np.mean(values):.1f}" + (f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else "")


def groups(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["method"], row["loss"]), []).append(row)
    return found


def table(rows: list[Row]) -> str:
    head = ["model", "concept loss", "seeds", "class accuracy", "with every group's mean leveled"]
    lines = [[*head, "from the means alone"], ["---"] * 6]
    for (method, loss), mine in groups(rows).items():
        cells = [f"`{method.split(',')[0]}`{''.join(method.partition(',')[1:])}", LOSSES[loss], str(len(mine))]
        lines.append([*cells, *(percent(mine, name) for name in ("class", "without", "alone"))])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    page = HERE / "README.md"
    made = f"<!-- table rows -->\n{table(read())}\n<!-- end -->"
    text = re.sub(r"<!-- table rows -->.*?<!-- end -->", lambda _: made, page.read_text("utf-8"), flags=re.DOTALL)
    write_text(page, text)


if __name__ == "__main__":
    main()
