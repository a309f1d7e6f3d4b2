"""Logins: each has a secret of its own, ends on the server, can be revoked; wrong ones have to wait."""

from pathlib import Path
from typing import Any

import pytest

from conceptlens.cli import main
from tests.web.conftest import World, client_of

pytest.importorskip("fastapi", reason="the page needs the extra `page`")

from conceptlens.web.server.access import Access
from conceptlens.web.server.back_off import FREE, BackOff
from conceptlens.web.server.problems import Problem
from conceptlens.web.server.safety import Policy
from conceptlens.web.server.sessions import HOURS, Sessions, Visitor, revoke_sessions

TOKEN = "a-token-of-some-length"
OWNER = Visitor()


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def enter(client: Any, token: str = TOKEN) -> Any:
    return client.post("/login", content=f"token={token}")


def secret_of(answer: Any) -> str:
    return str(answer.headers["set-cookie"].split("=", 1)[1].split(";")[0])


def status(client: Any, cookie: str) -> int:
    client.cookies.clear()
    return int(client.get("/api/v1/about", headers={"cookie": cookie}).status_code)


def test_every_login_is_another_secret_and_the_next_one_of_a_browser_ends_it(world: World) -> None:
    with client_of(world.root, policy=Policy(TOKEN)) as client:
        first = enter(client)
        name = first.headers["set-cookie"].split("=")[0]
        client.cookies.clear()
        second = enter(client)  # another browser
        assert secret_of(first) != secret_of(second)
        cookies = [f"{name}={secret_of(answer)}" for answer in (first, second)]
        assert [status(client, cookie) for cookie in cookies] == [200, 200]
        third = client.post("/login", content=f"token={TOKEN}", headers={"cookie": cookies[0]})
        assert [status(client, cookie) for cookie in cookies] == [401, 200]
        assert status(client, f"{name}={secret_of(third)}") == 200
        assert status(client, f"{name}={secret_of(third)[:-1]}") == 401


def test_a_session_ends_on_the_server() -> None:
    clock = Clock()
    sessions = Sessions(clock=clock)
    secret = sessions.begin(OWNER)
    clock.now += HOURS * 3600 - 1
    assert sessions.visitor(secret) == OWNER
    clock.now += 1
    assert sessions.visitor(secret) is None
    assert sessions.visitor("") is None


def test_there_is_an_end_to_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conceptlens.web.server.sessions.MOST", 3)
    sessions = Sessions()
    secrets = [sessions.begin(OWNER) for _ in range(4)]
    assert [sessions.visitor(secret) for secret in secrets] == [None, OWNER, OWNER, OWNER]


def test_a_terminal_ends_the_sessions_of_a_running_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "conceptlens" / "sessions-revoked"
    sessions = Sessions(file)
    before = sessions.begin(OWNER)
    assert sessions.visitor(before) == OWNER
    assert main(["serve", "--revoke"]) == 0
    assert "logins have ended" in capsys.readouterr().err
    after = sessions.begin(OWNER)
    assert [sessions.visitor(secret) for secret in (before, after)] == [None, OWNER]
    assert Sessions(file).visitor(after) is None  # another server knows nobody
    revoke_sessions(file)
    assert sessions.visitor(after) is None
    file.write_text("nonsense")
    assert sessions.visitor(sessions.begin(OWNER)) is None
    assert main(["serve"]) == 2
    assert "Expected folders" in capsys.readouterr().err


def test_wrong_tokens_wait_longer_each_time() -> None:
    clock = Clock()
    back_off = BackOff(clock)

    def pause(client: str = "a") -> int:
        try:
            back_off.check(client)
        except Problem as problem:
            return problem.wait or 0
        return 0

    told = []
    for _ in range(FREE + 8):
        back_off.wrong("a")
        told.append(pause())
        clock.now += told[-1]
    assert told == [0] * (FREE - 1) + [2, 3, 5, 9, 17, 33, 61, 61, 61]  # 2ⁿ seconds, and the one that has begun
    back_off.wrong("a")
    assert pause("b") == 0
    back_off.right("a")
    assert pause() == 0
    for _ in range(FREE):
        back_off.wrong("a")
    assert pause()
    clock.now += 901
    assert pause() == 0


def test_who_guesses_waits_and_sessions_stay(world: World) -> None:
    with client_of(world.root, policy=Policy(TOKEN)) as client:
        enter(client)  # a session that is there already
        for _ in range(FREE):
            assert enter(client, "wrong").status_code == 401
        late = enter(client)  # not even the right one counts now, or guessing would go on
        assert (late.status_code, late.headers["retry-after"]) == (429, "1")
        assert "Try again in 1 seconds" in late.text
        header = client.get("/api/v1/about", headers={"authorization": f"Bearer {TOKEN}"})
        assert header.status_code == 429
        assert client.get("/api/v1/about").status_code == 200


def test_wrong_headers_count_as_well() -> None:
    access = Access(Policy(TOKEN))
    for _ in range(FREE):
        with pytest.raises(Problem, match="needs its token"):
            access.check("GET", "/api/v1/runs", {"host": "localhost", "authorization": "Bearer wrong"}, "10.0.0.1")
    for client, code in (("10.0.0.1", "busy"), ("10.0.0.2", "token")):
        with pytest.raises(Problem) as caught:
            access.check("GET", "/api/v1/runs", {"host": "localhost", "authorization": "Bearer wrong"}, client)
        assert caught.value.code == code
