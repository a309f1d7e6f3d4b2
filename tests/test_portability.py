"""What would work on this system alone: files without an encoding, signals as questions, modules of one system."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests import ROOT

PYTHON = [path for top in ("src", "scripts", "pretraining", "bench", "examples") for path in (ROOT / top).rglob("*.py")]
POSIX = {"fcntl", "resource", "pwd", "grp", "termios"}  # only where a system without them has another way
MAY_IMPORT = {"core/locks.py"}


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str, str]]:
    """Each call, the name that is called, and what it is an attribute of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node, node.func.id, ""
            elif isinstance(node.func, ast.Attribute):
                yield node, node.func.attr, ast.unparse(node.func.value)


def _lacks_encoding(node: ast.Call, name: str, owner: str) -> bool:
    """Whether a call reads or writes text in whatever encoding the system prefers."""
    named = {keyword.arg for keyword in node.keywords}
    if "encoding" in named:
        return False
    if name == "read_text":
        return not node.args
    if name == "write_text":
        return len(node.args) == 1 and owner != ""  # our own `write_text(path, text)` is UTF-8
    if name == "open" and owner in ("", "io"):
        mode = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "mode"), None)
    elif name == "open":
        mode = node.args[0] if node.args else None
        if not node.args or not (isinstance(mode, ast.Constant) and set(str(mode.value)) <= set("rwabxt+")):
            return False  # a run, an image or a method of that name
    else:
        return False
    return not (isinstance(mode, ast.Constant) and "b" in str(mode.value))


@pytest.mark.parametrize("top", ["src", "scripts", "pretraining", "bench", "examples"])
def test_every_text_file_is_opened_with_its_encoding(top: str) -> None:
    found = []
    for path in (path for path in PYTHON if path.is_relative_to(ROOT / top)):
        text = path.read_text("utf-8")
        if not re.search(r"\b(open|read_text|write_text)\(", text):
            continue
        tree = ast.parse(text)
        own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        for call, name, owner in _calls(tree):
            if not (name in own and not owner) and _lacks_encoding(call, name, owner):
                found.append(f"{path.relative_to(ROOT)}:{call.lineno}")
    assert not found


@pytest.mark.parametrize(
    ("code", "lacks"),
    [
        ("path.read_text()", True),
        ("path.read_text('utf-8')", False),
        ("path.write_text(text)", True),
        ("path.write_text(text, 'utf-8')", False),
        ("path.open('a')", True),
        ("path.open('rb')", False),
        ("open(path)", True),
        ("open(path, 'w', encoding='utf-8')", False),
        ("OpenedRun.open(path)", False),
    ],
)
def test_the_search_finds_them(code: str, lacks: bool) -> None:
    ((call, name, owner),) = _calls(ast.parse(code))
    assert _lacks_encoding(call, name, owner) is lacks


def test_modules_and_signals_of_one_system_are_nowhere_else() -> None:
    package = ROOT / "src/conceptlens"
    found = [
        str(path)
        for path in package.rglob("*.py")
        if path.relative_to(package).as_posix() not in MAY_IMPORT
        and re.search(rf"\bimport ({'|'.join(POSIX)})\b|\bos\.kill\([^)]*, 0\)", path.read_text("utf-8"))
    ]
    assert not found
