"""Takes rows over and writes the tables of README.md from all that are kept.

    python evidence/own-data/page.py [search.jsonl] [ten-minutes.jsonl]

The files' names say what the rows are: of `run.py search`, of `ten_minutes.py`.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from folders import SEEDS, SETS, SIZES

sys.path.insert(0, str(Path(__file__).parents[1]))

from raw_rows import fill, keep, read, table  # a neighbor

HERE = Path(__file__).parent
KEYS = {"search": ("set", "size", "seed", "what"), "ten-minutes": ("set", "images", "seed")}
Row = dict[str, Any]


def ten_minutes(rows: list[Row]) -> str:
    """Seconds of each command."""
    lines = []
    for row in rows:
        seconds = {" ".join(words.split()[:2]): value for words, value in row["commands"].items()}
        for words, value in {
            **{f"`{key} …`": value for key, value in seconds.items()},
            "together": row["seconds"],
        }.items():
            lines.append((row["set"], f"{row['images']}", f"{row['cores']}", words, f"{value:.0f}"))
    return table(("set", "images", "cores", "command", "seconds"), lines)


def search(rows: list[Row]) -> str:
    """The default beside the best trial, set by set."""
    head = ("set", "training images", "seeds", "default", "best of trials", "default minus best, points", "by seed")
    lines = []
    for name, size in ((name, size) for name in SETS for size in SIZES):
        here = [row for row in rows if (row["set"], row["size"]) == (name, size)]
        default = {row["seed"]: row["test"] for row in here if row["what"] == "default"}
        best = {row["seed"]: row["test"] for row in here if row.get("chosen")}
        seeds = sorted(default.keys() & best.keys())
        if not seeds:
            continue
        one, two = (np.array([found[seed] for seed in seeds]) for found in (default, best))
        gaps = 100 * (one - two)
        shown = ", ".join(f"{gap:+.1f}" for gap in gaps)
        lines.append(
            (name, f"{size}", f"{len(seeds)}", f"{one.mean():.3f}", f"{two.mean():.3f}", f"{gaps.mean():+.1f}", shown)
        )
    return table(head, lines)


def finished(rows: list[Row]) -> str:
    """How much of the search there is."""
    blocks = {(row["set"], row["size"], row["seed"]) for row in rows if row["what"] == "default"}
    return f"{len(blocks)} of {len(SETS) * len(SIZES) * len(SEEDS)} blocks of a set, a size and a seed are measured."


def main() -> None:
    for file in map(Path, sys.argv[1:]):
        new = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        keep(HERE / f"{file.stem}.jsonl.gz", new, KEYS[file.stem])
    found = read(HERE / "search.jsonl.gz")
    tables = {"ten-minutes": ten_minutes(read(HERE / "ten-minutes.jsonl.gz")), "finished": finished(found)}
    fill(HERE / "README.md", tables | {"search": search(found)})


if __name__ == "__main__":
    main()
