"""The client of a chat endpoint against a server that is slow, busy, broken or hostile."""

from email.utils import formatdate

import pytest

from conceptlens.core.errors import UserError
from conceptlens.workflows.authoring.language_model import endpoint as module
from conceptlens.workflows.authoring.language_model.api_key import Secret
from conceptlens.workflows.authoring.language_model.endpoint import Endpoint
from conceptlens.workflows.authoring.language_model.models import models_asked
from conceptlens.workflows.authoring.language_model.rate_limit import Pace, retry_after
from tests.workflows.authoring.chat_server import ChatServer, Reply, one_after_another

ASK = [{"role": "user", "content": "hello"}]
KEY = "sk-very-secret-0123456789"


def made(server: ChatServer, **settings: object) -> tuple[Endpoint, list[float]]:
    waits: list[float] = []
    pace = Pace(sleep=waits.append, clock=lambda: 0.0)
    return Endpoint(server.url, "m", pace=pace, **settings), waits  # type: ignore[arg-type]


def test_a_plain_answer_and_what_was_sent() -> None:
    with ChatServer(lambda seen: Reply("yes")) as server:
        asked, waits = made(server, secret=Secret("V", KEY))
        assert asked.ask(ASK) == "yes"
        assert not waits
    (seen,) = server.seen
    assert (seen.path, seen.model, seen.prompt, seen.key) == ("/v1/chat/completions", "m", "hello", f"Bearer {KEY}")


def test_an_address_may_name_the_method_itself_and_no_key_is_sent_without_one() -> None:
    with ChatServer(lambda seen: Reply("yes")) as server:
        assert Endpoint(server.url + "/chat/completions/", "m").ask(ASK) == "yes"
    assert server.seen[0].path == "/v1/chat/completions"
    assert server.seen[0].key == ""


def test_an_answer_in_parts_is_joined() -> None:
    body = b'{"choices": [{"message": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}}]}'
    with ChatServer(lambda seen: Reply(body=body)) as server:
        assert made(server)[0].ask(ASK) == "ab"


def test_what_a_model_thinks_aloud_is_not_its_answer() -> None:
    with ChatServer(one_after_another(Reply("<think>[{}] or not"), Reply("<think>\nhm [1]\n</think>\n[2]"))) as server:
        assert made(server)[0].ask(ASK).strip() == "[2]"  # an answer of thoughts alone is asked for again
    assert len(server.seen) == 2


def test_a_server_with_one_model_needs_no_name() -> None:
    with ChatServer(lambda seen: Reply("hello"), models=["llama.gguf"]) as server:
        asked = models_asked(server.url)
        assert asked.drafter is not None
        assert asked.drafter.model == "llama.gguf"
        assert asked.drafter.ask(ASK) == "hello"
    with ChatServer(lambda seen: Reply("hello"), models=["a", "b"]) as server:
        with pytest.raises(UserError, match=r"serves 2 models \(a, b\)\. Choose one"):
            models_asked(server.url)
        with pytest.raises(UserError, match=r"under /v1: --endpoint http://127\.0\.0\.1:\d+/v1"):
            models_asked(server.url.removesuffix("/v1"))


def test_a_rate_limit_is_waited_out_as_long_as_it_says() -> None:
    busy = Reply(status=429, body=b"{}", headers={"Retry-After": "7"})
    with ChatServer(one_after_another(busy, Reply("at last"))) as server:
        asked, waits = made(server)
        assert asked.ask(ASK) == "at last"
        assert 7.0 in waits


def test_waits_double_and_end() -> None:
    with ChatServer(lambda seen: Reply(status=503, body=b"overloaded")) as server:
        asked, waits = made(server, attempts=4)
        with pytest.raises(UserError, match=r"no answer from 'm' in 4 attempts; .* 503: overloaded") as caught:
            asked.ask(ASK)
        assert "continues from there" in str(caught.value)
        assert len(server.seen) == 4
    assert len(waits) == 3
    for wait, plain in zip(waits, (1, 2, 4), strict=True):
        assert 0.8 * plain <= wait <= 1.2 * plain


@pytest.mark.parametrize(
    "bad",
    [
        Reply(body=b"<html>gateway</html>"),
        Reply(body=b"[" * 100_000),
        Reply(body=b'{"choices": []}'),
        Reply(body=b'{"choices": [{"message": {"content": null}}]}'),
        Reply("   "),
        Reply(status=500, body=b""),
        Reply("late", wait=0.6),
        Reply("dripping", drip=0.02),
    ],
    ids=["html", "deep", "no choices", "null", "empty", "500", "late", "drip"],
)
def test_a_bad_reply_is_asked_for_again(bad: Reply) -> None:
    with ChatServer(one_after_another(bad, Reply("good"))) as server:
        asked, _ = made(server, timeout=0.3)
        assert asked.ask(ASK) == "good"
        assert len(server.seen) == 2


