"""A whole page in one file: no scripts, nothing from the network; equal contents have equal pages."""

from collections.abc import Iterable, Sequence
from typing import Any

from conceptlens.core.package_files import package_text
from conceptlens.pages.markup import Html, h

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def render_page(
    title: str,
    header: Iterable[Html | None],
    sections: Sequence[tuple[str, str, Any]],
    *,
    footer: str | None = None,
    style: str = "",
    description: str | None = None,
    links: Sequence[tuple[str, str]] = (),
) -> str:
    """The page.

    Args:
        title: In the browser's tab.
        header: What stands above the sections.
        sections: Each with its anchor, its title and its content; the navigation lists them.
        footer: A sentence below.
        style: Rules after those of `style.css`.
        description: For search and previews.
        links: Other pages for the navigation: words and address.
    """
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="color-scheme", content="light dark"),
        h("meta", http_equiv="Content-Security-Policy", content=POLICY),
        h("meta", name="description", content=description) if description is not None else None,
        h("title", f"{title} · conceptlens"),
        h("style", Html(package_text("conceptlens.pages", "style.css") + style)),
    )
    anchors = [*((name, f"#{key}") for key, name, _ in sections), *links]
    parts = (
        h("section", h("h2", name, id=f"{key}-title"), content, id=key, aria_labelledby=f"{key}-title")
        for key, name, content in sections
    )
    body = h(
        "body",
        h("header", header),
        h("nav", h("ul", (h("li", h("a", words, href=to)) for words, to in anchors)), aria_label="Sections"),
        h("main", parts),
        h("footer", h("p", footer, class_="small")) if footer else None,
    )
    return whole(head, body)


def whole(head: Html, body: Html) -> str:
    """A document of its two halves."""
    return f"<!doctype html>\n{h('html', head, body, lang='en')}\n"
