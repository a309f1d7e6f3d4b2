"""Does the lab train as `conceptlens train` does? The same recipe both ways, on a CPU; weights must agree.

python evidence/pf-cbm/check.py
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from bank import make_bank, open_labels, open_places
from lab import train
from safetensors.torch import load_file

import conceptlens as cl
from conceptlens.methods.build import Blueprint, build_pipeline
from conceptlens.methods.pf_cbm.pf_cbm import PFCBM
from conceptlens.recipes.parse import load_recipe, recipe_tree

CLOSE = 2e-3  # stored tokens are in half precision


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        tree: dict[str, Any] = {
            "data": {"source": "shapes", "shapes": {"n": 60, "size": 48}, "workers": 0},
            "encoder": {"name": "builtin/vit", "image_size": 48, "store": "run"},
            "method": {"name": "pf-cbm", "keypoints": "image", "inner": 16, "hidden": 8, "sigma": 2.0},
            "training": {
                "epochs": 3,
                "batch_size": 8,
                "validate_every": 100,
                "learning_rate": 1e-2,
                "precision": "fp32",
            },
            "metrics": {"bootstrap": 0, "rank_images": 0},
            "seed": 3,
            "out": str(Path(folder) / "run"),
        }
        recipe = load_recipe(tree)
        recipe.training.stages[0].epochs = 2
        run = cl.train(recipe_tree(recipe), quiet=True)
        theirs = load_file(run.path / "model" / "weights.safetensors")
        source, splits, known = open_places(recipe)
        bank = make_bank("shapes", source, splits, recipe, known, "cpu")
        bank = replace(bank, tokens=bank.tokens.half().float())
        labels = open_labels(recipe)[1]
        torch.manual_seed(recipe.seed)
        model = build_pipeline(Blueprint(recipe, labels.concepts, source.classes)).model
        assert isinstance(model, PFCBM)
        start = {name: value.clone() for name, value in model.state_dict().items()}
        ours = train(bank, labels, recipe, model).model.state_dict()
    compared = 0
    for name, value in ours.items():
        other = theirs[f"model.{name}"]
        moved = float((value - start[name]).float().abs().max())
        away = float((value - other).float().abs().max())
        compared += moved > 0
        assert away <= CLOSE * max(1.0, moved), f"{name}: {away} apart, moved by {moved}"
    print(f"{len(ours)} tensors agree, {compared} of which learned")


if __name__ == "__main__":
    main()
