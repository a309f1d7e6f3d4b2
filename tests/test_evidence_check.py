"""Numbers in the sentences of evidence pages are compared with their rows."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "evidence_check.py"
PAGE = """The rank falls from 44
to 12 in 5 seeds, `at 7`.

<!-- table one -->
| 1 | 2 |
<!-- end -->
"""


def script() -> ModuleType:
    found = importlib.util.spec_from_file_location("evidence_check", SCRIPT)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def folder(path: Path, piece: str) -> Path:
    (path / "README.md").write_text(PAGE)
    (path / "prose.py").write_text(f"import json\nprint(json.dumps([{piece!r}]))\n")
    return path


def test_a_piece_that_stands_on_the_page_covers_its_numbers(tmp_path: Path) -> None:
    assert script().prose(folder(tmp_path, "from 44 to 12")) == (
        [],
        1,
    )  # the 5 is typed; tables and code are not counted


def test_a_piece_with_another_number_is_a_difference(tmp_path: Path) -> None:
    missing, typed = script().prose(folder(tmp_path, "from 44 to 13"))
    assert missing == ["README.md should say: from 44 to 13"]
    assert typed == 3


def test_a_script_that_fails_is_a_difference(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(PAGE)
    (tmp_path / "prose.py").write_text("raise SystemExit('no rows')")
    assert script().prose(tmp_path)[0] == ["prose.py failed: no rows"]


@pytest.mark.parametrize(
    ("name", "words"),
    [("page", "no page script"), ("speed", "scripts/tables.py --check"), ("nowhere", "expected a folder of evidence/")],
)
def test_a_folder_that_cannot_be_compared_is_told(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert script().main([name]) == 2
    assert f"{name}: " in (said := capsys.readouterr().err)
    assert words in said
