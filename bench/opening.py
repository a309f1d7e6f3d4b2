"""Opening a comparison of many jobs: reading its recipes, naming its jobs, finding out how far each one is.

    python bench/opening.py [--recipes 1000] [--seeds 1]

The recipes differ in their learning rate. Seconds are the processor's; imports are measured by themselves.
"""

import argparse
import tempfile
from pathlib import Path
from time import process_time as clock

import yaml


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    rows = {
        f"row {k}": {"set": {"training.learning_rate": 1e-4 * (k + 1)}, "random_text": False}
        for k in range(args.recipes)
    }
    base = {"encoder": {"name": "builtin/vit-mini"}, "training": {"epochs": 1}}
    tree = {"base": base, "recipes": rows, "data": {"shapes": "shapes"}, "seeds": list(range(args.seeds))}
    started = clock()
    from conceptlens.workflows.compare.compare import open_comparison
    from conceptlens.workflows.compare.state import Places, all_jobs

    print(f"imports          {clock() - started:6.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "comparison.yaml"
        path.write_text(yaml.safe_dump(tree), "utf-8")
        started = clock()
        comparison, out = open_comparison(path, Path(folder) / "out")
        print(f"recipes          {clock() - started:6.2f} s")
        jobs, places = all_jobs(comparison, out), Places(out)
        print(f"and their jobs   {clock() - started:6.2f} s")
        for job in jobs:
            places.state(job)  # type: ignore[arg-type]
        print(f"and their states {clock() - started:6.2f} s for {len(jobs):,} jobs")


if __name__ == "__main__":
    main()
