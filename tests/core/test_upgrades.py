"""Files of version 0.1, read as this version calls things."""

import pytest

from conceptlens.core.errors import UserError
from conceptlens.core.upgrades import RENAMED_KEYS, RENAMED_VALUES, SCHEMA, upgrade, upgrade_parameters
from conceptlens.recipes.parse import load_recipe

OLD = {
    "schema": 1,
    "data": "shapes",
    "method": {"name": "ivq-cbm", "slots": "axis"},
    "regulariser": {"name": "ivq", "per": "axis"},
    "training": {"loss": {"concept": "axis"}},
}


def test_a_recipe_of_version_1() -> None:
    tree = upgrade(OLD, where="recipe.yaml")
    assert tree == {
        "schema": SCHEMA,
        "data": "shapes",
        "method": {
            "name": "ivq-cbm",
            "slots": "group",
            "space": "logit",
            "class_gradient": 1.0,
            "randint": 0.0,
            "head_rate": 1.0,
            "calibrate": False,
        },
        "regularizer": {"name": "ivq", "per": "group"},
        "training": {"loss": {"concept": "group"}},
    }
    recipe = load_recipe(tree)
    assert recipe.training.loss.concept == "group"
    assert recipe.regularizer["per"] == recipe.method["slots"] == "group"


def test_dotted_keys_of_a_comparison() -> None:
    tree = {"schema": 1, "recipes": {"one": {"set": {"method.slots": "axis", "method.depth": "axes", "note": "axis"}}}}
    below = upgrade(tree, where="comparison.yaml")["recipes"]["one"]["set"]
    assert below == {"method.slots": "group", "method.depth": "groups", "note": "axis"}


@pytest.mark.parametrize(
    ("key", "value"), [("training.loss.concept", "axis"), ("method.slots", "axis"), ("regularizer.per", "axis")]
)
def test_a_value_of_version_1_written_by_hand(key: str, value: str) -> None:
    assert RENAMED_VALUES[key.rpartition(".")[2], value] == "group"
    with pytest.raises(UserError, match=f"{key}: the value 'axis' is called 'group' since version 0.2"):
        load_recipe({"data": "shapes", "method": "ivq-cbm"}, [f"--{key}", value])


def test_a_key_of_version_1_written_by_hand() -> None:
    assert RENAMED_KEYS["regulariser"] == "regularizer"
    with pytest.raises(UserError, match="the key 'regulariser' is called 'regularizer'"):
        load_recipe({"data": "shapes", "regulariser": "l2"})


def test_weights_of_version_1() -> None:
    old = {"method.axis": 1, "method.axis_text": 2, "regulariser.codebook": 3, "encoder.axis": 4}
    new = {"method.group_of": 1, "method.group_text": 2, "regularizer.codebook": 3, "encoder.axis": 4}
    assert upgrade_parameters(old) == new


def test_what_a_newer_version_wrote() -> None:
    with pytest.raises(UserError, match="Update conceptlens"):
        upgrade({"schema": SCHEMA + 1}, where="run.json")


def test_a_color_that_is_no_concept() -> None:
    tree = {"schema": 1, "regulariser": {"name": "barlow-twins", "colour": 0.2}, "concepts": {"colour": "red"}}
    upgraded = upgrade(tree, where="recipe.yaml")
    assert upgraded["regularizer"] == {"name": "barlow-twins", "color": 0.2}
    assert upgraded["concepts"] == {"colour": "red"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"name": "cbm", "kind": "joint", "reads": "auto"}, ("logit", 1.0, 0.0)),
        ({"name": "cbm", "kind": "sequential", "reads": "logits"}, ("logit", 0.0, 0.0)),
        ({"name": "cbm-independent", "kind": "independent", "reads": "auto"}, ("probability", 0.0, 1.0)),
        ({"name": "explicd", "reads": "logits"}, ("logit", 1.0, 0.0)),
        ({"name": "ivq-cbm"}, ("logit", 1.0, 0.0)),
        ({"name": "pf-cbm-sequential", "kind": "sequential"}, ("probability", 0.0, 0.0)),
    ],
)
def test_a_method_of_version_0_2_says_what_its_head_read(
    before: dict[str, str], after: tuple[str, float, float]
) -> None:
    found = upgrade({"schema": 2, "method": before}, where="recipe")["method"]
    assert (found["space"], found["class_gradient"], found["randint"]) == after
    assert found["calibrate"] is False
    assert not {"kind", "reads"} & found.keys()


def test_a_method_of_someone_else_keeps_its_options() -> None:
    own = {"name": "file.py:Mine", "kind": "x", "reads": "y"}
    assert upgrade({"schema": 2, "method": own}, where="recipe")["method"] == own
