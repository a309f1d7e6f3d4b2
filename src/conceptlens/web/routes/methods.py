"""Addresses about methods: what each is, and what the served folders say of it."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from conceptlens.web.schemas.methods import MethodEvidence, Methods
from conceptlens.web.server.answers import as_json
from conceptlens.web.server.state import ERRORS, ServerState
from conceptlens.web.views.method_cards import evidence_of, method_cards

MethodName = Annotated[str, Path(max_length=100, pattern=r"^[a-z0-9-]+$", description="A registered method's name")]


def method_routes(state: ServerState) -> APIRouter:
    """The addresses, bound to a server."""
    router = APIRouter(responses=ERRORS)

    @router.get("/methods", response_model=Methods)
    async def methods(request: Request) -> Response:
        cards = await state.queues.files.run(method_cards)
        return as_json(request, Methods(methods=list(cards.values())))

    @router.get("/methods/{method}/evidence", response_model=MethodEvidence)
    async def evidence(request: Request, method: MethodName) -> Response:
        return as_json(request, await state.queues.files.run(evidence_of, method, state.index))

    return router
