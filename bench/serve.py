"""How quickly the page's server answers, whether its memory stays flat, and whether many clients get along.

A server of its own process, asked over a real port.

python bench/serve.py --run RUN [--requests 10000] [--clients 16] [--runs 200] [--threads N] [--json FILE]
"""

import argparse
import contextlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import torch

from conceptlens.core.files import read_json, write_json

WANTED = {"prediction_p95_ms": 300, "intervention_p95_ms": 30, "first_view_s": 1.0, "errors": 0, "growth_mb": 10}
PARTS = 10  # of the many requests; memory is looked at after each
TEXTS = ("run.json", "metrics.json", "history.jsonl", "recipe.yaml", "concepts.yaml", "splits.json")


@contextlib.contextmanager
def server(*words: str) -> Iterator[tuple[str, int]]:
    """A server's address and the number of its process."""
    command = [sys.executable, "-m", "conceptlens", "serve", *words, "--port", "0", "--no-open-browser"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        while " at http" not in line:
            if not line:
                raise SystemExit("the server did not start")
            line = process.stderr.readline()
        address = line.split(" at ")[1].split()[0].rstrip("/")
        while True:
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"{address}/api/v1/about", timeout=1)
                break
            time.sleep(0.05)
        yield address, process.pid
    finally:
        process.terminate()
        process.wait(20)


def memory(pid: int) -> float:
    """Resident megabytes; NaN where the system does not say."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("utf-8").split()[1])
    except OSError:
        return float("nan")
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def timed(ask: Callable[[int], httpx.Response], count: int) -> dict[str, float]:
    """Milliseconds of so many requests, one after the other."""
    taken = []
    for number in range(count):
        began = time.perf_counter()
        ask(number).raise_for_status()
        taken.append(1000 * (time.perf_counter() - began))
    taken.sort()
    return {
        "n": count,
        "median_ms": statistics.median(taken),
        "p95_ms": taken[min(len(taken) - 1, int(0.95 * len(taken)))],
        "largest_ms": taken[-1],
    }


def crowd(work: Callable[[httpx.Client, int], httpx.Response], clients: int, each: int) -> dict[str, float]:
    """So many clients at once; every answer that is not 200 is an error."""
    taken: list[float] = []
    errors: list[int] = []

    def one(number: int) -> None:
        with httpx.Client(timeout=120) as client:
            for step in range(each):
                began = time.perf_counter()
                try:
                    status = work(client, number * each + step).status_code
                except httpx.HTTPError:
                    status = 0
                taken.append(1000 * (time.perf_counter() - began))
                if status != 200:
                    errors.append(status)

    began = time.perf_counter()
    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - began
    taken.sort()
    return {
        "clients": clients,
        "requests": len(taken),
        "errors": len(errors),
        "per_second": len(taken) / seconds,
        "p95_ms": taken[int(0.95 * (len(taken) - 1))],
    }


def first_view(run: Path, count: int, threads: list[str]) -> dict[str, float]:
    """The first list of so many runs."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(count):
            copy = Path(folder, f"run-{number:04}")
            copy.mkdir()
            for name in TEXTS:
                shutil.copy(run / name, copy / name)
        with server(folder, *threads) as (address, _), httpx.Client(timeout=60) as client:
            seconds = []
            for _ in range(2):
                began = time.perf_counter()
                answer = client.get(f"{address}/api/v1/runs")
                seconds.append(time.perf_counter() - began)
            assert len(answer.json()["runs"]) == count
    return {"runs": count, "first_s": seconds[0], "again_s": seconds[1], "kilobytes": len(answer.content) / 1000}


def measure(run: Path, requests: int, clients: int, threads: list[str]) -> dict[str, Any]:
    """Everything about one run."""
    found: dict[str, Any] = {}
    with server(str(run), *threads) as (address, pid), httpx.Client(timeout=120) as client:
        (card,) = client.get(f"{address}/api/v1/runs").json()["runs"]
        base = f"{address}/api/v1/runs/{card['key']}"
        total = client.get(f"{base}/images").json()["total"]
        began = time.perf_counter()
        told = client.get(f"{base}/images/test/0/prediction").json()
        found["first_prediction_s"] = time.perf_counter() - began
        client.get(f"{base}/concepts").raise_for_status()  # what is looked up in the background is done by then
        body = {"state": told["state"], "edits": told["truth_edits"][:3]}

        def predict(at: httpx.Client, number: int) -> httpx.Response:
            return at.get(f"{base}/images/test/{number % total}/prediction")

        def intervene(at: httpx.Client, number: int) -> httpx.Response:
            return at.post(f"{base}/intervene", json=body)

        def mixed(at: httpx.Client, number: int) -> httpx.Response:
            """As a person uses the page: mostly sliders and small pictures, now and then another image."""
            if number % 20 == 0:
                return predict(at, number)
            if number % 4 == 0:
                return at.get(f"{base}/images/test/{number % total}/thumbnail")
            if number % 7 == 0:
                return at.get(f"{base}/history")
            return intervene(at, number)

        found["prediction"] = timed(lambda number: predict(client, number), 100)
        picture = client.get(f"{base}/images/test/0/picture").content
        found["upload"] = timed(lambda number: client.post(f"{base}/prediction", content=picture), 40)
        found["intervention"] = timed(lambda number: intervene(client, number), 500)
        found["ask"] = timed(lambda number: client.post(f"{base}/ask", json={"state": told["state"]}), 50)
        found["flip"] = timed(lambda number: client.post(f"{base}/flip", json={"state": told["state"]}), 50)
        found["crowd_predictions"] = crowd(predict, clients, 5)
        parts, held = [], []
        for _ in range(PARTS):
            parts.append(crowd(mixed, clients, max(1, requests // PARTS // clients)))
            held.append(memory(pid))
        found["many"] = {name: sum(part[name] for part in parts) for name in ("requests", "errors")}
        found["many"] |= {name: statistics.median(part[name] for part in parts) for name in ("per_second", "p95_ms")}
        found["memory"] = {"held_mb": held, "growth_mb": held[-1] - held[1]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="a finished run")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--threads", type=int, help="of the server's passes")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    threads = ["--threads", str(args.threads)] if args.threads else []
    view = first_view(args.run, args.runs, threads)
    found = measure(args.run, args.requests, args.clients, threads)
    print(f"first view of {args.runs} runs: {view['first_s']:.2f} s (at most {WANTED['first_view_s']:.0f})")
    print(f"prediction with maps: p95 {found['prediction']['p95_ms']:.0f} ms (at most {WANTED['prediction_p95_ms']})")
    print(f"intervention: p95 {found['intervention']['p95_ms']:.1f} ms (at most {WANTED['intervention_p95_ms']})")
    many, held = found["many"], found["memory"]
    print(
        f"{many['requests']} requests of {args.clients} clients: {many['errors']} errors, {many['per_second']:.0f}/s, "
        f"{held['growth_mb']:+.0f} MB from the second tenth to the last"
    )
    if args.json:
        info = read_json(args.run / "run.json")
        machine = {"system": platform.platform(), "torch": torch.__version__, "cpus": os.cpu_count()}
        made = {"encoder": info["encoder"]["name"], "method": info["method"], "data": info["data"]["name"]}
        result = {"machine": machine, "run": made, "wanted": WANTED, "first_view": view, **found}
        write_json(args.json, result)


if __name__ == "__main__":
    main()
