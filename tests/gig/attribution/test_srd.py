"""Sharing Ratio Decomposition against Eq. 10 written out position by position."""

import copy

import pytest
import timm
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.gig.attribution.srd import Graph, relevance
from conceptlens.gig.network import open_network


class Small(nn.Module):
    """conv, batch norm, ReLU, conv, ReLU, mean, linear: with biases everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.norm = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.act = nn.ReLU(inplace=True)
        self.two = nn.Conv2d(4, 5, 3, stride=2, padding=1)
        self.head = nn.Linear(5, 3)
        nn.init.normal_(self.norm.running_mean, 0, 0.3)
        nn.init.normal_(self.norm.bias, 0, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm(self.one(x)))
        return self.head(F.relu(self.two(x)).mean((2, 3)))


def reads(p: int, size: int, stride: int) -> list[tuple[int, int]]:
    """(kernel offset, position) pairs inside the image that output position p reads, kernel 3, padding 1."""
    return [(o, p * stride - 1 + o) for o in range(3) if 0 <= p * stride - 1 + o < size]


def shares(lower: Tensor, upper: Tensor, weight: Tensor, bias: Tensor, stride: int, relevance: Tensor) -> Tensor:
    """R_i = Σ_j μ_{i→j} R_j with loops: lower (C, H, W) after its activation, upper (C', h, w) before."""
    found = torch.zeros(lower.shape[1:], dtype=lower.dtype)
    for y in range(upper.shape[1]):
        for x in range(upper.shape[2]):
            v = upper[:, y, x]
            places = [
                (a, i, b, j) for a, i in reads(y, lower.shape[1], stride) for b, j in reads(x, lower.shape[2], stride)
            ]
            for a, i, b, j in places:
                sent = weight[:, :, a, b] @ lower[:, i, j] + bias / len(places)
                found[i, j] += sent @ v / (v @ v) * relevance[y, x]
    return found


def test_relevance_is_eq_10() -> None:
    torch.manual_seed(0)
    model = Small().double().eval()
    image = torch.randn(1, 3, 6, 6, dtype=torch.float64)
    network = open_network(model, ["norm", "two"], image_size=6)
    found = relevance(network, image, targets=torch.tensor([1]))
    # By hand: fold the batch norm into the convolution, then go down.
    scale = model.norm.weight / (model.norm.running_var + model.norm.eps).sqrt()
    first_weight = model.one.weight * scale[:, None, None, None]
    first_bias = model.norm.bias - model.norm.running_mean * scale
    v1 = F.conv2d(image, first_weight, first_bias, padding=1)
    v2 = model.two(v1.relu())[0]
    pooled = v2.relu().mean((1, 2))
    logit = model.head(pooled[None])[0, 1]
    # The head's bias goes to the pooled vector; each position has its part of the mean.
    toward = model.head.weight[1] + model.head.bias[1] * pooled / (pooled @ pooled)
    r2 = torch.einsum("c,chw->hw", toward, v2.relu()) / v2[0].numel()
    r1 = shares(v1[0].relu(), v2, model.two.weight, model.two.bias, 2, r2)
    r0 = shares(image[0], v1[0], first_weight, first_bias, 1, r1)
    torch.testing.assert_close(found.layers["two"], r2.flatten()[None])
    torch.testing.assert_close(found.layers["norm"], r1.flatten()[None])
    torch.testing.assert_close(found.pixels, r0[None])
    torch.testing.assert_close(found.pixels.sum(), logit)  # nothing is lost


def test_receptive_field_is_eq_10_from_one_vector() -> None:
    torch.manual_seed(0)
    model = Small().double().eval()
    image = torch.randn(1, 3, 6, 6, dtype=torch.float64)
    network = open_network(model, ["two"], image_size=6)
    found = Graph(network, image, ["two"]).receptive_field("two", torch.tensor([4]))
    scale = model.norm.weight / (model.norm.running_var + model.norm.eps).sqrt()
    weight = model.one.weight * scale[:, None, None, None]
    bias = model.norm.bias - model.norm.running_mean * scale
    v1 = F.conv2d(image, weight, bias, padding=1)
    start = torch.zeros(3, 3, dtype=torch.float64)
    start[1, 1] = 1
    r1 = shares(v1[0].relu(), model.two(v1.relu())[0], model.two.weight, model.two.bias, 2, start)
    torch.testing.assert_close(found, shares(image[0], v1[0], weight, bias, 1, r1)[None])
    part = Graph(network, image, ["two"], whole=False)  # what follows the layer has no part in it
    torch.testing.assert_close(part.receptive_field("two", torch.tensor([4])), found)
    assert len(part.logits) == 0
    torch.testing.assert_close(found.sum(), torch.tensor(1.0, dtype=torch.float64))


@pytest.mark.parametrize(
    ("name", "size", "extra"),
    [
        ("resnet10t", 64, {}),
        ("vit_tiny_patch16_224", 64, {"img_size": 64, "depth": 2, "class_token": False, "global_pool": "avg"}),
        ("efficientnet_lite0", 64, {}),
        ("convnext_atto", 64, {}),
    ],
)
def test_relevance_is_conserved_in_every_layer(name: str, size: int, extra: dict[str, object]) -> None:
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=5, **extra)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, 0.5, 0.2)
    network = open_network(model.double(), image_size=size)
    images = torch.randn(2, 3, size, size, dtype=torch.float64)
    found = relevance(network, images)
    torch.testing.assert_close(found.logits, network.logits(images))  # the same network, only its way back differs
    logit = found.logits.amax(1)
    torch.testing.assert_close(found.pixels.sum((1, 2)), logit)
    for layer in network.layers:
        torch.testing.assert_close(found.layers[layer].sum(1), logit)
        torch.testing.assert_close(found.features[layer], network.features(images, layer))


