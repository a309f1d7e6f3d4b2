"""A real browser, a real server, a real run: what the tests of the page stand on."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


@contextlib.contextmanager
def serve(*folders: Path) -> Iterator[str]:
    """`conceptlens serve` as a process of its own; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "conceptlens", "serve", *map(str, folders), "--port", str(port), "--no-open"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            if process.poll() is not None:
                raise RuntimeError(f"the server stopped: {process.stdout.read() if process.stdout else ''}")
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api/v1/about", timeout=1):
                break
            time.sleep(0.1)
        else:
            raise RuntimeError("the server did not answer within 30 s")
        yield address
    finally:
        process.terminate()
        process.wait(10)


@dataclass
class Watch:
    """What a page did that it must not do."""

    base: str
    errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # answers of 400 and more, which some tests provoke

    def attach(self, page: Any) -> None:
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.hear(message.type, message.text))
        page.on("request", lambda request: self.see(request.url))
        page.on("response", lambda answer: self.refused.append(answer.url) if answer.status >= 400 else None)

    def hear(self, kind: str, text: str) -> None:
        # The browser itself writes a line for every answer of 400 and more; `refused` has them.
        if kind in ("error", "warning") and not text.startswith("Failed to load resource"):
            self.errors.append(text)

    def see(self, url: str) -> None:
        if not url.startswith((self.base, "data:", "blob:")):
            self.outside.append(url)


def until(page: Any, expression: str, *given: Any) -> None:
    """Wait for an expression to hold. Playwright's own way to wait runs text in the page, which its policy forbids."""
    for _ in range(200):
        if page.evaluate(expression, *given):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never came true: {expression} {given}")
