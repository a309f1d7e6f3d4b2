"""Addresses about comparisons: everything as data, and tables for papers."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from conceptlens.web.routes.run import RunKey
from conceptlens.web.schemas.comparison import Comparison, Supervision
from conceptlens.web.server.answers import as_json, tag_of, unchanged
from conceptlens.web.server.state import ERRORS, Responses, ServerState
from conceptlens.web.views.comparison import Form, comparison_of, table_of

DataNames = Annotated[list[str], Query(default_factory=list, max_length=50)]
Blocks = Annotated[list[Supervision], Query(default_factory=list, max_length=8)]
TYPES: dict[Form, str] = {"md": "text/markdown; charset=utf-8", "tex": "application/x-tex; charset=utf-8"}
_TEXT: Responses = {
    200: {
        "content": {media.split(";")[0]: {"schema": {"type": "string"}} for media in TYPES.values()},
        "description": "The table",
    }
}


def comparison_routes(state: ServerState) -> APIRouter:
    """The addresses, bound to a server."""
    router = APIRouter(responses=ERRORS)
    index = state.index

    @router.get("/runs/{run}/comparison", response_model=Comparison)
    async def comparison(request: Request, run: RunKey) -> Response:
        def work() -> Comparison:
            return comparison_of(index.of_kind(run, "comparison"), index.folders.all())

        return as_json(request, await state.queues.files.run(work))

    @router.get("/runs/{run}/comparison/table.{form}", response_class=Response, responses=_TEXT)
    async def table(request: Request, run: RunKey, form: Form, data: DataNames, supervision: Blocks) -> Response:
        entry = await state.queues.files.run(index.of_kind, run, "comparison")
        text = await state.queues.files.run(table_of, entry, form, data, supervision)
        tag = tag_of(text)
        return unchanged(request, tag) or Response(text, 200, {"ETag": tag}, TYPES[form])

    return router
