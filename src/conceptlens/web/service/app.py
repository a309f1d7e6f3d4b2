"""The prediction service of one run: `POST /v1/prediction`, health, readiness, Prometheus metrics, OpenAPI."""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request, Response
from starlette.datastructures import UploadFile
from starlette.types import ASGIApp, Receive, Scope, Send

from conceptlens.core.errors import DAMAGED_ARRAY, UserError
from conceptlens.core.version import __version__
from conceptlens.explanations.answer import Answerer
from conceptlens.explanations.image_answer import Answer
from conceptlens.explanations.predict import Prediction as Spoken
from conceptlens.explanations.subjects import Subject, subjects
from conceptlens.runs.opened import OpenedRun
from conceptlens.web.server.access import Access
from conceptlens.web.server.failures import answer_problems
from conceptlens.web.server.middleware import RequestMiddleware
from conceptlens.web.server.problems import Problem, bad
from conceptlens.web.server.safety import Policy
from conceptlens.web.server.uploads import Limits, read_upload
from conceptlens.web.service.batching import Batcher
from conceptlens.web.service.metrics import ServiceMetrics
from conceptlens.web.service.schemas import About, Evidence, Prediction, Predictions, State

ARRAY = "application/x-npy"
OPEN = ("/healthz", "/readyz")  # without a token: they say nothing of the model
UPLOAD = {"requestBody": {"required": True, "content": {
    "image/*": {"schema": {"type": "string", "format": "binary"}},
    "multipart/form-data": {"schema": {"type": "object", "properties": {
        "images": {"type": "array", "items": {"type": "string", "format": "binary"}}}}},
    ARRAY: {"schema": {"type": "string", "format": "binary", "description": "uint8 (N, H, W, 3), by numpy.save"}},
}}}  # fmt: skip


@dataclass(frozen=True)
class ServiceOptions:
    """How images are gathered, and how much is taken."""

    batch: int = 32
    wait_ms: float = 5.0
    queue: int = 512
    most_bytes: int = 100_000_000


class Service:
    """A model that answers requests."""

    def __init__(self, run: OpenedRun, options: ServiceOptions) -> None:
        self.run, self.options, self.metrics = run, options, ServiceMetrics()
        self.limits = Limits(bytes=options.most_bytes)
        self.answerer: Answerer | None = None
        self.readers = ThreadPoolExecutor(4, "conceptlens-decode")
        self.batcher: Batcher | None = None
        self.one_pass = Lock()

    def load(self) -> None:
        """Read the weights, and let one image through: the first request is as quick as the others."""
        answerer = Answerer.of(self.run)
        size = self.run.card.image_size
        answerer.batch([Subject("warm-up", np.zeros((3, size, size), np.uint8))])
        self.answerer = answerer

    def compute(self, images: Sequence[Subject], evidence: bool) -> list[Answer]:
        """Answers of a batch. What is said of one is made while the model is at the next."""
        if self.answerer is None:
            raise Problem(503, "busy", "The model is still being read. Try again in a moment.", wait=1)
        return self.answerer.batch(images, maps=("evidence",) if evidence else (), turn=self.one_pass)

    def start(self) -> None:
        """Begin to gather; called inside the event loop."""
        options = self.options
        self.batcher = Batcher(
            self.compute,
            size=options.batch,
            wait=options.wait_ms / 1000,
            most=options.queue,
            seen=self.metrics.batch,
            threads=1 if self.run.device.type == "cpu" else 2,
        )

    def close(self) -> None:
        if self.batcher:
            self.batcher.close()
        self.readers.shutdown(wait=False, cancel_futures=True)

    @property
    def about(self) -> About:
        run = self.run
        caution = () if self.answerer is None else self.answerer.caution.without
        return About(
            run=run.name,
            model=run.card.weights_hash,
            method=run.info["method"],
            classes=run.card.classes,
            concepts=run.read_concepts.names,
            image_size=run.card.image_size,
            device=str(run.device),
            evidence=run.pipeline.model.has_evidence,
            without=list(caution),
        )

    def check_count(self, images: int) -> None:
        """Refuse more images than may ever wait, before they are decoded."""
        if images > self.options.queue:
            most = self.options.queue
            raise Problem(413, "too-large", f"{images} images are too many for one request; at most {most}.")

    def read_files(self, files: Sequence[tuple[str, bytes]]) -> list[Subject]:
        """Image files as the model sees them; one that cannot be read carries its error."""
        found = []
        for name, data in files:
            try:
                image = read_upload(data, self.limits, at_least=self.run.card.image_size, window=self.run.card.window)
            except Problem as problem:
                found.append(Subject(name, error=problem.message))
                continue
            found += [
                Subject(name, each.pixels, error=each.error) for each in subjects(image, self.run.card, pictures=False)
            ]
        return found

    def read_array(self, data: bytes) -> list[Subject]:
        """Decoded images (N, H, W, 3), as `numpy.save` writes them; nothing is unpickled."""
        try:
            # Words would be taken for paths of this machine: of an array of text, or the names in an archive of arrays.
            if not data.startswith(np.lib.format.MAGIC_PREFIX):
                raise UserError("it begins otherwise")
            array = np.load(io.BytesIO(data), allow_pickle=False)
            if array.dtype.kind not in "uif":
                raise UserError("it holds no pixels")
            self.check_count(len(array) if array.ndim == 4 else 1)  # before each becomes as large as the model sees it
            return list(subjects(array, self.run.card, pictures=False))
        except (*DAMAGED_ARRAY, UserError) as error:
            raise bad(f"Expected an array (N, H, W, 3) of bytes as numpy.save writes it, but {error}.") from None

    def told(self, answer: Answer, evidence: bool) -> Prediction:
        """An answer as it is sent."""
        self.metrics.image(failed=answer.error is not None, unlike=bool(answer.unlike_training))
        spoken = Spoken.of(answer)
        if spoken.error is not None:
            return Prediction(image=spoken.image, error=spoken.error)
        return Prediction(
            image=spoken.image,
            predicted=spoken.names,
            probabilities=spoken.probabilities,
            concepts=spoken.concepts,
            prediction_set=spoken.prediction_set,
            unlike_training=spoken.unlike_training,
            out_of_distribution_score=answer.distance,
            evidence=_evidence(answer) if evidence else None,
        )


