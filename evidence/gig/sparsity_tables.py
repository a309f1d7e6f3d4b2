"""Rows of `sparsity.py` (sparsity.jsonl) → two tables of README.md; `gig_tables.py` fills them in."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sparsity_settings import MAKERS, TIMES

from conceptlens.core.files import read_text, stored

RIVALS = MAKERS[1:]
RESAMPLES = 2000
Row = dict[str, Any]
Floats = npt.NDArray[np.float64]


def read(folder: Path) -> list[Row]:
    place = folder / "sparsity.jsonl"
    place = place if place.exists() else stored(place)
    return [json.loads(line) for line in read_text(place).splitlines() if line] if place.exists() else []


def interval(values: Floats, seed: int = 0) -> tuple[float, float, float]:
    """Mean of (seeds, images) with 95 %; images and seeds are drawn again."""
    draw = np.random.default_rng(seed)
    seeds, images = values.shape
    means = [
        values[draw.integers(seeds, size=seeds)][:, draw.integers(images, size=images)].mean() for _ in range(RESAMPLES)
    ]
    low, high = np.percentile(means, (2.5, 97.5))
    return float(values.mean()), float(low), float(high)


def words(values: Floats) -> str:
    if np.isnan(values).any():
        return "–"
    mean, low, high = interval(values)
    text = f"{mean:+.3f} ({low:+.3f} to {high:+.3f})".replace("-", "−")
    return f"**{text}**" if low > 0 or high < 0 else text


def grid(head: Sequence[str], body: Sequence[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, line))} |" for line in body)]) + "\n"


def _section(rows: list[Row], section: str) -> dict[tuple[str, str], list[Row]]:
    """Rows of each layer and dictionary, by seed; dictionaries of which all seeds are there."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["key"].split("/")[0] == section:
            found.setdefault((row["layer"], row["maker"]), []).append(row)
    most = max(map(len, found.values()), default=0)
    return {key: sorted(some, key=lambda row: row["seed"]) for key, some in found.items() if len(some) == most}


def errors(rows: list[Row]) -> str:
    """Relative l2 of clusters by sparsity, and how much larger each rival's is on the same photographs."""
    found, body = _section(rows, "errors"), []
    for layer in sorted({layer for layer, _ in found}):
        own = found.get((layer, MAKERS[0]))
        if own is None:
            continue
        for place, times in enumerate(TIMES):
            mine = np.array([row["by_image"][place] for row in own])
            if np.isnan(mine).all():
                continue
            line: list[object] = [
                layer,
                own[0]["concepts"],
                len(own),
                mine.shape[1],
                f"{times:g}",
                f"{mine.mean():.3f}",
            ]
            for rival in RIVALS:
                theirs = found.get((layer, rival))
                line.append("–" if theirs is None else words(np.array([r["by_image"][place] for r in theirs]) - mine))
            body.append(line)
    head = ["layer", "concepts", "seeds", "photographs", "times the paper's concepts a vector", "clusters, relative l2"]
    return grid([*head, *(f"{rival}, less clusters" for rival in RIVALS)], body)


def curves(rows: list[Row]) -> str:
    """Insertion less deletion at the paper's sparsity, and each rival less clusters on the same photographs."""
    found, body = _section(rows, "curves"), []
    for layer in sorted({layer for layer, _ in found}):
        areas = {
            maker: np.array([[one[0] - one[1] for one in row["insertion_deletion"]] for row in found[layer, maker]])
            for maker in MAKERS
            if (layer, maker) in found
        }
        own = areas.get(MAKERS[0])
        if own is None:
            continue
        line: list[object] = [layer, len(own), own.shape[1], f"{own.mean():.3f}"]
        body.append([*line, *(words(areas[rival] - own) if rival in areas else "–" for rival in RIVALS)])
    head = ["layer", "seeds", "photographs", "clusters, insertion − deletion"]
    return grid([*head, *(f"{rival}, less clusters" for rival in RIVALS)], body)
