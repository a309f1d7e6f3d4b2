"""The file as data: what the server would answer, nothing of this machine, within its limit, with its note."""

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest

import conceptlens as cl
from conceptlens.cli import main
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_text
from conceptlens.runs.folder import RunFolder
from tests.training.tiny import tiny
from tests.web.conftest import client_of
from tests.web.share.conftest import SCRIPT, taken_apart


def test_the_answers_are_those_of_the_server(run: RunFolder, shared: Path) -> None:
    opened = taken_apart(shared)
    with client_of(run.path) as client:
        for address in ("runs/cells/head", "runs/cells/history", *_predictions(opened.answers)[:2]):
            theirs = client.get(f"/api/v1/{address}").json()
            assert _rounded(opened.answers[address]["body"]) == _rounded(theirs), address
        listed = client.get("/api/v1/runs/cells/images?size=200").json()
        wrong = client.get("/api/v1/runs/cells/images?size=200&show=wrong").json()["items"]
    images = opened.answers["runs/cells/images"]["body"]
    rows = [item["row"] for item in images["items"]]
    assert images["total"] == len(rows) == len(opened.pictures) == 8
    assert _rounded([item for item in listed["items"] if item["row"] in rows]) == _rounded(images["items"])
    assert images["orders"]["wrong"] == [item["row"] for item in wrong if item["row"] in rows]
    assert images["why"] == f"in this file, of {listed['total']}"
    assert opened.answers["runs/cells"]["body"]["splits"] == {"test": 8}


def _predictions(answers: dict[str, object]) -> list[str]:
    return [address for address in answers if address.endswith("/prediction")]


def _rounded(value: object) -> object:
    """Six digits: the server's own passes differ in the last ones."""
    text = re.sub(r'"took_ms": [\d.]+', '"took_ms": 0', json.dumps(value))
    text = re.sub(r'"data": "[^"]+"', '"data": "maps"', text)
    return json.loads(text, parse_float=lambda word: float(f"{float(word):.4g}"))


def test_concepts_point_at_pictures_that_are_there(shared: Path) -> None:
    opened = taken_apart(shared)
    seen = 0
    for name, part in (("concepts", "concepts"), ("codebook", "codes")):
        for entry in opened.answers[f"runs/cells/{name}"]["body"][part]:
            for each in (*entry["patches"], *entry.get("images", ())):
                assert f"{each['split']}/{each['row']}" in opened.pictures
                seen += 1
    assert seen > 8


def test_pictures_are_small_webp(shared: Path) -> None:
    for data in taken_apart(shared).pictures.values():
        raw = base64.b64decode(data)
        assert raw[:4] == b"RIFF"
        assert raw[8:12] == b"WEBP"


def test_nothing_of_this_machine_is_inside(run: RunFolder, shared: Path) -> None:
    opened = taken_apart(shared)
    whole = opened.text + json.dumps(opened.answers, ensure_ascii=False)
    for word in ("secret-place", str(run.path.parent), str(Path.home()) + "/", str(Path.cwd())):
        assert word not in whole, word
    paths = re.findall(r'(?<![\w.:/<+&"])/(?:home|root|tmp|usr|var|private|Users|mnt|srv)/[\w.-]+', whole)
    assert paths == []
    assert "machine" not in opened.answers["runs/cells"]["body"]["environment"]


