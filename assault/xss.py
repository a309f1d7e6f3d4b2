"""Every view of the page, and every page that a command wrote, in a browser: no name in them may have become markup."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from tests.web.browser import CHROMIUM, FLAGS, Watch

MAIN = (Path(str(files("conceptlens"))) / "web" / "client" / "js" / "views.js").read_text("utf-8")
ENTRIES = re.findall(r'\{\s*name: "([\w-]+)",([^}]*)\}', MAIN.split("const VIEWS")[1].split("\n]")[0])
VIEWS = {name: re.findall(r'"(\w+)"', "".join(re.findall(r"kinds: \[(.*?)\]", rest))) for name, rest in ENTRIES}
# What a name could have become, and whether any name is on the page at all.
LOOK = """() => ({
    struck: document.querySelectorAll(".struck, [data-struck]").length + (window.struck ? 1 : 0)
        + [...document.querySelectorAll("b")].filter((each) => each.textContent === "long").length, // the studio's
    handlers: [...document.querySelectorAll("*")].flatMap((each) => [...each.attributes])
        .filter((each) => each.name.startsWith("on")).length,
    links: [...document.querySelectorAll("[href], [src], [action]")]
        .map((each) => each.getAttribute("href") ?? each.getAttribute("src") ?? each.getAttribute("action"))
        .filter((each) => /^\\s*(javascript|vbscript|data:text)/i.test(each)).length,
    shown: document.documentElement.textContent.includes("class=struck")
        || document.documentElement.textContent.includes("data-struck")
        || document.documentElement.textContent.includes("<b>long</b>"),
})"""
NAMED = ("runs", "image", "what-if", "concepts", "dataset", "table", "jobs", "study", "rating", "label", "share.html")
OPEN = "() => document.querySelectorAll('details').forEach((each) => { each.open = true; })"


def sweep(
    address: str, cards: list[dict[str, Any]], pages: list[Path], others: list[tuple[str, str]]
) -> dict[str, Any]:
    """Look at every view of every folder that it fits, at files on disk, and at pages of other servers.

    Args:
        address: Of the server.
        cards: What it serves, as `/api/v1/runs` says.
        pages: HTML files that commands wrote.
        others: Names and addresses.
    """
    faults: list[str] = []
    shown: set[str] = set()
    looked = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, place in [*_addresses(address, cards), *((page.name, page.as_uri()) for page in pages), *others]:
            page = browser.new_page()
            watch = Watch("{0.scheme}://{0.netloc}/".format(urlsplit(place)) if place.startswith("http") else "file:")
            watch.attach(page)
            page.goto(place)
            page.wait_for_load_state("networkidle")
            page.evaluate(OPEN)
            page.wait_for_timeout(100)
            found = page.evaluate(LOOK)
            looked += 1
            if found.pop("shown"):
                shown.add(name)
            if any(found.values()) or watch.errors or watch.outside:
                faults.append(f"{name}: {place}: {found} {watch.errors[:3]} {watch.outside[:3]}")
            page.close()
        browser.close()
    # Where no name is on a page, nothing was tested there.
    faults += [f"{name}: none of the hostile names is on it" for name in NAMED if name not in shown]
    return {"pages": looked, "with_hostile_names": sorted(shown), "faults": faults}


def _addresses(address: str, cards: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Views without a folder, views of each folder of a kind that they show, and the raters' pages."""
    for view, kinds in VIEWS.items():
        if not kinds:
            yield view, f"{address}/#/{view}"
        for card in cards:
            if card["kind"] in kinds or card["status"] == "broken":
                yield view, f"{address}/#/{view}?run={card['key']}"
    for card in cards:
        if card["kind"] == "study":
            yield "rating", f"{address}/study/{card['key']}"
    yield "broken address", f"{address}/#/image?run=%3Cimg%20class=struck%3E&image=%3Cimg%20class=struck%3E"
