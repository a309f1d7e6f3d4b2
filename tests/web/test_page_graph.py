"""The graph view in a real browser: what it shows is what the file says, however it is asked."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conceptlens.gig.document import Graph
from tests.web.browser import CHROMIUM, Open, saved, until, visits
from tests.web.decomposition import CROPS, draw_graph, write_decomposition

pytest.importorskip("fastapi", reason="the page needs the extra `page`")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")

PAINTED = "Number(document.querySelector('.graph-canvas')?.dataset.painted ?? 0) > 0"
PINCH = """() => {
    const canvas = document.querySelector(".graph-canvas");
    const box = canvas.getBoundingClientRect();
    const send = (type, id, x) => canvas.dispatchEvent(new PointerEvent(type, {
        pointerId: id, pointerType: "touch", bubbles: true, clientX: box.left + x, clientY: box.top + 200 }));
    send("pointerdown", 1, 200);
    send("pointerdown", 2, 300);
    send("pointermove", 2, 400);
    send("pointerup", 2, 400);
    send("pointerup", 1, 200);
}"""


APART = """async () => {
    const [{ Model }, { NODE, layout }] = await Promise.all(
        ["model", "layout"].map((name) => import(`/static/js/graph/${name}.js`)));
    const model = new Model(await (await fetch("/api/v1/runs/drawn/graphs/classes")).json());
    const shown = model.shown({ outputs: [0, 1], min: 0, hidden: new Set(), linked: false });
    const { y } = layout(model, shown, { down: false, width: 820, height: 620 });
    const [one, two] = model.nodes.filter((node) => node.kind === "output");
    return Math.abs(y[one.number] - y[two.number]) / NODE;
}"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decomposition(
        tmp_path_factory.mktemp("graphs") / "drawn",
        {
            "graph.json": draw_graph(outputs=["<b>cat</b>", "dog"]),
            "graph-image.json": draw_graph(about="image", outputs=["dog"], seed=1),
            "graph-data.json": draw_graph(about="data", outputs=["cat", "dog", "cow", "hen"], concepts=8, seed=2),
        },
    )


@pytest.fixture(scope="module")
def graph(runs: Path) -> Graph:
    return Graph.read(runs / "graph.json")


@pytest.fixture
def visit(base: str, chromium: Any) -> Iterator[Open]:
    """Opens the view and waits until the graph is painted."""
    with visits(base, chromium) as go:

        def painted_page(state: str = "", *, painted: bool = True, **look: Any) -> Any:
            page = go(f"#/graph?run=drawn{state}", **look)
            if painted:
                until(page, PAINTED)
            return page

        yield painted_page


def find(page: Any, words: str) -> None:
    """Open the node that these words find first."""
    field = page.get_by_role("searchbox")
    field.fill(words)
    field.press("Enter")
    page.wait_for_selector(".graph-sheet")


def camera(page: Any) -> list[float]:
    page.wait_for_timeout(600)  # the address is written when things are quiet
    found = re.search(r"at=([^&]+)", page.url)
    assert found
    return [float(value) for value in found[1].replace("%2C", ",").split(",")]


@pytest.mark.slow
def test_edges_are_those_above_the_threshold(visit: Open, graph: Graph) -> None:
    page = visit()
    told = page.locator("#graph [role=status]")

    def strong(least: float) -> int:
        return sum(edge.weight >= least for edge in graph.edges)

    assert f"{strong(0.08)} of {len(graph.edges)} edges" in told.inner_text()
    assert f"{len(graph.nodes)} nodes" in told.inner_text()
    page.get_by_label("Weakest edge that is shown").fill("0.4")
    until(
        page,
        "(words) => document.querySelector('#graph [role=status]').textContent.includes(words)",
        f"{strong(0.4)} of ",
    )
    page.get_by_label("unexplained").uncheck()
    page.get_by_label("takes away").uncheck()
    rising = sum(e.weight >= 0.4 and e.value >= 0 and not e.source.endswith("/error") for e in graph.edges)
    until(
        page, "(words) => document.querySelector('#graph [role=status]').textContent.includes(words)", f"{rising} of "
    )
    until(page, "location.hash.includes('min=0.4') && /hide=[a-z]+(,|%2C)[a-z]+/.test(location.hash)")  # both of them
    again = visit(page.url.split("run=drawn")[1])
    assert f"{rising} of " in again.locator("#graph [role=status]").inner_text()
    assert again.get_by_label("Weakest edge that is shown").input_value() == "0.4"
    again.get_by_label("only nodes with an edge").check()
    linked = {
        end
        for e in graph.edges
        if e.weight >= 0.4 and e.value >= 0 and "error" not in e.source
        for end in (e.source, e.target)
    }
    linked |= {node.id for node in graph.nodes if node.kind == "output"}
    until(
        again,
        "(words) => document.querySelector('#graph [role=status]').textContent.startsWith(words)",
        f"{len(linked)} node",
    )


