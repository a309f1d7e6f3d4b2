"""Tasks that tests hand to engines."""

import os
import time
from pathlib import Path

from conceptlens.core.engines.workers import exit_code
from conceptlens.core.plugins import load_object


def note(file: str, word: str) -> int:
    """Write a line, for the caller to count."""
    with Path(file).open("a") as out:
        out.write(f"{word}\n")
    return 0


def die(file: str, times: int) -> int:
    """Kill the own process so many times, then end well."""
    note(file, "tried")
    if len(Path(file).read_text().split()) <= times:
        os.kill(os.getpid(), 9)
    return 0


def answer(code: int) -> int:
    return code


def sleep(seconds: float) -> int:
    time.sleep(seconds)
    return 0


def write_chunk(bad: int, chunk: int, file: str) -> int:
    if chunk == bad:
        return 1
    Path(file).write_text(str(chunk))
    return 0


def load_code(code: str, chunk: int, file: str) -> int:
    return exit_code(lambda: load_object(code), local=True)
