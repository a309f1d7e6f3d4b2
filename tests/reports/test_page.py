"""The page of a run: whole, safe, self-contained, the same for the same run, with or without the data."""

import json
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from conceptlens import api
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json, write_text
from conceptlens.reports.page import render_report
from conceptlens.runs.folder import RunFolder
from tests.reports.conftest import CLASSES, SCRIPT

VOID = {"meta", "img", "br"}


class Reader(HTMLParser):
    """Checks that tags close in order, and gathers what a test asks for."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def text(hostile: RunFolder) -> str:
    return (hostile.path / "report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Reader:
    return Reader(text)


def test_tags_are_balanced(page: Reader) -> None:
    assert page.open == []
    assert {"html", "head", "body", "main", "table", "svg"} <= {tag for tag, _ in page.tags}


def test_no_name_becomes_markup(page: Reader, text: str) -> None:
    shown = "".join(page.texts)
    assert SCRIPT in shown
    assert CLASSES[1] in shown
    assert "<b>color</b>" in shown
    assert "</style><u>spot</u>" in shown
    assert not {"script", "u", "i", "iframe"} & {tag for tag, _ in page.tags}
    assert all(not name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "<script" not in text
    assert "<u>" not in text


def test_nothing_is_asked_from_elsewhere(page: Reader, text: str) -> None:
    for _, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/jpeg;base64,"))
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert "default-src 'none'" in str([each.get("content") for each in page.all("meta")])


def test_headings_descend_one_by_one(page: Reader) -> None:
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_links_lead_to_sections(page: Reader) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {each["href"] for each in page.all("a")} <= {f"#{name}" for name in ids}
    assert len(page.all("a")) == 8


def test_tables_and_pictures_can_be_heard(page: Reader, text: str) -> None:
    tables = re.findall(r"<table.*?</table>", text, re.DOTALL)
    assert len(tables) > 8
    assert all("<caption>" in each for each in tables)
    assert all(each.get("scope") in ("col", "row", "rowgroup") for each in page.all("th"))
    assert all(each.get("alt") for each in page.all("img"))
    assert all(each.get("role") == "img" or each.get("aria-hidden") == "true" for each in page.all("svg"))
    assert all(each.get("aria-label") for each in page.all("svg") if each.get("role") == "img")


def test_examples_have_small_pictures(page: Reader) -> None:
    pictures = page.all("img")
    assert 0 < len(pictures) <= 9
    assert all(each["width"] == "32" and each["height"] == "24" for each in pictures)  # never enlarged


def test_size(hostile: RunFolder) -> None:
    assert (hostile.path / "report.html").stat().st_size < 300_000  # far below the 3 MB that a page may have


def test_rendering_again_gives_the_same_bytes(run: RunFolder) -> None:
    first = (run.path / "report.html").read_bytes()
    (run.path / "report.html").unlink()
    assert api.make_report(run.path).read_bytes() == first
    assert render_report(run).read_bytes() == first


def test_times_do_not_show(run: RunFolder) -> None:
    first = (run.path / "report.html").read_bytes()
    lines = [json.loads(line) for line in run.history.read_text().splitlines()]
    assert all("time" in line for line in lines)
    write_text(run.history, "".join(json.dumps({**line, "time": 1e6}) + "\n" for line in lines))
    assert render_report(run).read_bytes() == first


def test_without_the_data_there_are_no_pictures_and_the_page_says_so(run: RunFolder, tmp_path: Path) -> None:
    recipe = (run.path / "recipe.yaml").read_text("utf-8")
    write_text(run.path / "recipe.yaml", re.sub(r"source: .*", f"source: {tmp_path / 'gone.csv'}", recipe))
    page = Reader(render_report(run).read_text("utf-8"))
    assert page.open == []
    assert page.all("img") == []
    assert any("Pictures are missing" in text and "gone.csv" in text for text in page.texts)
    assert SCRIPT in "".join(page.texts)


def test_data_that_changed_gives_no_pictures(run: RunFolder) -> None:
    run.update(data={**run.info["data"], "hash": "another"})
    page = Reader(render_report(run).read_text("utf-8"))
    assert page.all("img") == []
    assert any("changed since the run" in text for text in page.texts)


def test_without_stories_the_rest_is_drawn(run: RunFolder) -> None:
    (run.path / "stories.json").unlink()
    page = Reader(render_report(run).read_text("utf-8"))
    assert page.all("img") == []
    assert any("no stories.json" in text for text in page.texts)


def test_a_run_that_is_not_done_says_how_to_finish_it(run: RunFolder) -> None:
    run.update(status="failed", reason="stopped")
    with pytest.raises(UserError, match="conceptlens resume"):
        render_report(run)


@pytest.mark.parametrize(
    "name", ["metrics.json", "splits.json", "model/model.json", "environment.json", "concepts.yaml"]
)
def test_a_missing_file_is_named(run: RunFolder, name: str) -> None:
    (run.path / name).unlink()
    with pytest.raises(UserError, match=name):
        render_report(run)


def test_edited_files_are_refused_in_words(run: RunFolder) -> None:
    stories = read_json(run.path / "stories.json")
    stories["stories"][0]["kind"] = "lucky"
    write_json(run.path / "stories.json", stories)
    with pytest.raises(UserError, match=r"stories\.0\.kind"):
        render_report(run)
    (run.path / "stories.json").unlink()
    write_json(run.path / "metrics.json", {"splits": {"test": {"class": {"n": 3}, "concept": {"per_group": [{}]}}}})
    with pytest.raises(UserError, match="do not fit together"):
        render_report(run)


def test_where_a_run_lies_does_not_show(run: RunFolder, tmp_path: Path) -> None:
    first = render_report(run).read_bytes()
    shutil.copytree(run.path, tmp_path / "elsewhere" / "run")
    recipe = tmp_path / "elsewhere" / "run" / "recipe.yaml"
    write_text(recipe, re.sub(r"\nout: .*", "\nout: elsewhere", recipe.read_text("utf-8")))
    assert render_report(RunFolder.open(recipe.parent)).read_bytes() == first
