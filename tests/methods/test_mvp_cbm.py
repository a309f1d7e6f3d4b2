"""MVP-CBM against a naive version of its forward pass, layer by layer and axis by axis; and the layers themselves."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.data.sources.shapes import Shapes
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.build import Blueprint, build_pipeline
from conceptlens.methods.mvp_cbm import MVPCBM
from conceptlens.nn.losses.batch_softmax import batch_softmax_loss
from conceptlens.nn.setup import Setup
from conceptlens.recipes import ShapesConfig
from conceptlens.recipes.parse import load_recipe
from tests.training.tiny import tiny

LABELS = torch.tensor([[1, 0, 0, 1, 1], [0, 1, 1, 0, 0], [0, 1, -1, -1, 1]])
AXES = ["a large cell, a small cell", "a cell that is red, a cell that is blue", "a cell with spots"]


@pytest.fixture
def reading(setup: Setup) -> Setup:
    """A setup with a reader of texts."""

    def embed(texts: list[str]) -> Tensor:
        assert texts == AXES
        return F.normalize(torch.randn(3, 6, generator=torch.Generator().manual_seed(8)), dim=-1)

    return replace(setup, embed=embed)  # type: ignore[arg-type]


def tokens(layers: int = 4, patches: int = 9) -> Tokens:
    generator = torch.Generator().manual_seed(5)
    found = tuple(torch.randn(3, patches, 8, generator=generator) for _ in range(layers))
    classes = tuple(torch.randn(3, 8, generator=generator) for _ in range(layers))
    return Tokens(found[-1], (3, 3), classes[-1], found, layer_cls=classes)


def of_preset(name: str, setup: Setup) -> MVPCBM:
    recipe = load_recipe({"data": "shapes", "method": name})
    return MVPCBM(setup, **{key: value for key, value in recipe.method.items() if key != "name"})  # type: ignore[arg-type]


def cosine(one: Tensor, other: Tensor) -> float:
    return float((one @ other) / one.norm() / other.norm())


def naive_scores(model: MVPCBM, seen: Tokens, *, cosines: bool) -> Tensor:
    """s (B, layers, K), one number at a time; axes own concepts 0-1, 2-3, 4 and patches 0-2, 3-5, 6-8."""
    agree = cosine if cosines else (lambda one, other: float(one @ other))
    scores = torch.zeros(3, len(seen.layers), 5)
    for image in range(3):
        for layer, (patches, cls) in enumerate(zip(seen.layers, seen.layer_cls, strict=True)):
            said = model.prefer.weight @ cls[image] + model.prefer.bias
            likes = [1 / (1 + math.exp(-agree(said, text))) / 0.2 for text in model.group_text]
            preference = torch.tensor(likes).softmax(0)
            for concept, axis in enumerate([0, 0, 1, 1, 2]):
                pooled = patches[image, 3 * axis : 3 * axis + 3].mean(0)
                visual = model.project(pooled)
                scores[image, layer, concept] = 100 * preference[axis] * agree(visual, model.text[concept])
    return scores


@pytest.mark.parametrize(("name", "cosines"), [("mvp-cbm", True), ("mvp-cbm-released", False)])
def test_every_layer_s_scores(reading: Setup, name: str, cosines: bool) -> None:
    model = of_preset(name, reading)
    with torch.no_grad():
        output, expected = model(tokens()), naive_scores(model, tokens(), cosines=cosines)
        torch.testing.assert_close(model.layer_scores(tokens()), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(output.concept_logits, model.fuse(expected).scores, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(output.logits, output.bottleneck @ model.head.weight.T + model.head.bias)
    torch.testing.assert_close(model.preferences(tokens()).sum(-1), torch.ones(3, 4))


def test_weights_over_layers_are_sparse_and_add_up(reading: Setup) -> None:
    output = MVPCBM(reading)(tokens(6))
    assert output.layer_weights.shape == (3, 5, 6)
    torch.testing.assert_close(output.layer_weights.sum(-1), torch.ones(3, 5))
    share = (output.layer_weights > 0).float().mean((1, 2))
    assert float(share.max()) < 1
    torch.testing.assert_close(output.losses["sparse"], 0.1 * share)
    assert output.attention is None  # its stretches of patches are the same for every image: no map


def test_more_axes_than_patches_and_uneven_stretches(reading: Setup) -> None:
    """Stretch i of n goes from ⌊iL/n⌋ to ⌈(i + 1)L/n⌉, as PyTorch's adaptive pooling: of 4 patches 0-1, 1-2, 2-3."""
    model, seen = MVPCBM(reading, depth=1), tokens(1, patches=4)
    pooled = torch.stack([seen.layers[0][:, start : start + 2].mean(1) for start in range(3)], 1)
    visual = F.normalize(model.project(pooled), dim=-1)
    expected = 100 * model.preferences(seen)[:, 0, 2] * (visual[:, 2] * model.text[4]).sum(-1)
    torch.testing.assert_close(model.layer_scores(seen)[:, 0, 4], expected)
    assert MVPCBM(reading)(tokens(2, patches=2)).logits.shape == (3, 2)