def test_classes_stand_far_enough_apart_for_their_names(visit: Open) -> None:
    assert visit().evaluate(APART) > 3  # from middle to middle, in sides of a node


@pytest.mark.slow
def test_a_node_opens_into_its_sheet(visit: Open, graph: Graph) -> None:
    page = visit()
    find(page, "layer3 concept 2")
    sheet = page.locator(".graph-sheet")
    assert sheet.locator("h2").inner_text() == "layer3 · concept 2"
    assert sheet.locator("h2").inner_html().count("<") == 0
    sheet.locator("[role=img]").first.wait_for()
    assert sheet.locator("span.crop").count() == CROPS
    assert sheet.locator("canvas.crop").count() == 1  # where it is
    shares = graph.node("layer3/2").shares
    assert sheet.locator(".shares .name").all_inner_texts() == sorted(shares, key=lambda name: -shares[name])
    into = [f"{edge.source.split('/')[0]} · {graph.node(edge.source).name}" for edge in graph.into("layer3/2")]
    made = sheet.locator("div:has(> h3:text-is('Made by, strongest first')) .label").all_inner_texts()
    assert made == into[:8]
    # The neighbors are doors: the strongest one opens, and the address says so.
    sheet.locator("div:has(> h3:text-is('Made by, strongest first')) button").first.click()
    until(page, "(name) => document.querySelector('.graph-sheet h2').textContent === name", into[0])
    page.get_by_role("button", name="Close the sheet").click()
    assert page.locator(".graph-sheet").count() == 0
    assert page.locator(".graph-side").get_by_text("Completeness").count() == 1


@pytest.mark.slow
def test_the_table_follows_the_selection(visit: Open, graph: Graph) -> None:
    page = visit("&table=edges")
    rows = page.locator(".graph-table tbody tr")
    assert rows.count() == 40
    find(page, "layer2 concept 1")
    own = [e for e in (*graph.into("layer2/1"), *graph.out_of("layer2/1")) if e.weight >= 0.08]
    until(page, "(n) => document.querySelectorAll('.graph-table tbody tr').length === n", len(own))
    weights = [float(text.rstrip("%")) for text in page.locator(".graph-table tbody td:last-child").all_inner_texts()]
    assert weights == sorted(weights, reverse=True)
    page.get_by_role("button", name="Nodes", exact=True).click()
    names = page.locator(".graph-table tbody th").all_inner_texts()
    assert len(names) == 1 + len({end for e in own for end in (e.source, e.target)} - {"layer2/1"})
    for word in ("layer1 concept 0", "layer2 concept 4"):
        find(page, word)
        page.get_by_role("button", name="Keep", exact=True).click()
    until(page, "document.querySelectorAll('.graph-table tbody tr').length === 2")
    assert sorted(page.locator(".graph-table tbody th").all_inner_texts()) == [
        "layer1 · concept 0",
        "layer2 · concept 4",
    ]


def test_one_class_or_two_with_what_they_share(visit: Open, graph: Graph) -> None:
    page = visit("&graph=data")
    data = page.evaluate("fetch('/api/v1/runs/drawn/graphs/data').then((answer) => answer.json())")
    count = "document.querySelector('#graph [role=status]').textContent"

    def expected(*classes: str) -> int:
        numbers = {data["outputs"].index(name) for name in classes}
        concepts = [node for node in data["nodes"] if node["kind"] == "concept"]
        return len(classes) + len(data["rows"]) + sum(bool(numbers & set(node["top_of"])) for node in concepts)

    page.get_by_label("Class", exact=True).select_option("cow")
    until(page, f"(n) => {count}.startsWith(`${{n}} nodes`)", expected("cow"))
    assert page.locator(".legend", has_text="shared").count() == 0
    page.get_by_label("Compared with").select_option("hen")
    until(page, f"(n) => {count}.startsWith(`${{n}} nodes`)", expected("cow", "hen"))
    assert page.locator(".legend li").all_inner_texts()[:3] == ["cow", "hen", "shared"]
    shared = page.evaluate("""async () => {
        const { Model, SHARED } = await import("/static/js/graph/model.js");
        const model = new Model(await (await fetch("/api/v1/runs/drawn/graphs/data")).json());
        const shown = model.shown({ outputs: [2, 3], min: 0, hidden: new Set(), linked: false });
        return shown.nodes.filter((number) => shown.owner[number] === SHARED).map((number) => model.nodes[number].id);
    }""")
    both = [node["id"] for node in data["nodes"] if {2, 3} <= set(node["top_of"])]
    assert sorted(shared) == sorted(both)
    assert both
    until(page, "location.hash.includes('class=cow') && location.hash.includes('with=hen')")
    page.get_by_role("button", name="One image").click()
    until(page, "location.hash.includes('graph=image')")
    until(page, PAINTED)
    assert page.get_by_label("Class", exact=True).count() == 0


