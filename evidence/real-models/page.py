"""Fills the tables of README.md from the raw rows beside it.

python evidence/real-models/page.py
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[1]))

from raw_rows import Row, table  # a neighbor

HERE = Path(__file__).parent
STEPS = {
    "frozen": "frozen, store",
    "last": "last block, store",
    "explain": "explain",
    "decompose": "decompose",
    "pt2": ".pt2",
    "onnx": "ONNX",
}


def read(name: str) -> list[Row]:
    file = HERE / f"{name}.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


def number(value: float | None) -> str:
    return "–" if value is None else "0" if not value else f"{value:.0e}"


NO_ROOM = re.compile(r"out of memory|ALLOC_FAILED|CUSOLVER_STATUS_INTERNAL|CUBLAS_STATUS_EXECUTION_FAILED")
NOT_THERE = re.compile(r"this run is not done|no such run|expected a run folder")


def outcome(row: Row | None) -> str:
    """What became of a cell; *no room*: other work had taken the memory of the GPU that all shared."""
    if row is None or NOT_THERE.search(row.get("reason", "")):
        return "not run"
    return "no room" if NO_ROOM.search(row.get("reason", "")) else str(row["outcome"])


def layouts(rows: list[Row]) -> dict[str, dict[str, Row]]:
    """A row of each cell, by layout: one that worked if there is one, else the last."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        cells = found.setdefault(row["layout"], {})
        if row["step"] not in cells or row["outcome"] == "works" or cells[row["step"]]["outcome"] != "works":
            cells[row["step"]] = row
    return found


def matrix(size: str, steps: list[str]) -> str:
    lines = []
    for name, cells in layouts([row for row in read("matrix") if row["size"] == size]).items():
        tokens = cells.get("tokens", {})
        shape = [f"{tokens['parameters'] / 1e6:,.0f} M", str(tokens["pixels"])] if "parameters" in tokens else ["–"] * 2
        against = [number(tokens.get("original"))] if size == "real" else []
        stored = number(max(tokens["stored 0"], tokens["stored 1"])) if "stored 0" in tokens else "–"
        lead = shape if size == "real" else []
        lines.append([name, *lead, *against, stored, *(outcome(cells.get(step)) for step in steps)])
    lead = ["parameters", "pixels", "against the original"] if size == "real" else []
    return table(["layout", *lead, "stored against live", *(STEPS[step] for step in steps)], lines)


def sums() -> str:
    """How many cells work, in words, and what those that do not say."""
    lines = []
    for size in ("small", "real"):
        rows = [
            row
            for cells in layouts([r for r in read("matrix") if r["size"] == size]).values()
            for row in cells.values()
        ]
        if not rows:
            continue
        kinds = Counter(outcome(row) for row in rows)
        names = len({row["layout"] for row in rows})
        lines.append(f"{size.capitalize()}: {names} layouts, {kinds.total() - kinds['not run']} cells: ")
        lines[-1] += f"{kinds['works']} work, {kinds['refused']} are refused, {kinds['failed']} fail"
        lines[-1] += f", {kinds['no room']} found no room on the GPU." if kinds["no room"] else "."
        lines += [
            f"- {row['layout']}, {row['step']}: {re.sub(r'[^ ]*/model/', '', row['reason'])[:220]} …"
            for row in rows
            if outcome(row) in ("refused", "failed")
        ]
    return "\n".join(lines)


def readers() -> str:
    lines = []
    for row in read("readers"):
        size = f"{row['parameters'] / 1e6:,.0f} M" if "parameters" in row else "–"
        same = f"{100 * row['tokens']:.1f} %" if "tokens" in row else "–"
        lines.append([row["reader"], size, same, number(row["largest"]) if "largest" in row else row["failed"]])
    return table(["reader, against the original package", "parameters", "same tokens", "largest difference"], lines)


