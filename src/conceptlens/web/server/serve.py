"""`conceptlens serve`: from the words of the command line to a server that listens."""

import contextlib
import ctypes
import gc
import logging
import os
import socket
import sys
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import uvicorn

from conceptlens.core.errors import UserError
from conceptlens.web.jobs.forms import Functions
from conceptlens.web.server.app import create_app
from conceptlens.web.server.connections import GuardedConnection
from conceptlens.web.server.safety import Policy, check_token, is_loopback, new_token
from conceptlens.web.server.sessions import Sessions, revocation_file

PORT = 8642
READY = 2.0  # seconds that the address waits for the first model; one that takes longer is waited for by who asks
TOKEN = "CONCEPTLENS_TOKEN"
LONGEST_FILE = 10_000  # characters that are read where a token is said to be
ARENAS = -8  # M_ARENA_MAX of glibc's malloc.h


@dataclass(frozen=True)
class Options:
    """How a server is started."""

    host: str = "127.0.0.1"
    port: int = PORT
    token_file: str | None = None
    names: Sequence[str] = ()
    models: int = 4
    threads: int | None = None
    jobs: Functions | None = None
    allow_jobs: bool = False


def make_policy(options: Options, say: Callable[[str], object], bound: str | None = None) -> Policy:
    """Who may ask: everyone on loopback; elsewhere those with the token, which is told once if it is made here.

    Args:
        options: How the server is started.
        say: Tells the user something.
        bound: The address that is listened on, where `options.host` is a name.
    """
    address = bound or options.host
    given_names = [*options.names, *([options.host] if bound and bound != options.host else [])]
    names = frozenset(name.lower().rstrip(".") for name in given_names)
    given = os.environ.get(TOKEN)
    if options.token_file:
        path = Path(options.token_file)
        try:
            with path.open(encoding="utf-8") as file:
                given = file.read(LONGEST_FILE)  # it may be a pipe, as of a password manager
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"--token-file {path}: cannot be read ({error}).") from None
    if is_loopback(address):
        return Policy(check_token(given) if given else None, names)
    token = check_token(given) if given else new_token()
    if not given:
        say(f"token (shown once; set {TOKEN} or --token-file to choose it): {token}")
    return Policy(token, names | {socket.gethostname().lower()}, addresses=True)


def log_no_requests() -> None:
    """A line for each request that is no HTTP, or whose form is none, would fill a disk."""
    for name in ("uvicorn.error", "python_multipart"):
        logging.getLogger(name).setLevel(logging.ERROR)


def listen(options: Options) -> socket.socket:
    """A socket at the address, or a sentence why not."""
    if not 0 <= options.port <= 65535:
        raise UserError(f"--port: expected 0 to 65535, found {options.port}.")
    try:
        found = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, place = min(found, key=lambda entry: entry[0] != socket.AF_INET)  # localhost: 127.0.0.1
        # Named TCP, so that asyncio turns off Nagle's algorithm: with it the body of every answer waits some 40 ms for
        # the client to acknowledge the head.
        taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(place)
        except OSError:
            taken.close()
            raise
    except (OSError, UnicodeError) as error:
        raise UserError(
            f"{options.host}:{options.port}: cannot listen there ({getattr(error, 'strerror', None) or error}). Choose "
            "another --port, or --port 0 for any that is free."
        ) from None
    return taken


def serve(
    runs: Sequence[str | Path],
    options: Options | None = None,
    *,
    open_browser: bool = False,
    say: Callable[[str], object] | None = None,
) -> None:
    """Serve run folders until interrupted."""
    options = options or Options()
    tell = say or _tell
    os.environ["HF_HUB_OFFLINE"] = "1"  # a stranger's run folder may name data on a hub: nothing is fetched
    # Half of the cores for one pass leaves room for the others; more threads than free cores would only spin.
    torch.set_num_threads(options.threads or max(1, (os.cpu_count() or 2) // 2))
    taken = listen(options)
    settle()
    host, port = taken.getsockname()[:2]
    app = create_app(
        runs,
        policy=make_policy(options, tell, host),
        models=options.models,
        ready=READY,
        sessions=Sessions(revocation_file()),
        jobs=options.jobs,
        allow_jobs=options.allow_jobs,
    )
    log_no_requests()
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=GuardedConnection,
            ws="none",
            access_log=False,  # addresses hold names of images
            log_level="error",
            server_header=False,
            date_header=False,
            proxy_headers=False,
            limit_concurrency=1000,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=3,
        )
    )
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown if host not in ('0.0.0.0', '::') else socket.gethostname()}:{port}/"
    tell(f"conceptlens at {address}  (Ctrl-C stops it)")
    if open_browser:
        webbrowser.open(address)
    with contextlib.suppress(KeyboardInterrupt):  # that is how it is stopped
        server.run(sockets=[taken])


def settle() -> None:
    """Make a long life cheap, and small answers quick beside large ones."""
    sys.setswitchinterval(0.001)  # a thread that parses keeps the event loop waiting for this long, again and again
    # What is imported stays: looking through it for garbage took longer than reading a large graph.
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    # By default glibc keeps freed memory for each thread apart, and ten threads make tens of megabytes of that.
    with contextlib.suppress(OSError, TypeError, AttributeError):  # another system's library
        ctypes.CDLL(None).mallopt(ARENAS, 2)


def _tell(text: str) -> Any:
    print(text, file=sys.stderr, flush=True)
