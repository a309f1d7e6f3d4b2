"""An assault on `conceptlens serve` and `serve-model`: `python assault/server.py [--full] [--seed N] [--only PART]`.

A server of its own process serves a folder of every kind of result with hostile names, and starts jobs. It meets drawn
requests (`http_fuzz`), requests that schemathesis makes from the schema, clients that never finish (`slow_clients`),
and a browser that looks at every view (`xss`). A prediction service of the model in it meets the first and the third
(`service_fuzz`). A sample takes some five minutes. `--full` writes server.json into evidence/reliability.
"""

import argparse
import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from assault.http_fuzz import Found, Fuzzer  # noqa: E402
from assault.served import make_served  # noqa: E402
from assault.service_fuzz import ServiceFuzzer  # noqa: E402
from assault.slow_clients import besiege  # noqa: E402
from assault.xss import sweep  # noqa: E402
from conceptlens.web.label.server import LabelServer  # noqa: E402
from conceptlens.workflows.label.labeling import Labeling  # noqa: E402

PARTS = ("requests", "schema", "slow", "views", "service", "service slow")
CLIENTS = 16
WARM = 0.2  # of the requests, before memory counts: until then models are loaded and caches filled
GROWTH = 0.05
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@dataclass(frozen=True)
class Server:
    """A running server."""

    address: str
    pid: int
    log: Path

    def megabytes(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextlib.contextmanager
def serving(runs: Path, part: str) -> Iterator[Server]:
    """What a part attacks: the page's server, or the prediction service of the first model."""
    if part.startswith("service"):
        (model,) = runs.glob("model *")
        words, ready = ["serve-model", str(model)], "/readyz"
    else:
        words, ready = ["serve", str(runs), "--no-open-browser", "--allow-jobs"], "/api/v1/about"
    words = [sys.executable, "-m", "conceptlens", *words, "--port", "0", "--threads", "1"]
    log = runs.parent / "server.log"
    with log.open("w") as file:
        state = {"XDG_STATE_HOME": str(runs.parent / "state")}  # the queue of jobs is a new one
        process = subprocess.Popen(words, stderr=file, env=os.environ | state)
    try:
        while not (told := re.search(r"http://[\w.]+:\d+", log.read_text())):
            if process.poll() is not None:
                raise SystemExit(f"the server did not start: {log.read_text()}")
            time.sleep(0.1)
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{told[0]}{ready}", timeout=1)
                break
            time.sleep(0.1)
        yield Server(told[0], process.pid, log)
        if process.poll() is not None:
            raise SystemExit(f"the server is gone: {log.read_text()[-2000:]}")
    finally:
        process.terminate()
        process.wait(20)


def requests(server: Server, count: int, seed: int, kind: type[Fuzzer] = Fuzzer) -> dict[str, Any]:
    """Drawn requests of some clients at once, in ten pieces; memory after each."""
    found, sizes = Found(), []
    began = time.perf_counter()
    for piece in range(10):
        seeds = [seed * 1000 + piece * CLIENTS + client for client in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            for part in pool.map(lambda each: kind(server.address, each).run(count // 10 // CLIENTS), seeds):
                found.add(part)
        sizes.append(round(server.megabytes(), 1))
    warm = sizes[round(WARM * 10) - 1]
    growth = sizes[-1] / warm - 1
    faults = found.faults + ([f"memory grew by {growth:.1%}: {sizes}"] if growth > GROWTH else [])
    statuses = {str(status): number for status, number in sorted(found.statuses.items())}
    return {
        "requests": found.requests,
        "operations": len(found.operations),
        "names": sorted(found.operations),
        "statuses": statuses,
        "server_errors": sum(number for status, number in found.statuses.items() if status >= 500 and status != 503),
        "megabytes": sizes,
        "growth": round(growth, 4),
        "seconds": round(time.perf_counter() - began),
        "faults": faults,
    }


def schema(server: Server, examples: int, seed: int) -> dict[str, Any]:
    """What schemathesis makes of the schema: boundary values, drawn values, and chains of operations (stateful)."""
    words = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.address}/api/v1/openapi.json", "--no-color"]
    words += ["--phases", "examples,coverage,fuzzing,stateful", "--max-examples", str(examples), "--seed", str(seed)]
    words += ["--checks", CHECKS, "--request-timeout", "60", "--generation-database", "none"]
    began = time.perf_counter()
    told = subprocess.run(words, capture_output=True, text=True, cwd=server.log.parent)
    tail = told.stdout.strip().splitlines()[-60:]
    return {
        "examples_each": examples,
        "seconds": round(time.perf_counter() - began),
        "summary": [line for line in tail if "generated" in line or "Operations" in line or "Tested" in line],
        "faults": [] if told.returncode == 0 else ["\n".join(tail) or told.stderr[-2000:]],
    }


def slow(server: Server, seconds: float, seed: int, asked: str = "/api/v1/runs") -> dict[str, Any]:
    found = besiege(server.address, 1000, seconds, seed, asked=asked)
    late = found["others_longest_s"] > 1.0
    return {**found, "faults": [f"others waited {found['others_longest_s']:.2f} s"] if late else []}


def views(server: Server, runs: Path) -> dict[str, Any]:
    with urllib.request.urlopen(f"{server.address}/api/v1/runs") as answer:
        cards = json.load(answer)["runs"]
    model = next(card["key"] for card in cards if card["kind"] == "bottleneck")
    body = json.dumps({"command": "interventions", "run": model, "values": {"resamples": 10}}).encode()
    job = urllib.request.Request(f"{server.address}/api/v1/jobs", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(job).close()
    with labeling(runs.parent) as label:
        return sweep(server.address, cards, sorted(runs.rglob("*.html")), [("label", label)])


@contextlib.contextmanager
def labeling(root: Path) -> Iterator[str]:
    """The address of a page that asks for the concepts of the images with odd names."""
    recipe = root / "label.yaml"
    recipe.write_text(json.dumps({"data": str(root / "data/table.csv"), "concepts": str(root / "concepts.yaml")}))
    with LabelServer(Labeling(recipe, "ann"), n=3) as server:
        server.next()  # it orders the images first, which takes longer than the browser waits
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        yield server.address
        server.shutdown()
        thread.join()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--full", action="store_true", help="20,000 requests to each, and into evidence/reliability/server.json"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; may be given again")
    args = parser.parse_args()
    parts = args.only or PARTS
    report: dict[str, Any] = {"seed": args.seed, "full": args.full, "python": platform.python_version()}
    with tempfile.TemporaryDirectory() as folder:
        runs = make_served(Path(folder))
        for part in parts:
            with serving(runs, part) as server:
                if part == "requests":
                    report[part] = requests(server, 20_000 if args.full else 2_000, args.seed)
                elif part == "schema":
                    report[part] = schema(server, 10 if args.full else 2, args.seed)
                elif part == "slow":
                    report[part] = slow(server, 60 if args.full else 20, args.seed)
                elif part == "service":
                    report[part] = requests(server, 20_000 if args.full else 1_000, args.seed, ServiceFuzzer)
                elif part == "service slow":
                    report[part] = slow(server, 60 if args.full else 20, args.seed, "/v1/model")
                else:
                    report[part] = views(server, runs)
                if "Traceback" in server.log.read_text():
                    report[part]["faults"].append(f"a traceback: {server.log.read_text()[-3000:]}")
            print(f"{part}: {json.dumps(report[part])[:3000]}", flush=True)
    faults = [fault for part in parts for fault in report[part]["faults"]]
    if args.full:
        place = ROOT / "evidence" / "reliability" / "server.json"
        known = json.loads(place.read_text("utf-8")) if place.exists() else {}
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(known | report, indent=1) + "\n", "utf-8")
    print("\n".join(faults) or "no fault was found")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
