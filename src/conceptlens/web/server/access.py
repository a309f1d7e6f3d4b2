"""Who may ask for what: the owner of the server for everything, a rater for the page and the answers of one study.

Both bring a token, in a header or by the form at /login, which gives a session. Without a token the server listens on
this machine only, and whoever asks is its owner.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from conceptlens.web.server.back_off import BackOff
from conceptlens.web.server.problems import Problem
from conceptlens.web.server.safety import Policy, same
from conceptlens.web.server.sessions import Sessions, Visitor

STUDY = re.compile(r"(?:/api/v1/studies|/study)/([A-Za-z0-9._-]{1,200})(?:/.*)?")  # a study's addresses
_FOR_RATERS = {
    "GET": re.compile(r"/study/([^/]+)|/static/.*"),
    "HEAD": re.compile(r"/study/([^/]+)|/static/.*"),
    "POST": re.compile(r"/api/v1/studies/([^/]+)/raters"),
    "PUT": re.compile(r"/api/v1/studies/([^/]+)/raters/[^/]+"),
}


@dataclass
class Access:
    """What the middleware asks about every request."""

    policy: Policy
    sessions: Sessions = field(default_factory=Sessions)
    back_off: BackOff = field(default_factory=BackOff)

    def check(self, method: str, path: str, headers: Mapping[str, str], client: str) -> None:
        """Let a request pass or raise the `Problem` that it meets.

        Args:
            method: In capitals.
            path: Without the query.
            headers: By lower-case names.
            client: Whose wrong tokens are counted together.
        """
        self.policy.check(method, path, headers)
        if self.policy.token is None:
            return
        visitor = self._visitor(path, headers, client)
        if visitor is None:
            raise Problem(401, "token", "This server needs its token: Authorization: Bearer …, or log in at /login.")
        if visitor.study is not None and not _for_raters(method, path, visitor.study):
            raise Problem(403, "owner", "Only the owner of the server may do this; a rater's token is for one study.")

    def log_in(self, token: str, page: str, headers: Mapping[str, str], client: str) -> str | None:
        """The secret of a new session for who brings a token that opens `page`; None for a wrong one."""
        visitor = self._holder(token, page, client)
        return self.sessions.begin(visitor, instead_of=self._cookie(headers)) if visitor else None

    def _visitor(self, path: str, headers: Mapping[str, str], client: str) -> Visitor | None:
        kind, _, word = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._holder(word, path, client)
        secret = self._cookie(headers)
        return self.sessions.visitor(secret) if secret else None

    def _holder(self, token: str, path: str, client: str) -> Visitor | None:
        """Whose token it is, at an address: a rater's is that of the study there."""
        assert self.policy.token is not None
        self.back_off.check(client)
        study = STUDY.fullmatch(path)
        visitor = None
        if same(token.strip(), self.policy.token):
            visitor = Visitor()
        elif study and same(token.strip(), self.policy.rater_token(study[1])):
            visitor = Visitor(study[1])
        (self.back_off.right if visitor else self.back_off.wrong)(client)
        return visitor

    def _cookie(self, headers: Mapping[str, str]) -> str | None:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.policy.cookie)
        except CookieError:
            return None
        return cookie.value if cookie else None


def _for_raters(method: str, path: str, study: str) -> bool:
    """Whether a rater of a study may ask for this."""
    allowed = _FOR_RATERS.get(method)
    match = allowed.fullmatch(path) if allowed else None
    return match is not None and match[1] in (None, study)
