"""An OpenAI-compatible chat endpoint, on this machine or elsewhere, asked with the standard library alone.

What it returns is untrusted text: it is limited in size and time, never run, and never followed elsewhere (a
redirect would carry the key to another host).
"""

import http.client
import ipaddress
import json
import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import urlsplit

from conceptlens.core.errors import UserError
from conceptlens.workflows.authoring.filters.wording import clean
from conceptlens.workflows.authoring.language_model.api_key import Secret
from conceptlens.workflows.authoring.language_model.rate_limit import Pace, retry_after

LARGEST = 2_000_000  # bytes of an answer
CHUNK = 65_536
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)  # of models that reason aloud, as local servers pass on
_WAIT_AND_REPEAT = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class _Again(Exception):
    """The request may succeed later."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass
class Endpoint:
    """One model behind one address.

    Args:
        url: As `http://localhost:8000/v1`.
        model: The model's name there.
        secret: The key, where one is needed.
        timeout: Seconds for one request, from sending to the last byte.
        attempts: How often a request is tried when the endpoint is slow, busy or broken.
        pace: Shared by endpoints that count requests together.
    """

    url: str
    model: str
    secret: Secret = field(default_factory=lambda: Secret(""))
    timeout: float = 120.0
    attempts: int = 5
    pace: Pace = field(default_factory=Pace)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise UserError(f"--endpoint: {self.url!r} is not an address ({error}).") from None
        if parts.scheme not in ("http", "https") or not host:
            raise UserError(f"--endpoint: expected an address such as http://localhost:8000/v1, found {self.url!r}.")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UserError(
                "--endpoint: the address holds a name, a password or a query; a key does not belong in it. "
                f"Put it into the environment variable {self.secret.variable or 'that --key-variable names'}."
            )
        if self.secret and parts.scheme == "http" and not _local(host):
            raise UserError(
                f"--endpoint: {host} is asked over plain http, which would send the key of {self.secret.variable} "
                "readable over the network. Use https, or unset the variable if no key is needed."
            )
        if self.timeout <= 0 or self.attempts < 1:
            raise UserError("--timeout must be above 0 and --attempts at least 1.")
        self.address = self.url.rstrip("/").removesuffix("/chat/completions") + "/chat/completions"
        handlers: list[Any] = [_NoRedirect()]
        if _local(host):
            handlers.append(urllib.request.ProxyHandler({}))  # a proxy cannot reach this machine's own server
        self._opener = urllib.request.build_opener(*handlers)

    def ask(self, messages: list[dict[str, str]]) -> str:
        """The model's answer to a conversation.

        Raises:
            UserError: It refuses, or does not answer after all attempts.
        """
        # No temperature: some models refuse any but their own.
        body = json.dumps({"model": self.model, "messages": messages}).encode()
        reason = ""
        for attempt in range(self.attempts):
            self.pace.before_request()
            try:
                return self.secret.hide(_content(self._post(body)))
            except _Again as error:
                reason = self.secret.hide(str(error))
                if attempt + 1 < self.attempts:
                    self.pace.after_refusal(attempt, error.wait)
        raise UserError(
            f"{self.address}: no answer from {self.model!r} in {self.attempts} attempts; the last time {reason}. "
            "The answers so far are kept: the same command continues from there."
        )

    def _post(self, body: bytes) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json", **self.secret.header()}
        return self._fetch(urllib.request.Request(self.address, body, headers, method="POST"))

    def served(self) -> list[str]:
        """Names of the models that the service lists."""
        address = self.address.removesuffix("/chat/completions") + "/models"
        request = urllib.request.Request(address, headers={"Accept": "application/json", **self.secret.header()})
        try:
            return [clean(entry["id"], 120) for entry in self._fetch(request)["data"]]
        except (_Again, KeyError, TypeError) as error:
            raise UserError(
                f"{address}: no list of models ({clean(error, 200)}). Is a server there, and does the address end in "
                "/v1? Else name the model with --model."
            ) from None

    def _fetch(self, request: urllib.request.Request) -> Any:
        deadline = time.monotonic() + self.timeout
        try:
            with self._opener.open(request, timeout=self.timeout) as reply:
                data = self._read(reply, deadline)
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error, deadline)
        except TimeoutError:
            raise _Again(f"it took longer than {self.timeout:g} s") from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise _Again(f"it took longer than {self.timeout:g} s") from None
            raise _Again(f"it could not be reached ({clean(error.reason, 200)})") from None
        except (OSError, http.client.HTTPException) as error:
            raise _Again(f"the connection broke ({clean(error, 200) or type(error).__name__})") from None
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise _Again("it sent something other than JSON") from None

    def _read(self, reply: Any, deadline: float) -> bytes:
        """The body; a server that sends a byte a minute is late all the same."""
        pieces: list[bytes] = []
        size = 0
        while piece := reply.read1(CHUNK):
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST:
                raise UserError(f"{self.address}: an answer of more than {LARGEST:,} bytes is not read.")
            if time.monotonic() > deadline:
                raise TimeoutError
        return b"".join(pieces)

    def _refused(self, error: urllib.error.HTTPError, deadline: float) -> NoReturn:
        try:
            told = self.secret.hide(clean(self._read(error, deadline).decode("utf-8", "replace"), 300))
        except (OSError, http.client.HTTPException):
            told = ""
        said = f"it said {error.code}" + (f": {told}" if told else "")
        if error.code in _WAIT_AND_REPEAT:
            raise _Again(said, retry_after(error.headers.get("Retry-After")))
        hint = "Look at --endpoint and --model."
        if error.code == 404 and not urlsplit(self.url).path.strip("/"):
            hint = f"Most servers answer under /v1: --endpoint {self.url.rstrip('/')}/v1."
        if error.code in (401, 403):
            hint = f"Is the key in the environment variable {self.secret.variable or '(none named)'} right?"
        elif 300 <= error.code < 400:
            hint = "It points elsewhere, which is not followed; name that address itself with --endpoint."
        raise UserError(f"{self.address}: {said}. {hint}")


def _content(reply: Any) -> str:
    """The text of the first choice."""
    try:
        content = reply["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        raise _Again("its JSON holds no choices[0].message.content") from None
    if isinstance(content, list):  # some servers send an answer in parts
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    content = _THOUGHT.sub("", content) if isinstance(content, str) else content
    if not isinstance(content, str) or not content.strip():
        raise _Again("its answer is empty")
    return content


def _local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
