"""Which methods keep the class out of their concepts, and how the others would."""

from typing import Any

import pytest

from conceptlens.methods.class_terms import never_saw_class, without_class
from conceptlens.recipes import Recipe
from conceptlens.recipes.parse import load_recipe


def recipe(name: str, train: str = "none", **changes: Any) -> Recipe:
    return load_recipe({"data": "shapes", "encoder": {"train": train}, "method": {"name": name, **changes}})


def options(name: str, **changes: Any) -> dict[str, Any]:
    """All options of a recipe's method."""
    return dict(recipe(name, **changes).method)


@pytest.mark.parametrize(
    ("found", "never"),
    [
        (recipe("cbm", class_gradient=0), True),
        (recipe("cbm", class_gradient=1), False),
        (recipe("cbm", class_gradient=0.5), False),
        (recipe("coop-cbm", class_gradient=0, auxiliary_weight=0.5), False),
        (recipe("coop-cbm", class_gradient=0, auxiliary_weight=0, orthogonal_classes=0.1), False),
        (recipe("coop-cbm", class_gradient=0, auxiliary_weight=0, orthogonal_classes=0), True),
        (recipe("evidence-cbm", residual=True), True),  # the encoder is frozen
        (recipe("evidence-cbm", train="all", residual=True), False),  # the residual teaches it the class
        (recipe("evidence-cbm", train="all"), True),
        (recipe("pcbm"), True),  # its concepts are fitted on their own labels
        (recipe("lf-cbm"), False),  # its concepts are aligned with no labels of theirs
    ],
)
def test_whether_the_class_reaches_the_concepts(found: Recipe, never: bool) -> None:
    assert never_saw_class(found) is never


def test_a_method_without_the_class_is_the_same_otherwise() -> None:
    joint = options("coop-cbm", class_gradient=1, auxiliary_weight=0.5, orthogonal_classes=0.1, randint=0.25)
    found = without_class(joint)
    assert found == joint | {"class_gradient": 0, "auxiliary_weight": 0, "orthogonal_classes": 0}
    assert never_saw_class(recipe(**found))
    assert joint["class_gradient"] == 1  # not changed in place


def test_a_method_that_does_not_train_by_gradients_cannot_do_without() -> None:
    assert without_class(options("lf-cbm")) is None
