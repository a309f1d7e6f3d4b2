"""Addresses of studies with people: packs, raters, answers, the result, and the raters' page.

While raters answer nothing here says which maps are shuffled or which answers are right. The result would say it, even
as a mean, to who answers a single question and asks again: so it is there only once no more answers are taken.
On a server with a token raters have another token, which opens the page and takes answers (web/server/access.py);
everything else here is for the owner.
"""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from conceptlens.core.files import read_checked
from conceptlens.core.version import __version__
from conceptlens.web.schemas.study import (
    BeginRequest,
    Begun,
    CloseRequest,
    KeepRequest,
    Kept,
    Studies,
    StudyCard,
    StudyDetail,
    StudyResult,
    StudyTable,
)
from conceptlens.web.server.answers import as_json, tag_of, unchanged
from conceptlens.web.server.client_limit import Allowance
from conceptlens.web.server.middleware import client_of
from conceptlens.web.server.problems import missing
from conceptlens.web.server.state import ERRORS, Responses, ServerState
from conceptlens.web.views.ratings import CODES, Ratings
from conceptlens.web.views.runs import reason_of
from conceptlens.web.views.studies import Pack, Packs
from conceptlens.workflows.study.analyze import RESULT_PAGE, Analysis
from conceptlens.workflows.study.responses import RATER
from conceptlens.workflows.study.table import HEAD, rows, table_six

StudyKey = Annotated[str, Path(max_length=200, pattern=r"^[A-Za-z0-9._-]+$", description="The `key` of a study")]
RaterCode = Annotated[str, Path(pattern=RATER, description="The code of a rater")]
_HTML: Responses = {200: {"content": {"text/html": {}}, "description": "The page"}}


def study_routes(state: ServerState) -> APIRouter:
    """The addresses, bound to a server."""
    router = APIRouter(responses=ERRORS)
    queues, packs, codes = state.queues, Packs(state.index.folders), Allowance(CODES, 3600)

    def ratings(study: str) -> Ratings:
        pack = packs.get(study)
        return Ratings(pack, packs.questions(pack))

    @router.get("/studies", response_model=Studies)
    async def studies(request: Request) -> Response:
        def work() -> Studies:
            return Studies(studies=[_card(packs, pack) for pack in packs.all()])

        return as_json(request, await queues.files.run(work))

    @router.get("/studies/{study}", response_model=StudyDetail)
    async def one_study(request: Request, study: StudyKey) -> Response:
        def work() -> StudyDetail:
            found = ratings(study)
            entry = found.pack.entry
            models = sum((each.path / "model" / "model.json").is_file() for each in state.index.folders.all())
            return StudyDetail(
                card=_card(packs, found.pack),
                page=f"study/{entry.key}",
                rater_token=state.policy.rater_token(entry.key) if state.policy.token is not None else None,
                raters=found.raters(),
                models=models,
                alone=entry.command("serve"),
                analyze=entry.command("study analyze"),
            )

        return as_json(request, await queues.files.run(work))

    @router.post("/studies/{study}/raters", response_model=Begun)
    async def begin(request: Request, study: StudyKey, body: BeginRequest) -> Response:
        def work() -> Begun:
            return ratings(study).begin(body.rater, body.word, client_of(request.scope), codes)

        return as_json(request, await queues.files.run(work))

    @router.put("/studies/{study}/raters/{rater}", response_model=Kept)
    async def keep(request: Request, study: StudyKey, rater: RaterCode, body: KeepRequest) -> Response:
        return as_json(request, await queues.files.run(lambda: ratings(study).keep(rater, body)))

    @router.post("/studies/{study}/analysis", response_model=StudyResult)
    async def close(request: Request, study: StudyKey, body: CloseRequest) -> Response:
        return as_json(request, await queues.sample.run(lambda: _result(ratings(study).close(body.unfinished))))

    @router.get("/studies/{study}/analysis", response_model=StudyResult)
    async def analysis(request: Request, study: StudyKey) -> Response:
        return as_json(request, await queues.files.run(lambda: _result(_closed(ratings(study)))))

    @router.get("/studies/{study}/analysis.html", response_class=Response, responses=_HTML)
    async def analysis_page(study: StudyKey) -> Response:
        def work() -> bytes:
            found = ratings(study)
            _closed(found)
            path = found.pack.entry.file(RESULT_PAGE)
            if path is None:
                raise missing(f"{found.pack.entry.shown}: no {RESULT_PAGE}.", found.pack.entry.command("study analyze"))
            return read_checked(path)

        content = await queues.files.run(work)
        name = f'attachment; filename="{study}-analysis.html"'
        return Response(content, 200, {"Content-Disposition": name}, "text/html; charset=utf-8")

    return router


def study_pages(state: ServerState) -> APIRouter:
    """The raters' page of each pack, which is no part of the API."""
    router = APIRouter(include_in_schema=False)
    packs = Packs(state.index.folders)

    @router.get("/study/{study}")
    async def page(request: Request, study: StudyKey) -> Response:
        pack = await state.queues.files.run(packs.get, study)
        tag = tag_of(pack.stamp, __version__)
        known = unchanged(request, tag)
        if known:
            return known
        return Response(await state.queues.files.run(pack.render), 200, {"ETag": tag}, "text/html; charset=utf-8")

    return router


def _card(packs: Packs, pack: Pack) -> StudyCard:
    card = StudyCard(key=pack.entry.key, name=pack.entry.path.name, folder=pack.entry.shown)
    try:
        questions = packs.questions(pack)
        found = Ratings(pack, questions)
        raters, closed = found.raters(), found.analysis() is not None
    except Exception as error:  # a folder may hold anything: its own card says so, the others stay
        return card.model_copy(update={"reason": reason_of(error)})
    return card.model_copy(
        update={
            "study": questions.study,
            "images": questions.images,
            "questions": len(questions.answers),
            "raters": len(raters),
            "complete": sum(each.complete for each in raters),
            "closed": closed,
        }
    )


def _closed(found: Ratings) -> Analysis:
    analysis = found.analysis()
    if analysis is None:
        raise missing(
            "This study is still open. Its result is shown when no more answers are taken.",
            found.pack.entry.command("study analyze"),
        )
    return analysis


def _result(analysis: Analysis) -> StudyResult:
    table = StudyTable(head=list(HEAD), rows=rows([analysis]), markdown=table_six([analysis]))
    return StudyResult(analysis=analysis, table=table)
