"""What importing costs: a measure does not pull in the house."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import conceptlens

ROOT = Path(conceptlens.__file__).parent


def file_of(module: str) -> Path | None:
    """The source of one of our modules; None for anything else."""
    place = ROOT.parent.joinpath(*module.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def imported(body: list[ast.stmt]) -> Iterator[str]:
    """Names that a module imports as it is loaded; some are of objects, not of modules."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from imported([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from imported(node.body)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{name.name}" for name in node.names))


def loaded(module: str) -> set[str]:
    """Our modules that loading one of them loads, without loading it."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = file_of(name)
        if file is not None and name not in found:
            found.add(name)
            waiting += [name.rpartition(".")[0], *imported(ast.parse(file.read_text("utf-8")).body)]
    return found


@pytest.mark.parametrize("module", ["leakage.leakage", "subgroups.failures", "localization.measures"])
def test_a_single_measure_loads_few_modules(module: str) -> None:
    assert len(loaded(f"conceptlens.evaluation.{module}")) <= 60


@pytest.mark.slow
def test_what_is_counted_is_what_is_loaded() -> None:
    module = "conceptlens.evaluation.leakage.leakage"
    code = f"import sys, {module}; print(*[name for name in sys.modules if name.partition('.')[0] == 'conceptlens'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == loaded(module)


def test_the_package_itself_imports_nothing_heavy() -> None:
    code = "import sys, conceptlens; print([name for name in ('torch', 'numpy', 'pydantic') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
