"""Small seeded runs of every method and workflow compute what version 0.1.0 computed, under today's names."""

import subprocess
import sys
from pathlib import Path

import pytest

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json
from conceptlens.core.upgrades import SCHEMA, upgrade, upgrade_parameters
from conceptlens.recipes.parse import load_recipe
from tests import ROOT

HERE = Path(__file__).parent


def test_a_recipe_of_version_0_1_is_upgraded_and_an_old_key_without_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("schema: 1\ndata: shapes\nregulariser: l2\n")
    assert load_recipe(path).regularizer["name"] == "l2"
    path.write_text("data: shapes\nregulariser: l2\n")
    with pytest.raises(UserError, match="'regulariser' is called 'regularizer'"):
        load_recipe(path)


def test_what_a_newer_version_wrote_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "new.json", {"value": 1})
    assert read_json(tmp_path / "new.json")["schema"] == SCHEMA
    (tmp_path / "new.json").write_text('{"schema": 99}')
    with pytest.raises(UserError, match=r"schema 99; this version reads schemas up to \d+. Update conceptlens\."):
        read_json(tmp_path / "new.json")
    write_json(tmp_path / "environment.json", {"packages": {"conceptlens": "0.9.1"}})
    with pytest.raises(UserError, match=r"schema 99.*Update conceptlens to version 0\.9\.1 or later\."):
        read_json(tmp_path / "new.json")


def test_the_upgrade_by_hand() -> None:
    old = {"schema": 1, "regulariser": {"name": "ivq"}, "legend": [{"code": 1, "colour": "red"}], "colour": {"red": 1}}
    assert upgrade(old, where="it") == {
        "schema": SCHEMA,
        "regularizer": {"name": "ivq"},
        "legend": [{"code": 1, "color": "red"}],
        "colour": {"red": 1},  # a concept group of that name stays
    }
    names = {"regulariser.codebook": 1, "model.grounding.centre": 2, "model.regulariser": 3}
    assert upgrade_parameters(names) == {"regularizer.codebook": 1, "model.grounding.center": 2, "model.regulariser": 3}


@pytest.mark.slow
def test_numbers_are_those_of_version_0_1() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/golden.py", "check", HERE], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
