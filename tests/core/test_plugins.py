"""Own code runs when the user names it, and never because a run folder does."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import conceptlens as cl
from conceptlens import api, cli, gig
from conceptlens.core import plugins
from conceptlens.core.files import read_json, read_yaml, write_json, write_text
from conceptlens.core.plugins import is_code, load_object
from conceptlens.recipes.parse import load_recipe
from conceptlens.workflows.compare.jobs import Comparison
from tests.training.tiny import tiny
from tests.web.conftest import client_of

OWN = """
from pathlib import Path
from conceptlens.data.sources.shapes import Shapes
from conceptlens.encoders.builtin.vit import MINI, BuiltinViT
from conceptlens.methods.cbm import CBM
from conceptlens.nn.regularizers.regularizer import NoRegularizer

Path(__file__).with_name("marker").touch()

class Own(CBM):
    preset = {"method": {"class_gradient": 0.0}}

class Quiet(NoRegularizer):
    pass

def encoder(**settings):
    return BuiltinViT(**{**MINI, **settings, "width": 32, "depth": 1, "heads": 2, "pretrained": False})

def opened(config, concepts):
    source = Shapes(config.shapes, concepts)
    return source, source.concepts

def build():
    raise RuntimeError("not reached")
"""
ALL = {
    "method": {"name": "own.py:Own"},
    "regularizer": {"name": "own.py:Quiet"},
    "encoder": {"name": "own.py:encoder", "image_size": 32},
}


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_allowed", set())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the package's own parts."""
    settings = {"method": {"name": "cbm"}, "regularizer": {"name": "none"}, "training__epochs": 1}
    return cl.train(tiny(tmp_path_factory.mktemp("plain") / "run", **settings), quiet=True).path


def stranger(folder: Path) -> tuple[Path, Path]:
    """A stranger's file, and the marker that it leaves where it is run."""
    folder.mkdir(exist_ok=True)
    (folder / "own.py").write_text(OWN)
    return folder / "own.py", folder / "marker"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("file.py:Class", True),
        ("/a b/file.py:Class", True),
        ("package.module:Class", True),
        ("module:function", True),
        ("ivq-cbm", False),
        ("timm/vit_small", False),
        ("open_clip/local-dir:/models/x", False),
        ("file.py", False),
        ("a:b:c", False),
    ],
)
def test_what_is_code(word: str, expected: bool) -> None:
    assert is_code(word) is expected


def test_a_recipe_that_the_user_passes_may_name_files_beside_it(tmp_path: Path) -> None:
    _, marker = stranger(tmp_path / "beside")
    recipe = tiny(tmp_path / "run", **ALL, training__epochs=1)
    recipe["data"]["source"] = "own.py:opened"
    write_text(tmp_path / "beside" / "recipe.yaml", json.dumps(recipe))
    run = cl.train(tmp_path / "beside" / "recipe.yaml", quiet=True).path
    assert marker.exists()
    kept = read_yaml(run / "recipe.yaml")
    assert kept["method"]["name"] == f"{tmp_path / 'beside' / 'own.py'}:Own"
    assert kept["method"]["class_gradient"] == 0, "the class's own preset"
    info = read_json(run / "run.json")
    names = {row["name"].rpartition(":")[2] for row in info["code"]}
    assert names == {"Own", "Quiet", "encoder", "opened"}
    cl.evaluate(run)  # in the process in which the user named it
    plugins._allowed.clear()
    marker.unlink()
    with pytest.raises(cl.UserError, match=r"own\.py:Own.*which is unchanged since.*--allow-code"):
        cl.evaluate(run)
    (tmp_path / "beside" / "own.py").write_text(OWN + "\n# more\n")
    with pytest.raises(cl.UserError, match="HAS CHANGED since"):
        cl.evaluate(run)
    assert not marker.exists()
    assert cli.main(["evaluate", str(run), "--allow-code", str(tmp_path / "beside" / "own.py")]) == 0
    assert marker.exists()


