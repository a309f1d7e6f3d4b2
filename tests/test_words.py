"""One word for each thing: no private idiom in what people read, and American spelling in identifiers."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT

SOURCES = sorted((ROOT / "src").rglob("*.py"))
CLIENT = sorted(
    path
    for kind in ("js", "html", "css")
    for path in (ROOT / "src").rglob(f"*.{kind}")
    if "vendor" not in path.parts and path.name != "packed.js"  # made from the others
)
PAGES = [*(ROOT / "src").rglob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
# The glossary explains words, and the table of upgrades holds what version 0.1 wrote.
QUOTES = {ROOT / "docs" / "glossary.md", ROOT / "src" / "conceptlens" / "core" / "upgrades.py"}

IDIOMS = {
    "told apart": "significantly different, distinguished",
    "dealt anew": "permuted",
    "dealt": "permuted, assigned",
    "blind reader": "image-free baseline",
    "centered blob": "center prior",
    "centred blob": "center prior",
    "axes at chance": "groups at chance",
    "whom it fails": "subgroups",
    "who it fails": "subgroups",
    "twins": "permutations",
    "strange to it": "out of distribution",
    "nobody's business": "private",
    "hangs on": "depends on",
    "reads around": "bypasses the concepts",
    "stays silent": "abstains",
}
_SPACES = {idiom: idiom.replace(" ", r"[\s#*/]+") for idiom in IDIOMS}  # a phrase may go on in the next line
IDIOM = re.compile(
    r"(?<!Barlow )(?<![\w-])(?:" + "|".join(f"({_SPACES[idiom]})" for idiom in IDIOMS) + r")(?![\w-])", re.IGNORECASE
)
BRITISH = re.compile(
    r"(colour|flavour|favour|behaviour|neighbour|honour|centre|fibre|grey|licence|defence|catalogue|learnt|artefact"
    r"|(un)?(label|model|travel|signal)l(ed|ing)"
    r"|(regular|local|normal|initial|optim|summar|visual|quant|recogn|general|random|standard|minim|maxim|serial|token"
    r"|organ|real|special|final|vector|linear|factor|categor|character|digit|priorit|synchron|binar|emphas|parallel)is"
    r"(e|es|ed|er|ers|ing|ation|ations)"
    r"|analys(e|es|ed|er|ing)|paralys(e|ed)|catalys(e|ed))(s|d|ed|r|rs|ing)?"
)
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def idioms(text: str) -> Iterator[str]:
    """Each idiom of a text with its line."""
    for match in IDIOM.finditer(text):
        phrase = " ".join(re.sub(r"[\s#*/]+", " ", match[0]).split()).lower()
        yield f"{_line(text, match.start())}: {match[0]!r}; say {IDIOMS[phrase]!r}"


def british(identifier: str) -> bool:
    return any(BRITISH.fullmatch(word.lower()) for word in _WORDS.findall(identifier))


def python_names(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def names(path: Path, text: str) -> Iterator[tuple[int, str]]:
    return python_names(text) if path.suffix == ".py" else client_names(path, text)


def client_names(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Names in a script or a style sheet, and classes and ids of HTML; strings and comments are no names."""
    if path.suffix == ".html":
        for match in re.finditer(r'\b(?:id|class|name|for|data-[\w-]+)="([^"]*)"', text):
            yield _line(text, match.start()), match[1]
        return
    blank = re.sub(
        r"/\*.*?\*/|(?<![:\\])//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'",
        lambda match: "\n" * match[0].count("\n"),
        text,
        flags=re.DOTALL,
    )
    for match in re.finditer(r"[\w$-]+" if path.suffix == ".css" else r"[\w$]+", blank):
        yield _line(blank, match.start()), match[0]


def test_nothing_is_said_in_idioms() -> None:
    files = [path for path in (*SOURCES, *PAGES, *CLIENT) if path not in QUOTES]
    found = [f"{path.relative_to(ROOT)}:{words}" for path in files for words in idioms(path.read_text("utf-8"))]
    assert not found, "\n" + "\n".join(found)


def test_identifiers_have_american_spelling() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in (*SOURCES, *CLIENT)
        for line, name in [(0, path.stem), *names(path, path.read_text("utf-8"))]
        if british(name)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "two methods are told\n    apart by it",
            ["1: 'told\\n    apart'; say 'significantly different, distinguished'"],
        ),
        ("cards are Dealt", ["1: 'Dealt'; say 'permuted, assigned'"]),
        ("Barlow Twins, --twins and an ordeal", []),
        ("a map that hangs on\n# one patch", ["1: 'hangs on'; say 'depends on'"]),
    ],
)
def test_idioms_are_found(text: str, says: list[str]) -> None:
    assert list(idioms(text)) == says


def test_spellings_are_found() -> None:
    wrong = ("colour_map", "Regulariser", "NEIGHBOURS", "normaliseImages", "analyse_study", "labelled", "centre")
    assert all(british(name) for name in wrong)
    right = (
        "color_map",
        "raise_error",
        "precise",
        "analysis",
        "otherwise",
        "promise",
        "is_noise",
        "parallel",
        "greyhound",
    )
    assert not any(british(name) for name in right)
    assert [name for _, name in python_names('colour = "grey"  # centre')] == ["colour"]
    assert [name for _, name in client_names(Path("a.js"), 'const colour = "grey"; // centre')] == ["const", "colour"]