def test_the_policy_names_the_one_script_and_the_one_style(shared: Path) -> None:
    text = shared.read_text("utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1].replace("&#x27;", "'")  # type: ignore[index]
    (script,) = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    for name, part in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "Mike Bostock" in script
    assert "unsafe" not in policy
    assert "connect-src" not in policy
    assert not re.search(r'(?:src|href)="(?!#|data:)', text.replace(script, "").replace(style, ""))


def test_the_note_says_what_is_inside(shared: Path) -> None:
    opened = taken_apart(shared)
    assert opened.note["run"] == "cells"
    assert opened.note["views"] == ["image", "what-if", "training", "concepts"]
    assert opened.note["images"] == 8
    assert opened.note["version"] == cl.__version__
    foot = re.search(r"<footer.*?</footer>", opened.text, re.DOTALL)[0]  # type: ignore[index]
    for word in ("cells", opened.note["made"], cl.__version__, "8 of ", "not a medical device"):
        assert word in foot


def test_a_class_cannot_break_out(hostile: RunFolder, tmp_path: Path) -> None:
    file = tmp_path / "mail.html"
    cl.api.share(hostile.path, file, n=4, quiet=True)
    opened = taken_apart(file)
    assert SCRIPT in opened.answers[f"runs/{hostile.path.name}"]["body"]["classes"]
    assert "alert(1)" not in opened.text
    assert "<img src=x" not in opened.text
    assert opened.text.count("<script") == opened.text.count("</script>") == 5


def test_a_file_has_only_the_views_that_were_asked_for(run: RunFolder, tmp_path: Path, shared: Path) -> None:
    file = tmp_path / "training.html"
    told = cl.api.share(run.path, file, views=["training"], quiet=True)
    opened = taken_apart(file)
    assert opened.note["views"] == ["training"]
    assert opened.pictures == {}
    assert sorted(opened.answers) == ["about", "glossary", "runs", "runs/cells", "runs/cells/history"]
    assert told.bytes == file.stat().st_size < shared.stat().st_size


@pytest.mark.slow
def test_what_does_not_fit_is_made_smaller_and_said(run: RunFolder, tmp_path: Path, shared: Path) -> None:
    limit = shared.stat().st_size - 15_000
    told = cl.api.share(run.path, tmp_path / "small.html", n=8, max_mb=limit / 1e6, quiet=True)
    assert told.bytes <= limit
    assert 0 < told.note.images < 8
    assert any("left out to keep the file below" in each for each in told.note.notes)
    assert any("left out to keep the file below" in each for each in taken_apart(told.file).note["notes"])
    assert "left out" in told.text()
    with pytest.raises(UserError, match="Not even one image fits"):
        cl.api.share(run.path, tmp_path / "none.html", n=8, max_mb=0.1, quiet=True)


@pytest.mark.slow
def test_a_run_without_concepts_shares_what_it_has(tmp_path: Path) -> None:
    blind = {"method": {"name": "black-box"}, "regularizer": {"name": "none"}}
    made = cl.train(tiny(tmp_path / "blind", training__epochs=1, **blind), quiet=True)
    told = cl.api.share(made.path, tmp_path / "blind.html", n=2, quiet=True)
    assert told.note.views == ["image", "training"]
    assert any("what-if is left out" in each for each in told.note.notes)
    with pytest.raises(UserError, match="--views what-if"):
        cl.api.share(made.path, tmp_path / "x.html", views=["what-if"], quiet=True)


@pytest.mark.slow
def test_data_that_is_gone_leaves_the_views_that_need_no_images(hostile: RunFolder, tmp_path: Path) -> None:
    place = tmp_path / "moved"
    shutil.copytree(hostile.path, place)
    recipe = (place / "recipe.yaml").read_text("utf-8")
    write_text(place / "recipe.yaml", re.sub(r"source: .*", f"source: {tmp_path}/gone/table.csv", recipe, count=1))
    told = cl.api.share(place, tmp_path / "x.html", quiet=True)
    assert told.note.views == ["training"]
    assert str(tmp_path) not in json.dumps(taken_apart(told.file).answers, ensure_ascii=False)
    assert str(tmp_path) not in taken_apart(told.file).text
    with pytest.raises(UserError, match="cannot be opened"):
        cl.api.share(place, tmp_path / "x.html", views=["image"], quiet=True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "the following arguments are required: file"),
        (["cells"], "expected the name of an HTML file"),
        (["x.html", "--views", "imagge"], "Did you mean 'image'?"),
        (["x.html", "--views", "runs"], "needs a server"),
        (["x.html", "--n", "0"], "--n: expected at least 1"),
        (["x.html", "--max-mb", "nan"], "--max-mb: expected a number of megabytes"),
    ],
)
def test_mistakes_are_refused(
    run: RunFolder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["share", str(run.path), *words]) == 2
    assert why in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_run_that_is_not_done_is_refused(run: RunFolder, tmp_path: Path) -> None:
    place = tmp_path / "going"
    shutil.copytree(run.path, place)
    info = json.loads((place / "run.json").read_text("utf-8"))
    write_text(place / "run.json", json.dumps({**info, "status": "running"}))
    with pytest.raises(UserError, match="not done"):
        cl.api.share(place, tmp_path / "x.html", quiet=True)


def test_the_report_can_be_written_again(run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "cells"
    shutil.copytree(run.path, place)
    before = (place / "report.html").read_bytes()
    (place / "report.html").unlink()
    assert main(["report", str(place)]) == 0
    assert (place / "report.html").read_bytes() == before
    assert "report.html" in capsys.readouterr().out
