"""What an application answers where something is wrong: always a reason as JSON, never a traceback."""

import logging

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from safetensors import SafetensorError
from starlette.exceptions import HTTPException

from conceptlens.core.errors import UserError
from conceptlens.core.system_errors import MALFORMED, not_as_written, reason
from conceptlens.web.server.middleware import error_body
from conceptlens.web.server.problems import Code, Problem

log = logging.getLogger("conceptlens.web")


def answer_problems(app: FastAPI) -> None:
    """Have every error of an application answered."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(UserError, _user_error)
    for kind in (OSError, RecursionError, SafetensorError):
        app.add_exception_handler(kind, _unreadable)
    for other in MALFORMED:
        app.add_exception_handler(other, _malformed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)


def _answer(problem: Problem) -> Response:
    headers = {"Cache-Control": "no-store"}
    if problem.wait:
        headers["Retry-After"] = str(problem.wait)
    return Response(error_body(problem), problem.status, headers, "application/json")


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return _answer(error)


async def _user_error(request: Request, error: Exception) -> Response:
    return _answer(Problem(409, "broken", str(error)))


async def _unreadable(request: Request, error: Exception) -> Response:
    """A file of a run that is damaged, gone, or not ours to read."""
    return _answer(Problem(409, "broken", reason(error) or f"A file of this run cannot be read: {str(error)[:300]}."))


async def _malformed(request: Request, error: Exception) -> Response:
    """A folder may hold anything: what was checked when a file was read says more, this is for all the rest."""
    if not {"run", "study"} & request.path_params.keys():
        raise error
    log.warning("%s %s: %r", request.method, request.url.path, error, exc_info=log.isEnabledFor(logging.DEBUG))
    said = reason(error) or f"{not_as_written(error)} If nobody changed it, this is a bug."
    return _answer(Problem(409, "broken", said))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"] if step != "body")
    return _answer(Problem(422, "bad-request", f"{place[:200]}: {first['msg']}."))


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code: Code = "not-found" if error.status_code in (404, 405) else "bad-request"
    response = _answer(Problem(error.status_code, code, f"{request.url.path[:100]}: {error.detail}."))
    if "allow" in (headers := {name.lower(): value for name, value in (error.headers or {}).items()}):
        response.headers["Allow"] = headers["allow"]
    return response


async def _bug(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _answer(Problem(500, "bug", "This is a bug in conceptlens. The terminal in which it runs shows the error."))
