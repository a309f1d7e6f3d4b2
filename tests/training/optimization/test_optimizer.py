"""AdamW over every parameter that learns, exactly once, with the rate and decay that are its own."""

import pytest
import torch
from torch import nn
from torch.optim import AdamW

from conceptlens.core.errors import UserError
from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.methods.contract import Pipeline
from conceptlens.methods.ivq_cbm import IVQCBM
from conceptlens.nn.quantization.quantization import ImplicitVQ
from conceptlens.nn.setup import Setup
from conceptlens.recipes import EncoderConfig, TrainingConfig
from conceptlens.training.optimization.optimizer import build_optimizer, check_optimizer, clip_gradients, set_rate

TRAINING = TrainingConfig(weight_decay=0.05)


@pytest.fixture
def pipeline(setup: Setup) -> Pipeline:
    encoder = BuiltinViT(image_size=16, width=8, depth=1, heads=2, pretrained=False)
    return Pipeline(encoder, ImplicitVQ(setup, rate=10.0), IVQCBM(setup, query_rate=3.0))


def learning(pipeline: Pipeline) -> list[nn.Parameter]:
    return [parameter for parameter in pipeline.parameters() if parameter.requires_grad]


def head_bias(pipeline: Pipeline) -> nn.Parameter:
    return dict(pipeline.named_parameters())["model.head.bias"]


def group_of(pipeline: Pipeline, optimizer: AdamW) -> dict[str, dict[str, float]]:
    names = {id(parameter): name for name, parameter in pipeline.named_parameters()}
    return {names[id(parameter)]: group for group in optimizer.param_groups for parameter in group["params"]}


def test_every_learning_parameter_once(pipeline: Pipeline) -> None:
    pipeline.encoder.norm.requires_grad_(False)
    optimizer = build_optimizer(pipeline, TRAINING, EncoderConfig(), 1e-3)
    check_optimizer(pipeline, optimizer)
    learning = {name for name, parameter in pipeline.named_parameters() if parameter.requires_grad}
    assert set(group_of(pipeline, optimizer)) == learning
    assert "encoder.norm.weight" not in learning


def test_rates_and_decay_are_each_parameters_own(pipeline: Pipeline) -> None:
    optimizer = build_optimizer(pipeline, TRAINING, EncoderConfig(learning_rate=1e-5), 1e-3)
    groups = group_of(pipeline, optimizer)
    for name, lr, decay in (
        ("encoder.trunk.0.mlp.0.weight", 1e-5, 0.05),
        ("encoder.positions", 1e-5, 0.0),
        ("encoder.class_token", 1e-5, 0.0),
        ("encoder.registers", 1e-5, 0.0),
        ("encoder.norm.weight", 1e-5, 0.0),
        ("model.head.weight", 1e-3, 0.05),
        ("model.head.bias", 1e-3, 0.0),
        ("model.log_scale", 1e-3, 0.0),
        ("model.magnet.queries", 3e-3, 0.0),
        ("regularizer.codebook", 1e-2, 0.0),
    ):
        known = [each for each in groups if each.startswith(name.rpartition(".")[0])]
        assert name in groups, f"{name} is not among {known}"
        assert groups[name]["lr"] == pytest.approx(lr), name
        assert groups[name]["weight_decay"] == decay, name
    assert len({(group["lr"], group["weight_decay"]) for group in optimizer.param_groups}) == len(
        optimizer.param_groups
    )


def test_the_published_frozen_codebook_stays_out(setup: Setup) -> None:
    encoder = BuiltinViT(image_size=16, width=8, depth=1, heads=2, pretrained=False)
    frozen = Pipeline(encoder, ImplicitVQ(setup, learn=False), IVQCBM(setup, learn_queries=False))
    optimizer = build_optimizer(frozen, TRAINING, EncoderConfig(), 1e-3)
    check_optimizer(frozen, optimizer)
    assert not {"regularizer.codebook", "model.magnet.queries"} & set(group_of(frozen, optimizer))


def test_nothing_to_learn_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(UserError, match="every parameter is frozen"):
        build_optimizer(pipeline.requires_grad_(False), TRAINING, EncoderConfig(), 1e-3)


def test_a_forgotten_parameter_is_refused(pipeline: Pipeline) -> None:
    """What happened to both codebooks of the published code."""
    kept = [parameter for parameter in learning(pipeline) if parameter is not pipeline.regularizer.codebook]
    with pytest.raises(UserError, match=r"missing \['regularizer.codebook'\], twice none, 0 that do not learn"):
        check_optimizer(pipeline, AdamW(kept))


def test_a_parameter_held_twice_is_refused(pipeline: Pipeline) -> None:
    optimizer = AdamW(learning(pipeline))
    optimizer.param_groups.append({**optimizer.param_groups[0], "params": [head_bias(pipeline)]})
    with pytest.raises(UserError, match=r"twice \['model.head.bias'\]"):
        check_optimizer(pipeline, optimizer)


def test_a_stranger_or_a_frozen_parameter_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(UserError, match="1 that do not learn"):
        check_optimizer(pipeline, AdamW([*learning(pipeline), nn.Parameter(torch.zeros(2))]))
    optimizer = AdamW(learning(pipeline))
    head_bias(pipeline).requires_grad_(False)
    with pytest.raises(UserError, match="1 that do not learn"):
        check_optimizer(pipeline, optimizer)


def test_the_schedule_scales_every_group_from_its_peak(pipeline: Pipeline) -> None:
    optimizer = build_optimizer(pipeline, TRAINING, EncoderConfig(learning_rate=1e-5), 1e-3)
    for factor in (0.5, 0.1, 1.0):
        set_rate(optimizer, factor)
        assert all(group["lr"] == pytest.approx(group["peak"] * factor) for group in optimizer.param_groups)


def test_clipping_keeps_the_direction_and_zero_leaves_the_gradient() -> None:
    weight = nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    assert float(clip_gradients([weight], 0)) == pytest.approx(5)
    assert weight.grad.tolist() == [3, 4]
    assert float(clip_gradients([weight], 1.0)) == pytest.approx(5)
    assert weight.grad.tolist() == pytest.approx([0.6, 0.8], abs=1e-5)
