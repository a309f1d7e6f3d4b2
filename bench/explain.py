"""How long explanations of 100 images take, pictures included: a fresh process, from the command to the last file.

python bench/explain.py --run RUN [--images 100] [--repeats 3] [--json FILE]
"""

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from conceptlens.core.files import read_json, write_json

WANTED = 30.0  # seconds


def once(run: Path, images: int) -> dict[str, float]:
    """Explain so many test images into an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        command = [sys.executable, "-m", "conceptlens", "explain", str(run), "--n", str(images), "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seconds = time.perf_counter() - started
        files = [file for file in Path(folder).rglob("*") if file.is_file()]
        pictures = [file for file in files if file.suffix in (".png", ".webp")]
        return {
            "seconds": seconds,
            "pictures": len(pictures),
            "megabytes": sum(f.stat().st_size for f in files) / 2**20,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="a finished run")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = [once(args.run, args.images) for _ in range(args.repeats)]
    median = statistics.median(each["seconds"] for each in found)
    print(f"{args.images} images: {median:.1f} s (at most {WANTED:.0f}), {found[0]['pictures']:.0f} pictures")
    if args.json:
        info = read_json(args.run / "run.json")
        machine = {"system": platform.platform(), "torch": torch.__version__, "threads": torch.get_num_threads()}
        made = {"encoder": info["encoder"]["name"], "method": info["method"], "data": info["data"]["name"]}
        write_json(
            args.json,
            {
                "machine": machine,
                "run": made,
                "images": args.images,
                "wanted": WANTED,
                "median": median,
                "found": found,
            },
        )


if __name__ == "__main__":
    main()
