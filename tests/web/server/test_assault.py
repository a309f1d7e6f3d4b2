"""A few seconds of the assault on the server (`python assault/server.py`), and that its parts find what is wrong."""

from typing import Any

import pytest

from tests.web.browser import serve_inside
from tests.web.conftest import World

pytest.importorskip("fastapi", reason="the page needs the extra `page`")

from assault.http_fuzz import Fuzzer
from assault.slow_clients import besiege
from conceptlens.web.views.runs import RunIndex


def test_drawn_requests_find_faults_only_where_there_are_some(
    own_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_inside(own_world.root) as address:
        fuzzer = Fuzzer(address, seed=0)
        found = fuzzer.run(150)
        assert found.faults == []
        assert found.requests == 150
        assert found.statuses[200] > 20
        assert len(found.operations) > 30

        def broken(*_: Any) -> Any:
            raise RuntimeError("a bug")

        monkeypatch.setattr(RunIndex, "cards", broken)
        fuzzer._send("GET", "/api/v1/runs", None, "runs")
    assert len(fuzzer.found.faults) == 1
    assert fuzzer.found.faults[0].startswith("500: GET /api/v1/runs")


def test_slow_clients_stop_nobody(world: World) -> None:
    with serve_inside(world.root) as address:
        found = besiege(address, lines=200, seconds=1, seed=0)
    assert found["others_longest_s"] < 5  # a busy machine needs some of them; the assault itself wants 1
    assert found["others"] >= 4
