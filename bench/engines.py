"""A comparison of small trainings on one and on two workers, by each engine: seconds, and whether the bits agree.

    python bench/engines.py [--jobs 8] [--engines local,ray] [--json FILE]

Each engine runs the same jobs with one worker and with two; each training uses one thread. Starting the engine counts.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from conceptlens.core.files import dump_yaml, read_json, write_json, write_text
from conceptlens.workflows.compare.compare import compare


def comparison(folder: Path, jobs: int, epochs: int) -> Path:
    tree = {
        "base": {
            "encoder": {"name": "builtin/vit-mini", "image_size": 48, "text": "builtin/hashed-text"},
            "method": "cbm",
            "training": {"epochs": epochs, "batch_size": 32, "warmup": 0, "rank_every": 0, "threads": 1},
            "metrics": {"bootstrap": 0, "rank_images": 2},
        },
        "recipes": {"cbm": {"random_text": False}},
        "data": {"shapes": {"source": "shapes", "shapes": {"n": 600, "size": 48}}},
        "seeds": list(range(jobs)),
        "statistics": {"resamples": 20, "permutations": 20},
    }
    path = folder / "comparison.yaml"
    write_text(path, dump_yaml(tree))
    return path


def weights(out: Path) -> dict[str, Any]:
    files = sorted(out.glob("runs/*/model/weights.safetensors"))
    return {file.parts[-3]: {name: value.tobytes() for name, value in load_file(file).items()} for file in files}


def trainings(out: Path) -> list[float]:
    """Seconds of each training, as they ended."""
    files = sorted(out.glob("jobs/*.json"), key=lambda file: file.stat().st_mtime)
    return [read_json(file)["seconds"] for file in files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--engines", default="local,ray")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    os.environ.setdefault("RAY_worker_niceness", "0")  # as local processes
    rows, first = [], None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = comparison(folder, args.jobs, args.epochs)
        for engine in args.engines.split(","):
            for workers in (1, 2):
                out = folder / f"{engine}-{workers}"
                started = time.perf_counter()
                result = compare(file, out=out, at_once=workers, engine=engine, quiet=True)  # type: ignore[arg-type]
                seconds = time.perf_counter() - started
                own = weights(out)
                first = own if first is None else first
                done = result.results["jobs"]["done"]
                load = os.getloadavg()[0]
                rows.append(
                    {"engine": engine, "workers": workers, "seconds": seconds, "done": done, "load": load}
                    | {"same_bits": own == first, "trainings": trainings(out)}
                )
                print(rows[-1], flush=True)
    if args.json:
        write_json(args.json, {"jobs": args.jobs, "epochs": args.epochs, "cores": os.cpu_count(), "rows": rows})


if __name__ == "__main__":
    main()
