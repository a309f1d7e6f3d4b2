"""`make assault`: a seeded sample of everything; `--full` for all of it.

    python -m assault [--seed 0] [--full] [--share 0.1] [--only folders,kills,"kills train"] [--out result.json]

`--append rows.jsonl` adds a line for each part as soon as it has ended. Exit code 1 if anything was found.
"""

import argparse
import json
import logging
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from assault.disks import assault_full_disk, assault_full_results, assault_read_only, assault_real_disk
from assault.inputs import assault_images, assault_recipes, assault_tables, assault_weights
from assault.kills import VICTIMS, assault_kills, assault_serve
from assault.kinds import assault_kinds
from assault.readers import assault_readers
from assault.run_folders import assault_commands, assault_page
from assault.watch import Part, timed
from assault.world import World
from conceptlens.core.version import __version__

Assault = Callable[[Part, World, int, int], None]
# Attempts in a sample of some 20 minutes on two cores, and in full; kills are of each of six commands.
PARTS: dict[str, tuple[Assault, int, int]] = {
    "folders": (assault_commands, 120, 400),
    "page": (assault_page, 40, 150),
    "kinds": (assault_kinds, 40, 150),
    "images": (assault_images, 120, 250),
    "tables": (assault_tables, 80, 150),
    "recipes": (assault_recipes, 120, 250),
    "weights": (assault_weights, 40, 80),
    "readers": (assault_readers, 90, 270),
    "full-disk": (assault_full_disk, 8, 40),
    "full-results": (assault_full_results, 20, 60),
    "real-disk": (assault_real_disk, 4, 20),
    "read-only": (assault_read_only, 2, 15),
    **{f"kills {name}": (partial(assault_kills, name), 3, 17) for name in VICTIMS},
    "serve": (assault_serve, 3, 20),
}


def assault(
    seed: int, *, full: bool = False, share: float = 1.0, only: list[str] | None = None, append: Path | None = None
) -> dict[str, object]:
    """Everything, or some parts; `share` of the attempts. Each part is a line of `append`."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="assault-") as root:
        world = World.make(Path(root))
        parts = []
        for name, (run, sample, whole) in PARTS.items():
            if only and not {name, name.split()[0]} & {*only}:
                continue
            number = max(1, round((whole if full else sample) * share))
            parts.append(timed(lambda part, run=run, number=number: run(part, world, seed, number), name))  # type: ignore[misc]
            print(line_of(parts[-1]), flush=True)
            if append:
                row = {"version": __version__, "seed": seed, **parts[-1].to_dict()}
                with append.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return {
        "version": __version__,
        "python": platform.python_version(),
        "seed": seed,
        "full": full,
        "share": share,
        "seconds": round(time.perf_counter() - started, 1),
        "findings": sum(len(part.findings) for part in parts),
        "parts": [part.to_dict() for part in parts],
    }


def line_of(part: Part) -> str:
    kinds = sorted({found.kind for found in part.findings})
    words = f"{part.name}: {part.attempts} attempts, {part.accepted} accepted, {part.refused} refused"
    return f"{words}, {part.seconds:.0f} s, {len(part.findings)} findings {' '.join(kinds)}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m assault", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", type=lambda words: words.split(","), help=", ".join(PARTS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--append", type=Path)
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    result = assault(args.seed, full=args.full, share=args.share, only=args.only, append=args.append)
    if args.out:
        args.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    for part in result["parts"]:  # type: ignore[attr-defined]
        for found in part["findings"]:
            print(f"\n{found['part']} {found['number']}: {found['kind']}: {found['what']}\n{found['detail'][-600:]}")
    return 1 if result["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
