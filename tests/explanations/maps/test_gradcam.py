"""Grad-CAM on tokens is captum's LayerGradCam, wherever a model reads its tokens."""

from typing import Literal

import pytest
import torch
from captum.attr import LayerGradCam
from torch import Tensor, nn

from conceptlens.concepts import ConceptSet
from conceptlens.encoders.builtin.efficientnet_lite0 import EfficientNetLite0
from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.encoders.contract import Cut, Tokens
from conceptlens.encoders.timm.encoder import TimmEncoder
from conceptlens.explanations.maps.gradcam import watch
from conceptlens.methods.contract import ConceptOutput, Pipeline
from conceptlens.methods.ivq_cbm import IVQCBM
from conceptlens.nn.quantization.quantization import ImplicitVQ
from conceptlens.nn.regularizers.regularizer import NoRegularizer
from conceptlens.nn.setup import Setup

Aggregate = Literal["magnet", "cls", "mean"]
GRID = (4, 4)


@pytest.fixture(params=["magnet", "cls", "mean"])
def pipeline(request: pytest.FixtureRequest, concepts: ConceptSet) -> Pipeline:
    torch.manual_seed(0)
    encoder = BuiltinViT(
        image_size=32, width=16, depth=2, heads=2, stem_width=8, registers=2, text_width=0, pretrained=False, name="x"
    )
    text = torch.nn.functional.normalize(torch.randn(len(concepts), 6), dim=-1)
    setup = Setup(concepts, text, width=16, classes=2)
    built = Pipeline(encoder, ImplicitVQ(setup, init="normal"), IVQCBM(setup, aggregate=request.param, temperature=9.0))
    for parameter in encoder.parameters():  # a fresh class token hardly looks at any patch
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.3)
    return built.eval().requires_grad_(False)


class FromMap(nn.Module):
    """Scores of concepts from tokens laid out as a convolution's (B, D, h, w), which is what captum expects."""

    def __init__(self, pipeline: Pipeline, prefix: Tensor | None) -> None:
        super().__init__()
        self.here = nn.Identity()
        self.pipeline, self.prefix = pipeline, prefix

    def forward(self, maps: Tensor) -> Tensor:
        patches = self.here(maps).flatten(2).transpose(1, 2)
        if self.prefix is None:
            tokens = Tokens(patches, GRID)
        else:
            tokens = self.pipeline.encoder.after(torch.cat([self.prefix, patches], 1), Cut(1, GRID))
        return self.pipeline.read(tokens).concept_logits


def as_map(patches: Tensor) -> Tensor:
    return patches.transpose(1, 2).unflatten(2, GRID)


def test_as_captum(pipeline: Pipeline) -> None:
    images = torch.rand(3, 3, 32, 32)
    watched = watch(pipeline, images)
    encoder = pipeline.encoder
    reads_class_token = pipeline.model.aggregate == "cls"
    assert watched.place == (
        "patches that enter its last block" if reads_class_token else "patches that leave the encoder"
    )
    entering = encoder.before(encoder.normalize(images), 1)
    if reads_class_token:
        oracle = LayerGradCam(model := FromMap(pipeline, entering[:, :3]), model.here)
        maps = as_map(entering[:, 3:])
    else:
        oracle = LayerGradCam(model := FromMap(pipeline, None), model.here)
        maps = as_map(encoder(images).patches)
    chosen = torch.tensor([[0, 2], [1, 4], [3, 0]])  # others for each image
    found = watched.maps(chosen)
    assert found.shape == (3, 2, 16)
    for column in range(2):
        expected = oracle.attribute(maps.clone().requires_grad_(), target=chosen[:, column], relu_attributions=True)
        torch.testing.assert_close(found[:, column].unflatten(1, GRID), expected[:, 0], rtol=1e-3, atol=1e-6)
    assert found.max() > 1e-4  # there is something to compare
    assert found.min() == 0


def test_an_image_is_explained_alone_as_among_others(pipeline: Pipeline) -> None:
    images = torch.rand(4, 3, 32, 32)
    together = watch(pipeline, images).maps(torch.tensor([[1]] * 4))
    alone = watch(pipeline, images[2:3]).maps(torch.tensor([[1]]))
    torch.testing.assert_close(together[2:3], alone, rtol=1e-3, atol=1e-6)


def test_watching_changes_nothing(pipeline: Pipeline) -> None:
    images = torch.rand(2, 3, 32, 32)
    before = pipeline(images).logits
    torch.testing.assert_close(watch(pipeline, images).output.logits.detach(), before)
    torch.testing.assert_close(pipeline(images).logits, before)  # no hook is left behind
    assert not pipeline(images).logits.requires_grad


@pytest.mark.parametrize(
    ("name", "place"),
    [("test_vit", "patches that enter its last block"), ("test_resnet", "patches that leave the encoder")],
)
def test_readers_of_a_global_vector_in_timm(concepts: ConceptSet, name: str, place: str) -> None:
    """A ViT's class token is reached through its last block; a CNN's global vector is the mean of its patches."""
    torch.manual_seed(0)
    encoder = TimmEncoder(name, image_size=64, pretrained=False)
    text = torch.nn.functional.normalize(torch.randn(len(concepts), 6), dim=-1)
    setup = Setup(concepts, text, width=encoder.width, classes=2)
    built = Pipeline(encoder, ImplicitVQ(setup), IVQCBM(setup, aggregate="cls")).eval().requires_grad_(False)
    watched = watch(built, torch.rand(2, 3, 64, 64))
    assert watched.place == place
    assert watched.maps(torch.tensor([[0], [1]])).shape == (2, 1, watched.grid[0] * watched.grid[1])


class ReadsLayers(nn.Module):
    """Concept logits from the layers side by side: a linear readout of each patch, squared so that slopes differ."""

    has_attention, uses_image_vector, uses_patch_vectors, draws = True, False, False, 0

    def __init__(self, widths: tuple[int, ...], concepts: int) -> None:
        super().__init__()
        self.read = nn.Linear(sum(widths), concepts)

    def forward(self, tokens: Tokens) -> ConceptOutput:
        logits = self.read(torch.cat(tokens.layers, -1)).square().mean(1)
        return ConceptOutput(logits=logits, concept_logits=logits, bottleneck=logits)


def test_a_reader_of_layers_is_looked_at_in_all_of_them() -> None:
    """By hand: the slope of mean_l (w · A_l + b)² is 2 (w · A_l + b) w / L; A_l has all layers in a row."""
    torch.manual_seed(0)
    encoder = EfficientNetLite0(pretrained=False, layers=[4, 6])
    model = ReadsLayers(encoder.layer_widths, 3)
    built = Pipeline(encoder, NoRegularizer(None), model).eval().requires_grad_(False)  # type: ignore[arg-type]
    images = torch.rand(2, 3, 64, 64)
    watched = watch(built, images)
    assert watched.place == "patches that leave the encoder"
    rows = torch.cat(encoder(images).layers, -1)
    said = rows @ model.read.weight[1] + model.read.bias[1]  # (B, L)
    alpha = (2 * said[..., None] * model.read.weight[1] / 16).mean(1, keepdim=True)
    torch.testing.assert_close(watched.maps(torch.tensor([[1], [1]]))[:, 0], (alpha * rows).sum(-1).relu())
