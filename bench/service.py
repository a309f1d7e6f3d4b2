"""`conceptlens serve-model` beside the bare encoder: images a second at batch 32, the delay of one image, memory.

    python bench/service.py [RUN] [--encoder timm/vit_base_patch16_224] [--requests 20000] [--out rows.jsonl]

The service is a process of its own, started by its command; clients are threads of this one. Both get decoded arrays of
the model's size. Encoder, whole model and service take turns, so that a busy machine slows all. Between the encoder and
the model is the method's head; between the model and the service are HTTP, batching, JSON, and what a prediction says
besides the class.
"""

import argparse
import io
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch

import conceptlens as cl
from conceptlens.runs.opened import OpenedRun

BATCH = 32
ARRAY = "application/x-npy"
Row = dict[str, Any]


def body(images: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, images)
    return file.getvalue()


def ask(port: int, data: bytes, repeats: int) -> list[float]:
    """Seconds of each request of one client, which keeps its connection."""
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        connection.request("POST", "/v1/prediction", data, {"content-type": ARRAY})
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, said[:300]
        seconds.append(time.perf_counter() - began)
    return seconds


def asked_by(clients: int, port: int, data: bytes, repeats: int) -> float:
    """Seconds until several clients have each asked so often."""
    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(lambda _: ask(port, data, repeats), range(clients)))
    return time.perf_counter() - began


def passes(model: Callable[[Any], Any], images: Any, device: torch.device, repeats: int) -> list[float]:
    """Seconds of each pass, from bytes in memory until the result is there."""
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    seconds = []
    with torch.inference_mode():
        for _ in range(repeats):
            began = time.perf_counter()
            model(pixels.to(device))
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
    return seconds


def train(folder: str, method: str, encoder: str | None, size: int) -> Path:
    """How good the model is does not matter here; its encoder's weights are drawn."""
    recipe: dict[str, Any] = {"training": {"epochs": 1}, "out": f"{folder}/{method}", "metrics": {"bootstrap": 0}}
    if encoder is not None:
        drawn = {"name": encoder, "pretrained": False, "image_size": size, "train": "none", "store": "run"}
        recipe["encoder"] = drawn
    return cl.train(f"blood-cells/{method}", recipe, data__limit=160, quiet=True).path


@contextmanager
def served(run: OpenedRun, threads: int, device: str | None) -> Iterator[tuple[int, psutil.Process]]:
    """The port and the process of a service that is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["serve-model", str(run.path), "--port", str(port), "--threads", str(threads)]
    words += ["--device", device] if device else []
    process = subprocess.Popen([sys.executable, "-m", "conceptlens", *words], stdout=subprocess.DEVNULL)
    try:
        while True:
            assert process.poll() is None, "the service ended"
            try:
                connection = HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/readyz")
                if connection.getresponse().status == 200:
                    break
            except OSError:
                pass
            time.sleep(0.1)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def throughput(run: OpenedRun, port: int, images: Any, repeats: int, clients: int) -> Row:
    each = max(1, repeats // clients)
    encoder, model = (BATCH * each * clients / sum(passes(part, images, run.device, each * clients))
                      for part in (run.pipeline.encoder, run.pipeline))  # fmt: skip
    service = BATCH * each * clients / asked_by(clients, port, body(images), each)
    return {"what": "throughput", "batch": BATCH, "clients": clients, "batches": each * clients,
            "encoder_images_per_s": encoder, "model_images_per_s": model, "service_images_per_s": service,
            "share": service / encoder}  # fmt: skip


def delay(run: OpenedRun, port: int, images: Any, repeats: int) -> Row:
    model = passes(lambda pixels: run.pipeline(pixels).logits.cpu(), images[:1], run.device, repeats)
    service = ask(port, body(images[:1]), repeats)
    row: Row = {"what": "delay of one image", "requests": repeats}
    for name, seconds in (("model", model), ("service", service)):
        row |= {f"{name}_p50_ms": 1e3 * float(np.quantile(seconds, 0.5))}
        row |= {f"{name}_p95_ms": 1e3 * float(np.quantile(seconds, 0.95))}
    return {**row, "above_p95_ms": row["service_p95_ms"] - row["model_p95_ms"]}


def memory(port: int, process: psutil.Process, images: Any, requests: int, clients: int) -> Iterator[Row]:
    """Resident memory after each twentieth of the requests, one image each."""
    each = max(1, requests // 20 // clients)
    for step in range(21):
        if step:
            asked_by(clients, port, body(images[:1]), each)
        yield {"what": "memory", "requests": step * each * clients, "rss_mb": process.memory_info().rss / 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", help="a run folder; a short training on the built-in blood cells by default")
    parser.add_argument("--method", default="cbm", help="of that training")
    parser.add_argument("--encoder", help="of that training, with weights drawn at random; the built-in one by default")
    parser.add_argument("--size", type=int, default=224, help="of its images, with --encoder")
    parser.add_argument("--batches", type=int, default=60, help="in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--singles", type=int, default=300, help="requests of one image in a round")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--requests", type=int, default=0, help="also watch memory over so many requests")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--device", help="the best there is by default")
    parser.add_argument("--out", type=Path, help="rows as JSON lines, appended")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as scratch:
        run = OpenedRun.open(args.run or train(scratch, args.method, args.encoder, args.size), device=args.device)
        size = run.card.image_size
        images = np.random.default_rng(0).integers(0, 256, (BATCH, size, size, 3), dtype=np.uint8)
        about = {"encoder": run.pipeline.encoder.name, "size": size, "method": run.info["method"],
                 "device": torch.cuda.get_device_name() if run.device.type == "cuda" else platform.machine(),
                 "threads": args.threads, "torch": str(torch.__version__)}  # fmt: skip

        def tell(row: Row) -> None:
            line = json.dumps(about | row)
            print(line, flush=True)
            if args.out:
                with args.out.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")

        with served(run, args.threads, args.device) as (port, process):
            passes(run.pipeline, images, run.device, 3)
            ask(port, body(images), 3)
            for number in range(args.rounds):
                tell({"round": number} | throughput(run, port, images, args.batches, args.clients))
                tell({"round": number} | delay(run, port, images, args.singles))
            if args.requests:
                for row in memory(port, process, images, args.requests, args.clients):
                    tell(row)


if __name__ == "__main__":
    main()
