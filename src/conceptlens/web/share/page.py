"""The page as one file: its markup, styles, modules and data, under a policy that lets nothing else run or load."""

import hashlib
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from conceptlens.core.version import __version__
from conceptlens.pages.markup import Html, h
from conceptlens.pages.pictures import base64_text, data_address
from conceptlens.web.server.app import STATIC
from conceptlens.web.share.note import Note, footer
from conceptlens.web.share.pack import block

_SHEET = re.compile(r'<link rel="stylesheet" href="static/([^"]+)">')
_BODY = re.compile(r"<body>(.*)</body>", re.DOTALL)
_FOOTER = re.compile(r"<footer\b.*?</footer>", re.DOTALL)
_NOSCRIPT = re.compile(r"<noscript>.*?</noscript>", re.DOTALL)
_BRAND = re.compile(r'(<a class="brand") href="[^"]*" aria-label="[^"]*"')
NO_SCRIPT = (
    "This file shows itself with JavaScript, which previews of mail programs do not run. Save it, and open it in a "
    "browser."
)


PACKED = Path(__file__).with_name("packed.js")


def script() -> str:
    """The page's modules as one script that answers from the file: what `make pack-web` wrote."""
    return f"/* conceptlens {__version__}, Apache License 2.0. With D3:\n{_license()}*/\n{PACKED.read_text('utf-8')}"


def packed_sources() -> str:
    """The SHA-256 of the page's scripts, as the first line of `packed.js` has it when they are those it was made of."""
    digest = hashlib.sha256()
    for path in sorted(STATIC.rglob("*.js"), key=lambda path: path.relative_to(STATIC).as_posix()):
        digest.update(path.relative_to(STATIC).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _license() -> str:
    """Whoever passes D3 on passes its license on."""
    return (STATIC / "vendor" / "LICENSE-D3.txt").read_text("utf-8")


def render(note: Note, answers: Mapping[str, str], pictures: Mapping[str, str], files: Mapping[str, str]) -> str:
    """The whole file.

    Args:
        note: What it holds.
        answers: Packed answers by address.
        pictures: Images of the data, base64 by `split/row`.
        files: Other pictures and tables: `TYPE;base64,…` by address.
    """
    index = (STATIC / "index.html").read_text("utf-8")
    sheets = [*_SHEET.findall(index), "css/share.css"]
    style = "\n".join((STATIC / name).read_text("utf-8") for name in sheets)
    if "</style" in style.lower():
        raise ValueError("a style sheet would end its own element")
    code = script()
    icon = data_address((STATIC / "icon.svg").read_bytes(), "image/svg+xml")
    policy = (
        f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(style)}; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", http_equiv="Content-Security-Policy", content=policy),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="color-scheme", content="light dark"),
        h("meta", name="referrer", content="no-referrer"),
        h("meta", name="generator", content=f"conceptlens {note.version}"),
        h("meta", name="description", content=note.line),
        h("title", f"{note.run} · conceptlens"),
        Html(f'<link rel="icon" href="{icon}" type="image/svg+xml">\n'),
        h("style", Html(style)),
        Html(f'<script type="module">{code}</script>\n'),
    )
    data = {"note": note.as_json(), "answers": answers, "pictures": pictures, "files": files}
    blocks = "".join(
        f'<script type="application/json" id="share-{name}">{block(value)}</script>\n' for name, value in data.items()
    )
    return f'<!doctype html>\n<html lang="en">\n{head}<body>{_body(index, note)}{blocks}</body>\n</html>\n'


def _body(index: str, note: Note) -> str:
    found = _BODY.search(index)
    if not found:
        raise ValueError("index.html has no body")
    body = _FOOTER.sub(lambda _: footer(note), found[1])
    body = body.replace("</header>", f"</header>{note.verdicts or ''}", 1)
    body = _NOSCRIPT.sub(lambda _: f'<noscript><p class="share-alone">{escape(NO_SCRIPT)}</p></noscript>', body)
    return _BRAND.sub(r'\1 href="#/" aria-label="conceptlens: the first view"', body)


def _hash(text: str) -> str:
    """As a policy names what may run."""
    return f"'sha256-{base64_text(hashlib.sha256(text.encode()).digest())}'"
