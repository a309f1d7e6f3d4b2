"""The application: run folders as a typed JSON API (docs/api.md), and the page. `create_app` makes one."""

from collections.abc import Sequence
from pathlib import Path

from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp

from conceptlens.core.errors import UserError
from conceptlens.core.version import __version__
from conceptlens.recipes.parse import recipe_names
from conceptlens.web.jobs.desk import JobDesk
from conceptlens.web.jobs.forms import Functions
from conceptlens.web.routes.annotations import annotation_routes
from conceptlens.web.routes.comparison import comparison_routes
from conceptlens.web.routes.dataset import dataset_routes
from conceptlens.web.routes.glossary import glossary_routes
from conceptlens.web.routes.graph import graph_routes
from conceptlens.web.routes.image import image_routes
from conceptlens.web.routes.jobs import job_routes
from conceptlens.web.routes.methods import method_routes
from conceptlens.web.routes.run import run_routes
from conceptlens.web.routes.run_table import run_table_routes
from conceptlens.web.routes.studio import studio_routes
from conceptlens.web.routes.study import study_pages, study_routes
from conceptlens.web.server.access import Access
from conceptlens.web.server.assets import Assets
from conceptlens.web.server.failures import answer_problems
from conceptlens.web.server.folders import MARK, RunFolders
from conceptlens.web.server.loaded import MODELS, ModelCache
from conceptlens.web.server.middleware import RequestMiddleware
from conceptlens.web.server.preload import preload_in_background
from conceptlens.web.server.problems import Problem
from conceptlens.web.server.safety import Policy
from conceptlens.web.server.sessions import Sessions
from conceptlens.web.server.state import ServerState
from conceptlens.web.server.uploads import Limits
from conceptlens.web.server.work_queue import WorkQueues
from conceptlens.web.views.runs import RunIndex

STATIC = Path(__file__).parents[1] / "client"
STUDY = Path(__file__).parents[2] / "workflows" / "study" / "page"  # the raters' page is the same here and in a pack


def create_app(
    runs: Sequence[str | Path],
    *,
    policy: Policy | None = None,
    limits: Limits | None = None,
    models: int = MODELS,
    ready: float | None = None,
    sessions: Sessions | None = None,
    jobs: Functions | None = None,
    allow_jobs: bool = False,
) -> ASGIApp:
    """The application with its middleware.

    Args:
        runs: Run folders, or folders that hold some.
        policy: Who may ask; everyone on this machine by default.
        limits: What uploads may be.
        models: How many models are kept in memory.
        ready: Preload what the page shows first and wait at most so many seconds; the rest continues in a thread.
        sessions: Who has logged in; nobody by default.
        jobs: Commands that have a form on the page, with the functions that they call; none by default.
        allow_jobs: Whether the page may start them; else it shows the command to copy.
    """
    policy, limits = policy or Policy(), limits or Limits()
    state = ServerState(
        RunIndex(RunFolders([Path(run) for run in runs])),
        ModelCache(models),
        WorkQueues(),
        limits,
        policy,
        starts=tuple(jobs or ()) if allow_jobs else (),
    )
    if ready is not None:
        preload_in_background(state).join(ready)
    if allow_jobs and policy.token is None and policy.names:
        raise UserError("--allow-jobs with --name needs a token: whoever reaches that name could start jobs.")
    root = Path(runs[0]).resolve()
    root = root.parent if (root / MARK).is_file() else root  # beside a run that is served by its own name
    desk = JobDesk(root, jobs or {}, recipe_names(), allowed=allow_jobs)
    return RequestMiddleware(application(state, desk), Access(policy, sessions or Sessions()), limits)


def application(state: ServerState, desk: JobDesk | None = None) -> FastAPI:
    """The application without its middleware."""
    app = FastAPI(
        title="conceptlens",
        version=__version__,
        docs_url=None,  # it would be loaded from elsewhere
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        lifespan=desk.open if desk else None,
    )
    app.include_router(run_routes(state), prefix="/api/v1")
    app.include_router(image_routes(state), prefix="/api/v1")
    app.include_router(dataset_routes(state), prefix="/api/v1")
    app.include_router(annotation_routes(state), prefix="/api/v1")
    app.include_router(comparison_routes(state), prefix="/api/v1")
    app.include_router(method_routes(state), prefix="/api/v1")
    app.include_router(studio_routes(state), prefix="/api/v1")
    app.include_router(graph_routes(state), prefix="/api/v1")
    app.include_router(study_routes(state), prefix="/api/v1")
    if desk is not None:
        app.include_router(job_routes(state, desk), prefix="/api/v1")
    app.include_router(run_table_routes(state), prefix="/api/v1")
    app.include_router(glossary_routes(), prefix="/api/v1")
    app.include_router(study_pages(state))
    answer_problems(app)

    @app.api_route("/api/{rest:path}", include_in_schema=False, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    def nothing(rest: str) -> None:
        raise Problem(404, "not-found", f"/api/{rest[:100]}: no such address. See /api/v1/openapi.json.")

    assets = Assets(root=STATIC, study=STUDY)

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        return assets.page(request)

    app.mount("/static", assets)
    return app
