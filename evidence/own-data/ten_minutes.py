"""From an unprepared folder to an audited model: the commands as a user types them, and the seconds of each.

    python evidence/own-data/ten_minutes.py DATA WORK OUT.jsonl [--set blood-cells] [--images 500]

WORK gets a folder of photographs with a sheet, drawn with the seed from a published set (`folders.py`), and nothing
else. Each command is a process of its own, so starting Python and importing torch count.
"""

import argparse
import csv
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from folders import SETS, rows_of


def unprepared(name: str, data: Path, images: int, seed: int, folder: Path) -> Path:
    """Photographs beside a sheet; no split, nothing sorted."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "photos").mkdir(parents=True)
    drawn = random.Random(seed).sample(list(rows_of(name, data, seed)), images)
    sheet = []
    for image, row, _, _ in drawn:
        named = next(iter(row))
        photo = f"{Path(row[named]).stem}{image.suffix}"
        shutil.copy(image, folder / "photos" / photo)
        sheet.append({**row, named: photo})
    with (folder / "sheet.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(sheet[0]))
        writer.writeheader()
        writer.writerows(sheet)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--set", default="blood-cells", choices=SETS)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    name = f"{given.set}-{given.images}"
    unprepared(given.set, given.data, given.images, given.seed, given.work / name)
    shutil.rmtree(given.work / f"{name}-setup", ignore_errors=True)
    shutil.rmtree(given.work / "runs" / name, ignore_errors=True)
    row: dict[str, object] = {"set": given.set, "images": given.images, "seed": given.seed}
    row |= {"cores": len(os.sched_getaffinity(0)), "machine": platform.machine(), "commands": {}}
    commands = (["init", name, "--yes"], ["train", f"{name}-setup/recipe.yaml"], ["trust", f"runs/{name}"])
    seconds: dict[str, float] = {}
    for command in commands:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "conceptlens", *command], cwd=given.work, check=True)
        seconds["conceptlens " + " ".join(command)] = round(time.perf_counter() - started, 1)
        print(f"{seconds['conceptlens ' + ' '.join(command)]} s: conceptlens {' '.join(command)}", flush=True)
    result = json.loads((given.work / "runs" / name / "metrics.json").read_text("utf-8"))
    tested = result["splits"].get("folds", {}).get("class", {})
    row |= {"commands": seconds, "seconds": round(sum(seconds.values()), 1)}
    row["balanced_accuracy"] = tested.get("balanced_accuracy")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("a") as file:
        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
