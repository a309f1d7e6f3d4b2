"""Takes rows over and writes the tables of README.md from all that are kept.

    python evidence/own-data/page.py [search.jsonl] [ten-minutes.jsonl] [small.jsonl]

The files' names say what the rows are: of `run.py search`, of `ten_minutes.py`, of `small.py`.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from folders import SEEDS, SETS, SIZES
from numpy.typing import NDArray
from scipy.stats import t

sys.path.insert(0, str(Path(__file__).parents[1]))

from raw_rows import fill, keep, read, table  # a neighbor

HERE = Path(__file__).parent
KEYS = {
    "search": ("set", "size", "seed", "what"),
    "ten-minutes": ("set", "images", "seed"),
    "small": ("setting", "seed", "reader", "head"),
    "readers": ("setting", "seed", "reader"),
    "full": ("data", "method", "seed"),
}
TODAY = ("as it is", "training images")
SHOWN = (  # readers in the table; readers.jsonl.gz holds more
    *("as it is", "standardized, decay 30", "standardized, decay 10", "centered", "centered, decay 10", "from zero"),
    *("averaged", "averaged, from zero", "rate 0.0003", "rate 0.0003, from zero", "head rate 25", "chosen by concepts"),
    *("chosen by concepts; head refitted", "chosen by concepts; head refitted, half drawn", "linear, image vectors"),
)
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
    """The default beside the best trial, set by set; the interval is of the mean over seeds, by Student's t."""
    about = ("set", "training images", "rate of the default", "seeds")
    head = (*about, "default", "best of trials", "default minus best, points", "95% interval", "by seed")
    lines = []
    rates = sorted({row["settings"]["learning_rate"] for row in rows if row["what"] == "default"})
    for name, size, rate in ((name, size, rate) for name in SETS for size in SIZES for rate in rates):
        here = [row for row in rows if (row["set"], row["size"]) == (name, size)]
        defaults = [row for row in here if row["what"] == "default" and row["settings"]["learning_rate"] == rate]
        default = {row["seed"]: row["test"] for row in defaults}
        best = {row["seed"]: row["test"] for row in here if row.get("chosen")}
        seeds = sorted(default.keys() & best.keys())
        if not seeds:
            continue
        one, two = (np.array([found[seed] for seed in seeds]) for found in (default, best))
        gaps = 100 * (one - two)
        means = f"{one.mean():.3f}", f"{two.mean():.3f}", f"{gaps.mean():+.1f}"
        by_seed = ", ".join(f"{gap:+.1f}" for gap in gaps)
        lines.append((name, f"{size}", f"{rate}", f"{len(seeds)}", *means, interval(gaps), by_seed))
    return table(head, lines)


def interval(gaps: NDArray[np.float64]) -> str:
    if len(gaps) < 2:
        return "–"
    low, high = t.interval(0.95, len(gaps) - 1, gaps.mean(), gaps.std(ddof=1) / len(gaps) ** 0.5)
    return f"{low:+.1f} to {high:+.1f}"


def validation(rows: list[Row]) -> str:
    """What validation says of the default, of the trial it chose, and of each setting's mean trial."""
    head = ("set", "training images", "seed", "default", "chosen", "trials above the default", "settings of the chosen")
    lines = []
    for default in (row for row in rows if row["what"] == "default"):
        block = [default[key] for key in ("set", "size", "seed")]
        here = [row for row in rows if [row[key] for key in ("set", "size", "seed")] == block]
        best = next(row for row in here if row.get("chosen"))
        above = sum(row["val"] > default["val"] for row in here if row is not default)
        words = ", ".join(f"{key} {str(value).split('/')[-1]}" for key, value in best["settings"].items())
        lines.append(
            (*map(str, block), f"{default['val']:.3f}", f"{best['val']:.3f}", f"{above} of {len(here) - 1}", words)
        )
    lines.sort(key=lambda line: (SETS.index(line[0]), int(line[1]), int(line[2])))
    return table(head, lines)


def probes(rows: list[Row]) -> str:
    """Linear probes of two encoders, judged on validation images and cross-validated."""
    head = ("set", "training images", "encoder", "on validation images", "cross-validated with the training images")
    lines = [
        (row["set"], f"{row['size']}", row["encoder"], f"{row['validation']:.3f}", f"{row['cross-validated']:.3f}")
        for row in rows
    ]
    return table(head, lines)


