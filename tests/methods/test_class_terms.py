"""Which methods keep the class out of their concepts, and how the others would."""

from typing import Any

import pytest

from conceptlens.methods.class_terms import never_saw_class, without_class
from conceptlens.recipes.parse import load_recipe


def options(name: str, **changes: Any) -> dict[str, Any]:
    """All options of a recipe's method."""
    return dict(load_recipe({"data": "shapes", "method": {"name": name, **changes}}).method)


@pytest.mark.parametrize(
    ("method", "never"),
    [
        (options("cbm", class_gradient=0), True),
        (options("cbm", class_gradient=1), False),
        (options("cbm", class_gradient=0.5), False),
        (options("coop-cbm", class_gradient=0, auxiliary_weight=0.5), False),
        (options("coop-cbm", class_gradient=0, auxiliary_weight=0, orthogonal_classes=0.1), False),
        (options("coop-cbm", class_gradient=0, auxiliary_weight=0, orthogonal_classes=0), True),
        (options("pcbm"), True),  # its concepts are fitted on their own labels
        (options("lf-cbm"), False),  # its concepts are aligned with no labels of theirs
    ],
)
def test_whether_the_class_reaches_the_concepts(method: dict[str, Any], never: bool) -> None:
    assert never_saw_class(method) is never


def test_a_method_without_the_class_is_the_same_otherwise() -> None:
    joint = options("coop-cbm", class_gradient=1, auxiliary_weight=0.5, orthogonal_classes=0.1, randint=0.25)
    found = without_class(joint)
    assert found == joint | {"class_gradient": 0, "auxiliary_weight": 0, "orthogonal_classes": 0}
    assert never_saw_class(found)
    assert joint["class_gradient"] == 1  # not changed in place


def test_a_method_that_does_not_train_by_gradients_cannot_do_without() -> None:
    assert without_class(options("lf-cbm")) is None