def methods() -> str:
    found: dict[str, list[Row]] = {}
    for row in read("methods"):
        found.setdefault(row["method"], []).append(row)
    lines = []
    for name, rows in found.items():
        values = [100 * row["class"] for row in rows]
        concepts = f"{mean(100 * row['concept'] for row in rows):.1f}"
        lines.append([name, len(rows), f"{mean(values):.1f}", f"{min(values):.1f} to {max(values):.1f}", concepts])
    return table(["method", "seeds", "class, %", "least to most", "concepts, %"], lines)


def clustering() -> str:
    shares = {"whole": "all at once", "0.5": "half in memory", "0.25": "a quarter", "0.125": "an eighth"}
    rows = [[row["layer"], *(f"{row[k][0]:.3f} / {row[k][1]:.3f}" for k in shares)] for row in read("clustering")]
    return table(["layer", *shares.values()], rows)


def runs() -> str:
    """Runs of `decompose.py` that came to their end, and parts of those that were stopped."""
    rows = []
    for row in read("decompose"):
        stages = ", ".join(f"{name} {seconds:.0f}" for name, seconds in row["stages"].items())
        images = f"{row['images']:,}, {row['per image']} vectors each"
        rows.append([row["name"], images, row["device"], stages, f"{row['seconds']:.0f}", row["processor seconds"]])
        rows[-1] += [row["host memory GB"], "yes" if row["page"] else f"no ({row['part']} part)"]
    head = ["run", "images", "device", "seconds of each stage", "seconds", "processor seconds", "host memory, GB"]
    return table([*head, "page finished"], rows)


FIRST = 16  # steps
STEP_COUNTS = ("8", "16", "32", "64", "128")


def before(row: Row) -> tuple[int, float]:
    """Backward passes until the sum is right to 1 %, the rule before, and the error of contributions then."""
    passes = 0
    for steps in STEP_COUNTS:
        passes += int(steps)
        if row[steps]["of change"] <= 0.01:
            break
    return passes, row[steps]["true"]


def now(row: Row) -> tuple[int, float]:
    """The same of the rule of today, which uses what it has computed again."""
    steps = row["stops"]["steps"]
    return steps + (2 if steps > FIRST else 0), row["stops"]["true"]


def by_layers() -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in read("steps"):
        found.setdefault(" → ".join(row["layers"]), []).append(row)
    return found


def steps() -> str:
    """How exact contributions are after so many steps."""
    lines = []
    for name, rows in by_layers().items():
        cells = []
        for count in STEP_COUNTS:
            values = [100 * row[count]["true"] for row in rows]
            cells.append(f"{mean(values):.1f} ({max(values):.1f})")
        lines.append([name, len({row["image"] for row in rows}), len(rows), *cells])
    counts = ["8, Gauss-Legendre", *(f"{count}, placed" for count in STEP_COUNTS[1:])]
    return table(["layers", "images", "integrals", *counts], lines)


def rules() -> str:
    """What two rules to stop cost, and how exact contributions are when they stop."""
    lines = []
    for name, rows in by_layers().items():
        for rule, words in ((before, "1 % of the sum, as before"), (now, "1 % of what is added and taken away")):
            passes, exact = zip(*(rule(row) for row in rows), strict=True)
            errors = [100 * true for true in exact]
            lines.append([name, words, f"{mean(passes):.0f}", max(passes), f"{mean(errors):.1f}", f"{max(errors):.1f}"])
    head = ["layers", "rule", "backward passes, mean", "most", "error of contributions, %, mean", "largest"]
    return table(head, lines)


def main() -> None:
    page = HERE / "README.md"
    text = page.read_text("utf-8")
    tables = {
        "real": matrix("real", ["frozen", "last", "explain", "decompose"]),
        "small": matrix("small", list(STEPS)),
        "sums": sums(),
        "readers": readers(),
        "methods": methods(),
        "clustering": clustering(),
        "runs": runs(),
        "steps": steps(),
        "rules": rules(),
    }
    for name, content in tables.items():
        pattern = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.S)
        if (match := pattern.search(text)) is not None:
            text = text[: match.end(1)] + content + "\n" + text[match.start(2) :]
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
