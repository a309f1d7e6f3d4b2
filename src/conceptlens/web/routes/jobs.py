"""Addresses about jobs: forms, the queue, logs. Jobs are started only by `serve --allow-jobs`."""

import os
import shlex
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from conceptlens.core.errors import UserError
from conceptlens.core.signatures import Option
from conceptlens.web.jobs.desk import JobDesk
from conceptlens.web.jobs.desk import Request as Filled
from conceptlens.web.jobs.forms import Form
from conceptlens.web.jobs.store import JobStatus
from conceptlens.web.schemas.jobs import CommandLine, FormPart, JobAnswer, JobLog, JobPart, JobRequest, Jobs, OptionPart
from conceptlens.web.server.answers import as_json
from conceptlens.web.server.problems import Problem, bad, not_found
from conceptlens.web.server.state import ERRORS, ServerState

JobId = Annotated[str, Path(pattern=r"^\d{1,9}$")]
HOW = "conceptlens serve {} --allow-jobs"


def job_routes(state: ServerState, desk: JobDesk) -> APIRouter:
    """The addresses, bound to a server."""
    router = APIRouter(responses=ERRORS)
    files = state.queues.files
    how = HOW.format(shlex.quote(_near(str(desk.root))))

    def filled(body: JobRequest) -> Filled:
        entry = state.index.folders.get(body.run) if body.run else None
        return Filled(body.command, entry, body.recipe, body.name, body.values, body.settings, body.device)

    def known(name: str) -> JobStatus:
        status = desk.store.get(name)
        if status is None:
            raise not_found(f"There is no job {name}.")
        return status

    def allowed() -> None:
        if not desk.allowed:
            raise Problem(403, "forbidden", "This server starts no jobs. Serve with --allow-jobs.", command=how)

    @router.get("/jobs", response_model=Jobs)
    async def jobs(request: Request) -> Response:
        def work() -> Jobs:
            return Jobs(
                allowed=desk.allowed,
                how=how,
                devices=desk.devices,
                recipes=desk.recipes,
                forms=[_form(form) for form in desk.forms.values()],
                jobs=[_job(status) for status in reversed(desk.store.all())],
            )

        return as_json(request, await files.run(work))

    @router.post("/jobs", response_model=JobAnswer)
    async def start(request: Request, body: JobRequest) -> Response:
        def work() -> JobAnswer:
            allowed()
            try:
                return JobAnswer(job=_job(known(desk.submit(filled(body)).id)))
            except UserError as error:
                raise bad(str(error)) from None

        return as_json(request, await files.run(work))

    @router.post("/jobs/line", response_model=CommandLine)
    async def line(request: Request, body: JobRequest) -> Response:
        """The command to copy; nothing is started."""

        def work() -> CommandLine:
            try:
                return CommandLine(line=_line(desk.words(filled(body))))
            except UserError as error:
                raise bad(str(error)) from None

        return as_json(request, await files.run(work))

    @router.post("/jobs/{job}/cancel", response_model=JobAnswer)
    async def cancel(request: Request, job: JobId) -> Response:
        def work() -> JobAnswer:
            allowed()
            if known(job).state in ("queued", "running"):
                desk.store.cancel(job)
            return JobAnswer(job=_job(known(job)))

        return as_json(request, await files.run(work))

    @router.get("/jobs/{job}/log", response_model=JobLog)
    async def log(request: Request, job: JobId, after: Annotated[int, Query(ge=0, le=10**12)] = 0) -> Response:
        def work() -> JobLog:
            status = known(job)
            text, place = desk.store.log(job, after)
            return JobLog(text=text, after=place, state=status.state)

        return as_json(request, await files.run(work))

    return router


def _line(words: list[str] | tuple[str, ...]) -> str:
    return shlex.join(["conceptlens", *map(_near, words)])


def _near(word: str) -> str:
    """A path below the folder that the server was started in, as one would type it there."""
    return word.removeprefix(os.getcwd() + os.sep)


def _form(form: Form) -> FormPart:
    options, settings = ([_option(option) for option in some] for some in (form.options, form.settings))
    return FormPart(
        command=form.command, about=form.about, needs_run=form.needs_run, options=options, settings=settings
    )


def _option(option: Option) -> OptionPart:
    number = None if option.type is None else option.type.__name__
    kind = "flag" if option.flag else "choice" if option.choices else number or "text"
    plain = option.default is None or isinstance(option.default, (list, tuple))
    return OptionPart.model_validate(
        {
            "name": option.name,
            "kind": kind,
            "several": option.several,
            "choices": [str(choice) for choice in option.choices],
            "default": None if plain else str(option.default),
            "help": option.help,
        }
    )


def _job(status: JobStatus) -> JobPart:
    job = status.job
    return JobPart(
        id=job.id,
        command=job.command,
        line=_line(job.words),
        device=job.device,
        run=job.run,
        created=job.created,
        state=status.state,
        started=status.started,
        ended=status.ended,
        code=status.code,
        said=status.line,
        done=status.done,
        total=status.total,
        seconds_left=status.seconds_left,
        left_of=status.left_of,
    )
