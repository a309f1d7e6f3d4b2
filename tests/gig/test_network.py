"""A model split at its layers gives what it gives whole."""

import pytest
import timm
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.gig.hook_points import block_names
from conceptlens.gig.network import Network, open_network

RESNET = ("resnet10t", 64)
VIT = ("vit_tiny_patch16_224", 64)


def build(name: str, size: int) -> nn.Module:
    torch.manual_seed(0)
    extra = {"img_size": size, "depth": 3} if name.startswith("vit") else {}
    model = timm.create_model(name, num_classes=5, **extra)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, 0, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.normal_(module.weight, 1, 0.2)
            nn.init.normal_(module.bias, 0, 0.2)
        elif isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
            nn.init.normal_(module.bias, 0, 0.2)
    return model


@pytest.fixture(scope="module", params=[RESNET, VIT], ids=["cnn", "vit"])
def opened(request: pytest.FixtureRequest) -> tuple[Network, Tensor]:
    name, size = request.param
    return open_network(build(name, size), image_size=size), torch.randn(3, 3, size, size)


def test_onward_from_any_layer_gives_the_models_own_outputs(opened: tuple[Network, Tensor]) -> None:
    network, images = opened
    whole = network.model(images)
    features = network.features_of(images, network.layers)
    for layer in network.layers:
        torch.testing.assert_close(network.onward(features[layer], layer, None, images), whole)
        torch.testing.assert_close(network.features(images, layer), features[layer])
    last = network.layers[-1]
    torch.testing.assert_close(network.onward(features[network.layers[0]], network.layers[0], last), features[last])


def test_a_batch_of_other_size_needs_no_images(opened: tuple[Network, Tensor]) -> None:
    network, images = opened
    layer = network.layers[1]
    found = network.onward(network.features(images, layer).repeat(4, 1, 1), layer)
    torch.testing.assert_close(found, network.logits(images).repeat(4, 1))


def test_gradients_of_the_later_part_are_those_of_the_model(opened: tuple[Network, Tensor]) -> None:
    network, images = opened
    layer = network.layers[0]
    features = network.features(images, layer).requires_grad_()
    (ours,) = torch.autograd.grad(network.onward(features, layer).sum(), features)
    with network.watch([layer]) as seen:
        outputs = network.model(images.requires_grad_())
    (raw,) = torch.autograd.grad(outputs.sum(), seen[layer])
    torch.testing.assert_close(ours, network.hook_point(layer).vectors(raw), rtol=1e-3, atol=1e-5)


def test_no_hook_and_no_patched_forward_stays(opened: tuple[Network, Tensor]) -> None:
    network, images = opened
    layer = network.layers[0]
    with pytest.raises(UserError):
        network.onward(torch.zeros(1, 2, 3), layer)
    network.onward(network.features(images, layer), layer, network.layers[-1])
    for module in network.model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
        assert "forward" not in module.__dict__


def test_vectors_are_those_before_the_activation() -> None:
    network = open_network(build(*RESNET), image_size=64)
    images = torch.randn(2, 3, 64, 64)
    layer = network.layers[0]
    before = network.features(images, layer)
    after = open_network(network.model, [layer], image_size=64, before_activation=False).features(images, layer)
    assert (before < 0).any()
    torch.testing.assert_close(before.relu(), after)


def test_shift_is_what_the_batch_norms_that_end_a_block_add() -> None:
    network = open_network(build(*RESNET), image_size=64)

    def mu(norm: nn.BatchNorm2d) -> Tensor:  # Eq. 8, written out
        return -norm.weight * norm.running_mean / (norm.running_var + norm.eps).sqrt() + norm.bias

    modules = dict(network.model.named_modules())
    for layer in network.layers:
        block = modules[layer]
        expected = mu(block.bn2)
        if block.downsample is not None:  # a second batch norm is added to the first
            expected = expected + mu(block.downsample[-1])
        torch.testing.assert_close(network.bias_shift(layer), expected)


