"""Addresses about all images of a split: columns, places, sprites, neighbors, likely label errors."""

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response

from conceptlens.web.routes.image import Row
from conceptlens.web.routes.run import RunKey
from conceptlens.web.schemas.dataset import NeighborsAnswer, PassAnswer, SuspectPart, SuspectsAnswer
from conceptlens.web.schemas.runs import Split
from conceptlens.web.server.answers import PICTURES, as_file, as_json, tag_of, unchanged
from conceptlens.web.server.problems import not_found
from conceptlens.web.server.state import BINARY, ERRORS, JPEG, Responses, ServerState
from conceptlens.web.views.dataset.image_pass import PassState
from conceptlens.web.views.dataset.places import By, How, neighbors, vectors_by
from conceptlens.web.views.dataset.suspects import suspects
from conceptlens.web.views.dataset.table import packed, table_of

MOST = 500  # suspects of an answer
Sheet = Annotated[int, Path(ge=0, le=10**6)]
BYTES = "application/octet-stream"
_BINARY: Responses = {200: {"content": {BYTES: BINARY}, "description": "Numbers"}}


def dataset_routes(state: ServerState) -> APIRouter:
    """The addresses, bound to a server."""
    router = APIRouter(responses=ERRORS)
    queues = state.queues

    @router.get("/runs/{run}/dataset/{split}", response_class=Response, responses=_BINARY)
    async def columns(request: Request, run: RunKey, split: Split) -> Response:
        def work() -> bytes:
            loaded = state.loaded(run)
            return packed(loaded, split, table_of(loaded, split))

        return as_file(request, await queues.files.run(work), BYTES)

    @router.get("/runs/{run}/dataset/{split}/places", response_class=Response, responses=_BINARY)
    async def places(request: Request, run: RunKey, split: Split, by: By = "concepts", how: How = "pca") -> Response:
        """Places (N, 2) as 32-bit floats, little-endian."""

        def work() -> bytes:
            vectors = vectors_by(table_of(state.loaded(run), split), by)
            return state.maps.get(vectors, how).astype("<f4").tobytes()

        return as_file(request, await queues.sample.run(work), BYTES)

    @router.get("/runs/{run}/dataset/{split}/sprites/{sheet}", response_class=Response, responses=JPEG)
    async def sprites(request: Request, run: RunKey, split: Split, sheet: Sheet) -> Response:
        loaded = await queues.files.run(state.loaded, run)
        tag = tag_of("sprites", loaded.card.weights_hash, split, sheet)
        return unchanged(request, tag) or Response(
            await queues.sprites.run(state.sprites.get, loaded, split, sheet),
            200,
            {"ETag": tag, "Cache-Control": PICTURES},
            "image/jpeg",
        )

    @router.get("/runs/{run}/dataset/{split}/neighbors/{row}", response_model=NeighborsAnswer)
    async def near(
        request: Request,
        run: RunKey,
        split: Split,
        row: Row,
        by: By = "concepts",
        most: Annotated[int, Query(ge=1, le=200)] = 12,
    ) -> Response:
        def work() -> NeighborsAnswer:
            vectors = vectors_by(table_of(state.loaded(run), split), by)
            if row >= len(vectors):
                raise not_found(f"{split} has {len(vectors)} images, counted from 0; {row} is not one of them.")
            rows, similarity = neighbors(vectors, row, most)
            return NeighborsAnswer(split=split, row=row, by=by, rows=rows, similarity=np.round(similarity, 4).tolist())

        return as_json(request, await queues.files.run(work))

    @router.get("/runs/{run}/dataset/{split}/suspects", response_model=SuspectsAnswer)
    async def likely_errors(request: Request, run: RunKey, split: Split) -> Response:
        def work() -> SuspectsAnswer:
            loaded = state.loaded(run)
            found = suspects(table_of(loaded, split), loaded.card.classes, loaded.concepts, MOST)
            parts = [SuspectPart.model_validate(vars(each)) for each in found]
            return SuspectsAnswer(split=split, total=len(parts), suspects=parts)

        return as_json(request, await queues.sample.run(work))

    @router.get("/runs/{run}/dataset/{split}/pass", response_model=PassAnswer)
    async def pass_state(request: Request, run: RunKey, split: Split) -> Response:
        return as_json(request, _answer(await queues.files.run(lambda: state.passes.state(state.loaded(run), split))))

    @router.post("/runs/{run}/dataset/{split}/pass", response_model=PassAnswer)
    async def start_pass(request: Request, run: RunKey, split: Split) -> Response:
        return as_json(request, _answer(await queues.files.run(lambda: state.passes.start(state.loaded(run), split))))

    return router


def _answer(state: PassState) -> PassAnswer:
    return PassAnswer.model_validate(vars(state))
