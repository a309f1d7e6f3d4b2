"""What CONTRIBUTING.md walks through is real: the method conforms and trains, the plug-in is installed and trains."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import conceptlens as cl
from conceptlens.core.files import parse_yaml, read_json, write_text
from conceptlens.core.registry import CARDS, METHODS, PRESETS
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.results import find_result, unregister_result
from conceptlens.testing import check_method
from conceptlens.web.views.method_cards import method_cards
from tests import ROOT
from tests.training.tiny import tiny
from tests.web.conftest import client_of

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
NAME, MODULE = "peak-cbm", "conceptlens.methods.peak_cbm"


def blocks(section: str, language: str) -> list[str]:
    text = TEXT.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


METHOD, TEST = blocks("A new method", "python")
PRESET, RECIPE = blocks("A new method", "yaml")
(CARD,) = blocks("A new method", "markdown")
(SOURCE,) = blocks("A data source as a plug-in", "python")
(PACKAGE,) = blocks("A data source as a plug-in", "toml")
METRIC, USE = blocks("A metric with a generic view", "python")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The method as if its files were in place."""
    (tmp_path / "peak_cbm.py").write_text(METHOD, "utf-8")
    spec = importlib.util.spec_from_file_location(MODULE, tmp_path / "peak_cbm.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, MODULE, module)
    spec.loader.exec_module(module)
    preset = parse_yaml(PRESET, where="CONTRIBUTING.md")
    monkeypatch.setitem(METHODS.entries, NAME, preset.pop("class"))
    monkeypatch.setitem(PRESETS, NAME, preset)
    monkeypatch.setitem(CARDS, NAME, CARD)


def test_it_is_short() -> None:
    assert len(METHOD.splitlines()) < 150


@pytest.mark.usefixtures("registered")
def test_it_conforms() -> None:
    check_method(NAME)
    assert method_cards()[NAME].title == "Peak CBM"
    namespace: dict[str, object] = {}
    exec(TEST, namespace)
    (check,) = [value for name, value in namespace.items() if name.startswith("test_")]
    check()  # type: ignore[operator]


@pytest.mark.usefixtures("registered")
def test_it_trains_by_its_recipe(tmp_path: Path) -> None:
    asked = parse_yaml(RECIPE, where="CONTRIBUTING.md")
    assert load_recipe(asked).method["name"] == NAME
    run = cl.train(tiny(tmp_path / "run", method=asked["method"], training__epochs=1), quiet=True)
    assert read_json(run.path / "metrics.json")["splits"]["test"]["concept"]["auc"] is not None


def test_the_method_of_the_tutorial_trains_by_its_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is written but for fewer and smaller images; a recipe that is refused would stop a newcomer at once."""
    page = (ROOT / "docs/add-method.md").read_text("utf-8")
    code, check = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (recipe,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "mean_cbm.py").write_text(code, "utf-8")
    (tmp_path / "recipe.yaml").write_text(recipe, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    exec(check, {})
    run = cl.train("recipe.yaml", data__limit=20, encoder__image_size=32, epochs=1, bootstrap=2, quiet=True)
    assert read_json(run.path / "metrics.json")["splits"]["test"]["class"]["accuracy"] >= 0


def test_the_data_source_trains_without_a_package(tmp_path: Path) -> None:
    (tmp_path / "ponds.py").write_text(SOURCE, "utf-8")
    data = {"source": f"{tmp_path / 'ponds.py'}:open_ponds"}
    recipe = tiny(tmp_path / "run", training__epochs=1, method="cbm", data=data)
    run = cl.train(recipe, quiet=True).path
    assert read_json(run / "run.json")["data"]["name"] == "ponds"
    assert read_json(run / "metrics.json")["splits"]["test"]["class"]["n"] > 0


def test_the_metric_is_measured_listed_and_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "runs" / "demo"
    cl.train(tiny(folder, training__epochs=1), quiet=True)
    (tmp_path / "margins.py").write_text(METRIC, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace: dict[str, object] = {}
    try:
        exec(USE, namespace)
        document = find_result("margins").load_class().read(folder / "margins.json")
        assert document == namespace["margins"]
        rows = document.table()
        assert sum(int(str(row["images"])) for row in rows) == len(cl.load(folder).predictions().ids)
        with client_of(tmp_path / "runs") as client:
            assert client.get("/api/v1/runs/demo/documents/margins").json() == read_json(folder / "margins.json")
            assert "margins" in client.get("/api/v1/runs/demo").json()["card"]["has"]
    finally:
        unregister_result("margins")
        monkeypatch.delitem(sys.modules, "margins", raising=False)


def pytest_in(folder: Path, *words: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout.splitlines()[-1] or "[100%]" in done.stdout


@pytest.mark.slow
def test_four_files_are_all_of_a_method(tmp_path: Path) -> None:
    """In a copy of the repository with the four files, every test that looks at all methods passes."""
    for name in ("src", "tests", "docs", "scripts", "evidence", "README.md", "CONTRIBUTING.md", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)  # type: ignore[operator]
    write_text(tmp_path / "src/conceptlens/methods/peak_cbm.py", METHOD)
    write_text(tmp_path / "src/conceptlens/methods/presets/peak-cbm.yaml", PRESET)
    write_text(tmp_path / "src/conceptlens/methods/cards/peak-cbm.md", CARD)
    write_text(tmp_path / "tests/methods/test_peak_cbm.py", TEST)
    pytest_in(tmp_path, "tests/methods/test_peak_cbm.py")
    looking = ["tests/methods/test_conformance.py", "tests/web/test_methods.py", "tests/runs/test_readout.py"]
    pytest_in(tmp_path, *looking, "-k", f"{NAME} or every_registered")
    pytest_in(tmp_path, "tests/test_docs.py", "tests/core/test_registry.py", "-k", "documented or methods")


@pytest.mark.slow
def test_the_package_is_installed_and_trains(tmp_path: Path) -> None:
    """With pip, as a user would; and with the method beside the data."""
    project, site = tmp_path / "project", tmp_path / "site"
    package = PACKAGE.replace('["ponds"]', '["ponds", "peak_cbm"]') + (
        '\n[project.entry-points."conceptlens.methods"]\npond-cbm = "peak_cbm:PeakCBM"\n'
    )
    for name, text in (("ponds.py", SOURCE), ("peak_cbm.py", METHOD), ("pyproject.toml", package)):
        write_text(project / name, text)
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*install, "--target", site, project], check=True, capture_output=True)
    settings = tiny(tmp_path / "run", training__epochs=1, method={"name": "pond-cbm", "sharpness": 3.0}, data="ponds")
    write_text(tmp_path / "recipe.yaml", str(settings))
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT / 'src'}", "OMP_NUM_THREADS": "1"}

    def conceptlens(*words: str | Path) -> str:
        command = [sys.executable, "-m", "conceptlens", *map(str, words)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "pond-cbm" in conceptlens("list")
    conceptlens("train", tmp_path / "recipe.yaml", "--quiet")
    assert read_json(tmp_path / "run" / "run.json")["method"] == "pond-cbm"
    assert "code" not in read_json(tmp_path / "run" / "run.json")
    conceptlens("evaluate", tmp_path / "run")  # an installed package needs no --allow-code