@pytest.mark.slow
def test_a_selection_is_kept_in_a_file_and_in_the_address(visit: Open, tmp_path: Path) -> None:
    page = visit()
    for word in ("layer1 concept 3", "layer3 concept 5"):
        find(page, word)
        page.get_by_role("button", name="Keep", exact=True).click()
    page.get_by_label("Weakest edge that is shown").fill("0.25")
    until(page, "location.hash.includes('kept=') && location.hash.includes('min=0.25')")
    camera(page)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save selection").click()
    file = tmp_path / "selection.json"
    file.write_bytes(Path(waiting.value.path()).read_bytes())
    told = json.loads(file.read_text())
    assert (told["schema"], told["min"], told["kept"], told["node"]) == (1, 0.25, ["layer1/3", "layer3/5"], "layer3/5")
    status = page.locator("#graph [role=status]").inner_text()
    for other in (visit(page.url.split("run=drawn")[1]), visit()):
        if "kept=" not in other.url:
            other.locator("input[type=file]").set_input_files(file)
            until(other, "document.querySelectorAll('.graph-kept').length === 2")
        assert other.locator(".graph-kept .chip").all_inner_texts() == ["layer1 · concept 3", "layer3 · concept 5"]
        assert other.locator(".graph-sheet h2").inner_text() == "layer3 · concept 5"
        assert other.locator("#graph [role=status]").inner_text() == status
        assert camera(other) == pytest.approx(camera(page), abs=0.002)
    newer = json.dumps(told | {"schema": 7})
    for content, words in (("{", "not a JSON file"), ("{}", "not a selection"), (newer, "schema 7")):
        file.write_text(content)
        other.locator("input[type=file]").set_input_files(file)
        until(other, "(words) => document.querySelector('.notice').textContent.includes(words)", words)
    file.write_text(json.dumps(told | {"kept": ["layer1/3", "gone/1"]}))
    other.locator("input[type=file]").set_input_files(file)
    until(
        other, "document.querySelector('.notice').textContent.includes('1 node of this selection is not in this graph')"
    )


@pytest.mark.slow
def test_mouse_wheel_fingers_and_keys_move_it(visit: Open) -> None:
    page = visit()
    canvas = page.locator(".graph-canvas")
    page.get_by_role("button", name="Nearer").click()
    start = camera(page)
    assert start[2] == pytest.approx(1.4, abs=0.01)
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 300)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 260, steps=4)
    page.mouse.up()
    dragged = camera(page)
    assert dragged[0] > start[0]
    assert dragged[1] > start[1]
    page.mouse.wheel(0, -200)  # the canvas has the focus now, and so the wheel
    rolled = camera(page)
    assert rolled[2] > dragged[2]
    page.evaluate(PINCH)
    pinched = camera(page)
    assert pinched[2] == pytest.approx(2 * rolled[2], rel=0.02)
    canvas.focus()
    canvas.press("ArrowLeft")
    assert camera(page)[0] < pinched[0]
    canvas.press("-")
    assert camera(page)[2] < pinched[2]
    canvas.press("0")
    assert camera(page)[2] == pytest.approx(1)
    canvas.press("n")
    canvas.press("Enter")
    page.wait_for_selector(".graph-sheet")
    first = page.locator(".graph-sheet h2").inner_text()
    canvas.press("Shift+ArrowRight")  # along its strongest edge
    canvas.press("k")
    assert page.locator(".graph-kept").count() == 1
    canvas.press("Enter")
    until(page, "(name) => document.querySelector('.graph-sheet h2').textContent !== name", first)
    canvas.press("Escape")
    canvas.press("Escape")
    assert page.locator(".graph-sheet").count() == 0


