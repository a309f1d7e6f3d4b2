"""HTML from Python values, safe by default: whatever is not `Html` already is escaped.

Names of classes, concepts and files come from strangers. No part of the report writes a tag by hand, so none of them
can become one.
"""

from collections.abc import Iterable
from html import escape
from typing import Any

MISSING = "–"  # a number that cannot be computed
_VOID = {"meta", "img", "br", "link"}
_OWN_LINE = {"p", "tr", "table", "caption", "thead", "tbody", "section", "header", "h1", "h2", "h3", "li", "ul", "div"}
_OWN_LINE |= {"article", "figure", "svg", "details", "summary", "head", "meta", "title", "style", "nav", "main"}
_OWN_LINE.add("footer")


class Html(str):
    """Markup that needs no escaping."""

    __slots__ = ()


def h(tag: str, *children: Any, **attributes: Any) -> Html:
    """An element, such as `h("td", name, class_="number")`.

    Args:
        tag: Its name.
        children: Html, text (escaped), numbers, lists of them; None is left out.
        attributes: A closing underscore is dropped, others become hyphens; None and False are left out.
    """
    told = "".join(_attribute(name, value) for name, value in attributes.items())
    end = "\n" if tag in _OWN_LINE else ""
    if tag in _VOID:
        return Html(f"<{tag}{told}>{end}")
    return Html(f"<{tag}{told}>{join(children)}</{tag}>{end}")


def prose(text: str) -> Html:
    """A sentence whose words between backticks are code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # one that nothing closes
        return join([text])
    return join(h("code", piece) if place % 2 else piece for place, piece in enumerate(pieces))


def join(children: Iterable[Any]) -> Html:
    """Several pieces, one after the other."""
    return Html("".join(map(_piece, children)))


def _piece(child: Any) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str) or not isinstance(child, Iterable):
        return escape(str(child))
    return join(child)


def _attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def percent(value: Any, digits: int = 1) -> str:
    """A fraction as a percentage."""
    return f"{100 * value:.{digits}f}%" if _is_number(value) else MISSING


def decimal(value: Any, digits: int = 3) -> str:
    return f"{value:.{digits}f}" if _is_number(value) else MISSING


def count(value: Any) -> str:
    return f"{round(value):,}" if _is_number(value) else MISSING


def of_hundred(value: float) -> str:
    """A fraction as in "93 of 100", with a decimal where rounding would claim too much."""
    return f"{100 * value:.0f}" if 0.01 <= value < 0.985 or value in (0, 1) else f"{100 * value:.1f}"


def names(values: Iterable[str], at_most: int = 12) -> str:
    """A list in words; a long one is cut."""
    known = list(values)
    more = f" and {len(known) - at_most} more" if len(known) > at_most else ""
    return ", ".join(known[:at_most]) + more


def quoted(name: str) -> str:
    """A name that would run into its sentence, as one with a colon does."""
    return f"“{name}”"


def table_row(name: Any, *cells: Any, class_: str | None = None) -> Html:
    """A row of a table: what it is about, then what its cells hold."""
    return h("tr", h("th", name, scope="row"), (h("td", cell) for cell in cells), class_=class_)


def table(caption: str, head: Iterable[Any], body: Iterable[Any], *, class_: str | None = None) -> Html:
    """A table that scrolls by itself where the page is narrow, by touch or by keyboard."""
    columns = h("thead", h("tr", (h("th", name, scope="col") for name in head)))
    inner = h("table", h("caption", h("span", caption)), columns, h("tbody", body), class_=class_)
    return h("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)
