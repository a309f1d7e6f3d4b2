"""The prediction service beside the bare model: images a second at batch 32, and the delay of a single image.

    python bench/service.py [RUN] [--images 2000] [--clients 4]

Both get decoded arrays of the model's size. The service runs in this process; what it costs is HTTP, batching, JSON and
what a prediction says besides the class.
"""

import argparse
import io
import statistics
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

import numpy as np
import torch
import uvicorn

import conceptlens as cl
from conceptlens.runs.opened import OpenedRun
from conceptlens.web.service.app import ARRAY, ServiceOptions, create_service

BATCH = 32


def bare(run: OpenedRun, images: Any, repeats: int) -> list[float]:
    """Seconds of each pass through the encoder and the method."""
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous().to(run.device)
    seconds = []
    with torch.inference_mode():
        run.pipeline(pixels)
        for _ in range(repeats):
            began = time.perf_counter()
            run.pipeline(pixels).logits.cpu()
            seconds.append(time.perf_counter() - began)
    return seconds


def asked(port: int, images: Any, repeats: int) -> list[float]:
    """Seconds of each request of one client."""
    file = io.BytesIO()
    np.save(file, images)
    connection = HTTPConnection("127.0.0.1", port)
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        connection.request("POST", "/v1/prediction", file.getvalue(), {"content-type": ARRAY})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body[:300]
        seconds.append(time.perf_counter() - began)
    return seconds


def _train(folder: str) -> OpenedRun:
    """How good the model is does not matter here."""
    return cl.train("blood-cells/cbm", data__limit=100, epochs=1, out=f"{folder}/run", quiet=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", help="a run folder; a short training on the built-in blood cells by default")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=4)
    args = parser.parse_args()
    scratch = tempfile.TemporaryDirectory()
    run = OpenedRun.open(args.run or _train(scratch.name))
    size = run.card.image_size
    images = np.random.default_rng(0).integers(0, 256, (BATCH, size, size, 3), dtype=np.uint8)
    server = uvicorn.Server(
        uvicorn.Config(create_service(run, options=ServiceOptions(BATCH)), port=0, log_level="error")
    )
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]

    repeats = max(1, args.images // BATCH)
    model = BATCH / statistics.median(bare(run, images, repeats))
    began = time.perf_counter()
    with ThreadPoolExecutor(args.clients) as clients:
        each = max(1, repeats // args.clients)
        list(clients.map(lambda _: asked(port, images, each), range(args.clients)))
    served = BATCH * each * args.clients / (time.perf_counter() - began)
    print(f"images a second at batch {BATCH}: model {model:.0f}, service {served:.0f} ({served / model:.0%})")
    single = np.quantile(bare(run, images[:1], repeats), 0.95), np.quantile(asked(port, images[:1], repeats), 0.95)
    print(f"95 of 100 single images within: model {1e3 * single[0]:.1f} ms, service {1e3 * single[1]:.1f} ms")
    server.should_exit = True


if __name__ == "__main__":
    main()
