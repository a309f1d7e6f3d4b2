"""Raw rows beside a page, and the tables made from them: what the scripts that write pages share.

A page's tables stand between `<!-- table NAME -->` and `<!-- end -->`.
"""

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]


def read(file: Path) -> list[Row]:
    """The rows of a `.jsonl.gz`; none where there is no such file."""
    return [json.loads(line) for line in gzip.open(file, "rt", encoding="utf-8")] if file.exists() else []


def rounded(value: Any) -> Any:
    """To what an interval can tell: five decimals."""
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    return [rounded(inner) for inner in value] if isinstance(value, list) else value


def keep(file: Path, rows: Iterable[Row], keys: Sequence[str]) -> None:
    """Take rows into the file: the newest for each key."""
    by_key = {tuple(row.get(key) for key in keys): rounded(row) for row in [*read(file), *rows]}
    lines = [json.dumps(row, ensure_ascii=False) for _, row in sorted(by_key.items(), key=lambda pair: str(pair[0]))]
    file.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))


def spread(values: Iterable[float | None], digits: int = 3) -> str:
    """The mean, and the standard deviation where there are several; – where nothing was measured."""
    known = [value for value in values if value is not None]
    more = f" ± {np.std(known, ddof=1):.{digits}f}" if len(known) > 1 else ""
    return f"{np.mean(known):.{digits}f}{more}" if known else "–"


def percent(values: Iterable[float | None]) -> str:
    return spread([None if value is None else 100 * value for value in values], 1)


def outcomes(words: Sequence[str]) -> str:
    """What the seeds say: one word where they agree, else how many say what."""
    counts = {word: words.count(word) for word in ("pass", "finding", "unmeasured") if word in words}
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{count} {word}" for word, count in counts.items())


def table(head: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """In Markdown."""
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in [head, ["---"] * len(head), *lines])


def fill(page: Path, tables: Mapping[str, str]) -> None:
    """Put tables into their places on a page."""
    text = page.read_text("utf-8")
    for name, table in tables.items():
        before, found, rest = text.partition(f"<!-- table {name} -->\n")
        if not found:
            raise SystemExit(f"{page}: expected a line '<!-- table {name} -->', found none.")
        text = f"{before}{found}{table}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    page.write_text(text, "utf-8")
