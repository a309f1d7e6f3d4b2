"""Where a request may come from: the right host name, no other site's page. Tokens. And what every answer forbids.

A page of another site can make a browser send requests here. It cannot read the answers (there is no CORS), but it
could start work or, by a name that is suddenly this machine's (DNS rebinding), pose as our own page. So `Host` must be
an address of this server, and what a browser marks as coming from elsewhere is refused.
"""

import base64
import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import urlsplit

from conceptlens.core.errors import UserError
from conceptlens.web.server.problems import Problem

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
    """Where requests may come from, and the token they must bring.

    Attributes:
        token: The owner's; None: none is needed (loopback).
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
        self._origin(method, path, headers, self._host(headers.get("host", "")))

    def rater_token(self, study: str) -> str:
        """The token of a study's raters, by its key: the same as long as the owner's token is."""
        digest = hmac.new(self._derived, b"raters of " + study.encode(), hashlib.sha256).digest()
        letters = base64.b32encode(digest)[:24].decode().lower()
        return "-".join(letters[start : start + 6] for start in range(0, 24, 6))

    @property
    def cookie(self) -> str:
        """Its name: another for each token, because browsers share cookies between the ports of a host."""
        return f"conceptlens-{hmac.new(self._derived, b'cookie', hashlib.sha256).hexdigest()[:8]}"

    @cached_property
    def _derived(self) -> bytes:
        """Made slowly: a rater who tries owner's tokens at home until theirs comes out needs long for each."""
        return hashlib.scrypt((self.token or "").encode(), salt=b"conceptlens", n=2**14, r=8, p=1)

    def _host(self, header: str) -> str:
        found = _HOST.fullmatch(header.strip())
        name = found[1].strip("[]").rstrip(".").lower() if found else ""
        if is_loopback(name) or name in self.names or (self.addresses and _is_address(name)):
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
        # A name without a port is that of a proxy before this server, which may have put its own into `Host`.
        if origin is not None and urlsplit(origin).netloc.lower() not in (host, *self.names):
            raise Problem(403, "forbidden", "Requests from other sites are refused.")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def same(given: str, wanted: str) -> bool:
    """Compared in a time that does not tell how much of it is right."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode("utf-8", "replace"))
