"""Addresses of the table of runs."""

from fastapi import APIRouter, Request, Response

from conceptlens.web.schemas.run_table import Best, BestRequest, TableAnswer
from conceptlens.web.server.answers import as_json
from conceptlens.web.server.problems import bad
from conceptlens.web.server.state import ERRORS, ServerState
from conceptlens.web.views.run_table import best_of


def run_table_routes(state: ServerState) -> APIRouter:
    """The addresses, bound to a server."""
    router = APIRouter(responses=ERRORS)

    @router.get("/table", response_model=TableAnswer)
    async def rows(request: Request) -> Response:
        return as_json(request, await state.queues.files.run(lambda: TableAnswer(rows=state.table.rows(state.index))))

    @router.post("/table/best", response_model=Best)
    async def best(request: Request, body: BestRequest) -> Response:
        def work() -> Best:
            if len(set(body.runs)) < len(body.runs):
                raise bad("runs: each run once.")
            return best_of([state.index.of_kind(key, "bottleneck") for key in body.runs], body.metric)

        return as_json(request, await state.queues.sample.run(work))

    return router
