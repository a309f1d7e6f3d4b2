"""Where the images are while it trains changes nothing: on the device or not, the same bits."""

from pathlib import Path
from typing import Any

import pytest

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.data.loading.resident import ResidentReader
from conceptlens.recipes.parse import load_recipe, recipe_yaml
from tests.training.test_resume import same
from tests.training.tiny import tiny


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images were put on the device, each time."""
    built: list[int] = []
    real = ResidentReader.__init__

    def count(self: ResidentReader, *inputs: Any) -> None:
        real(self, *inputs)
        built.append(len(self.pixels))

    monkeypatch.setattr(ResidentReader, "__init__", count)
    return built


@pytest.mark.slow
def test_the_same_bits(tmp_path: Path, built: list[int]) -> None:
    away = cl.train(tiny(tmp_path / "away"), quiet=True)
    assert not built  # auto leaves a CPU alone
    there = cl.train(tiny(tmp_path / "there", data__resident=True, data__cache_mb=0, data__workers=2), quiet=True)
    assert len(built) == 1
    assert 0 < built[0] < 96  # training and validation, not test
    same(away.path, there.path)


@pytest.mark.slow
def test_stored_tokens_need_no_images(tmp_path: Path, built: list[int]) -> None:
    changes = {"encoder__train": 1, "encoder__store": "run"}
    away = cl.train(tiny(tmp_path / "away", **changes), quiet=True)
    there = cl.train(tiny(tmp_path / "there", data__resident=True, **changes), quiet=True)
    assert not built
    same(away.path, there.path)  # tokens from disk or from the device's memory


@pytest.mark.parametrize(("key", "name"), [("data__resident", "data.resident"), ("training__compile", "compile")])
def test_settings(key: str, name: str, tmp_path: Path) -> None:
    for value in ("auto", True, False):
        recipe = load_recipe(tiny(tmp_path, **{key: value}))
        assert (recipe.data.resident if key.startswith("data") else recipe.training.compile) is value or value == "auto"
        (tmp_path / "recipe.yaml").write_text(recipe_yaml(recipe))
        assert load_recipe(tmp_path / "recipe.yaml") == recipe
    with pytest.raises(UserError, match=name):
        load_recipe(tiny(tmp_path, **{key: "sometimes"}))
