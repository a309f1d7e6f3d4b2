"""Addresses of the codebook studio: what a study's commands wrote, and what its model can be asked."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from conceptlens.web.routes.run import RunKey, json_file
from conceptlens.web.schemas.runs import AnyDocument
from conceptlens.web.schemas.studio import (
    CLIENT,
    EditEvent,
    EditRequest,
    GenerateRequest,
    HeatAnswer,
    HeatRequest,
    Masked,
    MaskRequest,
    PictureName,
    Reading,
    ResultName,
    Studio,
)
from conceptlens.web.server.answers import as_file, as_json, as_picture
from conceptlens.web.server.client_limit import ClientLimit
from conceptlens.web.server.state import ERRORS, PNG, UPLOAD, Responses, ServerState
from conceptlens.web.server.uploads import read_upload
from conceptlens.web.views.studio import FOLDER, image_of, maker, picture_file, studio_of, study_info
from conceptlens.web.views.studio_edits import EditJobs, check, edit, told
from conceptlens.web.views.studio_model import LoadedStudy, StudyCache

EDITS = 6  # that run or wait
LINES = "application/x-ndjson"
ImageRow = Annotated[int, Path(ge=0, le=10**9)]
_STREAM: Responses = {200: {"model": EditEvent, "content": {LINES: {}}, "description": "A line of JSON for each step"}}


def studio_routes(state: ServerState) -> APIRouter:
    """The addresses, bound to a server."""
    router = APIRouter(responses=ERRORS)
    queues, index = state.queues, state.index
    models, per_client, jobs = StudyCache(), ClientLimit(queues.studio), EditJobs(queues.edits, EDITS)

    def loaded(run: str) -> LoadedStudy:
        return models.get(index.of_kind(run, "codebook"))

    @router.get("/runs/{run}/studio", response_model=Studio)
    async def studio(request: Request, run: RunKey) -> Response:
        return as_json(request, await queues.files.run(lambda: studio_of(index.of_kind(run, "codebook"))))

    @router.get("/runs/{run}/studio/images/{row}", response_model=Reading)
    async def image(request: Request, run: RunKey, row: ImageRow) -> Response:
        return as_json(request, await queues.files.run(lambda: image_of(index.of_kind(run, "codebook"), row)))

    async def png(request: Request, run: str, name: str) -> Response:
        content = await queues.files.run(lambda: picture_file(index.of_kind(run, "codebook"), name))
        return as_picture(request, content, "image/png")

    @router.get("/runs/{run}/studio/images/{row}/picture", response_class=Response, responses=PNG)
    async def image_picture(request: Request, run: RunKey, row: ImageRow) -> Response:
        return await png(request, run, f"grids/{row}")

    @router.get("/runs/{run}/studio/pictures/{name}", response_class=Response, responses=PNG)
    async def picture(request: Request, run: RunKey, name: PictureName) -> Response:
        return await png(request, run, name)

    @router.get("/runs/{run}/studio/results/{name}", response_model=AnyDocument)
    async def result(request: Request, run: RunKey, name: ResultName) -> Response:
        def read() -> bytes:
            entry = index.of_kind(run, "codebook")
            study_info(entry)
            command = maker(entry, name)
            return json_file(entry, f"{FOLDER}/{name}.json", name, absent=command, damaged=command)

        return as_file(request, await queues.files.run(read))

    @router.post("/runs/{run}/studio/generate", response_model=Reading)
    async def generate(request: Request, run: RunKey, body: GenerateRequest) -> Response:
        return as_json(
            request, await per_client.run(body.client, lambda: loaded(run).generate(body.condition, body.seed))
        )

    @router.post("/runs/{run}/studio/encode", response_model=Reading, openapi_extra=UPLOAD)
    async def encode(
        request: Request, run: RunKey, client: Annotated[str, Query(max_length=64, pattern=CLIENT)]
    ) -> Response:
        data = await request.body()
        study = await queues.studio.run(loaded, run)
        side = study.study.model.image_size
        opened = await queues.decode.run(read_upload, data, state.limits, at_least=side)
        return as_json(request, await per_client.run(client, lambda: study.encode(opened)))

    @router.post("/runs/{run}/studio/importance", response_model=HeatAnswer)
    async def importance(request: Request, run: RunKey, body: HeatRequest) -> Response:
        return as_json(request, HeatAnswer(heat=await per_client.run(body.client, lambda: loaded(run).heat(body))))

    @router.post("/runs/{run}/studio/mask", response_model=Masked)
    async def mask(request: Request, run: RunKey, body: MaskRequest) -> Response:
        return as_json(request, await per_client.run(body.client, lambda: loaded(run).masked(body)))

    @router.post("/runs/{run}/studio/edit", response_class=StreamingResponse, responses=_STREAM)
    async def edits(run: RunKey, body: EditRequest) -> Response:
        study = await queues.studio.run(loaded, run)
        check(study, body)
        job = jobs.start(body.client, lambda tell, gone: edit(study, body, tell, gone))
        return StreamingResponse(told(job), 200, {"Cache-Control": "no-store"}, LINES)

    return router
