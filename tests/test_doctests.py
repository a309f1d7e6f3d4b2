"""Examples in docstrings of public names say what is true; they are quick."""

import doctest
import inspect
import pkgutil
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import conceptlens as cl
import conceptlens.api
from tests.documents import wrong_in_python

MODULES = ("conceptlens.recipes.settings", "conceptlens.web.service.metrics", "conceptlens.workflows.hub.transfer")


def _names(part: Any) -> dict[str, Any]:
    return dict(vars(inspect.getmodule(part)))


def public_functions(module: Any) -> list[tuple[str, Any]]:
    """Those that a module defines itself."""
    own = [(name, part) for name, part in vars(module).items() if inspect.isfunction(part) and name[0] != "_"]
    return [(name, part) for name, part in own if part.__module__ == module.__name__]


def examples() -> list[Any]:
    finder = doctest.DocTestFinder(recurse=False)
    found = []
    for name in sorted(set(dir(cl))):
        value = getattr(cl, name)
        parts = [(name, value)]
        if inspect.ismodule(value):
            parts = [(f"{name}.{part}", function) for part, function in public_functions(value)]
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
    shutil.copytree(evidence_run, "run")  # examples may write into it
    Image.new("RGB", (32, 32), "red").save("image.png")
    example.globs |= {"cl": cl, "run": "run"}
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


def test_every_public_name_has_an_example_and_it_names_what_exists() -> None:
    """Those that train, serve or need files of yours are not run here (+SKIP); their names and keywords are checked."""
    shown = {example.name: example for example in examples()}
    functions = {
        name for name in dir(cl) if inspect.isfunction(getattr(cl, name)) or inspect.isclass(getattr(cl, name))
    }
    functions |= {
        f"{module}.{name}" for module in ("gig", "cortex") for name, _ in public_functions(getattr(cl, module))
    }
    assert functions <= set(shown)
    for name, example in shown.items():
        code = "".join(part.source for part in example.examples).replace("cl.load(run).", "model.")
        assert not wrong_in_python(code), name
    run = [
        name
        for name, example in shown.items()
        if not all(doctest.SKIP in part.options for part in example.examples[1:])
    ]
    assert len(run) > 30


def test_no_public_function_shares_its_name_with_a_module() -> None:
    modules = {each.name for package in (cl, conceptlens.api) for each in pkgutil.iter_modules(package.__path__)}
    assert modules & set(dir(cl)) == {"cortex", "gig"}  # which are modules
    for package in (cl.cortex, cl.gig):
        inside = {each.name for each in pkgutil.iter_modules(package.__path__)}
        assert not inside & {name for name, value in vars(package).items() if inspect.isfunction(value)}
