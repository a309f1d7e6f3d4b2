"""The shell that all pages share."""

from conceptlens.pages.markup import h
from conceptlens.pages.shell import POLICY, render_page


def test_sections_are_listed_and_strangers_words_stay_words() -> None:
    sections = [("one", "First <b>", h("p", "a & b")), ("two", "Second", None)]
    page = render_page("<i>", [h("h1", "Top"), None], sections, footer="end", style=".x{}", links=[("other", "o.html")])
    assert page.startswith('<!doctype html>\n<html lang="en">')
    assert "<title>&lt;i&gt; · conceptlens</title>" in page
    assert POLICY.replace("'", "&#x27;") in page
    assert page.index(".x{}") < page.index("</style>")
    links = [page.index(f'<a href="{to}">') for to in ("#one", "#two", "o.html")]
    assert links == sorted(links)
    assert '<section id="one" aria-labelledby="one-title"><h2 id="one-title">First &lt;b&gt;</h2>' in page
    assert "a &amp; b" in page
    assert '<meta name="description"' not in page
    assert "<script" not in page


def test_description_and_footer_are_left_out_or_there() -> None:
    assert "<footer>" not in render_page("t", [], [])
    assert '<meta name="description" content="short">' in render_page("t", [], [], description="short")
