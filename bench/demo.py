"""The demo's wall time, peak memory and score, against what it promises.

python bench/demo.py [--json FILE]
"""

import argparse
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from conceptlens.core.files import read_json, write_json

PROMISE = {"seconds": 300, "memory_mb": 3072, "balanced_accuracy": 0.93, "concept_balanced_accuracy": 0.80}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "demo"
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "conceptlens", "demo", "--out", str(out), "--quiet"], check=True)
        seconds = time.perf_counter() - started
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        test = read_json(out / "metrics.json")["splits"]["test"]
        again = time.perf_counter()
        subprocess.run([sys.executable, "-m", "conceptlens", "demo", "--out", str(out), "--quiet"], check=True)
        second = time.perf_counter() - again
    score, concepts = test["class"]["balanced_accuracy"], test["concept"]["balanced_accuracy"]
    print(f"{seconds:.0f} s (at most {PROMISE['seconds']}), {memory:.0f} MB (at most {PROMISE['memory_mb']})")
    print(f"balanced accuracy {score:.3f} (at least {PROMISE['balanced_accuracy']})")
    print(f"of concepts {concepts:.3f} (at least {PROMISE['concept_balanced_accuracy']})")
    print(f"a second call answers in {second:.1f} s")
    if args.json:
        machine = {"system": platform.platform(), "torch": torch.__version__, "threads": torch.get_num_threads()}
        found = {"seconds": seconds, "second_call_seconds": second, "memory_mb": memory}
        found |= {"balanced_accuracy": score, "concept_balanced_accuracy": concepts}
        write_json(args.json, {"machine": machine, "promise": PROMISE, "found": found})


if __name__ == "__main__":
    main()