def test_words_of_the_command_line_start_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, marker = stranger(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    recipe = load_recipe({"data": "shapes"}, ["--method", "own.py:Own"], trusted=True)
    assert (recipe.method["name"], recipe.out) == (f"{file}:Own", "runs/shapes-Own-0")
    assert marker.exists()
    with pytest.raises(cl.UserError, match=r"has no 'Onw'\. Did you mean 'Own'"):
        load_recipe({"data": "shapes", "method": "own.py:Onw"}, trusted=True)
    with pytest.raises(cl.UserError, match="no such file"):
        load_recipe({"data": "shapes", "method": "none.py:Own"}, trusted=True)
    (tmp_path / "here" / "wrong.py").write_text("1 / 0\n")
    with pytest.raises(cl.UserError, match=r"wrong\.py cannot be run: ZeroDivisionError"):
        load_recipe({"data": "shapes", "method": "wrong.py:Own"}, trusted=True)


def test_a_comparison_may_name_files_beside_it(tmp_path: Path) -> None:
    file, marker = stranger(tmp_path / "beside")
    data = {"drawn": {"source": "own.py:opened"}}
    comparison = {"data": data, "base": {"method": {"name": "own.py:Own"}}, "recipes": {"own": {}}}
    write_text(tmp_path / "beside" / "comparison.yaml", json.dumps(comparison))
    made = Comparison(tmp_path / "beside" / "comparison.yaml")
    recipe = made.recipe("drawn", made.entries[0], {})
    assert (recipe.method["name"], recipe.data.source) == (f"{file}:Own", f"{file}:opened")
    assert marker.exists()


def test_a_module_by_its_name() -> None:
    word = "conceptlens.methods.cbm:CBM"
    with pytest.raises(cl.UserError, match=r"--allow-code conceptlens\.methods\.cbm"):
        load_recipe({"data": "shapes", "method": word})
    assert load_recipe({"data": "shapes", "method": word}, trusted=True).method["name"] == word
    plugins._allowed.clear()
    cl.allow_code("conceptlens.methods")
    assert load_object(word).__name__ == "CBM"
    with pytest.raises(cl.UserError, match="expected a Python file or the name of a module"):
        cl.allow_code("not a module")
    with pytest.raises(cl.UserError, match="no such file"):
        cl.allow_code("none.py")


def test_data_with_a_colon_in_its_name_is_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scans:new").mkdir()
    assert load_recipe({"data": "scans:new"}).data.source == "scans:new"
    assert load_recipe({"data": "hf:ponds"}).data.source == "hf:ponds"


def _serve(run: Path) -> None:
    """Ask for everything that the page can show of a run."""
    with client_of(run.parent) as client:
        paths = client.get("/api/v1/openapi.json").json()["paths"]
        filled = {"run": run.name, "split": "test"}
        asked = [re.sub(r"{(\w+)(?::\w+)?}", lambda hole: filled.get(hole[1], "0"), path) for path in paths]
        assert f"/api/v1/runs/{run.name}/images/test/0/prediction" in asked
        for address in asked:
            client.get(address)


COMMANDS: dict[str, Callable[[Path, Path], Any]] = {
    "resume": lambda run, image: cl.resume(run, quiet=True),
    "evaluate": lambda run, image: cl.evaluate(run),
    "predict": lambda run, image: cl.predict(run, [image]),
    "explain": lambda run, image: api.explain(run, [image]),
    "report": lambda run, image: cl.make_report(run),
    "train": lambda run, image: cl.train(run / "recipe.yaml", {"out": str(run.parent / "again")}, quiet=True),
    "decompose": lambda run, image: gig.decompose(str(run), image.parent, out=run.parent / "apart"),
}


@pytest.mark.parametrize("section", ["method", "regularizer", "encoder", "data"])
@pytest.mark.parametrize("command", [*COMMANDS, pytest.param("serve", marks=pytest.mark.slow)])
def test_a_run_folder_cannot_have_code_run(plain: Path, tmp_path: Path, section: str, command: str) -> None:
    file, marker = stranger(tmp_path / "stranger")
    run = Path(shutil.copytree(plain, tmp_path / "runs" / "theirs"))
    recipe = read_yaml(run / "recipe.yaml")
    name = {"method": "Own", "regularizer": "Quiet", "encoder": "encoder", "data": "opened"}[section]
    recipe[section]["source" if section == "data" else "name"] = f"{file}:{name}"
    write_text(run / "recipe.yaml", json.dumps(recipe))
    if command == "resume":
        write_json(run / "run.json", read_json(run / "run.json") | {"status": "running"})
    image = tmp_path / "images" / "one.png"
    image.parent.mkdir()
    Image.new("RGB", (32, 32)).save(image)
    if command == "serve":
        _serve(run)
    elif command == "report":
        COMMANDS[command](run, image)  # it is written from files, without pictures where they cannot be read
    else:
        with pytest.raises(cl.UserError, match=r"own\.py.*--allow-code"):
            COMMANDS[command](run, image)
    assert not marker.exists()


@pytest.mark.parametrize("command", ["resume", "evaluate", "predict", "explain", "serve"])
def test_a_decomposition_cannot_have_code_run(tmp_path: Path, command: str) -> None:
    """Its settings name `file.py:build`, which `resume` would call."""
    file, marker = stranger(tmp_path / "stranger")
    images = tmp_path / "images"
    images.mkdir()
    for shade in (10, 200):
        Image.new("RGB", (32, 32), (shade, 0, 0)).save(images / f"{shade}.png")
    run = tmp_path / "runs" / "theirs"
    run.mkdir(parents=True)
    info = {"id": "theirs", "kind": "decompose", "status": "running", "method": "gig", "data": {}}
    write_json(run / "run.json", info)
    write_json(run / "settings.json", {"model": f"{file}:build", "images": str(images)})
    if command == "serve":
        _serve(run)
    else:
        with pytest.raises(cl.UserError, match="--allow-code" if command == "resume" else "expected a trained model"):
            COMMANDS[command](run, images / "10.png")
    assert not marker.exists()
    if command == "resume":
        cl.allow_code(file)
        with pytest.raises(cl.UserError, match="not reached"):
            cl.resume(run, quiet=True)
        assert marker.exists()
