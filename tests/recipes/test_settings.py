"""Settings by their last name."""

import pytest

from conceptlens.core.errors import UserError
from conceptlens.recipes.settings import settings_tree


def test_names_find_their_section() -> None:
    assert settings_tree({"epochs": 3, "learning_rate": 0.1, "source": "shapes", "concept_weight": 2}) == {
        "training": {"epochs": 3, "learning_rate": 0.1, "loss": {"concept_weight": 2}},
        "data": {"source": "shapes"},
    }
    assert settings_tree({"encoder__train": 1, "seed": 4, "method": "cbm"}) == {
        "encoder": {"train": 1},
        "seed": 4,
        "method": "cbm",
    }


def test_an_unknown_name_gets_the_closest() -> None:
    with pytest.raises(UserError, match="Did you mean 'epochs'"):
        settings_tree({"epoch": 3})
