"""Rows of `seeds.py` and `fixed_sets.py` → tables; `tables.py` puts them into tables.md and README.md.

python evidence/cortex/seeds_tables.py OUT    takes new rows over: seeds.jsonl.gz, fixed-sets.json.gz
"""

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conceptlens.core.files import read_json, write_json
from conceptlens.cortex.bias.cliff import delta_with_interval

sys.path.insert(0, str(Path(__file__).parents[1]))

from raw_rows import Row, keep, read, table  # a neighbor

NETWORKS = ("CE", "RE", "TE")
HERE = Path(__file__).parent
FILE, SETS = HERE / "seeds.jsonl.gz", HERE / "fixed-sets.json.gz"
FILLS = ("blur", "black")
RESAMPLES = 2000
KINDS = (
    "concept sets",
    "concept sets from 50 samples",
    "frequency",
    "frequency, equally many",
    "random, equally many",
    "random, as many as frequency",
    "concept sets, k = 6",
    "frequency, k = 6",
    "frequency, k = 6, equally many",
    "random, k = 6, equally many",
    "20 most important",
    "20 random",
)
PAIRS = (
    ("concept sets", "frequency"),
    ("concept sets", "frequency, equally many"),
    ("concept sets", "random, equally many"),
    ("concept sets", "concept sets from 50 samples"),
    ("concept sets, k = 6", "frequency, k = 6"),
    ("concept sets, k = 6", "frequency, k = 6, equally many"),
    ("concept sets, k = 6", "random, k = 6, equally many"),
    ("20 most important", "20 random"),
)
Floats = npt.NDArray[np.float64]


def interval(values: Floats, seed: int = 0) -> tuple[float, float, float]:
    """Mean of (seeds, samples) with 95 %; seeds and samples are drawn again."""
    draw = np.random.default_rng(seed)
    seeds, samples = values.shape
    means = [
        values[draw.integers(seeds, size=seeds)][:, draw.integers(samples, size=samples)].mean()
        for _ in range(RESAMPLES)
    ]
    low, high = np.percentile(means, (2.5, 97.5))
    return float(values.mean()), float(low), float(high)


def signed(value: float, digits: int = 3) -> str:
    return f"{value:+.{digits}f}".replace("-", "−")


def words(found: tuple[float, float, float], digits: int = 3) -> str:
    mean, low, high = (signed(value, digits) for value in found)
    return f"{mean} ({low} to {high})"


def hidden_rows(rows: Sequence[Row]) -> dict[tuple[str, str, str], dict[tuple[int, str], Row]]:
    """By network, fill and kind: rows by seed and judge, where all judges of a seed are there."""
    found: dict[tuple[str, str, str], dict[tuple[int, str], Row]] = {}
    for row in rows:
        if "fill" in row:
            found.setdefault((row["network"], row["fill"], row["tokens"]), {})[row["seed"], row["judge"]] = row
    most = {judge for some in found.values() for _, judge in some}
    whole = {}
    for key, some in found.items():
        seeds = [seed for seed in sorted({seed for seed, _ in some}) if all((seed, judge) in some for judge in most)]
        if seeds:
            whole[key] = {(seed, judge): some[seed, judge] for seed in seeds for judge in sorted(most)}
    return whole


def changes(some: dict[tuple[int, str], Row]) -> Floats:
    """Change of P of the true class, mean over judges, (seeds, samples)."""
    seeds = sorted({seed for seed, _ in some})
    judges = sorted({judge for _, judge in some})
    return np.array(
        [
            np.mean([np.subtract(some[seed, who]["after"], some[seed, who]["before"]) for who in judges], axis=0)
            for seed in seeds
        ]
    )


def accuracy_change(some: dict[tuple[int, str], Row]) -> float:
    parts = [
        row["right_after"].count("1") / len(row["right_after"])
        - row["right_before"].count("1") / len(row["right_before"])
        for row in some.values()
    ]
    return 100 * float(np.mean(parts))


