"""From a recipe to a pipeline."""

from pathlib import Path

import torch

from conceptlens.concepts import ConceptSet
from conceptlens.methods.build import Blueprint, build_pipeline
from conceptlens.recipes.parse import load_recipe
from tests.training.tiny import tiny


def test_a_seed_starts_a_method_alike_under_every_regularizer(tmp_path: Path) -> None:
    states = []
    for name in ("none", "ivq"):
        recipe = load_recipe(tiny(tmp_path / name, regularizer={"name": name}))
        torch.manual_seed(0)
        concepts = ConceptSet.load("shapes")
        states.append(build_pipeline(Blueprint(recipe, concepts, ("a", "b"))).model.state_dict())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