def _evidence(answer: Answer) -> dict[str, Evidence]:
    maps = answer.maps
    if maps is None or maps.evidence is None or maps.unplaced is None:
        return {}
    names = answer.answerer.concepts.names
    return {
        name: Evidence(
            grid=list(maps.grid),
            map=maps.evidence[k].reshape(maps.grid).tolist(),
            unplaced=float(maps.unplaced[k]),
            logit=float(answer.concept_logits[k]),
        )
        for k, name in enumerate(names)
    }


def create_service(
    run: OpenedRun, *, options: ServiceOptions | None = None, policy: Policy | None = None, load: bool = True
) -> ASGIApp:
    """The application of a run's service.

    Args:
        run: The run.
        options: How images are gathered.
        policy: Who may ask; everyone on this machine by default.
        load: Read the model before the first request; without, `/readyz` says no until someone calls `Service.load`.
    """
    service = Service(run, options or ServiceOptions())
    if load:
        service.load()
    return Gate(service_app(service), Access(policy or Policy()), service.limits)


class Gate:
    """Health and readiness for everyone, the rest by the server's rules."""

    def __init__(self, app: FastAPI, access: Access, limits: Limits) -> None:
        self.app, self.guarded = app, RequestMiddleware(app, access, limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        inside: Any = self.app if scope["type"] == "http" and scope["path"] in OPEN else self.guarded
        await inside(scope, receive, send)


def service_app(service: Service) -> FastAPI:
    """The application without its gate."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.close()

    app = FastAPI(
        title=f"conceptlens: {service.run.name}",
        version=__version__,
        docs_url=None,  # it would be loaded from elsewhere
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=lifespan,
    )

    @app.get("/healthz")
    async def health() -> State:
        """The process lives."""
        return State(status="alive")

    @app.get("/readyz", responses={503: {"model": State}})
    async def ready(response: Response) -> State:
        """The model answers."""
        if service.answerer is None:
            response.status_code = 503
            return State(status="loading")
        return State(status="ready")

    @app.get("/metrics")
    async def metrics() -> Response:
        """Counters for Prometheus."""
        waiting = 0 if service.batcher is None else len(service.batcher.waiting)
        return Response(service.metrics.text(waiting), media_type="text/plain; version=0.0.4")

    @app.get("/v1/model")
    async def about() -> About:
        """Which model answers."""
        return service.about

    @app.post("/v1/prediction", openapi_extra=UPLOAD, response_model=Predictions)
    async def predict(
        request: Request, evidence: Annotated[bool, Query(description="Also where each concept was read.")] = False
    ) -> Response:
        """Class, concepts, prediction set and out-of-distribution score of an image, several files, or an array."""
        began, status = time.perf_counter(), 500
        try:
            answer = await _predict(request, evidence)
            status = 200
            return Response(answer.model_dump_json(), media_type="application/json")  # checked as it was made
        except Problem as problem:
            status = problem.status
            raise
        finally:
            service.metrics.request(status, time.perf_counter() - began)

    async def _predict(request: Request, evidence: bool) -> Predictions:
        if evidence and not service.run.pipeline.model.has_evidence:
            method = service.run.info["method"]
            raise bad(f"{method} cannot tell where it read a concept; methods such as evidence-cbm can.")
        if service.batcher is None:
            raise Problem(503, "busy", "The service is starting. Try again in a moment.", wait=1)
        loop = asyncio.get_running_loop()
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == ARRAY:
            found = await loop.run_in_executor(service.readers, service.read_array, await request.body())
        else:
            files = await _files(request, kind)
            service.check_count(len(files))
            found = await loop.run_in_executor(service.readers, service.read_files, files)
        answers = await service.batcher.answer(found, evidence=evidence)
        told = [service.told(answer, evidence) for answer in answers]
        return Predictions(model=service.run.card.weights_hash, predictions=told)

    answer_problems(app)
    return app


async def _files(request: Request, kind: str) -> list[tuple[str, bytes]]:
    """The files of a form, or the body as one."""
    if kind != "multipart/form-data":
        return [("image", await request.body())]
    async with request.form(max_files=10_000) as form:
        files = [
            (part.filename or f"image {n}", await part.read())
            for n, (_, part) in enumerate(form.multi_items())
            if isinstance(part, UploadFile)
        ]
    if not files:
        raise bad("Expected image files in the form, found none.")
    return files
