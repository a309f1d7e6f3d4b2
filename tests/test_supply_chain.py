"""What is installed: locks hold hashes and name no index, fit pyproject.toml, and workflows use pinned actions."""

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests import ROOT

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
NAMES = ("*.lock", "*-lock.json", "*lock.yaml", "requirements*.txt")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def lock_files() -> list[Path]:
    """Locks of any tool, wherever they lie in the repository."""
    skipped = {".venv", "runs", "node_modules", ".git"}
    found = {path for name in NAMES for path in ROOT.rglob(name) if not skipped & set(path.relative_to(ROOT).parts)}
    return sorted(found | set(LOCKS))


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_lock_names_an_index() -> None:
    assert {path.name for path in LOCKS} == {"dev.txt", "runtime.txt", "release.txt"}
    named = re.compile(r"://|index-url|find-links|trusted-host|(?:[\w-]+\.)+(?:org|com|net|io|dev)\b")
    for path in lock_files():
        found = [line for line in path.read_text("utf-8").splitlines() if named.search(line)]
        assert found == [], path
    assert named.search("--extra-index-url https://example.org/simple")
    assert named.search('"resolved": "registry.example.com/left-pad"')


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_line_of_a_lock_has_a_version_and_hashes(path: Path) -> None:
    text = re.sub(r"\\\n\s*", " ", path.read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) > 20
    for line in lines:
        assert re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?==\S+( ; [^\\]*?)?( +--hash=sha256:[0-9a-f]{64})+ *", line), line


def test_the_locks_fit_what_is_asked_for() -> None:
    lock = script("lock")
    assert [line for name in lock.LOCKS for line in lock.unfit(name)] == []
    dev, runtime = lock.locked("dev"), lock.locked("runtime")
    assert {name for name in runtime if not set(runtime[name]) <= set(dev.get(name, []))} == set()


def test_every_range_has_a_lowest_version() -> None:
    """Else a test with the lowest versions would take the first ever published."""
    lines = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    asked = [Requirement(line) for line in lines]
    others = [each for each in asked if each.name != PROJECT["name"]]
    assert [each.name for each in others if not any(part.operator == ">=" for part in each.specifier)] == []


def test_workflows_use_pinned_actions_and_may_write_the_sites_branch_alone() -> None:
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        text = path.read_text("utf-8")
        for action in re.findall(r"uses: (\S+)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), f"{path.name}: {action}"
        assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)
        assert text.count(": write") == {"docs.yml": 1, "publish.yml": 1}.get(path.name, 0)  # the latter: id-token
