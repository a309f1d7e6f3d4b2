"""What `examples/own_data.py` prints at full size, line by line with the seconds since its start.

    python evidence/own-data/examples.py {blood-cells,idrid,folder} WORK [--source IDRID]

Kept as examples/EXAMPLE.txt beside this file; docs/own-data.md quotes it.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples/own_data.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", choices=("blood-cells", "idrid", "folder"))
    parser.add_argument("work", type=Path)
    parser.add_argument("--source", type=Path, help="the IDRiD folder")
    given = parser.parse_args()
    command = [sys.executable, "-u", str(EXAMPLE), given.example, str(given.work)]
    command += ["--source", str(given.source)] if given.source else []
    names = {str(given.work): "OUT", str(given.source): "IDRID"}
    started, lines = time.perf_counter(), []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        for path, name in names.items():
            line = line.replace(path, name)
        lines.append(f"{time.perf_counter() - started:6.0f}  {line.rstrip()}".rstrip())
        print(lines[-1], flush=True)
    if code := process.wait():
        raise SystemExit(code)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    threads = os.environ.get("OMP_NUM_THREADS", "all")
    last = f"{time.perf_counter() - started:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processor time"
    lines.append(f"{last}; {threads} thread of {len(os.sched_getaffinity(0))} cores")
    out = HERE / "examples" / f"{given.example}.txt"
    out.parent.mkdir(exist_ok=True)
    out.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
