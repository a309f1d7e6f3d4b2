"""Examples in docstrings of public names say what is true; they are quick."""

import doctest
import inspect
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import conceptlens as cl
import conceptlens.api

MODULES = ("conceptlens.recipes.settings", "conceptlens.web.service.metrics", "conceptlens.workflows.hub.transfer")


def _names(part: Any) -> dict[str, Any]:
    return dict(vars(inspect.getmodule(part)))


def examples() -> list[Any]:
    finder = doctest.DocTestFinder(recurse=False)
    found = []
    for name in sorted(set(dir(cl))):
        value = getattr(cl, name)
        parts = [(name, value)]
        if inspect.isclass(value) and value.__module__.startswith("conceptlens"):
            parts += [(f"{name}.{part}", vars(value)[part]) for part in vars(value) if not part.startswith("_")]
        for title, part in parts:
            if inspect.isclass(part) or inspect.isfunction(part):
                found += [test for test in finder.find(part, title, globs=_names(part)) if test.examples]
    for module in MODULES:
        found += [test for test in doctest.DocTestFinder().find(import_module(module)) if test.examples]
    return found


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_it_is_true(example: Any, evidence_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example.globs |= {"cl": cl, "run": str(evidence_run)}
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


def test_no_public_function_shares_its_name_with_a_module() -> None:
    modules = {each.name for package in (cl, conceptlens.api) for each in pkgutil.iter_modules(package.__path__)}
    assert modules & set(dir(cl)) == {"cortex", "gig"}  # which are modules
    for package in (cl.cortex, cl.gig):
        inside = {each.name for each in pkgutil.iter_modules(package.__path__)}
        assert not inside & {name for name, value in vars(package).items() if inspect.isfunction(value)}
