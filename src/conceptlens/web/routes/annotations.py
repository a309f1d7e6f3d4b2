"""Addresses about annotations: names, groups, tags and notes of the things of a folder."""

from fastapi import APIRouter, Request, Response

from conceptlens.runs.annotations import FILE, Annotation, Annotations, annotate, read_annotations
from conceptlens.web.routes.graph import Number
from conceptlens.web.routes.run import RunKey
from conceptlens.web.schemas.annotations import AnnotateRequest, AnnotationPart, AnnotationsAnswer, Proposals, Things
from conceptlens.web.schemas.graph import GraphName
from conceptlens.web.server.answers import as_json
from conceptlens.web.server.folders import RunEntry
from conceptlens.web.server.state import ERRORS, ServerState
from conceptlens.web.views.proposals import proposals

OWN = "run"  # how a folder calls itself among its annotations


def annotation_routes(state: ServerState) -> APIRouter:
    """The addresses, bound to a server."""
    router = APIRouter(responses=ERRORS)
    files, folders = state.queues.files, state.index.folders

    @router.get("/runs/{run}/annotations", response_model=AnnotationsAnswer)
    async def annotations(request: Request, run: RunKey) -> Response:
        def work() -> AnnotationsAnswer:
            entry = _entry(folders.get(run))
            return _answer(entry, read_annotations(entry.path))

        return as_json(request, await files.run(work))

    @router.post("/runs/{run}/annotations", response_model=AnnotationsAnswer)
    async def say(request: Request, run: RunKey, body: AnnotateRequest) -> Response:
        def work() -> AnnotationsAnswer:
            entry, said = _entry(folders.get(run)), body.model_dump()
            return _answer(entry, annotate(entry.path, said.pop("kind"), said.pop("of"), **said))

        return as_json(request, await files.run(work))

    @router.get("/runs/{run}/graphs/{name}/nodes/{number}/proposals", response_model=Proposals)
    async def propose(request: Request, run: RunKey, name: GraphName, number: Number) -> Response:
        """Names for a concept of a graph, from the texts nearest to its pictures."""

        def work() -> Proposals:
            entry = folders.get(run)
            graph = state.graphs.open(entry, name)
            graph.node(number)  # refuses a number that is none
            return Proposals(proposals=proposals(entry, graph, number))

        return as_json(request, await state.queues.sample.run(work))

    return router


def _entry(entry: RunEntry) -> RunEntry:
    entry.file(FILE)  # refuses a link that leads out
    return entry


def _answer(entry: RunEntry, known: Annotations) -> AnnotationsAnswer:
    def part(said: Annotation) -> AnnotationPart:
        return AnnotationPart.model_validate(vars(said))

    def parts(things: dict[str, Annotation]) -> Things:
        return {of: part(said) for of, said in things.items()}

    return AnnotationsAnswer(
        file=f"{entry.shown}/{FILE}",
        nodes=parts(known["node"]),
        codes=parts(known["code"]),
        tokens=parts(known["token"]),
        images=parts(known["image"]),
        run=part(known["run"][OWN]) if OWN in known["run"] else None,
    )
