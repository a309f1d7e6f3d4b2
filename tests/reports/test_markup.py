import pytest

from conceptlens.pages.markup import Html, count, decimal, h, names, of_hundred, percent, prose


def test_text_and_attributes_are_escaped_but_markup_is_not() -> None:
    assert h("td", "<x> & 'y'", title='"z"') == '<td title="&quot;z&quot;">&lt;x&gt; &amp; &#x27;y&#x27;</td>'
    assert h("td", h("b", "<")) == "<td><b>&lt;</b></td>"
    assert isinstance(h("td"), Html)


def test_children_may_be_nested_numbers_or_nothing() -> None:
    assert h("td", [1, (h("b", each) for each in "ab")], None, 0) == "<td>1<b>a</b><b>b</b>0</td>"


def test_attribute_names() -> None:
    made = h("td", class_="a", aria_label="b", hidden=True, title=None, open=False)
    assert made == '<td class="a" aria-label="b" hidden></td>'
    assert h("img", alt="") == '<img alt="">'


@pytest.mark.parametrize("value", [None, "<b>", True, [1]])
def test_what_is_no_number_is_a_dash(value: object) -> None:
    assert percent(value) == decimal(value) == count(value) == "–"


def test_numbers() -> None:
    assert percent(0.12345) == "12.3%"
    assert decimal(0.98765) == "0.988"
    assert count(12345) == "12,345"
    assert [of_hundred(value) for value in (0.934, 0.996, 1.0, 0.004, 0)] == ["93", "99.6", "100", "0.4", "0"]
    assert names("abcd", 2) == "a, b and 2 more"


def test_words_between_backticks_are_code() -> None:
    assert prose("Run `a <b>` or `c`.") == "Run <code>a &lt;b&gt;</code> or <code>c</code>."
    assert prose("One ` alone & escaped") == "One ` alone &amp; escaped"
