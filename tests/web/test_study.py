"""A study on the server: answers are kept for who gave them, and nothing served depends on the key while it is open."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from conceptlens.web.server.client_limit import Allowance
from conceptlens.web.server.safety import Policy
from conceptlens.web.views.ratings import CODES
from conceptlens.workflows.study.analyze import analyze_study
from conceptlens.workflows.study.key import Key
from conceptlens.workflows.study.responses import Responses, read_responses
from tests.web.conftest import client_of
from tests.workflows.study.world import make_key, make_pack

KEY = make_key(images=6, catch=3, attention=1)
STUDY = "/api/v1/studies/pack"
TOKEN = "the-token-of-the-owner"
OWNER = {"authorization": f"Bearer {TOKEN}"}
FILE = f"responses-{KEY.study}-{{}}.json"


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    return make_pack(tmp_path / "runs" / "pack", KEY)


@pytest.fixture
def client(pack: Path) -> Iterator[Any]:
    with client_of(pack.parent) as made:
        yield made


def right(key: Key = KEY, ms: int = 2000) -> dict[str, Any]:
    """Everything, as someone answers who sees through the study."""
    given = {
        trial.id: trial.answer if trial.answer else "2" if trial.catch else "5" if int(trial.id[1:]) % 2 else "4"
        for trial in key.trials
    }
    return {name: {"answer": answer, "ms": ms, "changes": 0} for name, answer in given.items()}


def begin(client: Any, rater: str, **more: Any) -> Any:
    return client.post(f"{STUDY}/raters", json={"rater": rater, **more})


def keep(client: Any, rater: str, word: str, answers: dict[str, Any], **more: Any) -> Any:
    return client.put(f"{STUDY}/raters/{rater}", json={"word": word, "answers": answers, **more})


def test_from_the_list_to_the_result(client: Any, pack: Path) -> None:
    (card,) = client.get("/api/v1/studies").json()["studies"]
    assert (card["key"], card["questions"], card["images"], card["closed"]) == ("pack", len(KEY.trials), 9, False)
    word = begin(client, "r1").json()["word"]
    order = [trial.id for trial in KEY.trials][::-1]
    answers = right()
    some = dict(list(answers.items())[:5])
    told = keep(client, "r1", word, some, order=order, started="2026-01-31T12:00:00.000Z").json()
    assert (told["answered"], told["of"], told["complete"]) == (5, len(KEY.trials), False)
    (rater,) = client.get(STUDY).json()["raters"]
    assert (rater["rater"], rater["answered"], rater["complete"], rater["here"]) == ("r1", 5, False, True)
    assert keep(client, "r1", word, answers, order=order, comment="fine <b>").json()["complete"]

    # The file is one that the command reads, as if the rater had sent it.
    (read,) = read_responses([pack / "responses" / FILE.format("r1")], KEY)
    assert (read.complete, read.comment, read.order) == (True, "fine <b>", order)
    assert {name: each.answer for name, each in read.answers.items()} == {n: a["answer"] for n, a in answers.items()}

    closed = client.post(f"{STUDY}/analysis", json={})
    assert closed.status_code == 200
    found = closed.json()["analysis"]["result"]
    assert found["likert"]["true"]["value"] == 4.5
    assert found["likert"]["shuffled"]["value"] == 2
    assert found["choice"]["value"] == 1
    assert client.get(f"{STUDY}/analysis").json() == closed.json()
    assert closed.json()["table"]["rows"][0][0] == "birds"
    assert closed.json()["table"]["markdown"] == (pack / "table.md").read_text()
    page = client.get(f"{STUDY}/analysis.html")
    assert page.content == (pack / "analysis.html").read_bytes()
    assert page.headers["content-disposition"].startswith("attachment")
    by_command = analyze_study(pack)
    assert by_command.analysis.model_dump() == closed.json()["analysis"]


def test_a_rater_goes_on_where_they_stopped(client: Any) -> None:
    word = begin(client, "r1").json()["word"]
    assert re.fullmatch(r"[a-z2-9]{4}-[a-z2-9]{4}-[a-z2-9]{4}", word)
    answers = right()
    keep(client, "r1", word, {"c0": answers["c0"]}, comment="so far")
    again = begin(client, "r1", word=word.upper()).json()
    assert (again["answers"], again["comment"], again["word"]) == ({"c0": answers["c0"]}, "so far", word)
    # A page that was left open in another window brings less: nothing is lost.
    assert keep(client, "r1", word, {"l1": answers["l1"]}).json()["answered"] == 2


def test_nobody_writes_or_reads_the_file_of_another(client: Any, pack: Path) -> None:
    word = begin(client, "r1").json()["word"]
    keep(client, "r1", word, right())
    before = (pack / "responses" / FILE.format("r1")).read_bytes()
    other = begin(client, "r2").json()["word"]
    for wrong in (None, "abcd-abcd-abcd", other):
        refused = begin(client, "r1", word=wrong)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "taken")
        assert "answers" not in refused.json()
    assert keep(client, "r1", other, {"c0": {"answer": KEY.trials[0].options[0], "ms": 1}}).status_code == 403
    assert keep(client, "r3", other, {}).status_code == 403
    assert (pack / "responses" / FILE.format("r1")).read_bytes() == before
    assert not (pack / "responses" / FILE.format("r3")).exists()
    assert word not in "".join(path.read_text() for path in (pack / "responses").iterdir())


def test_a_file_that_was_sent_is_counted_and_never_overwritten(client: Any, pack: Path) -> None:
    sent = Responses.model_validate({"study": KEY.study, "rater": "far", "answers": right()})
    sent.write(pack / "responses" / FILE.format("far"))
    (pack / "responses" / FILE.format("torn")).write_text("{")
    raters = {each["rater"]: each for each in client.get(STUDY).json()["raters"]}
    assert (raters["far"]["complete"], raters["far"]["here"]) == (True, False)
    assert "expected JSON" in raters["torn"]["reason"]
    assert begin(client, "far").json()["error"]["code"] == "taken"
    # What cannot be read is not passed over in silence.
    refused = client.post(f"{STUDY}/analysis", json={"unfinished": True}).json()["error"]
    assert (refused["code"], "torn" in refused["message"]) == ("broken", True)
    (pack / "responses" / FILE.format("torn")).unlink()
    assert client.post(f"{STUDY}/analysis", json={}).json()["analysis"]["everyone"]["raters"] == ["far"]


def test_answers_that_the_page_does_not_offer_are_refused(client: Any, pack: Path) -> None:
    word = begin(client, "r1").json()["word"]
    answer = {"answer": "5", "ms": 1}
    order = [trial.id for trial in KEY.trials]
    for status, answers, more in (
        (400, {"zz": answer}, {}),
        (400, {"l0": {"answer": "6", "ms": 1}}, {}),
        (400, {"c0": answer}, {}),
        (400, {"l0": answer}, {"order": order[:-1]}),
        (400, {"l0": answer}, {"order": [*order[:-1], order[0]]}),
        (422, {"l0": {"answer": "5", "ms": -1}}, {}),
        (422, {"l0": {"answer": "5", "ms": 1, "catch": True}}, {}),
        (422, {"l0": answer}, {"comment": "x" * 2001}),
        (422, {"l0": answer}, {"started": "<script>"}),
        (422, {"l0": answer}, {"extra": 1}),
        (422, {f"t{n}": answer for n in range(20_001)}, {}),
    ):
        assert keep(client, "r1", word, answers, **more).status_code == status
    for code in ("R1", "", "../r1", "a b", "x" * 41, "é"):
        assert begin(client, code).status_code == 422
    assert keep(client, "../pack", word, {"l0": answer}).status_code in (404, 422)
    assert client.put(f"{STUDY}/raters/r1", content=b"x" * 4_100_000).status_code == 413
    assert not (pack / "responses" / FILE.format("r1")).exists()


def test_there_is_an_end_to_raters(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conceptlens.web.views.ratings.MOST", 2)
    assert [begin(client, f"r{n}").status_code for n in range(3)] == [200, 200, 413]


def test_links_lead_nowhere(client: Any, pack: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    os.symlink(tmp_path / "out", pack / "responses")
    assert begin(client, "r1").status_code == 409
    assert list((tmp_path / "out").iterdir()) == []


def test_a_study_that_is_closed_takes_no_answers(client: Any, pack: Path) -> None:
    assert client.post(f"{STUDY}/analysis", json={}).json()["error"]["code"] == "missing"
    word = begin(client, "r1").json()["word"]
    keep(client, "r1", word, {"l0": {"answer": "5", "ms": 900}})
    unfinished = client.post(f"{STUDY}/analysis", json={}).json()["error"]
    assert (unfinished["code"], "r1" in unfinished["message"]) == ("missing", True)
    assert client.post(f"{STUDY}/analysis", json={"unfinished": True}).status_code == 200
    for answer in (
        begin(client, "r1", word=word),
        begin(client, "r2"),
        keep(client, "r1", word, {"l1": {"answer": "5", "ms": 900}}),
        client.post(f"{STUDY}/analysis", json={"unfinished": True}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "closed")
    # The command closes it as well; another study in the same folder is open.
    make_pack(pack, KEY.model_copy(update={"study": "f" * 16}))
    assert client.get(STUDY).json()["card"]["closed"] is False


def sealed() -> tuple[Key, Key]:
    """Two keys of the same page: what is shuffled in one is not in the other, what is right in one is wrong."""

    def turned(n: int, each: Any) -> Any:
        if each.kind == "choice":
            wrong = next(option for option in each.options if option != each.answer)
            return each.model_copy(update={"catch": not each.catch, "answer": wrong, "concept": wrong})
        changes = {"catch": not each.catch} if each.kind == "likert" else {}
        return each.model_copy(update={**changes, "image": f"other {n}", "class_name": "secret"})

    other = KEY.model_copy(update={"trials": [turned(n, each) for n, each in enumerate(KEY.trials)], "seed": 77})
    return KEY, other


def addresses(client: Any) -> list[str]:
    """Every address that can be read, with every name that this server knows in it, and some that nobody should."""
    document = client.get("/api/v1/openapi.json").json()
    found = []
    for path, item in document["paths"].items():
        if "get" not in item:
            continue
        whole = [path.replace("{run}", "pack").replace("{study}", "pack").replace("{rater}", "r1")]
        for parameter in item["get"].get("parameters", []):
            if parameter["in"] == "path":
                values = parameter["schema"].get("enum", ["0", "key", "key.json", "analysis"])
                name = f"{{{parameter['name']}}}"
                whole = [each.replace(name, str(value)) for each in whole for value in values]
        found += whole
    assert not any("{" in each for each in found)
    hidden = ("key.json", "../pack/key.json", "responses", "analysis.json", f"responses/{FILE.format('r1')}")
    for name in hidden:
        for start in ("/study/pack/", "/study/", "/static/study/", "/static/", f"{STUDY}/", "/api/v1/runs/pack/", "/"):
            found += [start + name, start + quote(name, safe="")]
    return [*found, "/", "/study/pack", "/static/study/study.js", "/static/study/body.html"]


def everything(folder: Path) -> list[tuple[str, int, str]]:
    """A rater's way through an open study, and then every address: what the server said to each."""
    said: list[tuple[str, int, str]] = []
    with client_of(folder) as client:
        begun = begin(client, "r1").json()
        word = begun["word"]

        def note(name: str, answer: Any) -> None:
            plain = answer.text.replace(word, "WORD")
            plain = re.sub(r'"(saved|changed)":"[^"]*"', "", plain)
            said.append((name, answer.status_code, plain))

        for name, answer in list(right().items())[::3]:
            note(f"keep {name}", keep(client, "r1", word, {name: answer}))
            note(f"wrong {name}", keep(client, "r1", word, {name: {"answer": "none of them", "ms": 1}}))
            note("asked for the result", client.get(f"{STUDY}/analysis"))
        note("keep all", keep(client, "r1", word, right()))
        note("go on", begin(client, "r1", word=word))
        for address in addresses(client):
            note(address, client.get(address))
    return said


