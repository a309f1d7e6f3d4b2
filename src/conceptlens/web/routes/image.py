"""Addresses about images: lists, pictures, predictions, what-if, corrections."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from conceptlens.core.files import read_checked
from conceptlens.runs.annotations import FILE as ANNOTATIONS
from conceptlens.web.routes.run import RunKey
from conceptlens.web.schemas.image import Images, Prediction, Show
from conceptlens.web.schemas.runs import Split
from conceptlens.web.schemas.what_if import (
    Asked,
    AskRequest,
    Corrected,
    Corrections,
    CorrectRequest,
    Flipped,
    FlipRequest,
    Head,
    InterveneRequest,
    Intervention,
)
from conceptlens.web.server.answers import PICTURES, as_json, tag_of, unchanged
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.server.problems import missing
from conceptlens.web.server.state import ERRORS, JPEG, UPLOAD, Responses, ServerState
from conceptlens.web.server.uploads import read_upload
from conceptlens.web.views.corrections import FILE, correct, listed
from conceptlens.web.views.gallery import PICTURE, THUMBNAIL, list_images, read_image, square_jpeg
from conceptlens.web.views.predict import predict_own, predict_upload
from conceptlens.web.views.what_if import ask, flip, head_of, intervene

Row = Annotated[int, Path(ge=0, le=10**9)]
GradCam = Annotated[str, Query(max_length=2000, description="auto, all, deciding, none, or columns such as 3,17")]
Word = Annotated[str | None, Query(max_length=500)]
_CSV: Responses = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}, "description": "The file"}}


def image_routes(state: ServerState) -> APIRouter:
    """The addresses, bound to a server."""
    router = APIRouter(responses=ERRORS)
    queues = state.queues

    @router.get("/runs/{run}/images", response_model=Images)
    async def images(
        request: Request,
        run: RunKey,
        split: Split = "test",
        show: Show = "all",
        true: Annotated[str | None, Query(alias="class", max_length=500)] = None,
        predicted: Word = None,
        name: Word = None,
        page: Annotated[int, Query(ge=0, le=10**6)] = 0,
        size: Annotated[int, Query(ge=1, le=200)] = 60,
    ) -> Response:
        def work() -> Images:
            loaded = state.loaded(run)
            return list_images(
                loaded, split, show=show, true=true, predicted=predicted, name=name, page=page, size=size
            )

        return as_json(request, await queues.files.run(work))

    def picture(run: str, split: str, row: int, side: int) -> bytes:
        loaded = state.loaded(run)
        return square_jpeg(loaded, read_image(loaded, split, row, side), side)

    async def jpeg(request: Request, run: str, split: str, row: int, side: int) -> Response:
        loaded = await queues.files.run(state.loaded, run)
        tag = tag_of("picture", loaded.card.weights_hash, split, row, side)
        return unchanged(request, tag) or Response(
            await queues.files.run(picture, run, split, row, side),
            200,
            {"ETag": tag, "Cache-Control": PICTURES},
            "image/jpeg",
        )

    @router.get("/runs/{run}/images/{split}/{row}/thumbnail", response_class=Response, responses=JPEG)
    async def thumbnail(request: Request, run: RunKey, split: Split, row: Row) -> Response:
        return await jpeg(request, run, split, row, THUMBNAIL)

    @router.get("/runs/{run}/images/{split}/{row}/picture", response_class=Response, responses=JPEG)
    async def large(request: Request, run: RunKey, split: Split, row: Row) -> Response:
        return await jpeg(request, run, split, row, PICTURE)

    @router.get("/runs/{run}/images/{split}/{row}/prediction", response_model=Prediction)
    async def stored_prediction(
        request: Request, run: RunKey, split: Split, row: Row, gradcam: GradCam = "auto"
    ) -> Response:
        loaded, named = await queues.files.run(_ready, state, run)
        tag = tag_of("prediction", loaded.card.weights_hash, split, row, gradcam, named, _annotated(loaded))
        same = unchanged(request, tag)
        if same:
            return same
        answer = await queues.model.run(predict_own, loaded, split, row, gradcam)
        if not named:
            state.look_later(loaded)
        return as_json(request, answer, tag)

    @router.post("/runs/{run}/prediction", response_model=Prediction, openapi_extra=UPLOAD)
    async def uploaded_prediction(request: Request, run: RunKey, gradcam: GradCam = "auto") -> Response:
        data = await request.body()
        loaded, named = await queues.files.run(_ready, state, run)
        image = await queues.decode.run(
            read_upload, data, state.limits, at_least=loaded.card.image_size, window=loaded.card.window
        )
        answer = await queues.model.run(predict_upload, loaded, image, gradcam)
        if not named:
            state.look_later(loaded)
        return as_json(request, answer)

    @router.get("/runs/{run}/head", response_model=Head)
    async def head(request: Request, run: RunKey) -> Response:
        return as_json(request, await queues.head.run(lambda: head_of(state.loaded(run))))

    @router.post("/runs/{run}/intervene", response_model=Intervention)
    async def what_if(request: Request, run: RunKey, body: InterveneRequest) -> Response:
        return as_json(request, await queues.head.run(lambda: intervene(state.loaded(run), body)))

    @router.post("/runs/{run}/ask", response_model=Asked)
    async def ask_next(request: Request, run: RunKey, body: AskRequest) -> Response:
        return as_json(request, await queues.head.run(lambda: ask(state.loaded(run), body)))

    @router.post("/runs/{run}/flip", response_model=Flipped)
    async def smallest_flip(request: Request, run: RunKey, body: FlipRequest) -> Response:
        return as_json(request, await queues.head.run(lambda: flip(state.loaded(run), body)))

    @router.get("/runs/{run}/corrections", response_model=Corrections)
    async def corrections(request: Request, run: RunKey) -> Response:
        def work() -> Corrections:
            entry = state.index.folders.get(run)
            entry.file(FILE)
            return listed(entry.path, entry.shown)

        return as_json(request, await queues.files.run(work))

    @router.get("/runs/{run}/corrections.csv", response_class=Response, responses=_CSV)
    async def corrections_file(run: RunKey) -> Response:
        def work() -> bytes:
            entry = state.index.folders.get(run)
            path = entry.file(FILE)
            if path is None:
                raise missing(f"{entry.shown}: nothing was corrected yet.")
            return read_checked(path)

        content = await queues.files.run(work)
        name = f'attachment; filename="{run}-corrections.csv"'
        return Response(content, 200, {"Content-Disposition": name}, "text/csv; charset=utf-8")

    @router.post("/runs/{run}/corrections", response_model=Corrected)
    async def add_corrections(request: Request, run: RunKey, body: CorrectRequest) -> Response:
        return as_json(request, await queues.files.run(lambda: correct(state.loaded(run), body)))

    return router


def _annotated(loaded: LoadedRun) -> int:
    """When people named something of the run last: the legend of a map has the names of codes."""
    path = loaded.entry.file(ANNOTATIONS)
    return path.stat().st_mtime_ns if path else 0


def _ready(state: ServerState, run: str) -> tuple[LoadedRun, bool]:
    """A run with all that a prediction needs, and whether its codes have names."""
    loaded = state.loaded(run)
    loaded.background  # noqa: B018 - made here, before the model is asked
    return loaded, not loaded.lacks_names
