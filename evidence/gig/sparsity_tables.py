"""Rows of `sparsity.py` (sparsity.jsonl) → two tables of README.md; `gig_tables.py` fills them in."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sparsity_settings import MAKERS, PAPER_USED, TIMES

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


def by_seed(rows: list[Row], section: str) -> dict[tuple[str, str], dict[int, Row]]:
    """Rows of each layer and dictionary, by seed."""
    found: dict[tuple[str, str], dict[int, Row]] = {}
    for row in rows:
        if row["key"].split("/")[0] == section:
            found.setdefault((row["layer"], row["maker"]), {})[row["seed"]] = row
    return found


def clean(points: list[Row]) -> list[Row]:
    """The path of the lasso: without points below it, where the solver had stopped early at too small a penalty."""
    return [
        one
        for one in points
        if not any(q["used"] > one["used"] and q["relative_l2"] > one["relative_l2"] for q in points)
    ]


def settled(row: Row, used: float) -> bool:
    """Whether a reading of `by_image` lies between two points of the path."""
    line = sorted(row["points"], key=lambda one: one["used"])
    place = int(np.searchsorted([one["used"] for one in line], used))
    path = clean(row["points"])
    first = min((one["used"] for one in line if one not in path), default=np.inf)
    return 0 < place < len(line) and line[place]["used"] < first


def at_path(row: Row, used: float) -> float | None:
    """Mean error over photographs at so many concepts a vector, on the path."""
    line = sorted((one["used"], one["relative_l2"]) for one in clean(row["points"]))
    xs = np.log([one for one, _ in line])
    inside = xs[0] <= np.log(used) <= xs[-1]
    return float(np.interp(np.log(used), xs, [one for _, one in line])) if inside else None


def pair_of(found: dict[tuple[str, str], dict[int, Row]], layer: str, maker: str, place: int) -> list[Floats] | None:
    """Errors of clusters and of another dictionary, (seeds, photographs), of the seeds that both have."""
    mine, theirs = found.get((layer, MAKERS[0]), {}), found.get((layer, maker), {})
    used = PAPER_USED[layer] * TIMES[place]
    seeds = [s for s in sorted(mine) if s in theirs and settled(mine[s], used) and settled(theirs[s], used)]
    if not seeds:
        return None
    return [np.array([some[seed]["by_image"][place] for seed in seeds]) for some in (mine, theirs)]


def errors(rows: list[Row]) -> str:
    """Relative l2 of clusters by sparsity, and how much larger each rival's is on the same photographs."""
    found, body = by_seed(rows, "errors"), []
    for layer in sorted({layer for layer, _ in found}):
        own = found[layer, MAKERS[0]]
        for place, times in enumerate(TIMES):
            used = PAPER_USED[layer] * times
            values = [at_path(row, used) for row in own.values()]
            if None in values:
                continue
            some = next(iter(own.values()))
            mean = float(np.mean([value for value in values if value is not None]))
            line: list[object] = [layer, some["concepts"], len(some["by_image"][0]), f"{times:g}", f"{mean:.3f}"]
            for rival in RIVALS:
                pair = pair_of(found, layer, rival, place)
                line.append("–" if pair is None else f"{words(pair[1] - pair[0])}, {len(pair[0])} seeds")
            body.append(line)
    head = ["layer", "concepts", "photographs", "times the paper's concepts a vector", "clusters, relative l2"]
    made = grid([*head, *(f"{rival}, less clusters" for rival in RIVALS)], body)
    return made.replace(", 1 seeds", ", 1 seed")


def at_paper(rows: list[Row]) -> str:
    """Mean errors at the paper's number of concepts a vector, on the path of the lasso."""
    found, body = by_seed(rows, "errors"), []
    makers = (MAKERS[0], *MAKERS[2:])
    for layer, used in PAPER_USED.items():
        values = {}
        for maker in makers:
            read_at = [at_path(row, used) for row in found.get((layer, maker), {}).values()]
            known = [value for value in read_at if value is not None]
            values[maker] = float(np.mean(known)) if known else float("nan")
        least = min(values, key=lambda maker: values[maker])
        cells = [f"**{value:.3f}**" if maker == least else f"{value:.3f}" for maker, value in values.items()]
        seeds = [len(found.get((layer, maker), {})) for maker in makers]
        body.append([layer, f"{used:.1f}", *cells, " · ".join(map(str, seeds))])
    return grid(["layer", "concepts a vector", *makers, "seeds"], body)