def test_a_server_that_is_not_there() -> None:
    with ChatServer(lambda seen: Reply("x")) as server:
        pass
    asked, waits = made(server, attempts=2)
    with pytest.raises(UserError, match="could not be reached"):
        asked.ask(ASK)
    assert len(waits) == 1


def test_a_refusal_is_final_and_hides_the_key() -> None:
    with ChatServer(lambda seen: Reply(status=401, body=f"bad key {KEY}".encode())) as server:
        asked, _ = made(server, secret=Secret("MY_KEY", KEY))
        with pytest.raises(UserError, match="MY_KEY") as caught:
            asked.ask(ASK)
        assert len(server.seen) == 1
    assert KEY not in str(caught.value)
    assert "[secret]" in str(caught.value)


def test_a_redirect_is_not_followed() -> None:
    with ChatServer(lambda seen: Reply("stolen")) as elsewhere:
        away = Reply(status=307, body=b"", headers={"Location": elsewhere.url + "/chat/completions"})
        with ChatServer(lambda seen: away) as server, pytest.raises(UserError, match="not followed"):
            made(server, secret=Secret("V", KEY))[0].ask(ASK)
        assert not elsewhere.seen


def test_a_flood_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1000)
    with ChatServer(lambda seen: Reply("x" * 5000)) as server, pytest.raises(UserError, match="more than 1,000 bytes"):
        made(server)[0].ask(ASK)


def test_a_key_does_not_print() -> None:
    assert KEY not in repr(Secret("V", KEY)) + str(Secret("V", KEY)) + repr(Endpoint("http://localhost/v1", "m"))


@pytest.mark.parametrize(
    ("url", "key", "says"),
    [
        ("localhost:8000", "", "expected an address"),
        ("ftp://host/v1", "", "expected an address"),
        ("https://me:pw@host/v1", "", "does not belong in it"),
        ("https://host/v1?api_key=abc", "", "does not belong in it"),
        ("http://host.example/v1", KEY, "plain http"),
        ("http://host:notaport/v1", "", "not an address"),
    ],
)
def test_addresses_that_are_refused(url: str, key: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        Endpoint(url, "m", Secret("V", key))
    assert KEY not in str(caught.value)


def test_plain_http_without_a_key_is_fine() -> None:
    assert Endpoint("http://host.example/v1", "m").address == "http://host.example/v1/chat/completions"


def test_requests_are_spread_over_the_minute() -> None:
    waits: list[float] = []
    pace = Pace(per_minute=30, sleep=waits.append, clock=lambda: 100.0)
    for _ in range(4):
        pace.before_request()
    assert waits == [2.0, 4.0, 6.0]


def test_no_wait_is_longer_than_the_longest() -> None:
    waits: list[float] = []
    Pace(sleep=waits.append, longest_wait=10).after_refusal(0, 3600.0)
    assert waits == [10.0]


def test_retry_after_as_number_date_and_nonsense() -> None:
    assert retry_after("3") == 3
    assert retry_after(formatdate(1000, usegmt=True), now=lambda: 940.0) == 60
    assert retry_after(formatdate(1000, usegmt=True), now=lambda: 2000.0) == 0
    assert retry_after("soon") is None
    assert retry_after(None) is None


def test_a_key_is_for_its_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", KEY)
    asked = models_asked(
        "https://one.example/v1", "a", checker="b", checker_endpoint="https://two.example/v1", key_variable="A_KEY"
    )
    assert asked.drafter is not None
    assert asked.checker is not None
    assert asked.drafter.secret
    assert not asked.checker.secret
    assert asked.drafter.pace is not asked.checker.pace
    same = models_asked("https://one.example/v1", "a", checker="b", key_variable="A_KEY")
    assert same.checker is not None
    assert same.checker.secret
    assert same.drafter is not None
    assert same.checker.pace is same.drafter.pace


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"model": "m"}, "without --endpoint"),
        ({"checker_endpoint": "http://localhost/v1"}, "without --checker"),
        ({"endpoint": "http://localhost/v1", "model": "m", "checker": "m"}, "check its own answers"),
    ],
)
def test_half_an_endpoint_is_refused(words: dict[str, str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        models_asked(**words)  # type: ignore[arg-type]