def test_only_the_class_head_learns_in_the_published_code(reading: Setup) -> None:
    model = of_preset("mvp-cbm-released", reading)
    assert {name for name, value in model.named_parameters() if value.requires_grad} == {"head.weight", "head.bias"}
    assert len([part for part in model.project if isinstance(part, torch.nn.Linear)]) == 3  # as many as axes
    everything = {name for name, value in MVPCBM(reading).named_parameters() if value.requires_grad}
    assert everything == {name for name, _ in MVPCBM(reading).named_parameters()}


def test_the_published_code_s_concept_loss_is_a_thousandth(reading: Setup) -> None:
    model = of_preset("mvp-cbm-released", reading)
    output = model.teach(model(tokens()), LABELS)
    expected = batch_softmax_loss(output.concept_logits, LABELS, reading.concepts.groups) / 1000
    torch.testing.assert_close(output.losses["batch_softmax"].mean(), expected)
    recipe = load_recipe({"data": "shapes", "method": "mvp-cbm-released"})
    assert recipe.training.loss.concept_weight == 0
    assert "batch_softmax" not in MVPCBM(reading).teach(MVPCBM(reading)(tokens()), LABELS).losses


def test_without_layers_it_is_refused() -> None:
    recipe = load_recipe({"data": "shapes", "encoder": {"name": "builtin/vit-mini", "layers": []}, "method": "mvp-cbm"})
    made = Shapes(ShapesConfig(n=10, size=32))
    with pytest.raises(UserError, match=r"encoder\.layers: all"):
        build_pipeline(Blueprint(recipe, made.concepts, made.classes))


@pytest.mark.parametrize("store", [None, "run"])
def test_it_trains_from_images_and_from_stored_layers(tmp_path: Path, store: str | None) -> None:
    changes = {"encoder__train": 1, "encoder__store": store, "method": "mvp-cbm", "training__batch_size": 16}
    run = cl.train(tiny(tmp_path / "run", **changes), quiet=True)
    lines = [line for line in (run.path / "history.jsonl").read_text("utf-8").splitlines() if '"loss_sparse"' in line]
    assert len(lines) == 3
    assert read_json(run.path / "metrics.json")["splits"]["test"]["class"]["accuracy"] >= 0


@pytest.mark.parametrize(
    "options",
    [
        {"preference_temperature": 0.0},
        {"logit_scale": -1.0},
        {"sparsity": -1.0},
        {"threshold": 1.0},
        {"depth": 0},
        {"depth": 10**9},
    ],
)
def test_options_out_of_range(reading: Setup, options: dict[str, object]) -> None:
    with pytest.raises(UserError, match=f"method.{next(iter(options))}"):
        MVPCBM(reading, **options)  # type: ignore[arg-type]
