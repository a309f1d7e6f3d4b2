"""Ways to show a run to others: its report, one file to send, a model file, the web page."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from conceptlens.core.errors import UserError
from conceptlens.core.progress import note

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.web.share.make import Shared
    from conceptlens.workflows.export.export import Exported


def _need_page(what: str) -> None:
    lacking = [name for name in ("fastapi", "uvicorn") if importlib.util.find_spec(name) is None]
    if lacking:
        raise UserError(f"{what} needs {' and '.join(lacking)}: pip install 'conceptlens[page]'.")


def serve_model(
    run: "str | Path | OpenedRun",
    *,
    host: str = "127.0.0.1",
    port: int = 8643,
    token_file: str | None = None,
    name: Sequence[str] = (),
    batch: int = 32,
    wait_ms: float = 5.0,
    queue: int = 512,
    threads: int | None = None,
) -> None:
    """Answer predictions of a run over HTTP until interrupted; needs the extra `page`.

    POST image files or an array to /v1/prediction; /healthz, /readyz, /metrics (Prometheus) and /openapi.json say the
    rest.

    Args:
        run: The run folder, or the address of a published model, as hf://USER/NAME.
        host: Address to listen on. Any other than the loopback needs a token on every prediction.
        port: Port to listen on; 0 for any free port.
        token_file: File with the token; by default the variable CONCEPTLENS_TOKEN, or a new token that is shown.
        name: Another host name of the server.
        batch: Largest number of images that go through the model together.
        wait_ms: Milliseconds that an image waits for others.
        queue: Images that may wait; more are refused with 503.
        threads: Threads of a pass through the model; all cores by default.

    >>> import conceptlens as cl
    >>> cl.serve_model(run, port=8643)  # doctest: +SKIP
    """
    _need_page("The prediction service")
    if batch < 1 or queue < batch or wait_ms < 0:
        raise UserError(
            "Expected --batch 1 or more, --queue at least as much, --wait-ms 0 or more; found "
            f"{batch}, {queue} and {wait_ms:g}."
        )
    from conceptlens.api.training import load
    from conceptlens.web.server.serve import Options
    from conceptlens.web.service.app import ServiceOptions
    from conceptlens.web.service.serve import serve_run

    options = Options(host, port, token_file, name, threads=threads)
    serve_run(load(run), options, ServiceOptions(batch, wait_ms, queue), note(quiet=False))


def make_report(run: str | Path) -> Path:
    """Write a run's report.html again.

    Args:
        run: The run folder.

    >>> import conceptlens as cl
    >>> cl.make_report(run).name
    'report.html'
    """
    from conceptlens.reports.page import render_report
    from conceptlens.runs.folder import RunFolder

    return render_report(RunFolder.open(run))


def share(
    run: str | Path,
    file: str | Path,
    *,
    views: Sequence[str] = (),
    n: int = 200,
    max_mb: float = 15,
    quiet: bool = True,
) -> "Shared":
    """Write views of a run's web page as one HTML file that opens without a server; needs the extra `page`.

    Args:
        run: The run folder.
        file: The HTML file; it is replaced.
        views: A view, as `image`, `what-if`, `training` or `concepts`; all views with content by default.
        n: Largest number of example images.
        max_mb: Largest size of the file in megabytes. Pictures become smaller, then fewer, until it fits.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.share(run, "cells.html", n=20).text()  # doctest: +SKIP
    """
    _need_page("`share` uses the web page, which")
    from conceptlens.web.share.make import share_run

    if not 0 < max_mb < 10_000:
        raise UserError(f"--max-mb: expected a number of megabytes, as 15, found {max_mb:g}.")
    for warning in _identity_warnings(run):
        note(False)(f"warning: {warning}")
    limit = round(max_mb * 1_000_000)
    return share_run(run, file, views=list(views) or None, images=n, limit=limit, say=note(quiet))


def _identity_warnings(run: str | Path) -> list[str]:
    """What may name a patient in a run's images; nothing where its data is not here, since no picture is either."""
    from conceptlens.data.checks.identity import identity_findings
    from conceptlens.runs.opened import OpenedRun

    try:
        return [finding.message for finding in identity_findings(OpenedRun.open(run).source)]
    except (UserError, OSError):
        return []


def export(
    run: "str | Path | OpenedRun",
    *,
    format: Literal["torch", "onnx"] = "torch",
    out: str | Path | None = None,
    size: int | None = None,
    precision: Literal["fp32", "fp16"] = "fp32",
) -> "Exported":
    """Write a run as one file that runs without conceptlens: pixels in; classes, concepts and maps out.

    Args:
        run: The run folder.
        format: A .pt2 file for `torch.export.load`, or ONNX.
        out: The file; `export/model.pt2` or `export/model.onnx` in the run folder by default. A card goes beside it.
        size: Side in pixels of the images it takes; the run's own by default.
        precision: `fp16` computes the encoder in half precision: about half the size, made for GPUs.

    >>> import conceptlens as cl
    >>> cl.export(run, out="cells.pt2").card.check.largest_difference < 1e-4  # doctest: +SKIP
    True
    """
    from conceptlens.workflows.export.export import export_run

    return export_run(run, format=format, out=out, size=size, precision=precision)


def serve(
    runs: Sequence[str | Path] = (),
    *,
    host: str = "127.0.0.1",
    port: int = 8642,
    token_file: str | None = None,
    name: Sequence[str] = (),
    models: int = 4,
    threads: int | None = None,
    open_browser: bool = True,
    allow_jobs: bool = False,
    revoke: bool = False,
) -> None:
    """Serve the web page of some runs until interrupted; needs the extra `page`.

    Args:
        runs: Run folders, or folders that hold some.
        host: Address to listen on. Any other than the loopback needs a token on every request.
        port: Port to listen on; 0 for any free port.
        token_file: File with the token; by default the variable CONCEPTLENS_TOKEN, or a new token that is shown.
        name: Another host name of the server.
        models: Number of models kept in memory.
        threads: Threads of a pass through a model; half of the cores by default.
        open_browser: Open the page in a browser, if this is a terminal.
        allow_jobs: Let the page start trainings and measures on this machine, one at a time per device. The
            queue lies in your own state folder, so that a folder from a stranger cannot bring jobs along.
        revoke: Serve nothing: end the logins of all servers that you run on this machine. Tokens stay valid.

    >>> import conceptlens as cl
    >>> cl.serve(["runs"], open_browser=False)  # doctest: +SKIP
    """
    import sys

    _need_page("The web page")
    if revoke:
        from conceptlens.web.server.sessions import revoke_sessions

        revoke_sessions()
        note(quiet=False)("All logins have ended. Who has the token can log in again; restart the server to change it.")
        return
    if not runs:
        raise UserError("Expected folders to serve, as `conceptlens serve runs/`.")
    from conceptlens.api import measuring, training
    from conceptlens.web.server.serve import Options
    from conceptlens.web.server.serve import serve as run

    measures = ("trust", "interventions", "leakage", "localize", "faithfulness", "audit", "evaluate")
    jobs = {**{command: getattr(measuring, command) for command in measures}, "train": training.train}
    options = Options(host, port, token_file, name, models, threads, jobs, allow_jobs)
    run(runs, options, open_browser=open_browser and sys.stderr.isatty())
