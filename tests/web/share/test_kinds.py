"""Folders of other kinds, and the views of others: each opens from its file as it does from the server."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.runs.folder import RunFolder
from tests.web.browser import CHROMIUM, Open, Watch, until
from tests.web.comparisons import make_comparison
from tests.web.decomposition import draw_graph, write_decomposition
from tests.web.share.conftest import taken_apart
from tests.web.studio_world import make_studies

browsing = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
PAINTED = "Number(document.querySelector('.graph-canvas')?.dataset.painted ?? 0) > 0"


@pytest.fixture(scope="module")
def visit(chromium: Any) -> Iterator[Open]:
    """Opens a file; at the end it may have complained of nothing and asked for nothing but itself."""
    watches: list[Watch] = []

    def go(file: Path, address: str = "") -> Any:
        page = chromium.new_page()
        watches.append(Watch(file.as_uri()))
        watches[-1].attach(page)
        page.goto(file.as_uri() + address)
        page.wait_for_selector("main h1")
        return page

    yield go
    assert [error for watch in watches for error in watch.errors] == []
    assert [url for watch in watches for url in watch.outside] == []


@pytest.mark.slow
@browsing
def test_a_graph(visit: Open, tmp_path: Path) -> None:
    graphs = {
        "graph.json": draw_graph(outputs=["<b>cat</b>", "dog"]),
        "graph-image.json": draw_graph(about="image", outputs=["dog"]),
    }
    folder = write_decomposition(tmp_path / "drawn", graphs)
    told = cl.api.share(folder, tmp_path / "graph.html", quiet=True)
    assert told.note.views == ["graph"]
    page = visit(told.file)
    until(page, PAINTED)
    assert [each.inner_text() for each in page.locator(".tabs a").all()] == ["Graph"]
    opened = taken_apart(told.file)
    nodes = opened.answers["runs/drawn/graphs/classes"]["body"]["nodes"]
    assert {f"runs/drawn/graphs/{name}/nodes/0" for name in ("classes", "image")} <= set(opened.answers)
    assert sum("/graphs/classes/" in name and name.endswith("/sheet") for name in opened.files) == sum(
        bool(node["crops"]) for node in nodes
    )
    assert all(content.startswith("image/") for content in opened.files.values())


@browsing
@pytest.mark.slow
def test_a_comparison_with_its_tables(visit: Open, tmp_path: Path) -> None:
    folder = make_comparison(tmp_path)
    told = cl.api.share(folder, tmp_path / "table.html", views=["methods", "compare"], quiet=True)
    page = visit(told.file)
    page.wait_for_selector("table tbody tr")
    page.locator(".view-head summary").click()
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Table (Markdown)").click()
    from conceptlens.web.server.folders import RunFolders
    from conceptlens.web.views.comparison import table_of

    entry = next(each for each in RunFolders([folder]).all() if each.path == folder.resolve())
    assert Path(waiting.value.path()).read_text("utf-8") == table_of(entry, "md", [], [])
    page.evaluate("location.hash = '#/methods'")
    page.wait_for_selector(".view-methods .card")


@browsing
@pytest.mark.slow
def test_trust(visit: Open, run: RunFolder, tmp_path: Path) -> None:
    from conceptlens import api

    folder = Path(shutil.copytree(run.path, tmp_path / "cells"))
    api.interventions(folder, resamples=5)
    told = cl.api.share(folder, tmp_path / "trust.html", views=["trust"], quiet=True)
    page = visit(told.file)
    page.wait_for_selector(".trust .card")
    assert taken_apart(told.file).answers["runs/cells/documents/interventions"]["status"] == 200
    assert taken_apart(told.file).answers["runs/cells/documents/leakage"]["status"] == 409
    page.evaluate("location.hash = '#/trust?section=leakage'")
    page.wait_for_selector(".trust .empty, .trust .card")


@browsing
@pytest.mark.slow
def test_a_codebook_study_without_its_model(visit: Open, tmp_path: Path) -> None:
    folder = make_studies(tmp_path) / "shapes"
    told = cl.api.share(folder, tmp_path / "studio.html", quiet=True)
    page = visit(told.file)
    page.wait_for_selector(".token-grid")
    opened = taken_apart(told.file)
    assert str(tmp_path) not in str(opened.answers)
    assert any("/studio/images/" in name for name in opened.files)


@pytest.mark.slow
def test_a_view_of_another_kind_is_refused(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="shows a decomposed network"):
        cl.api.share(run.path, tmp_path / "x.html", views=["graph"], quiet=True)