@pytest.mark.slow
def test_nothing_that_is_served_depends_on_the_key(tmp_path: Path) -> None:
    """Two servers whose packs differ in the key alone say the same, byte for byte, until the study is closed."""
    one, other = sealed()
    told = []
    for key, place in zip((one, other), ("one", "other"), strict=True):
        folder = tmp_path / place / "runs"
        make_pack(folder / "pack", KEY)
        key.write(folder / "pack" / "key.json")
        os.utime(folder / "pack" / "study.html", (1, 1))
        os.utime(folder / "pack" / "run.json", (1, 1))
        told.append([(name, code, text.replace(str(folder), "")) for name, code, text in everything(folder)])
    assert len(told[0]) > 100
    for first, second in zip(*told, strict=True):
        assert first == second
    assert not any("secret" in text or "other 3" in text for _, _, text in told[1])
    # The test can fail: the result, which is there once the study is closed, does depend on it.
    assert (
        analyze_study(tmp_path / "one" / "runs" / "pack").table
        != analyze_study(tmp_path / "other" / "runs" / "pack").table
    )


def test_the_key_is_not_even_needed_until_the_end(client: Any, pack: Path) -> None:
    kept = (pack / "key.json").read_bytes()
    (pack / "key.json").unlink()
    word = begin(client, "r1").json()["word"]
    assert keep(client, "r1", word, right()).status_code == 200
    assert client.get("/study/pack").status_code == 200
    assert "the key is not here" in client.post(f"{STUDY}/analysis", json={}).json()["error"]["message"]
    (pack / "key.json").write_bytes(kept)
    assert client.post(f"{STUDY}/analysis", json={}).status_code == 200


