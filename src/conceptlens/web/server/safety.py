"""Who may ask: the right host name, no other site's page, the token where there is one. And what every answer forbids.

A page of another site can make a browser send requests here. It cannot read the answers (there is no CORS), but it
could start work or, by a name that is suddenly this machine's (DNS rebinding), pose as our own page. So `Host` must be
an address of this server, and what a browser marks as coming from elsewhere is refused.
"""

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from conceptlens.core.errors import UserError
from conceptlens.web.server.problems import Problem

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SHORTEST = 16  # characters of a token
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::(\d{1,5}))?", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def network(host: str) -> str:
    """Who is counted as one client: an IPv4 address, or the /64 of an IPv6 address, all of which one customer has."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


def check_token(token: str) -> str:
    """A token that is long enough and can stand in a header."""
    token = token.strip()
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise UserError(
            f"The token must have {SHORTEST} or more letters and digits, found {len(token)}. Leave it out, and one is "
            "made."
        )
    return token


def new_token() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class Policy:
    """Who may ask.

    Attributes:
        token: What every request must bring; None: nothing (loopback).
        names: Host names besides those of the loopback.
        addresses: Whether any address may stand in `Host`: an address, unlike a name, cannot be made to point here.
    """

    token: str | None = field(default=None, repr=False)
    names: frozenset[str] = frozenset()
    addresses: bool = False

    def check(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        """Let a request pass or raise the `Problem` that it meets.

        Args:
            method: In capitals.
            path: Without the query.
            headers: By lower-case names.
        """
        host = self._host(headers.get("host", ""))
        self._origin(method, path, headers, host)
        if self.token is not None and not self.knows(headers):
            raise Problem(401, "token", "This server needs its token: Authorization: Bearer …, or log in at /login.")

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Whether a request brings the token, or the cookie that was given for it."""
        assert self.token is not None
        kind, _, word = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and _same(word.strip(), self.token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return False
        return cookie is not None and _same(cookie.value, self.pass_word)

    @property
    def cookie(self) -> str:
        """Its name: another for each token, because browsers share cookies between the ports of a host."""
        return f"conceptlens-{self.pass_word[:8]}"

    @property
    def pass_word(self) -> str:
        """What the cookie holds: it proves the token without being it."""
        return hmac.new((self.token or "").encode(), b"conceptlens page", hashlib.sha256).hexdigest()

    def may_enter(self, token: str) -> bool:
        """Whether what the form at /login brings is the token."""
        return self.token is not None and _same(token.strip(), self.token)

    def _host(self, header: str) -> str:
        found = _HOST.fullmatch(header.strip())
        name = found[1].strip("[]").rstrip(".").lower() if found else ""
        if name in LOOPBACK or name in self.names or (self.addresses and _is_address(name)):
            return header.strip().lower()
        raise Problem(
            403, "forbidden", "This host name is not one of the server's. Use its address, or start it with --name."
        )

    def _origin(self, method: str, path: str, headers: Mapping[str, str], host: str) -> None:
        site = headers.get("sec-fetch-site", "")
        opened = method == "GET" and headers.get("sec-fetch-mode") == "navigate" and not path.startswith("/api/")
        if site in ("cross-site", "same-site") and not opened:
            raise Problem(403, "forbidden", "Requests from other sites are refused.")
        origin = headers.get("origin")
        if origin is None or site == "same-origin":
            return
        if urlsplit(origin).netloc.lower() != host:
            raise Problem(403, "forbidden", "Requests from other sites are refused.")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same(given: str, wanted: str) -> bool:
    """Compared in a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode("utf-8", "replace"))
