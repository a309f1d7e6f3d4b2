"""The form that asks for the token, without scripts; it gives a cookie that scripts cannot read."""

import re
from urllib.parse import parse_qs

from starlette.types import Send

from conceptlens.web.server.problems import Problem
from conceptlens.web.server.safety import Policy

HOURS = 12
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
_PAGES = re.compile(r"/study/[A-Za-z0-9._-]{1,200}")  # where one may go from here, besides the first page
_ASK = "This server is open to other machines and asks for the token that it printed when it was started."


async def login_page(send: Send, status: int, said: str = _ASK, to: str = "/") -> None:
    """Show the form; `to`: the page that was asked for."""
    body = _PAGE.format(said=said, to=_page(to)).encode()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def login(policy: Policy, method: str, body: bytes, send: Send) -> None:
    """GET shows the form, POST takes it: the cookie for the right token, the form again for a wrong one."""
    if method in ("GET", "HEAD"):
        await login_page(send, 200)
        return
    if method != "POST":
        raise Problem(405, "not-found", "GET or POST.")
    given = parse_qs(body.decode("utf-8", "replace"))
    token, to = (given.get(name, [""])[0] for name in ("token", "to"))
    if not policy.may_enter(token):
        await login_page(send, 401, "That is not the token of this server.", to)
        return
    cookie = f"{policy.cookie}={policy.pass_word}; Path=/; HttpOnly; SameSite=Strict; Max-Age={HOURS * 3600}"
    headers = [(b"location", _page(to).encode()), (b"set-cookie", cookie.encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 303, "headers": [*headers, (b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def _page(asked: str) -> str:
    """A page of this server, and no other address."""
    return asked if _PAGES.fullmatch(asked) else "/"
