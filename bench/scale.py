"""Growth: encode, train, predict and audit from WebDataset shards, by the commands that a user would type.

    python bench/scale.py --images 10000 [--folder DIR] [--stages open,encode,…] [--json FILE]

Images of 24 pixels are drawn once and repeated; the encoder has 14 tokens of width 64, so a million images take 1.8 GB
of tokens. Every stage is a process of its own that may hold at most 256 files open; its seconds, the processor's
seconds, its largest memory and the most files that it held open are measured from outside. `--json` adds to the file.
"""

import argparse
import contextlib
import io
import json
import os
import platform
import resource
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from PIL import Image

from conceptlens.core.files import read_json, write_json

LIMIT = 256  # open files
EACH = 10_000  # images a shard
STAGES = ("make", "index", "open", "encode", "train", "predict", "audit")
CONCEPTS = """classes: [red, green, blue]
groups:
  color: {values: [red, green, blue]}
  place: {values: [top, bottom]}
"""
RECIPE = """data: {{source: "{folder}/shards/s-*.tar", cache_mb: 0}}
concepts: {folder}/concepts.yaml
encoder:
  name: builtin/vit-mini
  image_size: 24
  text: builtin/hashed-text
  train: none
  store: {folder}/tokens
  options: {{width: 64, depth: 1, heads: 2}}
method: cbm
training: {{epochs: 1, batch_size: 256, warmup: 0, rank_every: 0, threads: 1}}
metrics: {{bootstrap: 0, rank_images: 64}}
"""


def draw(number: int) -> tuple[bytes, dict[str, str]]:
    generator = np.random.default_rng(number)
    color, place = int(generator.integers(3)), int(generator.integers(2))
    pixels = generator.integers(0, 60, (24, 24, 3), np.uint8)
    pixels[12 * place : 12 * place + 10, 4:20, color] = 220
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=85)
    name = ("red", "green", "blue")[color]
    return buffer.getvalue(), {"class": name, "color": name, "place": ("top", "bottom")[place]}


def make(folder: Path, images: int) -> None:
    """The shards, concept file and recipe."""
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    (folder / "concepts.yaml").write_text(CONCEPTS, "utf-8")
    (folder / "recipe.yaml").write_text(RECIPE.format(folder=folder), "utf-8")
    drawn = [(image, json.dumps(row).encode()) for image, row in map(draw, range(512))]
    for start in range(0, images, EACH):
        with tarfile.open(folder / "shards" / f"s-{start // EACH:05d}.tar", "w") as tar:
            for number in range(start, min(start + EACH, images)):
                for suffix, data in zip(("jpg", "json"), drawn[number % len(drawn)], strict=True):
                    info = tarfile.TarInfo(f"{number:08d}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


def command(stage: str, folder: Path) -> list[str]:
    run = str(folder / "run")
    opening = (
        "from conceptlens.data.sources.open import open_source; from conceptlens.recipes.parse import load_recipe; "
        "from conceptlens.concepts import ConceptSet; "
        f"recipe = load_recipe({str(folder / 'recipe.yaml')!r}); "
        "open_source(recipe.data, ConceptSet.load(recipe.concepts))"
    )
    words = {
        "index": ["-c", opening],  # reads every shard once
        "open": ["-c", opening],  # as every later start
        "encode": ["-m", "conceptlens", "encode", f"{folder}/recipe.yaml", "--quiet"],
        "train": ["-m", "conceptlens", "train", f"{folder}/recipe.yaml", "--out", run, "--overwrite", "--quiet"],
        "predict": ["-m", "conceptlens", "predict", run, f"{folder}/shards/s-*.tar", "--out", f"{folder}/predictions"],
        "audit": ["-m", "conceptlens", "audit", run],
    }
    return [sys.executable, *words[stage]]


def measure(stage: str, folder: Path) -> dict[str, float]:
    """Run a stage and watch its process."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))

    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    process = subprocess.Popen(command(stage, folder), preexec_fn=limit, env=environment, stdout=subprocess.DEVNULL)
    watched, files, memory = psutil.Process(process.pid), 0, 0
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):
            files, memory = max(files, watched.num_fds()), max(memory, watched.memory_info().rss)
        time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"{stage}: exit code {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": time.perf_counter() - started,
        "processor_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "memory_mb": memory / 2**20,
        "open_files": files,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/conceptlens-scale"))
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    folder = args.folder / str(args.images)
    for stage in args.stages.split(","):
        if stage == "make":
            make(folder, args.images)
            continue
        row: dict[str, Any] = {"images": args.images, "stage": stage, **measure(stage, folder)}
        print(json.dumps(row), flush=True)
        if args.json:
            kept = read_json(args.json)["rows"] if args.json.exists() else []
            kept = [old for old in kept if (old["images"], old["stage"]) != (args.images, stage)]
            machine = {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine(), "limit": LIMIT}
            write_json(args.json, {"machine": machine, "rows": [*kept, row]})


if __name__ == "__main__":
    main()
