"""The address of the glossary."""

from fastapi import APIRouter, Request, Response

from conceptlens.pages.glossary import glossary
from conceptlens.web.schemas.glossary import Glossary, Term
from conceptlens.web.server.answers import as_json
from conceptlens.web.server.state import ERRORS


def glossary_routes() -> APIRouter:
    """The address; it needs no run."""
    router = APIRouter(responses=ERRORS)

    @router.get("/glossary", response_model=Glossary)
    async def terms(request: Request) -> Response:
        entries = {term: Term(meaning=entry.meaning, reference=entry.reference) for term, entry in glossary().items()}
        return as_json(request, Glossary(terms=entries))

    return router
