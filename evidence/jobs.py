"""Jobs in worker processes that stay: what the evidence scripts share.

A job is one training and its examination. The parent alone writes: a row a job, appended as it comes, so that an
interrupted run goes on from the rows. Jobs that fill the same token store wait until one of them has filled it.
"""

import json
import multiprocessing
import time
import traceback
from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Tree = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """What a worker is told: a function of a module, so that a spawned process finds it, and its arguments."""

    key: Hashable  # of its row, as `key_of` reads it
    work: Callable[..., Tree]
    arguments: tuple[Any, ...]
    store: str = ""  # the token store that it fills or reads


def read_rows(file: Path) -> list[Tree]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _prepare(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def run_jobs(
    jobs: Sequence[Job],
    file: Path,
    key_of: Callable[[Tree], Hashable],
    *,
    count: int = 1,
    threads: int = 1,
    seconds: float = float("inf"),
    filled: Collection[str] = (),
    told: Callable[[Tree], object] = lambda row: "",
) -> bool:
    """Append a row to `file` for every job that has none; whether all have one now.

    Args:
        jobs: In the order of their importance.
        file: One JSON object a line.
        key_of: The key of a row.
        count: Worker processes; with 1, everything happens in this one.
        threads: Of torch, in each.
        seconds: After so many, no job begins, and what runs is ended; its row is missing, and made by the next call.
        filled: Token stores that an earlier call has filled.
        told: What to print of a row besides its key.
    """
    started = time.monotonic()
    file.parent.mkdir(parents=True, exist_ok=True)
    done = {key_of(row) for row in read_rows(file)}
    left = [job for job in jobs if job.key not in done]
    failures = file.with_suffix(".errors.txt")

    def keep(job: Job, make: Callable[[], Tree]) -> None:
        try:
            row = make()
        except Exception:
            with failures.open("a") as log:
                log.write(f"{job.key}\n{traceback.format_exc()}\n")
            print(job.key, f"failed, see {failures}", flush=True)
            return
        with file.open("a") as rows:
            rows.write(json.dumps(row) + "\n")
        done.add(job.key)
        print(f"{time.monotonic() - started:.0f} s", job.key, told(row), flush=True)

    if count == 1:
        _prepare(threads)
        for job in left:
            if time.monotonic() - started > seconds:
                break
            keep(job, lambda job=job: job.work(*job.arguments))  # type: ignore[misc]
    else:
        _in_processes(left, keep, count, threads, started + seconds, {"", *filled})
    missing = [job.key for job in jobs if job.key not in done]
    if missing:
        print(f"{len(missing)} of {len(jobs)} jobs have no row; call again to go on", flush=True)
    return not missing


def _in_processes(
    jobs: Sequence[Job],
    keep: Callable[[Job, Callable[[], Tree]], None],
    count: int,
    threads: int,
    until: float,
    filled: set[str],
) -> None:
    """In their order; a job whose store is being filled lets others go before it."""
    waiting, filling = list(jobs), set[str]()
    running: dict[Future[Tree], Job] = {}

    def workers() -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(count, mp_context=context, initializer=_prepare, initargs=(threads,))

    pool = workers()
    try:
        while waiting or running:
            for job in list(waiting):
                if len(running) < count and job.store not in filling:
                    if job.store not in filled:
                        filling.add(job.store)
                    waiting.remove(job)
                    running[pool.submit(job.work, *job.arguments)] = job
            ended, _ = wait(running, timeout=min(max(until - time.monotonic(), 0), 1e6), return_when=FIRST_COMPLETED)
            if not ended:
                print("time is up", flush=True)
                return
            broken = False
            for future in ended:
                job = running.pop(future)
                broken |= isinstance(future.exception(), BrokenProcessPool)
                filling.discard(job.store)
                if future.exception() is None:
                    filled.add(job.store)
                keep(job, future.result)
            if (
                broken
            ):  # a worker was killed, and took the pool with it: what ran with it is a failure, the rest goes on
                pool = workers()
    finally:
        for process in multiprocessing.active_children() if running else ():
            process.terminate()
        pool.shutdown(wait=not running, cancel_futures=True)
