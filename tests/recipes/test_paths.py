"""Files that a recipe names are looked for beside it first."""

from pathlib import Path

import pytest

from conceptlens.recipes.parse import load_recipe
from conceptlens.recipes.paths import beside_recipe


def test_beside_the_recipe_then_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "study" / "photos").mkdir(parents=True)
    (tmp_path / "study" / "t.csv").write_text("image,class\n")
    (tmp_path / "here.yaml").write_text("")
    (tmp_path / "study" / "r.yaml").write_text(
        "data: {source: t.csv, images: photos, regions: {masks: photos}}\nconcepts: here.yaml\nout: runs/x\n"
    )
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("study/r.yaml")
    assert (recipe.data.source, recipe.data.images) == ("study/t.csv", "study/photos")
    assert recipe.data.regions.masks == "study/photos"
    assert (recipe.concepts, recipe.out) == ("here.yaml", "runs/x")
    monkeypatch.chdir(tmp_path / "study")
    assert load_recipe("r.yaml").data.source == "t.csv"


def test_ready_names_are_no_files(tmp_path: Path) -> None:
    for name in ("shapes", "blood-cells"):
        (tmp_path / name).mkdir()
    tree = {"data": "shapes", "concepts": "blood-cells"}
    assert beside_recipe(tree, tmp_path) == tree
    assert beside_recipe({"data": {"source": "shapes"}}, tmp_path) == {"data": {"source": "shapes"}}
    (tmp_path / "mine").mkdir()
    assert beside_recipe({"data": "mine"}, tmp_path) == {"data": str(tmp_path / "mine")}