def test_a_click_opens_the_node_under_it(visit: Open) -> None:
    page = visit()
    find(page, "layer2 concept 3")  # now in the middle
    page.get_by_role("button", name="Close the sheet").click()
    box = page.locator(".graph-canvas").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator(".graph-sheet h2").inner_text() == "layer2 · concept 3"
    page.keyboard.down("Shift")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.keyboard.up("Shift")
    assert page.locator(".graph-kept .chip").all_inner_texts() == ["layer2 · concept 3"]


@pytest.mark.slow
def test_everything_can_be_taken_home(visit: Open, runs: Path, graph: Graph) -> None:
    page = visit("&min=0.3")
    assert saved(page, "Visible part (PNG)").startswith(b"\x89PNG")
    drawing = saved(page, "Whole graph (SVG)").decode()
    strong = [edge for edge in graph.edges if edge.weight >= 0.3]
    assert drawing.count("<path") == len(strong)
    assert drawing.count("<image") == sum(node.kind == "concept" for node in graph.nodes)
    assert "&lt;b&gt;cat" in drawing
    shown = json.loads(saved(page, "What is shown (JSON)"))
    assert {(e["source"], e["target"]) for e in shown["edges"]} == {(e.source, e.target) for e in strong}
    assert len(shown["nodes"]) == len(graph.nodes)
    assert json.loads(saved(page, "The file of the graph (JSON)")) == json.loads((runs / "graph.json").read_text())


@pytest.mark.slow
def test_crops_come_when_one_is_near(visit: Open) -> None:
    page = visit()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/sheet") else None)
    colors = """() => {
        const canvas = document.querySelector(".graph-canvas");
        // From a copy: the browser warns of a canvas that is read again and again.
        const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
        pen.drawImage(canvas, canvas.width / 2, canvas.height / 2, 1, 1, 0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data];
    }"""
    find(page, "layer2 concept 3")
    page.get_by_role("button", name="Nearer").click()
    page.get_by_role("button", name="Nearer").click()
    # The first crop of concept 3 is drawn in the middle: (40 + 17·3, 220 − 15·3, 60), give or take JPEG.
    for _ in range(100):
        red, green, blue, _alpha = page.evaluate(colors)
        if abs(red - 91) < 12 and abs(green - 175) < 12 and abs(blue - 60) < 12:
            break
        page.wait_for_timeout(50)
    else:
        raise AssertionError(f"no crop: {(red, green, blue)}")


@pytest.mark.slow
def test_a_phone_has_outputs_on_top_and_nothing_overflows(visit: Open) -> None:
    page = visit(width=390, scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    down = page.evaluate("""async () => {
        const { Model } = await import("/static/js/graph/model.js");
        const { layout } = await import("/static/js/graph/layout.js");
        const model = new Model(await (await fetch("/api/v1/runs/drawn/graphs/classes")).json());
        const shown = model.shown({ outputs: [], min: 0, hidden: new Set(), linked: false });
        const place = (down) => layout(model, shown, { down, width: 360, height: 600 });
        const mean = (list) => list.reduce((sum, each) => sum + each, 0) / list.length;
        const of = (row) => model.nodes.filter((node) => node.row === row);
        const row = (values, at) => mean(of(at).map((node) => values[node.number]));
        const [top, left] = [place(true).y, place(false).x];
        return { top: [3, 2, 1, 0].map((at) => row(top, at)), left: [0, 1, 2, 3].map((at) => row(left, at)) };
    }""")
    assert down["top"] == sorted(down["top"])
    assert down["left"] == sorted(down["left"])
    assert page.locator(".legend li").first.inner_text() == "<b>cat</b>"


@pytest.mark.slow
def test_what_cannot_be_shown_is_said(visit: Open) -> None:
    page = visit("&graph=noise", painted=False)
    page.wait_for_selector(".card.empty")
    assert "--noise" in page.locator(".card.empty").inner_text()
    other = visit("&graph=nonsense", painted=False)
    other.wait_for_selector(".card.empty")
    assert "nonsense" in other.locator(".card.empty").inner_text()
    lost = visit("&node=gone/1")
    assert "1 node of this selection is not in this graph" in lost.locator(".notice").inner_text()
