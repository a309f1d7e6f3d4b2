"""Modules become one script: in order, by name, and nothing that is not understood slips through."""

from pathlib import Path

import pytest

from conceptlens.web.share.bundle import BundleError, bundle, exports, inert
from conceptlens.web.share.plan import MAIN, SHARED, modules


def _write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.js").write_text(text, "utf-8")
    return folder / "main.js"


def test_modules_stand_after_what_they_need(tmp_path: Path) -> None:
    entry = _write(
        tmp_path,
        main='import { two as second } from "./b.js";\nimport * as all from "./a.js";\nall.one(second);\n',
        b='import { one } from "./a.js";\nexport const two = one + 1;\nexport { one as first };\n',
        a="export const one = 1;\n",
    )
    assert bundle(entry) == (
        "// a.js\nconst m0 = (() => {\nconst one = 1;\nreturn { one };\n})();\n"
        "// b.js\nconst m1 = (() => {\nconst { one } = m0;\nconst two = one + 1;\nreturn { two, first: one };\n})();\n"
        "// main.js\nconst m2 = (() => {\nconst { two: second } = m1;\nconst all = m0;\nall.one(second);\n"
        "return {  };\n})();\n"
    )


def test_what_is_passed_on_asked_for_later_or_needed_for_its_effect(tmp_path: Path) -> None:
    entry = _write(
        tmp_path,
        main='/** @type {import("./a.js").One} */\nimport "./b.js";\nexport { one as uno } from "./a.js";\n'
        'const later = () => import("./a.js").then(({ one }) => one);\n',
        a="export function one() {}\nexport class One {}\nexport async function wait() {}\n",
        b="window.seen = true;\n",
    )
    made = bundle(entry)
    assert '/** @type {import("./a.js").One} */' in made
    assert "return { one, One, wait };" in made
    assert "Promise.resolve(m0).then(" in made
    assert "return { uno: m0.one };" in made
    assert "window.seen" in made


def test_a_module_takes_the_place_of_another_or_is_left_out(tmp_path: Path) -> None:
    entry = _write(
        tmp_path,
        main='import { ask } from "./net.js";\nimport { view } from "./view.js";\nask(view);\n',
        net='export const ask = "net";\n',
        file='export const ask = "file";\n',
        view='import { deep } from "./deep.js";\nexport function view() {}\nexport const other = deep;\n',
        deep="export const deep = 1;\n",
    )
    made = bundle(entry, swap={tmp_path / "net.js": tmp_path / "file.js"}, without=[tmp_path / "view.js"])
    assert '"file"' in made
    assert '"net"' not in made
    assert "const m1 = { view: null, other: null };" in made
    assert "deep.js" not in made
    assert exports(tmp_path / "view.js") == ["view", "other"]


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"main": 'import x from "./a.js";\n', "a": ""}, "`import x from"),
        ({"main": "export let x = 1;\n"}, "`export let x"),
        ({"main": "export default 1;\n"}, "`export default"),
        (
            {"main": 'import { a } from "./a.js";\n', "a": 'import { b } from "./main.js";\n'},
            "main.js → a.js → main.js",
        ),
        ({"main": 'import { a } from "./gone.js";\n'}, "gone.js: no such module"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(tmp_path: Path, files: dict[str, str], why: str) -> None:
    with pytest.raises(BundleError) as raised:
        bundle(_write(tmp_path, **files))
    assert why in str(raised.value)


def test_a_script_cannot_end_itself() -> None:
    assert (
        inert('a = "</script>"; b = `<!-- ${c}`; d = 1 < 2;') == 'a = "\\x3c/script>"; b = `\\x3c!-- ${c}`; d = 1 < 2;'
    )


def test_the_whole_page_can_be_bundled() -> None:
    """Every module of every view: one that cannot be put into a shared file is noticed here, and not by its reader."""
    assert set(SHARED) <= set(modules())
    swap = {MAIN.parent / "transport.js": MAIN.parent / "share" / "transport.js"}
    made = bundle(MAIN, swap=swap)
    assert "</script" not in made.lower()
