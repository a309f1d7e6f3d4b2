"""Comparison files: what is read, and what is said of those that are wrong."""

import re
from pathlib import Path
from typing import Any

import pytest

from conceptlens.core.errors import UserError
from conceptlens.core.files import dump_yaml, write_text
from conceptlens.core.upgrades import SCHEMA
from conceptlens.workflows.compare.file import read_comparison, slug
from conceptlens.workflows.compare.jobs import Comparison
from conceptlens.workflows.compare.layers import lay, nested
from conceptlens.workflows.compare.trials import combinations, trials_of
from tests import ROOT
from tests.workflows.compare.fakes import comparison_file


def test_short_forms_are_spelt_out(tmp_path: Path) -> None:
    write_text(tmp_path / "c.yaml", "recipes: {a: shapes/ivq-cbm, b: null}\ndata: {shapes: shapes}\n")
    found = read_comparison(tmp_path / "c.yaml")
    assert found.recipes["a"].recipe == "shapes/ivq-cbm"
    assert found.recipes["b"].changes == {}
    assert found.data == {"shapes": {"source": "shapes"}}
    assert found.seeds == [0, 1, 2]


def test_data_beside_the_file_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    for name in ("cells.csv", "cells.yaml"):
        write_text(tmp_path / "mine" / name, "")
    sets = {"a": "cells.csv", "b": {"source": "cells.csv", "concepts": "cells.yaml", "set": {}}, "c": "shapes"}
    file = tmp_path / "mine" / "c.yaml"
    write_text(file, dump_yaml({"recipes": {"a": None}, "base": {"concepts": "cells.yaml"}, "data": sets}))
    monkeypatch.chdir(tmp_path)
    found, folder = read_comparison("mine/c.yaml"), tmp_path / "mine"
    assert found.data["a"] == {"source": str(folder / "cells.csv")}
    assert found.data["b"] == {"source": str(folder / "cells.csv"), "concepts": str(folder / "cells.yaml"), "set": {}}
    assert found.data["c"] == {"source": "shapes"}
    assert found.base == {"concepts": str(folder / "cells.yaml")}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recepies": {}}, "Did you mean 'recipes'"),
        ({"recipes": {"a": {"sets": {}}}}, "Did you mean 'set'"),
        ({"recipes": {}}, "recipes"),
        ({"recipes": {"a": {"supervision": "texts"}}}, "supervision"),
        ({"recipes": {"a/b": None}}, "cannot name a row"),
        ({"recipes": {"a b": None, "a-b": None}}, "too alike"),
        ({"data": {"x": {"shapes": {}}}}, "needs a `source`"),
        ({"seeds": [1, 1]}, "different whole numbers"),
        ({"seeds": []}, "seeds"),
        ({"statistics": {"alpha": 2}}, "statistics → alpha"),
        ({"folds": {"k": 1}}, "folds → k"),
        ({"schema": SCHEMA + 1}, f"reads schemas up to {SCHEMA}"),
        ({"recipes": {"a": {"recipe": "shapes/ivq-cmb"}}}, "Did you mean 'shapes/ivq-cbm'"),
        ({"recipes": {"a": {"set": {"method": "ivq-cmb"}}}}, "Did you mean 'ivq-cbm'"),
        ({"recipes": {"a": {"set": {"training.epoch": 3}}}}, "Did you mean 'epochs'"),
        ({"recipes": {"a": {"set": {"training.epochs": 0}}}}, "'a' on 'shapes'"),
        ({"data": {"x": {"source": "shapes", "limits": 3}}}, "Did you mean 'limit'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Comparison(comparison_file(tmp_path, **changes))


def test_not_a_comparison_at_all(tmp_path: Path) -> None:
    write_text(tmp_path / "c.yaml", "- a\n")
    with pytest.raises(UserError, match="expected a mapping"):
        Comparison(tmp_path / "c.yaml")
    write_text(tmp_path / "c.yaml", dump_yaml({"recipes": {"a": None}}))
    with pytest.raises(UserError, match=r"data: is missing"):
        Comparison(tmp_path / "c.yaml")
    with pytest.raises(UserError, match="no such file"):
        Comparison(tmp_path / "none.yaml")


def test_layers() -> None:
    below = nested({"method": "ivq-cbm", "method.slots": "group", "training.epochs": 5, "training": {"clip": 0}})
    assert below == {"method": {"name": "ivq-cbm", "slots": "group"}, "training": {"epochs": 5, "clip": 0}}
    assert lay(below, nested({"method": "cbm"}))["method"] == {"name": "cbm"}  # another method's slots mean nothing
    assert lay(below, nested({"method.slots": "concept"}))["method"] == {"name": "ivq-cbm", "slots": "concept"}
    assert lay(below, nested({"method": {"name": "ivq-cbm", "pooling": "mean"}}))["method"]["slots"] == "group"
    assert below["method"]["slots"] == "group"


def test_grids_and_their_draws() -> None:
    grid = {"a": [1, 2, 3], "b": [4, 5]}
    whole = combinations(grid, None)
    assert whole[:3] == [{"a": 1, "b": 4}, {"a": 1, "b": 5}, {"a": 2, "b": 4}]
    assert len(whole) == 6
    drawn = combinations(grid, 4)
    assert len(drawn) == 4
    assert all(each in whole for each in drawn)
    assert drawn == combinations(grid, 4)


def test_everyone_gets_equally_many_trials(tmp_path: Path) -> None:
    two, three = {"training.clip": [0.5, 1.0]}, {"training.clip": [0.5, 1.0, 2.0]}

    def made(*grids: object, **more: Any) -> list[int]:
        recipes = {f"row {n}": {} if grid is None else {"trials": grid} for n, grid in enumerate(grids)}
        file = read_comparison(comparison_file(tmp_path, recipes=recipes, **more))
        return [len(trials) for trials in trials_of(file, "file").values()]

    assert made(None, None) == [0, 0]
    assert made(two, two) == [2, 2]
    assert made(two, three, trials={"number": 2}) == [2, 2]
    assert made(None, None, trials={"grid": three}) == [3, 3]
    for grids, more in (((two, three), {}), ((two, None), {}), ((two, two), {"trials": {"number": 3}})):
        with pytest.raises(UserError, match="equally many trials"):
            made(*grids, **more)
    with pytest.raises(UserError, match="no values"):
        made({"training.clip": []})


def test_slugs() -> None:
    assert slug("IVQ-CBM (random text)") == "ivq-cbm-random-text"


def test_the_documented_example_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "compare.md").read_text("utf-8")
    (example,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    write_text(tmp_path / "c.yaml", example.replace("number: 4", "number: 1"))
    names = [entry.name for entry in Comparison(tmp_path / "c.yaml").entries]
    assert names[:3] == ["ivq-cbm", "ivq-cbm (random text)", "plain L2"]


@pytest.mark.parametrize(
    "changes",
    [
        {"base": {"method": "trap.py:Trap"}},
        {"recipes": {"a": {"set": {"encoder.name": "trap.py:Trap"}}}},
        {"data": {"own": "trap.py:Trap"}},
    ],
)
def test_the_file_that_a_comparisons_folder_keeps_names_no_code(tmp_path: Path, changes: dict[str, Any]) -> None:
    (tmp_path / "trap.py").write_text("open(__file__ + '.ran', 'w').close()")
    write_text(tmp_path / "run.json", '{"kind": "comparison"}')
    with pytest.raises(UserError, match="A run folder may not have code run by itself"):
        Comparison(comparison_file(tmp_path, **changes))
    assert not (tmp_path / "trap.py.ran").exists()
