"""A real browser, a real server, a real run: what the tests of the page stand on."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.evaluation.interventions.flip import flips
from conceptlens.evaluation.interventions.value_map import fit_map
from conceptlens.runs.opened import OpenedRun

Open = Callable[..., Any]
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
SAID = "([place, name]) => document.querySelector(place).textContent === name"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


@contextlib.contextmanager
def serve(*folders: Path) -> Iterator[str]:
    """`conceptlens serve` as a process of its own; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "conceptlens", "serve", *map(str, folders), "--port", str(port), "--no-open-browser"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1200):  # a busy machine needs them
            if process.poll() is not None:
                raise RuntimeError(f"the server stopped: {process.stdout.read() if process.stdout else ''}")
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api/v1/about", timeout=1):
                break
            time.sleep(0.1)
        else:
            raise RuntimeError("the server did not answer within two minutes")
        yield address
    finally:
        process.terminate()
        process.wait(60)  # a busy machine needs them


@contextlib.contextmanager
def serve_inside(*folders: Path, **options: Any) -> Iterator[str]:
    """The same server as a thread of this process, where torch is imported already: there four seconds sooner."""
    import uvicorn

    from conceptlens.web.server.app import create_app
    from conceptlens.web.server.connections import GuardedConnection
    from conceptlens.web.server.serve import Options, listen

    socket_ = listen(Options(port=0))
    config = uvicorn.Config(
        create_app(folders, **options),
        http=GuardedConnection,
        ws="none",
        log_level="warning",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket_]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{socket_.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        socket_.close()


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


@contextlib.contextmanager
def visits(
    base: str, chromium: Any, *, shows: str = "main h1", script: str | None = None, patience: int = 60_000
) -> Iterator[Open]:
    """Opens addresses of a server and waits for them; at the end no page may have complained, or asked anyone else.

    Args:
        base: The server's address.
        chromium: The browser.
        shows: What must be there before a test goes on.
        script: Run in every page before its own.
        patience: Milliseconds: a busy machine may need them for its first model.
    """
    contexts: list[Any] = []
    watch = Watch(base)

    def go(address: str, *, width: int = 1280, scheme: str = "light", touch: bool = False, context: Any = None) -> Any:
        if context is None:
            size = {"width": width, "height": 900}
            context = chromium.new_context(viewport=size, color_scheme=scheme, accept_downloads=True, has_touch=touch)
            if script:
                context.add_init_script(script)
            contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(patience)
        watch.attach(page)
        page.goto(f"{base}/{address}")
        page.wait_for_selector(shows)
        return page

    yield go
    for context in contexts:
        context.close()
    assert watch.errors == [], watch.errors
    assert watch.outside == []


def saved(page: Any, entry: str, menu: str = ".view-head summary") -> bytes:
    """What an entry of a download menu writes."""
    page.locator(menu).first.click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name=entry).first.click()
    return Path(waiting.value.path()).read_bytes()


def push_slider(page: Any) -> str:
    """Move the first concept far to its other side, by keys; what the classes' shares were before."""
    slider = page.locator("input[type=range][data-concept]").first
    slider.wait_for()
    before: str = page.locator("#shares").inner_text()
    slider.focus()
    for _ in range(12):
        page.keyboard.press("PageUp" if float(slider.input_value()) < 0 else "PageDown")
    return before


def flippable(run: Path) -> list[int]:
    """Test images of a run whose class some answers flip; where answers change little, not all are."""
    readout = OpenedRun.open(run).readout()
    found = flips(readout, fit_map(readout, np.arange(len(readout))))
    return [row for row, each in enumerate(found.examples) if each.edits]


def flip_verdict(page: Any) -> tuple[str, str]:
    """Make the smallest change that flips the verdict: what it was, and what it is now."""
    verdict = page.locator("#verdict strong")
    verdict.wait_for()
    first = verdict.inner_text()
    page.get_by_role("button", name="Smallest change of the class").click()
    page.locator(".advice h3").wait_for()
    target = page.locator(".advice h3").inner_text().rsplit(" it ", 1)[1]
    page.get_by_role("button", name="Make this change").click()
    until(page, SAID, ["#verdict strong", target])
    return first, target
