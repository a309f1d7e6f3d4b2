"""The files of the page: small, without a build step, and within a strict policy; colors that can be read."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

STATIC = Path(str(files("conceptlens"))) / "web" / "client"
SCRIPTS = sorted(STATIC.rglob("*.js"))
GROUNDS = ("--ground", "--surface", "--sunken")
TEXTS = ("--ink", "--soft", "--accent", "--plus", "--minus", "--good", "--bad")


def test_all_javascript_is_at_most_900_kb() -> None:
    assert 0 < sum(script.stat().st_size for script in SCRIPTS) <= 900_000


def test_d3_comes_with_its_license() -> None:
    assert "Mike Bostock" in (STATIC / "vendor" / "LICENSE-D3.txt").read_text(encoding="utf-8")
    assert "ISC" in (STATIC / "vendor" / "d3.js").read_text(encoding="utf-8")[:300]


def test_nothing_is_inline_and_nothing_is_far_away() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"<style|\sstyle=|\son\w+=", page)
    for address in re.findall(r'(?:src|href)="([^"]+)"', page):
        assert address.startswith("#") or (STATIC / address.removeprefix("static/")).is_file(), address


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(STATIC)))
def test_a_script_imports_files_that_are_there_and_runs_no_text(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    if script.parent.name != "vendor":
        for name in re.findall(r'(?:^(?:import|export|\}).*?from |import\()"([^"]+)"', text, re.MULTILINE):
            assert (script.parent / name).resolve().is_file(), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", text)
        assert text.lstrip().startswith("/**"), "a module begins with what it is for"
    assert not re.search(r"\beval\(|new Function\(", text)
    far = [url for url in re.findall(r"https?://[^\s\"'`)]+", text) if not url.startswith("http://www.w3.org/")]
    assert far == []


def _luminance(color: str) -> float:
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_and_white_is_21() -> None:
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_text_color_has_the_contrast_of_wcag_aa(theme: int) -> None:
    sheet = (STATIC / "css" / "tokens.css").read_text(encoding="utf-8")
    found = re.findall(r"(--[\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", sheet)
    tokens = {name: pair[theme] for name, *pair in found}
    pairs = [(text, ground) for text in TEXTS for ground in GROUNDS]
    pairs += [("--accent", "--accent-ground"), ("--ink", "--accent-ground"), ("--warn", "--warn-ground")]
    pairs += [("--on-accent", "--accent"), ("--soft", "--accent-ground")]
    low = {pair: round(_contrast(tokens[pair[0]], tokens[pair[1]]), 2) for pair in pairs}
    assert {pair: value for pair, value in low.items() if value < 4.5} == {}
    lines = [("--edge", ground) for ground in GROUNDS] + [(f"--series-{n}", "--surface") for n in range(8)]
    lines += [("--plus-bar", "--surface"), ("--minus-bar", "--surface")]
    thin = {pair: round(_contrast(tokens[pair[0]], tokens[pair[1]]), 2) for pair in lines}
    assert {pair: value for pair, value in thin.items() if value < 3} == {}


def _needs(script: Path, found: set[Path]) -> set[Path]:
    """Every module that one imports, and what those import."""
    text = script.read_text(encoding="utf-8")
    for name in re.findall(r'^(?:import|export|\}).*?from "([^"]+)"', text, re.MULTILINE):
        need = (script.parent / name).resolve()
        if need not in found:
            found = _needs(need, found | {need})
    return found


def test_the_page_names_all_modules_that_it_needs_in_any_case_so_that_they_come_at_once() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'<link rel="modulepreload" href="static/([^"]+)">', page)
    views = [_needs(view, set()) for view in (STATIC / "js" / "views").glob("*.js")]
    needed = _needs(STATIC / "js" / "main.js", set()) | set.intersection(*views)
    assert sorted(named) == sorted(path.relative_to(STATIC.resolve()).as_posix() for path in needed)
