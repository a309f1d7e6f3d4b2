"""`conceptlens serve-model`: from the words of the command line to a service that listens."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable

import torch
import uvicorn
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from conceptlens.core.system_errors import reason
from conceptlens.runs.opened import OpenedRun
from conceptlens.web.server.access import Access
from conceptlens.web.server.connections import GuardedConnection
from conceptlens.web.server.serve import Options, listen, log_no_requests, make_policy, settle
from conceptlens.web.service.app import Gate, Service, ServiceOptions, service_app

PATIENCE = 30.0  # seconds that a service that is stopped waits for weights that are being read


def serve_run(run: OpenedRun, options: Options, service_options: ServiceOptions, say: Callable[[str], object]) -> None:
    """Answer until interrupted; the model is read while the address already says that it is not ready."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # a stranger's run folder may name an encoder on a hub: nothing is fetched
    torch.set_num_threads(options.threads or max(1, os.cpu_count() or 1))
    threadpool_limits(1, "blas")  # numpy's own threads do little here, and would keep torch's from the cores
    log_no_requests()
    settle()
    taken = listen(options)
    host, port = taken.getsockname()[:2]
    service = Service(run, service_options)
    app = Gate(service_app(service), Access(make_policy(options, say, host)), service.limits)
    config = uvicorn.Config(
        app,
        http=GuardedConnection,
        ws="none",
        access_log=False,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=1000,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)

    def load() -> None:
        try:
            service.load()
        except Exception as error:  # the address would say "loading" for ever
            say(f"error: {reason(error) or error}")
            server.should_exit = True
            return
        settle()  # once more: a look through all that was read for it took a second, in which nobody was answered
        say(f"ready: {run.name} on {run.device}")

    shown = f"[{host}]" if ":" in host else host
    say(f"http://{shown if host not in ('0.0.0.0', '::') else socket.gethostname()}:{port}/  (Ctrl-C stops it)")
    loading = threading.Thread(target=load, name="conceptlens-load", daemon=True)
    loading.start()
    try:
        with contextlib.suppress(KeyboardInterrupt):  # that is how it is stopped
            server.run(sockets=[taken])
    finally:
        loading.join(PATIENCE)  # a process that ends while torch works in another thread may abort