def extractors(rows: Sequence[Row]) -> str:
    """Table 1 with seeds, and what the best epoch is worth."""
    lines = []
    for network in NETWORKS:
        mine = sorted((row for row in rows if row["key"].startswith(f"extractor/{network}/")), key=lambda r: r["seed"])
        if not mine:
            continue
        top = [100 * row["accuracy"]["top-1"] for row in mine]
        lines.append(
            [
                network, len(mine), f"{np.mean(top):.1f}", " · ".join(f"{value:.1f}" for value in top),
                " · ".join(str(row["best_epoch"] + 1) for row in mine),
                " · ".join(f"{row['kept_loss']:.4f} / {row['last_loss']:.4f}" for row in mine),
            ]
        )  # fmt: skip
    head = ["extractor", "seeds", "top-1, %", "of each seed", "epoch kept of 80", "validation loss, kept / last epoch"]
    return table(head, lines)


def concept_sets(rows: Sequence[Row]) -> str:
    """Table 2 with seeds and intervals."""
    found, lines = hidden_rows(rows), []
    for network in NETWORKS:
        for kind in KINDS:
            cells: list[object] = []
            for fill in FILLS:
                some = found.get((network, fill, kind))
                if some is None:
                    break
                if not cells:
                    values = changes(some)
                    hidden = np.mean([row["hidden"] for row in some.values()])
                    cells = [network, kind, values.shape[0], values.shape[1], f"{hidden:.1f}"]
                cells += [words(interval(changes(some))), signed(accuracy_change(some), 1)]
            if len(cells) == 5 + 2 * len(FILLS):
                lines.append(cells)
    head = ["extractor", "hidden tokens", "seeds", "samples", "positions", "blur, ΔP", "ΔA", "black, ΔP", "ΔA"]
    return table(head, lines)


def differences(rows: Sequence[Row]) -> str:
    """What one choice takes more than another from the same samples."""
    found, lines = hidden_rows(rows), []
    for network in NETWORKS:
        for first, second in PAIRS:
            cells: list[object] = []
            for fill in FILLS:
                pair = [found.get((network, fill, kind)) for kind in (first, second)]
                if pair[0] is None or pair[1] is None:
                    break
                values = changes(pair[0]) - changes(pair[1])
                if not cells:
                    cells = [network, first, second, values.shape[0]]
                cells.append(words(interval(values)))
            if len(cells) == 4 + len(FILLS):
                lines.append(cells)
    return table(["extractor", "hidden", "less", "seeds", "blur, ΔP", "black, ΔP"], lines)


def take_over(out: Path) -> None:
    """Raw rows of OUT into this folder: rows of samples, and what token sets give in the copies' neutral samples."""
    lines: list[Row] = []
    for name in ("seeds", "extractors", "judges"):
        packed, plain = out / f"{name}.jsonl.gz", out / f"{name}.jsonl"
        if packed.exists():
            lines += read(packed)
        if plain.exists():
            lines += [json.loads(line) for line in plain.read_text("utf-8").splitlines() if line.startswith("{")]
    keep(FILE, lines, ("key",))
    sets = [json.loads(line) for line in (out / "fixed-sets.jsonl").read_text("utf-8").splitlines()]
    shares = [json.loads(line) for line in (out / "shares.jsonl").read_text("utf-8").splitlines()]
    tokens = {}
    for file in sorted(out.glob("neutral-*.npz")):
        with np.load(io.BytesIO(file.read_bytes())) as arrays:
            tokens[file.stem.removeprefix("neutral-")] = arrays["tokens"].reshape(len(arrays["tokens"]), -1)
    made = []
    for row in sets:
        for each in row["sets"]:
            counted = {
                name: [np.isin(ids, each["ids"][place]).sum(1) for place in (0, 1)] for name, ids in tokens.items()
            }
            measured = {name: delta_with_interval(*both, paired=True) for name, both in counted.items()}
            made.append(
                {
                    "count": row["count"], "seed": row["seed"], "accuracy": row["accuracy"]["top-1"],
                    **{key: each[key] for key in ("variant", "way", "n", "ids")},
                    "delta": {name: round(found.value, 5) for name, found in measured.items()},
                    "error": {name: round(found.error, 5) for name, found in measured.items()},
                    "mean": {name: [round(float(one.mean()), 4) for one in both] for name, both in counted.items()},
                }
            )  # fmt: skip
    seen: dict[str, dict[str, float]] = {}
    for row in shares:
        seen.setdefault(row["twin"], {})[row["judge"]] = row["big"].count("1") / len(row["big"])
    write_json(SETS, {"rows": made, "judged_big": seen, "neutral": {name: len(ids) for name, ids in tokens.items()}})


