"""How often honest readers are accused of leakage, and how often a planted leak is found. Writes `draws.json`.

python evidence/leakage-test/make.py            all draws, about six minutes on one core
python evidence/leakage-test/make.py --table    the table of README.md from `draws.json`
"""

import json
import sys
from pathlib import Path
from typing import Any

from worlds import CLEAN, GRADED, LEAKS, World

from conceptlens.evaluation.leakage import probe
from conceptlens.evaluation.leakage.excess import LIMIT, find_excess, gains
from conceptlens.evaluation.leakage.leakage import judge_leakage
from conceptlens.evaluation.leakage.reference import read_reference
from conceptlens.evaluation.leakage.signs import Signs, beyond_own
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import assign_folds

FILE = Path(__file__).parent / "draws.json"
DRAWS = {"clean": 80, "leak": 50}
FEW, PERMUTATIONS = 20, 79  # draws of the raw test and of the reader of one strength
FIXED = (0.01,)  # a reader of one strength, whatever the run's


def numbers(estimate: Estimate) -> list[float | None]:
    return [None if each is None else round(each, 4) for each in (estimate.value, estimate.low, estimate.high)]


def measure(world: World, seed: int) -> dict[str, Any]:
    """One draw: value, low and high of each measure, and the verdict."""
    readout, images = world.draw(seed)
    fold, bootstrap = assign_folds(readout.units), Bootstrap(readout.units, 200)
    run, reader = gains(readout, fold), read_reference(readout, images)
    excess = find_excess(run, reader, fold, bootstrap)
    labels = probe.hits(readout, probe.label_features(readout.truth), fold)
    above = bootstrap.means({"": readout.hits(readout.logits(readout.bottleneck)) - labels})[""]
    row: dict[str, Any] = {
        "excess": numbers(excess.counts),
        "all questions": numbers(excess.information),
        "largest three": numbers(excess.largest),
        "use": numbers(excess.use),
        "above the ceiling": numbers(above),
        "verdict": judge_leakage(excess, above).outcome,
    }
    if world in (GRADED, LEAKS[0]) and seed < FEW:
        fixed = find_excess(run, read_reference(readout, images, strengths=FIXED), fold, bootstrap)
        row["reader of one strength"] = numbers(fixed.counts)
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
        plan = [*((world, DRAWS["clean"]) for world in CLEAN), *((world, DRAWS["leak"]) for world in LEAKS)]
        rows = {}
        for world, count in plan:
            rows[world.name] = [measure(world, seed) for seed in range(count)]
            print(table({world.name: rows[world.name]}).splitlines()[-1], flush=True)
        FILE.write_text(json.dumps(rows, separators=(",", ":")) + "\n", "utf-8")
    print(table(json.loads(FILE.read_text("utf-8"))))


if __name__ == "__main__":
    main()
