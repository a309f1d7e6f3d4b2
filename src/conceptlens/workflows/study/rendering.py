"""The page for raters, from one body, one style and one script: as a file that holds everything, or on a server."""

import json
from typing import Any

from conceptlens.core.package_files import package_text
from conceptlens.explanations.pictures.colors import TABLE
from conceptlens.pages.markup import Html, h
from conceptlens.pages.pictures import base64_text
from conceptlens.pages.shell import whole

TITLE = "A study of pictures and heat maps"
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def render(content: dict[str, Any]) -> str:
    """One file with everything in it, that works offline."""
    policy = h("meta", http_equiv="Content-Security-Policy", content=POLICY)
    held = {**content, "colors": base64_text(TABLE.tobytes())}
    return _page([policy, h("style", _part("study.css"))], held, [h("script", _part("study.js"))])


def render_served(content: dict[str, Any], *, root: str, files: str) -> str:
    """The same page on a server that allows nothing inline, and that answers go to as well.

    Args:
        content: What a pack's page holds.
        root: The address of the server's own files, from the page.
        files: The address of `study.css` and `study.js`, from the page.
    """
    style = h("link", rel="stylesheet", href=f"{files}/study.css")
    icon = h("link", rel="icon", href=f"{root}/icon.svg", type="image/svg+xml")
    # Both wait for the page and run in this order: the first says where answers go, before the second asks.
    scripts = [h("script", type="module", src=f"{root}/js/rating.js"), h("script", defer=True, src=f"{files}/study.js")]
    return _page([icon, style], content, scripts)


def _page(head: list[Html], content: dict[str, Any], scripts: list[Html]) -> str:
    # Inside a script element only `</` and `<!--` could end or bend it; no `<` is left to do either.
    data = json.dumps(content, ensure_ascii=True).replace("<", "\\u003c")
    top = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        head[0],
        h("title", TITLE),
        head[1:],
    )
    body = h("body", _part("body.html"), h("script", Html(data), type="application/json", id="study"), scripts)
    return whole(top, body)


def _part(name: str) -> Html:
    return Html(package_text("conceptlens.workflows.study", "page", name))
