"""How often honest readers are accused of leakage, and how often a planted leak is found. Writes `draws.json`.

python evidence/leakage-test/make.py            all draws, about six minutes on one core
python evidence/leakage-test/make.py --table    the table of README.md from `draws.json`
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from worlds import CLEAN, GRADED, LEAKS, World

from conceptlens.evaluation.leakage import probe
from conceptlens.evaluation.leakage.excess import LIMIT, Excess, find_excess, information_over, largest
from conceptlens.evaluation.leakage.reference import STRENGTHS, linear_reader, read_reference
from conceptlens.evaluation.leakage.signs import Signs, beyond_own
from conceptlens.evaluation.leakage.verdict import judge_leakage
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import assign_folds

FILE = Path(__file__).parent / "draws.json"
DRAWS = {"clean": 400, "leak": 150}  # over all worlds of a kind, as many of each
FEW, PERMUTATIONS = 10, 79  # draws of the raw test, of the use and of a reader of one strength
FIXED = (0.01,)  # a reader of one strength, whatever the run's


def numbers(estimate: Estimate) -> list[float | None]:
    return [None if each is None else round(each, 4) for each in (estimate.value, estimate.low, estimate.high)]


def measure(world: World, seed: int) -> dict[str, Any]:
    """One draw: value, low and high of each measure, and the verdict."""
    readout, images = world.draw(seed)
    fold, bootstrap = assign_folds(readout.units), Bootstrap(readout.units, 200)
    labels = probe.hits(readout, probe.label_features(readout.truth), fold)
    above = readout.hits(readout.logits(readout.bottleneck)) - labels
    row: dict[str, Any] = {}
    for name, strengths in {"": STRENGTHS, "one strength": FIXED}.items():
        few = world in (GRADED, LEAKS[0]) and seed < FEW
        if name and not few:
            continue
        reference = read_reference(readout, images, strengths=strengths)
        over = information_over(readout, reference, fold)
        found = bootstrap.means(
            {"information": np.nanmean(over, axis=1), "largest": largest(over, fold), "above": above}
        )
        nothing = Estimate(value=None)
        excess = Excess(
            reader="linear", information=found["information"], largest=found["largest"], use=nothing, questions=[],
            run_auc=None, reader_auc=None, accuracy=nothing,
        )  # fmt: skip
        if name:
            row["reader of one strength"] = numbers(excess.counts)
            continue
        row |= {
            "excess": numbers(excess.counts),
            "all questions": numbers(excess.information),
            "largest three": numbers(excess.largest),
            "above the ceiling": numbers(found["above"]),
            "verdict": judge_leakage(excess, found["above"]).outcome,
        }
        if few:
            row["use"] = numbers(
                find_excess(readout, linear_reader(readout, images, lambda text: None), fold, bootstrap).use
            )
            own = beyond_own(readout, fold, bootstrap, permutations=PERMUTATIONS, note=lambda text: None)
            row["raw test"] = Signs(own=own).leaks
    return row


def table(rows: dict[str, list[dict[str, Any]]]) -> str:
    """Shares of draws whose interval is not below the limit; of the raw test, that are significant."""
    names = ["excess", "all questions", "largest three", "use", "reader of one strength"]
    lines = [
        f"| world | draws | {' | '.join(names)} | raw test | above the ceiling | verdict: finding |",
        "| --- " * (len(names) + 5) + "|",
    ]
    for world, draws in rows.items():
        high = [share([draw[name][2] >= LIMIT for draw in draws if name in draw]) for name in names]
        raw = share([draw["raw test"] for draw in draws if "raw test" in draw])
        above = share([draw["above the ceiling"][1] > 0 for draw in draws])
        found = share([draw["verdict"] == "finding" for draw in draws])
        lines.append(f"| {world} | {len(draws)} | {' | '.join([*high, raw, above, found])} |")
    return "\n".join(lines)


def share(flags: list[bool]) -> str:
    return f"{sum(flags) / len(flags):.3f}" if flags else ""


def main() -> None:
    if "--table" not in sys.argv:
        plan = [
            (world, DRAWS[kind] // len(some)) for kind, some in (("clean", CLEAN), ("leak", LEAKS)) for world in some
        ]
        rows: dict[str, list[dict[str, Any]]] = {world.name: [] for world, _ in plan}
        for seed in range(max(count for _, count in plan)):
            for world, count in plan:
                if seed < count:
                    rows[world.name].append(measure(world, seed))
            FILE.write_text(json.dumps(rows, separators=(",", ":")) + "\n", "utf-8")
    print(table(json.loads(FILE.read_text("utf-8"))))


if __name__ == "__main__":
    main()
