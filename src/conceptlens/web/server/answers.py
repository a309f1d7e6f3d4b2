"""From a typed answer to bytes, with the tag by which a browser asks whether it changed."""

import hashlib

from fastapi import Request, Response

from conceptlens.web.schemas.runs import Answer

PICTURES = "private, max-age=3600"


def tag_of(*parts: object) -> str:
    """A tag of what an answer is made from."""
    return f'"{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}"'


def unchanged(request: Request, tag: str) -> Response | None:
    """304 where the client has this already."""
    known = request.headers.get("if-none-match", "")
    if tag in (part.strip().removeprefix("W/") for part in known.split(",")):
        return Response(status_code=304, headers={"ETag": tag})
    return None


def as_json(request: Request, answer: Answer, tag: str | None = None, status: int = 200) -> Response:
    """An answer; without a tag of its own, its content is the tag."""
    body = answer.model_dump_json(by_alias=True).encode()
    if request.method not in ("GET", "HEAD"):
        return Response(body, status, {"Cache-Control": "no-store"}, "application/json")
    tag = tag or f'"{hashlib.sha256(body).hexdigest()[:24]}"'
    return unchanged(request, tag) or Response(body, status, {"ETag": tag}, "application/json")


def as_file(request: Request, content: bytes, kind: str = "application/json", **headers: str) -> Response:
    """The bytes of a file; they are the tag."""
    tag = tag_of(content)
    return unchanged(request, tag) or Response(content, 200, {"ETag": tag, **headers}, kind)


def as_picture(request: Request, content: bytes, kind: str) -> Response:
    """A picture that is kept for a while."""
    return as_file(request, content, kind, **{"Cache-Control": PICTURES})