def ratio(name: str) -> float:
    return float(name.split("-s")[0])


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    a, b = (np.argsort(np.argsort(values)).astype(float) for values in (first, second))
    return float(np.corrcoef(a, b)[0, 1])


def copies_of(found: Row) -> list[str]:
    return sorted((name for name in found["judged_big"] if "-s" in name), key=lambda name: (ratio(name), name))


def judged(found: Row, name: str) -> float:
    """Share of neutral samples in which judges see a big cell, mean over judges."""
    return float(np.mean(list(found["judged_big"][name].values())))


def fixed_sets(found: Row, counts: Sequence[int] = ()) -> str:
    """Each way to choose the sets: does δ follow the bias over nine copies? Of some numbers of samples, or of all."""
    copies, lines = copies_of(found), []
    truth = [judged(found, name) for name in copies]
    keys = sorted({(r["variant"], r["way"], r["n"], r["count"]) for r in found["rows"]}, key=lambda k: (k[:3], -k[3]))
    keys = [key for key in keys if not counts or key[3] in counts]
    for variant, way, n, count in keys:
        mine = [r for r in found["rows"] if (r["variant"], r["way"], r["n"], r["count"]) == (variant, way, n, count)]
        by_seed = np.array([[row["delta"][name] for name in copies] for row in mine])
        balanced = [place for place, name in enumerate(copies) if ratio(name) == 1]
        skewed = [place for place, name in enumerate(copies) if ratio(name) > 1]
        excess = by_seed - by_seed[:, balanced].mean(1, keepdims=True)
        beyond = [int((excess[row, skewed] > excess[row, balanced].max()).sum()) for row in range(len(mine))]
        lines.append(
            [
                variant, way, n, count, len(mine),
                " · ".join(f"{rank_correlation(values, truth):+.2f}" for values in by_seed),
                f"{by_seed[:, balanced].mean():+.3f}",
                " · ".join(f"{value:+.3f}" for value in excess[:, skewed].mean(0)),
                f"{excess[:, balanced].std():.3f}",
                " · ".join(f"{hits} of {len(skewed)}" for hits in beyond),
            ]
        )  # fmt: skip
    skews = ", ".join(name.split("-s")[0] for name in copies if ratio(name) > 1)
    head = [
        "importance", "sets by", "top", "samples a value", "seeds", "rank correlation of δ and judges' share, by seed",
        "δ where balanced", f"δ less that, at {skews} : 1", "spread among balanced copies",
        "skewed copies beyond every balanced one, by seed",
    ]  # fmt: skip
    return table(head, lines).replace("-", "−").replace("| −−− ", "| --- ").replace("−−−", "---")


def judged_table(found: Row) -> str:
    copies = ["builtin", *copies_of(found)] if "builtin" in found["judged_big"] else copies_of(found)
    judges = sorted({who for some in found["judged_big"].values() for who in some})
    lines = [
        [name, *(f"{100 * found['judged_big'][name][who]:.1f}" for who in judges), f"{100 * judged(found, name):.1f}"]
        for name in copies
    ]
    return table(["copy, big : small and seed", *judges, "mean, %"], lines)


def parts() -> dict[str, tuple[str, str]]:
    """Name of a table on README.md → its title in tables.md, and the table."""
    made: dict[str, tuple[str, str]] = {}
    rows = read(FILE)
    if rows:
        made["extractors"] = ("Table 1 with seeds, extractors of the best validation loss", extractors(rows))
        made["sets"] = ("Table 2 with seeds, token sets from all training samples", concept_sets(rows))
        made["differences"] = ("Table 2 with seeds, differences on the same samples", differences(rows))
    if SETS.exists():
        found: dict[str, Any] = read_json(SETS)
        made["judged"] = ("Biases of known size with fixed token sets: big cells that judges see", judged_table(found))
        made["fixed-sets"] = ("Biases of known size, fixed token sets of 10,000 samples", fixed_sets(found, (10000,)))
        made["fixed-sets-all"] = ("Biases of known size, fixed token sets of all numbers", fixed_sets(found))
    return made


if __name__ == "__main__":
    take_over(Path(sys.argv[1]))
