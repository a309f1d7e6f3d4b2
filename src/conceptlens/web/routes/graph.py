"""Addresses about the graphs of a decomposition: the graph, its file, sheets of nodes, pictures."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from conceptlens.web.routes.run import RunKey
from conceptlens.web.schemas.graph import GraphAnswer, GraphName, NodeAnswer
from conceptlens.web.schemas.runs import AnyDocument
from conceptlens.web.server.answers import as_file, as_json, as_picture, unchanged
from conceptlens.web.server.state import ERRORS, JPEG, ServerState
from conceptlens.web.views.graphs import OpenGraph, picture

Number = Annotated[int, Path(ge=0, le=10**7)]


def graph_routes(state: ServerState) -> APIRouter:
    """The addresses, bound to a server."""
    router = APIRouter(responses=ERRORS)
    files, folders, graphs = state.queues.files, state.index.folders, state.graphs

    def opened(run: str, name: GraphName) -> OpenGraph:
        return graphs.open(folders.get(run), name)

    @router.get("/runs/{run}/graphs/{name}", response_model=GraphAnswer)
    async def graph(request: Request, run: RunKey, name: GraphName) -> Response:
        found = await files.run(opened, run, name)
        same = unchanged(request, found.tag)
        return same or Response(await files.run(lambda: found.body), 200, {"ETag": found.tag}, "application/json")

    @router.get("/runs/{run}/graphs/{name}/file", response_model=AnyDocument)
    async def graph_file(request: Request, run: RunKey, name: GraphName) -> Response:
        return as_file(request, await files.run(lambda: graphs.raw(folders.get(run), name)))

    @router.get("/runs/{run}/graphs/{name}/nodes/{number}", response_model=NodeAnswer)
    async def node(request: Request, run: RunKey, name: GraphName, number: Number) -> Response:
        return as_json(request, await files.run(lambda: opened(run, name).node(number)))

    async def jpeg(request: Request, run: str, name: GraphName, which: Callable[[OpenGraph], str]) -> Response:
        content = await files.run(lambda: picture(folders.get(run), which(opened(run, name))))
        return as_picture(request, content, "image/jpeg")

    @router.get("/runs/{run}/graphs/{name}/nodes/{number}/sheet", response_class=Response, responses=JPEG)
    async def sheet(request: Request, run: RunKey, name: GraphName, number: Number) -> Response:
        return await jpeg(request, run, name, lambda graph: graph.sheet(number))

    @router.get("/runs/{run}/graphs/{name}/images/{number}", response_class=Response, responses=JPEG)
    async def image(request: Request, run: RunKey, name: GraphName, number: Number) -> Response:
        return await jpeg(request, run, name, lambda graph: graph.image(number))

    return router
