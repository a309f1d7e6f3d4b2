"""Recipes: presets beneath, overrides on top, and an answer for every misspelling."""

from pathlib import Path

import pytest

from conceptlens.core.errors import UserError
from conceptlens.core.files import parse_yaml
from conceptlens.recipes.parse import load_recipe, parse_overrides, recipe_names, recipe_yaml


def test_a_source_is_enough() -> None:
    recipe = load_recipe({"data": "shapes"})
    assert recipe.data.source == "shapes"
    assert recipe.method["name"] == "evidence-cbm"
    assert recipe.regularizer["name"] == "none"
    assert recipe.encoder.layers == "several"
    assert recipe.out == "runs/shapes-evidence-cbm-0"


def test_the_papers_method_brings_its_regularizer() -> None:
    recipe = load_recipe({"data": "shapes", "method": "ivq-cbm"})
    assert recipe.regularizer["name"] == "ivq"
    assert recipe.regularizer["beta"] == 0.25
    assert recipe.regularizer["codebook_multiple"] == 1.0
    assert recipe.regularizer["weight"] == 0.01
    assert recipe.training.loss.concept == "bce"
    assert (recipe.training.learning_rate, recipe.training.loss.concept_weight) == (1e-3, 3)
    assert recipe.out == "runs/shapes-ivq-cbm-0"


def test_presets_bring_a_methods_settings_and_the_recipe_wins() -> None:
    released = load_recipe({"data": "shapes", "method": "ivq-cbm-released", "training": {"epochs": 3}})
    assert released.training.loss.concept == "group"
    assert released.regularizer["beta"] == 1.0
    assert released.regularizer["learn"] is False
    assert released.training.epochs == 3
    assert released.training.schedule == "polynomial"
    printed = load_recipe({"data": "shapes", "method": "ivq-cbm-as-printed"})
    told = {key: printed.method[key] for key in ("temperature", "token_norm", "pooling", "query_init", "hold_entropy")}
    assert told == {
        "temperature": 1.0,
        "token_norm": "none",
        "pooling": "sum",
        "query_init": "normal",
        "hold_entropy": False,
    }
    assert (printed.regularizer["weight"], printed.training.loss.concept_weight) == (1.0, 1.0)
    other = load_recipe({"data": "shapes", "regularizer": "l2"})
    assert other.regularizer == {"name": "l2", "weight": 0.25, "reduction": "mean"}


def test_overrides_speak_yaml() -> None:
    assert parse_overrides(
        ["--training.epochs", "5", "--seed=1", "--training.loss.class_balance", "[1, 2.5]", "--flag"]
    ) == {"training": {"epochs": 5, "loss": {"class_balance": [1, 2.5]}}, "seed": 1, "flag": True}


def test_print_config_round_trip(tmp_path: Path) -> None:
    recipe = load_recipe("blood-cells/ivq-cbm", ["--training.learning_rate", "3e-4", "--encoder.train", "2"])
    file = tmp_path / "recipe.yaml"
    file.write_text(recipe_yaml(recipe))
    assert load_recipe(file) == recipe
    assert recipe.training.learning_rate == 3e-4
    assert set(parse_yaml(recipe_yaml(recipe), where="x")) == {
        "schema", "data", "concepts", "encoder", "method", "regularizer", "training", "metrics", "seed", "out",
    }  # fmt: skip


@pytest.mark.parametrize("name", recipe_names())
def test_ready_recipes_are_valid(name: str) -> None:
    assert load_recipe(name).data.source


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trainin.epochs", "3"], "'trainin' is not known at the top of a recipe. Did you mean 'training'"),
        (["--method.tempratur", "2"], "'tempratur' is not known in `method`. Did you mean 'temperature'"),
        (["--data.shapes.nois", "2"], "'nois' is not known in `data.shapes`. Did you mean 'noise'"),
        (["--data.folds.k", "2"], "data.folds: expected one value, found a section with the key 'k'. Write `data.fold"),
        (["--training.epochs", "many"], "training.epochs: expected 'auto' or a whole number, found 'many'"),
        (["--training.epochs", "0"], "training.epochs: expected 1 or more, found 0"),
        (
            ["--training.schedule", "cosin"],
            "expected one of 'exponential', 'polynomial', 'cosine', 'constant', found 'cosin'",
        ),
        (
            ["--method", "ivq-cbm", "--method.temperature", "hot"],
            "method.temperature: expected a number or 'calibrate', found 'hot'",
        ),
        (["--method", "ivq-cmb"], "Unknown method 'ivq-cmb'. Did you mean 'ivq-cbm'"),
        (["--regularizer", "ivvq"], "Unknown regularizer 'ivvq'. Did you mean 'ivq'"),
        (["--regularizer", "l2", "--regularizer.beta", "1"], "'beta' is not known in `regularizer`"),
        (["--data.split.val", "0.9", "--data.split.test", "0.3"], "val \\+ test below 1"),
        (["--training.batch_size", "10", "--training.accumulate", "3"], "a divisor of the batch size 10"),
        (["--training.stages", "[{name: a, epoch: 3}]"], "epoch"),
        (["--seed", "-1"], "seed"),
        (["epochs"], "Expected an override"),
        (["--seed", "1", "--seed.x", "1"], "already given a value"),
    ],
)
def test_bad_settings_are_clear_errors(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_recipe({"data": "shapes"}, words)


def test_missing_source_and_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"`data\.source` is missing"):
        load_recipe({})
    with pytest.raises(UserError, match="no such file"):
        load_recipe(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="Did you mean 'blood-cells/ivq-cbm'"):
        load_recipe("blood-cell/ivq-cbm")
    (tmp_path / "list.yaml").write_text("- a")
    with pytest.raises(UserError, match="expected a mapping"):
        load_recipe(tmp_path / "list.yaml")


def test_a_folder_or_a_slip_in_the_place_of_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="`conceptlens init"):
        load_recipe(tmp_path)
    (tmp_path / "recipe.yaml").write_text("data: shapes")
    with pytest.raises(UserError, match=r"found a folder. Did you mean '.*recipe\.yaml'"):
        load_recipe(tmp_path)
    for slip in ("recipe.yml", "recipe.yam", "recipes.yaml"):
        with pytest.raises(UserError, match=r"no such file. Did you mean '.*recipe\.yaml'"):
            load_recipe(tmp_path / slip)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="Did you mean 'blood-cells/cbm'"):
        load_recipe("cmb")


def test_dotted_keys_are_sections_at_any_depth() -> None:
    """Names written so were overlooked, and a number written so stayed in the recipes that came later."""
    before = load_recipe({"data": "shapes"})
    dotted = {"data": "shapes", "method.name": "cbm", "training": {"loss.concept_weight": 3.5}, "encoder.name": "a.b:C"}
    with pytest.raises(UserError, match=r"wants to run code .*a\.b:C"):
        load_recipe(dotted)
    del dotted["encoder.name"]
    plain = {"data": "shapes", "method": "cbm", "training": {"loss": {"concept_weight": 3.5}}}
    assert load_recipe(dotted) == load_recipe(plain)
    assert load_recipe({"data.source": "shapes"}) == before
    with pytest.raises(UserError, match="epochs is given twice"):
        load_recipe({"data": "shapes", "training": {"epochs": 1}, "training.epochs": 2})
    with pytest.raises(UserError, match="'seed' is given a value, and keys of a section"):
        load_recipe({"data": "shapes", "seed": 1, "seed.x": 2})