def curves(rows: list[Row]) -> str:
    """Insertion less deletion at the paper's sparsity, and each rival less clusters on the same photographs."""
    found, body = by_seed(rows, "curves"), []
    for layer in sorted({layer for layer, _ in found}):
        areas = {
            maker: {
                seed: [one[0] - one[1] for one in row["insertion_deletion"]]
                for seed, row in found.get((layer, maker), {}).items()
            }
            for maker in MAKERS
        }
        own = areas[MAKERS[0]]
        if not own:
            continue
        mean = np.mean([np.mean(values) for values in own.values()])
        some = next(iter(found[layer, MAKERS[0]].values()))
        line: list[object] = [layer, some["concepts"], len(own), some["images"], f"{mean:.3f}"]
        for rival in RIVALS[1:]:
            seeds = [seed for seed in own if seed in areas[rival]]
            line.append(words(np.array([np.subtract(areas[rival][s], own[s]) for s in seeds])) if seeds else "–")
        body.append(line)
    head = ["layer", "concepts", "seeds", "photographs", "clusters, insertion − deletion"]
    return grid([*head, *(f"{rival}, less clusters" for rival in RIVALS[1:])], body)


def by_multiple(rows: list[Row]) -> str:
    """In how many layers each rival's error differs from that of clusters beyond its interval, by sparsity."""
    found, lines = by_seed(rows, "errors"), []
    layers = sorted({layer for layer, _ in found})
    for place, times in enumerate(TIMES):
        line: list[object] = [f"{times:g}"]
        for rival in RIVALS:
            signs = []
            for layer in layers:
                pair = pair_of(found, layer, rival, place)
                if pair is not None:
                    _, low, high = interval(pair[1] - pair[0])
                    signs.append(-1 if high < 0 else int(low > 0))
            line.append(f"{signs.count(1)} : {signs.count(-1)} : {signs.count(0)}")
        lines.append(line)
    head = ["times the paper's concepts a vector"]
    return grid([*head, *(f"clusters better : {rival} better : no difference" for rival in RIVALS)], lines)


def orders(rows: list[Row]) -> str:
    """Clusters' curves to the class in the order of GIG, and what other orders give less, on the same photographs."""
    found, body = by_seed(rows, "curves"), []
    for layer in sorted({layer for layer, maker in found if maker == MAKERS[0]}):
        some = list(found[layer, MAKERS[0]].values())
        own = np.array([[one[0] - one[1] for one in row["insertion_deletion"]] for row in some])
        line: list[object] = [layer, len(some), own.shape[1], f"{own.mean():.3f}"]
        for name in some[0]["orders"]:
            theirs = np.array([[one[0] - one[1] for one in row["orders"][name]] for row in some])
            line.append(words(own - theirs))
        body.append(line)
    names = [name for row in rows for name in row.get("orders", {})][:3]
    head = ["layer", "seeds", "photographs", "GIG's order, insertion − deletion"]
    return grid([*head, *(f"GIG less {name}" for name in names)], body)


def between(rows: list[Row]) -> str:
    """Figure 5: the same for concepts of a later layer."""
    body, names = [], ("gradient x input", "random")
    some = {row["key"].rsplit("/", 1)[0]: row for row in rows if row["key"].startswith("between/")}
    for row in some.values():
        own = np.array([row["difference"]["gig"]])
        line: list[object] = [f"{row['layer']} → {row['to']}", 1, row["images"], f"{own.mean():.3f}"]
        body.append([*line, *(words(own - np.array([row["difference"][name]])) for name in names)])
    head = ["transition", "seeds", "photographs", "GIG's order, insertion − deletion"]
    return grid([*head, *(f"GIG less {name}" for name in names)], body)


def share(pairs: list[list[int]], which: int) -> str:
    """Of the concepts there were, in %, with 95 % over photographs."""
    values = np.array([[pair[which] / pair[0] for pair in pairs if pair[0]]])
    if values.size == 0:
        return "–"
    return f"{100 * values.mean():.0f} ({100 * interval(values)[1]:.0f} to {100 * interval(values)[2]:.0f})"


def disturbed(rows: list[Row]) -> str:
    """Appendix J: of ten concepts that add most, in %: the same ones / ones with a cosine of 0.9 or more."""
    body = []
    for row in sorted((row for row in rows if row["key"].startswith("disturbed/")), key=lambda row: str(row["layer"])):
        images = row["by_image"]
        stays = [one for one in images if one["noise_keeps_class"]]
        leaves = [one for one in images if not one["noise_keeps_class"]]
        fooled = [one for one in images if one["attack_reached"]]
        columns = (
            [one["chance"] for one in images],
            [one["noise"] for one in stays],
            [one["noise"] for one in leaves],
            [one["noise_own"] for one in leaves],
            [one["attack"] for one in fooled],
            [one["attack_target"] for one in fooled],
        )
        cells = [f"{share(column, 1)} / {share(column, 2)}" for column in columns]
        body.append([row["layer"], len(images), len(leaves), len(fooled), *cells])
    head = [
        "layer", "photographs", "noise changes the class", "attack reaches its class", "by chance: the next photograph",
        "noise, class stays", "noise, class changes", "the same, concepts for the true class",
        "attack: concepts of the photograph", "attack: concepts of the target class's photograph",
    ]  # fmt: skip
    return grid(head, body)