def test_a_value_goes_where_attention_sends_it() -> None:
    """One attention layer without biases: v̂_{i→j} = A_ji W x_i, so that R_i can be written out."""

    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.qkv = nn.Linear(3, 4, bias=False), nn.Linear(4, 12, bias=False)
            self.mix, self.head = nn.Identity(), nn.Linear(4, 2, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            x = self.embed(x.flatten(2).transpose(1, 2))
            q, k, v = self.qkv(x).chunk(3, -1)
            return self.head(self.mix(F.scaled_dot_product_attention(q, k, v)).mean(1))

    torch.manual_seed(0)
    model = Attends().double()
    image = torch.randn(1, 3, 2, 2, dtype=torch.float64)
    network = open_network(model, ["embed", "mix"], image_size=2)
    found = relevance(network, image, targets=torch.tensor([0]))
    x = model.embed(image[0].flatten(1).T)
    q, k, v = model.qkv(x).chunk(3, -1)
    attention = (q @ k.T / 2).softmax(-1)
    upper = attention @ v
    at_mix = upper @ model.head.weight[0] / 4
    torch.testing.assert_close(found.layers["mix"][0], at_mix)
    sent = attention[:, :, None] * v[None]  # (j, i, C)
    # The mean and the head are linear: position j hands on w / 4 as it is.
    torch.testing.assert_close(found.layers["embed"][0], (sent @ model.head.weight[0] / 4).sum(0))


def test_gradient_times_input_and_bad_input() -> None:
    torch.manual_seed(0)
    network = open_network(Small(), ["two"], image_size=6)
    images = torch.randn(2, 3, 6, 6).requires_grad_()
    (slope,) = torch.autograd.grad(network.model(images)[:, 2].sum(), images)
    found = relevance(network, images, targets=torch.tensor([2, 2]), rule="gradient")
    torch.testing.assert_close(found.pixels, (slope * images).sum(1).detach())
    with pytest.raises(UserError, match="Targets"):
        relevance(network, images, targets=torch.tensor([2, 3]))
    with pytest.raises(UserError, match="Unknown rule"):
        relevance(network, images, rule="lrp")  # type: ignore[arg-type]


def test_a_batch_norm_that_changed_is_read_again() -> None:
    torch.manual_seed(0)
    model = Small().double().eval()
    image = torch.randn(1, 3, 6, 6, dtype=torch.float64)
    network = open_network(model, ["norm"], image_size=6)
    before = relevance(network, image, targets=torch.tensor([1]))
    with torch.no_grad():
        model.norm.bias += 0.4
    found = relevance(network, image, targets=torch.tensor([1]))
    fresh = relevance(open_network(copy.deepcopy(model), ["norm"], image_size=6), image, targets=torch.tensor([1]))
    assert not torch.allclose(found.layers["norm"], before.layers["norm"])
    torch.testing.assert_close(found.layers["norm"], fresh.layers["norm"])
