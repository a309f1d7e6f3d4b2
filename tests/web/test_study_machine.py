"""Owner and raters in any order: after every step the folder holds what a plain model of a study says, and no more."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from conceptlens.web.server.safety import Policy
from tests.web.conftest import client_of
from tests.workflows.study.world import make_key, make_pack

pytest.importorskip("fastapi", reason="the page needs the extra `page`")

KEY = make_key(images=2, catch=1, attention=1)
STUDY = "/api/v1/studies/pack"
POLICY = Policy("the-token-of-the-owner")
OWNER = {"authorization": "Bearer the-token-of-the-owner"}
RATER = {"authorization": f"Bearer {POLICY.rater_token('pack')}"}
CODES = st.sampled_from(["r0", "r1", "r2"])
WORDS = st.sampled_from(["none", "right", "another's"])
TRIALS = st.sets(st.sampled_from([trial.id for trial in KEY.trials]), min_size=1)
VISITORS = st.sampled_from([OWNER, RATER])


class Study(RuleBasedStateMachine):
    """The real server against two dictionaries and a flag."""

    @initialize()
    def begin_anew(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.pack = make_pack(self.folder / "pack", KEY)
        self.client = client_of(self.folder, policy=POLICY)
        self.words: dict[str, str] = {}
        self.answers: dict[str, dict[str, Any]] = {}
        self.closed = False

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def word(self, which: str, code: str) -> str | None:
        if which == "right":
            return self.words.get(code)
        others = [word for other, word in self.words.items() if other != code]
        return others[0] if which == "another's" and others else None

    @rule(visitor=VISITORS, code=CODES, which=WORDS)
    def begin(self, visitor: dict[str, str], code: str, which: str) -> None:
        word = self.word(which, code)
        answer = self.client.post(f"{STUDY}/raters", json={"rater": code, "word": word}, headers=visitor)
        if self.closed:
            assert answer.json()["error"]["code"] == "closed"
        elif code not in self.words:
            self.words[code] = answer.json()["word"]
        elif word == self.words[code]:
            assert answer.json()["answers"] == self.answers.get(code, {})
        else:
            assert answer.json()["error"]["code"] == "taken"

    @rule(visitor=VISITORS, code=CODES, which=WORDS, trials=TRIALS, last=st.booleans())
    def keep(self, visitor: dict[str, str], code: str, which: str, trials: set[str], last: bool) -> None:
        word = self.word(which, code) or "abcd-abcd-abcd"
        offered = {trial.id: trial.options or list("12345") for trial in KEY.trials}
        given = {name: {"answer": offered[name][-1 if last else 0], "ms": 9, "changes": 0} for name in trials}
        body = {"word": word, "answers": given}
        answer = self.client.put(f"{STUDY}/raters/{code}", json=body, headers=visitor)
        if self.closed:
            assert answer.json()["error"]["code"] == "closed"
        elif self.words.get(code) == word:
            self.answers[code] = {**self.answers.get(code, {}), **given}
            assert answer.json()["answered"] == len(self.answers[code])
        else:
            assert answer.status_code == 403

    @rule(visitor=VISITORS, unfinished=st.booleans())
    def close(self, visitor: dict[str, str], unfinished: bool) -> None:
        answer = self.client.post(f"{STUDY}/analysis", json={"unfinished": unfinished}, headers=visitor)
        complete = all(len(self.answers.get(code, {})) == len(KEY.trials) for code in self.words)
        if visitor is RATER:
            assert answer.json()["error"]["code"] == "owner"
        elif self.closed:
            assert answer.json()["error"]["code"] == "closed"
        elif self.answers and (unfinished or complete):
            assert answer.status_code == 200
            self.closed = True
        else:
            assert answer.json()["error"]["code"] == "missing"

    @invariant()
    def the_folder_holds_what_was_said(self) -> None:
        if not hasattr(self, "pack"):
            return
        files = (self.pack / "responses").glob("*.json")
        held = {(told := json.loads(path.read_text()))["rater"]: told["answers"] for path in files}
        assert held == self.answers
        assert (self.pack / "analysis.json").exists() == self.closed
        assert self.client.get(f"{STUDY}/analysis", headers=RATER).status_code == 403
        shown = self.client.get(f"{STUDY}/analysis", headers=OWNER).status_code
        assert shown == (200 if self.closed else 409)


def test_any_order_of_steps() -> None:
    some = settings(max_examples=4, stateful_step_count=10, derandomize=True, database=None, deadline=None)
    run_state_machine_as_test(Study, settings=settings(some, suppress_health_check=list(HealthCheck)))


@pytest.mark.slow
def test_many_orders_of_steps() -> None:
    many = settings(max_examples=60, stateful_step_count=30, derandomize=True, database=None, deadline=None)
    run_state_machine_as_test(Study, settings=settings(many, suppress_health_check=list(HealthCheck)))