def test_shift_of_a_residual_stream_is_everything_constant_in_it() -> None:
    model = build(*VIT)
    network = open_network(model, ["blocks.0", "norm"], image_size=64)
    block = model.blocks[0]
    expected = model.pos_embed.mean((0, 1)) + model.patch_embed.proj.bias + block.attn.proj.bias + block.mlp.fc2.bias
    torch.testing.assert_close(network.bias_shift("blocks.0"), expected)
    torch.testing.assert_close(network.bias_shift("norm"), model.norm.bias)


class Skips(nn.Module):
    """Something behind `middle` looks past it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.middle, self.last = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))
        self.act = nn.ReLU(inplace=True)  # one module, called three times

    def forward(self, x: Tensor) -> Tensor:
        first = self.act(self.first(x))
        middle = self.act(self.middle(first))
        return self.act(self.last(middle) * first).mean((2, 3))


def test_a_layer_that_is_looked_past_needs_its_images() -> None:
    torch.manual_seed(0)
    network = open_network(Skips(), ["first", "middle", "last"], image_size=8)
    images = torch.randn(2, 3, 8, 8)
    features = network.features(images, "middle")
    with pytest.raises(UserError, match="reads what lies before"):
        network.onward(features, "middle")
    for times in (1, 3):
        found = network.onward(features.repeat(times, 1, 1), "middle", None, images)
        torch.testing.assert_close(found, network.logits(images).repeat(times, 1))
    one = images[:1].expand(4, -1, -1, -1)  # as integrated gradients ask for
    found = network.onward(features[:1].expand(4, -1, -1), "middle", None, one)
    torch.testing.assert_close(found, network.logits(images[:1]).expand(4, -1))


class Strange(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.conv, self.head, self.calls = kind, nn.Conv2d(3, 4, 3), nn.Linear(4, 2), 0

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x[:, :, self.calls if self.kind == "grows" else 0 :])
        self.calls += 1
        if self.kind == "rounds":
            x = x.round().detach()
        x = self.head(F.relu(x).mean((2, 3)))
        return x.argmax(1) if self.kind == "argmax" else x


def test_bad_input_is_told() -> None:
    with pytest.raises(UserError, match=r"no layer 'stages.9'.*'layer1'|no layer") as error:
        open_network(build(*RESNET), ["layer1.9"], image_size=64)
    assert "'layer1.0'" in str(error.value)
    with pytest.raises(UserError, match="not differentiable"):
        open_network(Strange("rounds"), ["conv"], image_size=16)
    with pytest.raises(UserError, match="expected numbers"):
        open_network(Strange("argmax"), ["conv"], image_size=16)
    with pytest.raises(UserError, match="must not change"):
        open_network(Strange("grows"), ["conv"], image_size=16)
    network = open_network(Strange("plain"), ["conv"], image_size=16)
    with pytest.raises(UserError, match="must not change"):
        network.features(torch.zeros(1, 3, 20, 20), "conv")
    with pytest.raises(UserError, match="not opened at layer 'con'"):
        network.features(torch.zeros(1, 3, 16, 16), "con")
    network = open_network(Skips(), ["first", "last"], image_size=8)
    with pytest.raises(UserError, match="does not come after"):
        network.onward(network.features(torch.zeros(1, 3, 8, 8), "last"), "last", "first", torch.zeros(1, 3, 8, 8))
    with pytest.raises(UserError, match="called 3 times"):
        open_network(Skips(), ["act"], image_size=8)


def test_blocks_are_found_and_a_concept_output_is_read() -> None:
    assert block_names(build(*VIT)) == ("blocks.0", "blocks.1", "blocks.2")
    assert block_names(Skips()) == ("first", "middle", "last")
    network = open_network(Skips(), image_size=8, output=lambda logits: logits[:, :2])
    assert network.classes == 2
    assert network.grids["first"] == (8, 8)
