"""Prints the table of README.md from rows of `run.py search`: python evidence/own-data/page.py ROWS.jsonl"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HEAD = ("set", "training images", "seeds", "default", "best of trials", "default minus best, points", "by seed")


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
    for name, size in sorted({(row["set"], row["size"]) for row in rows}):
        here = [row for row in rows if (row["set"], row["size"]) == (name, size)]
        default = {row["seed"]: row["test"] for row in here if row["what"] == "default"}
        best = {row["seed"]: row["test"] for row in here if row.get("chosen")}
        seeds = sorted(default.keys() & best.keys())
        one, two = (np.array([found[seed] for seed in seeds]) for found in (default, best))
        gaps = 100 * (one - two)
        cells = (name, size, len(seeds), f"{one.mean():.3f}", f"{two.mean():.3f}", f"{gaps.mean():+.1f}")
        lines.append(f"| {' | '.join(map(str, cells))} | {', '.join(f'{gap:+.1f}' for gap in gaps)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table([json.loads(line) for line in Path(sys.argv[1]).read_text("utf-8").splitlines()]))