def test_the_page_is_the_packs_own_within_the_policy(client: Any, pack: Path) -> None:
    answer = client.get("/study/pack")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert not re.search(r"<script(?![^>]*(?:\bsrc=|application/json))", answer.text)
    assert not re.search(r"<style|\sstyle=|\son\w+=", answer.text)
    found = re.compile(r'<script type="application/json" id="study">(.*?)</script>', re.DOTALL)
    shown, own = (found.search(text) for text in (answer.text, (pack / "study.html").read_text()))
    assert shown is not None
    assert own is not None
    assert json.loads(shown[1]) == json.loads(own[1])
    again = client.get("/study/pack", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    for name in ("study.js", "study.css"):
        assert client.get(f"/static/study/{name}").status_code == 200


def test_a_page_that_is_none_says_so(client: Any, pack: Path) -> None:
    (pack / "study.html").write_text("<p>nothing</p>")
    (card,) = client.get("/api/v1/studies").json()["studies"]
    assert "no study in this page" in card["reason"]
    assert client.get(STUDY).json()["error"]["code"] == "broken"
    assert client.get("/study/pack").status_code == 409
    assert client.get("/study/other").status_code == 404


def test_who_has_to_log_in_comes_to_the_page_they_were_sent_to(pack: Path) -> None:
    token = "a token of more than sixteen".replace(" ", "-")
    with client_of(pack.parent, policy=Policy(token)) as client:
        form = client.get("/study/pack")
        assert (form.status_code, 'value="/study/pack"' in form.text) == (401, True)
        entered = client.post("/login", data={"token": token, "to": "/study/pack"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/study/pack")
        for elsewhere in ("//evil.example", "https://evil.example", "/study/../api", '/study/"><b>'):
            assert client.post("/login", data={"token": token, "to": elsewhere}).headers["location"] == "/"
            assert elsewhere not in client.post("/login", data={"token": "wrong", "to": elsewhere}).text


@pytest.fixture
def raters(pack: Path) -> Iterator[Any]:
    """A rater who has logged in to a server with a token."""
    with client_of(pack.parent, policy=Policy(TOKEN)) as made:
        token = made.get(STUDY, headers=OWNER).json()["rater_token"]
        entered = made.post("/login", data={"token": token, "to": "/study/pack"})
        assert (entered.status_code, entered.headers["location"]) == (303, "/study/pack")
        yield made


def test_a_rater_answers_and_the_owner_closes(raters: Any, pack: Path) -> None:
    assert raters.get("/study/pack").status_code == 200
    assert raters.get("/static/js/rating.js").status_code == 200
    word = begin(raters, "r1").json()["word"]
    assert keep(raters, "r1", word, right()).json()["complete"]
    for method, path in (
        ("GET", "/api/v1/studies"),
        ("GET", STUDY),
        ("POST", f"{STUDY}/analysis"),
        ("GET", f"{STUDY}/analysis"),
        ("GET", f"{STUDY}/analysis.html"),
        ("GET", f"{STUDY}/raters"),
        ("DELETE", f"{STUDY}/raters/r1"),
        ("GET", "/api/v1/runs"),
        ("GET", "/api/v1/openapi.json"),
        ("POST", "/api/v1/studies/other/raters"),
        ("PUT", "/api/v1/studies/other/raters/r1"),
    ):
        refused = raters.request(method, path, json={} if method in ("POST", "PUT") else None)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "owner"), path
    for page in ("/", "/study/other"):
        form = raters.get(page)
        assert (form.status_code, "<form" in form.text) == (403, True)
    assert not (pack / "analysis.json").exists()
    assert raters.post(f"{STUDY}/analysis", json={}, headers=OWNER).status_code == 200
    assert raters.get(f"{STUDY}/analysis").status_code == 403  # closed or not
    assert raters.get(f"{STUDY}/analysis", headers=OWNER).status_code == 200


def test_a_raters_token_is_that_of_one_study(pack: Path) -> None:
    policy = Policy(TOKEN)
    mine, other = policy.rater_token("pack"), policy.rater_token("other")
    assert re.fullmatch(r"([a-z2-7]{6}-){3}[a-z2-7]{6}", mine)
    assert len({mine, other, Policy("another-owners-token").rater_token("pack")}) == 3
    assert mine == Policy(TOKEN).rater_token("pack")  # the same after a restart
    with client_of(pack.parent, policy=policy) as client:
        for token, to in ((other, "/study/pack"), (mine, "/"), (mine, "/study/other")):
            assert client.post("/login", data={"token": token, "to": to}).status_code == 401
        header = {"authorization": f"Bearer {mine}"}
        assert client.get("/study/pack", headers=header).status_code == 200
        assert client.get(STUDY, headers=header).status_code == 403


def test_without_a_token_there_is_none_for_raters(client: Any) -> None:
    assert client.get(STUDY).json()["rater_token"] is None


def test_a_client_takes_a_few_codes(client: Any, pack: Path) -> None:
    codes = [begin(client, f"r{n}") for n in range(CODES + 1)]
    assert [each.status_code for each in codes] == [200] * CODES + [429]
    assert "from your address" in codes[-1].json()["error"]["message"]
    assert len(list((pack / "responses").glob("*.claim"))) == CODES
    word = codes[0].json()["word"]
    assert begin(client, "r0", word=word).status_code == 200  # who has one goes on
    assert begin(client, "r0").json()["error"]["code"] == "taken"


def test_an_allowance_grows_again() -> None:
    now = [0.0]
    allowance = Allowance(2, 10, lambda: now[0])
    allowance.take("study", "a")
    now[0] += 6
    allowance.take("study", "a")
    assert (allowance.left("study", "a"), allowance.left("study", "b"), allowance.left("other", "a")) == (0, 2, 2)
    now[0] += 5
    assert allowance.left("study", "a") == 1
