"""The form that asks for the token, without scripts; it gives a cookie that scripts cannot read."""

from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.types import Send

from conceptlens.web.server.access import STUDY, Access
from conceptlens.web.server.problems import Problem
from conceptlens.web.server.sessions import HOURS

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>conceptlens: token</title></head>
<body><main><h1>conceptlens</h1>
<p>{said}</p>
<form method="post" action="/login">
<input type="hidden" name="to" value="{to}">
<label>Token <input type="password" name="token" autocomplete="current-password" required autofocus></label>
<button type="submit">Open</button>
</form></main></body></html>
"""
_ASK = "This server is open to other machines and asks for the token that it printed when it was started."
_RATERS = "Enter the token for raters that you were given with the address of this page."


async def login_page(send: Send, status: int, said: str = "", to: str = "/", wait: int | None = None) -> None:
    """Show the form; `to`: the page that was asked for; `wait`: seconds until it is worth trying."""
    page = _page(to)
    body = _PAGE.format(said=said or (_ASK if page == "/" else _RATERS), to=page).encode()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"content-length", str(len(body)).encode()),
        *([(b"retry-after", str(wait).encode())] if wait else []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def login(access: Access, method: str, body: bytes, headers: Mapping[str, str], client: str, send: Send) -> None:
    """GET shows the form, POST takes it: a session for the right token, the form again for a wrong one."""
    if method in ("GET", "HEAD"):
        await login_page(send, 200)
        return
    if method != "POST":
        raise Problem(405, "not-found", "GET or POST.")
    given = parse_qs(body.decode("utf-8", "replace"))
    token, to = (given.get(name, [""])[0] for name in ("token", "to"))
    page = _page(to)
    try:
        secret = access.log_in(token, page, headers, client)
    except Problem as problem:
        await login_page(send, problem.status, problem.message, page, problem.wait)
        return
    if secret is None:
        await login_page(send, 401, "That is not the token of this page.", page)
        return
    cookie = f"{access.policy.cookie}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={HOURS * 3600}"
    answer = [(b"location", page.encode()), (b"set-cookie", cookie.encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 303, "headers": [*answer, (b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def _page(asked: str) -> str:
    """A page of this server, and no other address."""
    study = STUDY.fullmatch(asked)
    return asked if study and asked == f"/study/{study[1]}" else "/"