def small(rows: list[Row]) -> str:
    """What each reader and head changes, in points: the class by setting, the rest as means over settings."""
    settings = sorted({row["setting"] for row in rows})
    found = {(row["setting"], row["seed"], row["reader"], row["head"]): row for row in rows}
    seeds = {name: sorted({row["seed"] for row in rows if row["setting"] == name}) for name in settings}

    def gains(setting: str, what: tuple[str, str], measure: str) -> list[float]:
        pairs = [(found[setting, seed, *what], found[setting, seed, *TODAY]) for seed in seeds[setting]]
        return [100 * (one[measure] - two[measure]) for one, two in pairs if measure in one]

    lines = []
    for what in {(row["reader"], row["head"]) for row in rows}:
        own = [gains(name, what, "class") for name in settings]
        cells = [f"{np.mean(part):+.1f}" for part in own]
        if what == TODAY:
            cells = [
                f"{100 * np.mean([found[name, seed, *TODAY]['class'] for seed in seeds[name]]):.1f}"
                for name in settings
            ]
        better = sum(gain > 0 for part in own for gain in part)
        for measure in ("class", "sham", "truth", "area", "concept_auc", "concept_ece"):
            means = [np.mean(part) for name in settings if (part := gains(name, what, measure))]
            cells.append(f"{np.mean(means):+.1f}" if means and what != TODAY else "–")
        lines.append((*what, *cells, "–" if what == TODAY else f"{better} of {sum(map(len, own))}"))
    lines.sort(key=lambda line: (line[0].startswith("linear"), line[:2] != TODAY, line[0] != TODAY[0], line[:2]))
    head = [f"{name} images ({len(seeds[name])} seeds)" for name in settings]
    named = ("class", "sham", "truth", "area", "concept AUC", "concept ECE")
    return table(("reader", "head learns from", *head, *(f"mean: {name}" for name in named), "class better in"), lines)


def readers(rows: list[Row]) -> str:
    """What each reader changes with the product's training, in points: class and concept AUC by setting, and means."""
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    settings.sort(key=lambda name: (int(name.split(", ")[-1]), name))
    found = {(row["setting"], row["seed"], row["reader"]): row for row in rows}
    base = TODAY[0]

    def gains(setting: str, reader: str, measure: str) -> list[float]:
        seeds = [seed for name, seed, own in found if (name, own) == (setting, reader)]
        pairs = [(found[setting, seed, reader], found[setting, seed, base]) for seed in seeds]
        return [100 * (one[measure] - two[measure]) for one, two in pairs if one.get(measure) is not None]

    lines = []
    for reader in SHOWN:
        cells = []
        for name in settings:
            both = [gains(name, reader, measure) for measure in ("class", "concept_auc")]
            if reader == base:
                own = [row for (setting, _, which), row in found.items() if (setting, which) == (name, base)]
                both = [[100 * row[measure] for row in own] for measure in ("class", "concept_auc")]
            sign = "" if reader == base else "+"
            cells.append(" / ".join(f"{np.mean(part):{sign}.1f}" for part in both if part) or "–")
        each = [gains(name, reader, "class") for name in settings]
        better = f"{sum(gain > 0 for part in each for gain in part)} of {sum(map(len, each))}"
        for measure in ("class", "concept_auc", "sham", "truth", "area", "concept_ece"):
            means = [np.mean(part) for name in settings if (part := gains(name, reader, measure))]
            cells.append(f"{np.mean(means):+.1f}" if means and reader != base else "–")
        lines.append((reader, *cells, "–" if reader == base else better))
    seeds = {name: len({row["seed"] for row in rows if row["setting"] == name}) for name in settings}
    head = [f"{name} images ({seeds[name]} seeds)" for name in settings]
    named = ("class", "concept AUC", "sham", "truth", "area", "concept ECE")
    return table(("reader", *head, *(f"mean: {name}" for name in named), "class better in"), lines)


def full(rows: list[Row]) -> str:
    """Readers on whole sets, test images, each beside the same seeds of `evidence-cbm`: rows of its own evidence."""
    usual = {(row["data"], row["seed"], row["rate"]): row for row in rows if row["method"] == "evidence-cbm"}

    def numbers(row: Row) -> list[float | None]:
        maps, told = row["maps"], row["corrections"]
        found = [row["class"]["balanced_accuracy"], row["concept"]["auc"], told["area"], maps["ap"], maps["pointing"]]
        return [None if value is None else 100 * value for value in found]

    lines = []
    for data, method in sorted({(row["data"], row["method"]) for row in rows if row["method"] != "evidence-cbm"}):
        own = {row["seed"]: row for row in rows if (row["data"], row["method"]) == (data, method)}
        control = {seed: usual.get((data, seed, row["rate"])) for seed, row in own.items()}
        cells = []
        for measure in range(5):
            found = [numbers(row)[measure] for row in own.values()]
            usually = [None if row is None else numbers(row)[measure] for row in control.values()]
            here, there = _mean(found), _mean(usually)
            gap = "" if here is None or there is None else f" ({here - there:+.1f})"
            cells.append("–" if here is None else f"{here:.1f}{gap}")
        lines.append((data, method.partition(", ")[2], ", ".join(map(str, sorted(own))), *cells))
    head = ("set", "reader", "seeds", "class", "concept AUC", "corrections: area", "maps: precision", "pointing")
    return table(head, lines)


def _mean(values: list[float | None]) -> float | None:
    """None if one of them is missing."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


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
    tables["small"] = small(read(HERE / "small.jsonl.gz"))
    tables["readers"] = readers(read(HERE / "readers.jsonl.gz"))
    tables["full"] = full(read(HERE / "full.jsonl.gz"))
    tables["probes"] = probes(json.loads((HERE / "probes.json").read_text("utf-8")))
    fill(HERE / "README.md", tables | {"search": search(found), "validation": validation(found)})


if __name__ == "__main__":
    main()
