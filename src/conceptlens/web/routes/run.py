"""Addresses about runs: cards, details, histories, documents, concepts, codebook."""

import json
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from conceptlens.core.files import parse_json, read_checked
from conceptlens.core.upgrades import SCHEMA, upgrade
from conceptlens.core.version import __version__
from conceptlens.runs.results import results
from conceptlens.web.schemas.concepts import Codebook, Concepts
from conceptlens.web.schemas.runs import About, AnyDocument, History, RunDetail, Runs, UploadLimits
from conceptlens.web.server.answers import as_file, as_json
from conceptlens.web.server.folders import RunEntry
from conceptlens.web.server.kinds import command_for
from conceptlens.web.server.problems import Problem, missing, not_found
from conceptlens.web.server.state import ERRORS, ServerState
from conceptlens.web.server.uploads import NAMES
from conceptlens.web.views.codebook import codebook_of
from conceptlens.web.views.concepts import concepts_of

RunKey = Annotated[str, Path(max_length=200, pattern=r"^[A-Za-z0-9._-]+$", description="The `key` of a run's card")]

DocumentName = Annotated[
    str, Path(max_length=60, pattern=r"^[a-z][a-z0-9-]*$", description="The name of a result of the run")
]

Look = Annotated[bool, Query(description="Look at a sample of images if nobody has yet, which takes seconds")]


def run_routes(state: ServerState) -> APIRouter:
    """The addresses, bound to a server."""
    router = APIRouter(responses=ERRORS)
    queues, index = state.queues, state.index

    @router.get("/about", response_model=About)
    async def about(request: Request) -> Response:
        limits = UploadLimits(bytes=state.limits.bytes, pixels=state.limits.pixels, formats=NAMES)
        return as_json(request, About(version=__version__, token=state.policy.token is not None, upload=limits))

    @router.get("/runs", response_model=Runs)
    async def runs(request: Request) -> Response:
        return as_json(request, Runs(runs=await queues.files.run(index.cards), starts=list(state.starts)))

    @router.get("/runs/{run}", response_model=RunDetail)
    async def one_run(request: Request, run: RunKey) -> Response:
        return as_json(request, await queues.files.run(lambda: index.detail(index.folders.get(run))))

    @router.get("/runs/{run}/history", response_model=History)
    async def history(
        request: Request, run: RunKey, after: Annotated[str | None, Query(max_length=40)] = None
    ) -> Response:
        return as_json(request, await queues.files.run(lambda: index.history(index.folders.get(run), after)))

    @router.get("/runs/{run}/concepts", response_model=Concepts)
    async def concepts(request: Request, run: RunKey, look: Look = True) -> Response:
        queue = queues.sample if look else queues.files
        return as_json(request, await queue.run(lambda: concepts_of(state.loaded(run), look=look)))

    @router.get("/runs/{run}/codebook", response_model=Codebook)
    async def codebook(request: Request, run: RunKey, look: Look = True) -> Response:
        queue = queues.sample if look else queues.files
        return as_json(request, await queue.run(lambda: codebook_of(state.loaded(run), look=look)))

    @router.get("/runs/{run}/documents/{name}", response_model=AnyDocument)
    async def document(request: Request, run: RunKey, name: DocumentName) -> Response:
        def read() -> bytes:
            entry, result = index.of_kind(run, "bottleneck"), results().get(name)
            if result is None or not result.served:
                names = ", ".join(known.name for known in results().values() if known.served)
                raise not_found(f"{name}: no such document; there are {names}.")
            return json_file(entry, result.file, name, absent=command_for("bottleneck", name, entry.shown))

        return as_file(request, await queues.files.run(read))

    return router


def json_file(entry: RunEntry, file: str, name: str, *, absent: str | None, damaged: str | None = None) -> bytes:
    """A file of a run as this version writes it; `absent` and `damaged` are the commands that help if it is."""
    path = entry.file(file)
    if path is None:
        raise missing(f"{entry.shown}: no {name} yet.", absent)
    content = read_checked(path)
    try:
        document = parse_json(content)
    except (ValueError, RecursionError):
        words = f"{entry.shown}/{file}: expected JSON; it is damaged."
        raise Problem(409, "broken", words, command=damaged) from None
    if isinstance(document, dict) and document.get("schema", SCHEMA) != SCHEMA:
        return json.dumps(upgrade(document, where=f"{entry.shown}/{file}"), ensure_ascii=False).encode()
    return content
