"""What every method and every generator keeps to, checked on a few drawings or random images: for your own tests.

from conceptlens.testing import check_method, check_vq_model

def test_my_method():
    check_method(MyMethod)

def test_my_generator():
    check_vq_model(MyAdapter(...))
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.files import write_text
from conceptlens.core.plugins import is_code, trust
from conceptlens.core.registry import METHODS, PRESETS, register_method
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.cortex.generators.open import open_model
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.shapes import Shapes
from conceptlens.encoders.contract import Cut
from conceptlens.methods.build import Blueprint, build_pipeline, rest_idle_parameters, sample_tokens
from conceptlens.methods.contract import ConceptModel, ConceptOutput, Pipeline, Supervision
from conceptlens.recipes import Recipe, ShapesConfig
from conceptlens.recipes.parse import load_recipe, recipe_yaml
from conceptlens.runs.saved import Card, load_pipeline, save_model
from conceptlens.training.optimization.losses import SupervisedLoss, Targets
from conceptlens.training.optimization.step import Step

ENCODER = {
    "name": "builtin/vit-mini",
    "image_size": 32,
    "text": "builtin/random-text/16",
    "options": {"width": 32, "depth": 2, "heads": 2, "text_width": 16},
}
IMAGES = 6
BF16 = 0.05  # how far a logit may be off in bf16, whose numbers have 8 bits: a share of the largest logit, and plain
Method = str | Mapping[str, Any]  # a name, or a recipe's `method` section


def check_method(method: type[ConceptModel] | str, **options: Any) -> None:
    """Check that a method keeps to the contract of `ConceptModel`.

    Args:
        method: The class, a registered name, or `file.py:Class`, which is run.
        options: Of the method, as in a recipe.

    Raises:
        AssertionError: It does not; the message says what is wrong.
    """
    with _named(method) as name:
        for check in CHECKS:
            check({"name": name, **options})


@contextmanager
def _named(method: type[ConceptModel] | str) -> Iterator[str]:
    """The method's name; a class is registered for as long as it is checked."""
    if isinstance(method, str):
        if is_code(method):
            trust(method)
        yield method
        return
    name = f"checked-{method.__name__.lower()}"
    register_method(name, method, replace=True)
    try:
        yield name
    finally:
        del METHODS.entries[name], PRESETS[name]


@cache
def source() -> Shapes:
    """The drawings."""
    return Shapes(ShapesConfig(n=10, size=32))


@cache
def images() -> Tensor:
    """Six of them, (6, 3, 32, 32), of bytes."""
    with PixelReader(source(), 32, cache_mb=0) as reader:
        return reader.batch(np.arange(IMAGES))


def recipe(method: Method) -> Recipe:
    """A recipe of the method on the drawings."""
    section = method if isinstance(method, str) else dict(method)
    return load_recipe({"data": {"source": "shapes"}, "encoder": ENCODER, "method": section})


def build(method: Method, seed: int = 0) -> Pipeline:
    """A pipeline as training begins with it."""
    torch.manual_seed(seed)
    pipeline = build_pipeline(Blueprint(recipe(method), source().concepts, source().classes))
    pieces = sample_tokens(pipeline, images())
    pipeline.regularizer.prepare(pieces)
    pipeline.model.prepare(pieces, source().concepts)
    return pipeline.eval()


def _tensors(output: ConceptOutput) -> dict[str, Tensor]:
    names = ("logits", "concept_logits", "bottleneck", "slots", "attention", "assignment")
    return {name: value for name in names if (value := getattr(output, name)) is not None}


def _same(output: ConceptOutput, expected: ConceptOutput, tolerance: float = 0) -> None:
    values, others = _tensors(output), _tensors(expected)
    assert values.keys() == others.keys()
    for name, value in values.items():
        torch.testing.assert_close(value, others[name], rtol=tolerance, atol=tolerance, msg=f"{name} differs")


def is_fitted(method: Method) -> bool:
    """Whether no stage trains by gradients."""
    stages = recipe(method).training.stages
    return bool(stages) and all(stage.kind == "fit" for stage in stages)


def supervised(method: Method) -> tuple[SupervisedLoss, Targets]:
    """The losses of the method's recipe, and the labels of the images."""
    loss = SupervisedLoss(recipe(method).training.loss, source().concepts, "single", torch.ones(len(source().classes)))
    return loss, Targets.of(source().examples, np.arange(IMAGES))


def batch_loss(pipeline: Pipeline, method: Method) -> Tensor:
    """The loss of one training step."""
    loss, targets = supervised(method)
    step = Step(pipeline, loss, lambda: torch.autocast("cpu", enabled=False), 0)
    return step.plain(images().float() / 255, (), targets, loss.count(targets))[0]


def check_shapes(method: Method) -> None:
    """Shapes of the output, and what the class declares of itself."""
    pipeline = build(method)
    model, output = pipeline.model, pipeline(images())
    count = len(source().concepts) if model.reads_concepts else 0
    assert output.logits.shape == (IMAGES, len(source().classes)), "logits: (B, C)"
    assert output.concept_logits.shape == output.bottleneck.shape == (IMAGES, count), "concepts, bottleneck: (B, K)"
    assert model.reads_concepts or model.bypass, "what decides without concepts is a bypass"
    assert all(value.shape == (IMAGES,) for value in output.losses.values()), "losses: one value per image"
    assert model.has_attention is (output.attention is not None), "has_attention says whether there is attention"
    assert model.supervision in get_args(Supervision), f"supervision is one of {get_args(Supervision)}"
    if output.attention is not None:
        slots = output.attention.shape[1]
        assert output.slots is not None or output.evidence is not None, "attention is that of slots, or of evidence"
        assert output.slots is None or output.slots.shape[1] == slots, "slots: (B, S, D)"
        assert output.attention.shape == (IMAGES, slots, 16), "attention: (B, S, L)"
        assert model.concept_slot.shape == (count,), "concept_slot: (K,)"
        assert int(model.concept_slot.max()) < slots, "concept_slot names slots"
        assert bool((output.attention >= 0).all()), "attention is not negative"
    assert model.has_evidence is (output.evidence is not None), "has_evidence says whether there is evidence"
    if output.evidence is not None:
        assert output.unplaced is not None, "what has no place comes with the evidence"
        assert output.evidence.shape == (IMAGES, count, 16), "evidence: (B, K, L)"
        total = output.evidence.sum(-1) + output.unplaced
        torch.testing.assert_close(total, output.concept_logits, rtol=1e-5, atol=1e-5, msg="evidence does not add up")


def check_precision(method: Method, device: str = "cpu") -> None:
    """Output in fp32; in bf16 logits differ by at most `BF16` of the largest logit, and `BF16`."""
    pipeline = build(method).to(device)
    pixels = images().to(device)
    with torch.no_grad():
        full = _tensors(pipeline(pixels))
        assert all(value.dtype == torch.float32 for value in full.values()), "outputs are fp32"
        with torch.autocast(device, torch.bfloat16):
            half = _tensors(pipeline(pixels))
    for (name, value), expected in zip(half.items(), full.values(), strict=True):
        assert value.isfinite().all(), f"{name} is not finite in bf16"
        if name in ("logits", "concept_logits") and value.numel():
            most = BF16 * float(expected.abs().max()) + BF16
            assert float((value - expected).abs().max()) <= most, f"{name} is far off in bf16"


def check_seed(method: Method) -> None:
    """A seed makes the weights."""
    first, second = build(method).state_dict(), build(method).state_dict()
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), f"{name} differs between two builds with one seed"


def check_saving(method: Method) -> None:
    """Saved and loaded, it says the same."""
    pipeline = build(method)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_text(folder / "recipe.yaml", recipe_yaml(recipe(method)))
        write_text(folder / "concepts.yaml", source().concepts.to_yaml())
        save_model(folder / "model", pipeline.state_dict(), Card(list(source().classes), "single", 32, "pad", {}))
        loaded, _, _ = load_pipeline(folder)
    with torch.no_grad():
        _same(loaded(images()), pipeline(images()))


def check_batches(method: Method) -> None:
    """No image, and one: what is said of an image does not depend on those beside it."""
    pipeline = build(method)
    with torch.no_grad():
        whole, none, one = pipeline(images()), pipeline(images()[:0]), pipeline(images()[2:3])
    assert none.logits.shape == (0, whole.logits.shape[1]), "no image"
    assert none.concept_logits.shape == (0, whole.concept_logits.shape[1]), "no image"
    torch.testing.assert_close(one.logits, whole.logits[2:3], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(one.concept_logits, whole.concept_logits[2:3], rtol=1e-4, atol=1e-4)


def check_tokens(method: Method) -> None:
    """Live images, their tokens, and tokens stored before the last block say the same."""
    pipeline = build(method)
    encoder = pipeline.encoder
    with torch.no_grad():
        live = pipeline(images())
        _same(pipeline.read(encoder(images())), live)
        stored = encoder.before(encoder.normalize(images()), 1)
        encoder.cut = Cut(1, encoder.grid(32, 32))
        _same(pipeline(stored), live, 1e-5)


def check_decision(method: Method) -> None:
    """Whatever else the model has seen meanwhile, the same bottleneck gives the same class, or a bypass is declared."""
    pipeline = build(method)
    model = pipeline.model
    with torch.no_grad():
        output, decided = pipeline(images()), model.decide(pipeline(images()).bottleneck)
        assert decided.shape == output.logits.shape, "decide: (B, K) → (B, C)"
        pipeline(255 - images())
        assert torch.equal(model.decide(output.bottleneck), decided), "decide remembers images"
        for row in range(IMAGES):  # an image's class depends on its own bottleneck only
            one = model.decide(output.bottleneck[row : row + 1])
            torch.testing.assert_close(one, decided[row : row + 1], rtol=1e-4, atol=1e-4)
        if model.bypass is None:
            torch.testing.assert_close(decided, output.logits)


def check_gradients(method: Method) -> None:
    """Gradients reach everything that learns."""
    pipeline = build(method)
    rest_idle_parameters(pipeline, images())
    learning = {name: value for name, value in pipeline.named_parameters() if value.requires_grad}
    if not any(name.startswith("model.") for name in learning):
        assert is_fitted(method), "nothing of the model learns; give its preset a stage of the kind `fit`"
        return
    batch_loss(pipeline, method).backward()  # type: ignore[no-untyped-call]
    for name, parameter in learning.items():
        assert parameter.grad is not None, f"{name} has no gradient"
        assert parameter.grad.isfinite().all(), f"{name}: its gradient is not finite"
        assert float(parameter.grad.abs().sum()) > 0, f"{name}: its gradient is zero"


CHECKS: tuple[Callable[[Method], None], ...] = (
    check_shapes,
    check_precision,
    check_seed,
    check_saving,
    check_batches,
    check_tokens,
    check_decision,
    check_gradients,
)


def check_vq_model(model: Any) -> None:
    """Check that a generator keeps to the contract of `VQModel`, so that every command of `codebook` works with it.

    Args:
        model: A `VQModel`, an object that fulfils it, or whatever names one, such as `file.py:function`, which is run.

    Raises:
        AssertionError: It does not; the message says what is wrong.
    """
    opened = open_model(model)
    assert opened.codebook.ndim == 2, "codebook: (K, d)"
    assert opened.codebook.is_floating_point(), "codebook: floating point"
    assert bool(opened.codebook.isfinite().all()), "codebook: finite"
    assert not opened.training, "a model that is opened is in evaluation mode"
    for check in (check_vq_encoding, check_vq_decoding, check_vq_generating):
        check(opened)


def _check_ids(tokens: Tensor, model: VQModel, n: int, what: str) -> None:
    assert tokens.shape == (n, *model.grid), (
        f"{what}: tokens (B, h, w) on the grid {model.grid}, found {tuple(tokens.shape)}"
    )
    assert not tokens.is_floating_point(), f"{what}: tokens are whole numbers"
    codes = len(model.codebook)
    assert 0 <= int(tokens.min()) <= int(tokens.max()) < codes, f"{what}: tokens lie in 0 to {codes - 1}"


def check_vq_encoding(model: VQModel) -> None:
    """Images become tokens of the grid, each image by itself."""
    size = model.image_size
    pixels = torch.rand(3, 3, size, size, generator=torch.Generator().manual_seed(0)).to(model.codebook.device)
    tokens = model.encode(pixels)
    _check_ids(tokens, model, 3, "encode")
    assert not tokens.requires_grad, "encode: no gradient"
    assert torch.equal(tokens, model.encode(pixels)), "encode: the same image has the same tokens"
    alone = float((model.encode(pixels[1:2]) == tokens[1:2]).float().mean())
    assert alone > 0.99, "encode: an image's tokens do not depend on those beside it"  # arithmetic may break ties


def check_vq_decoding(model: VQModel) -> None:
    """Tokens become images in [0, 1]; gradients reach the embeddings."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(len(model.codebook), (2, *model.grid), generator=generator).to(model.codebook.device)
    embedded = model.embed(tokens)
    assert embedded.shape == (2, model.codebook.shape[1], *model.grid), "embed: (B, d, h, w)"
    assert torch.equal(embedded[1, :, 0, -1], model.codebook[tokens[1, 0, -1]]), "embed: the codes of the tokens"
    marked = torch.zeros(2, *model.grid, dtype=torch.bool)
    marked[0] = True
    cells = model.places(marked)
    assert cells.ndim == 3, "places: cells (B, H', W')"
    assert bool(cells[0].all()), "places: all tokens together cover the whole image"
    assert not bool(cells[1].any()), "places: no token covers nothing"
    if not model.decodes:
        return
    with torch.no_grad():
        pictures = model.decode(tokens)
    assert pictures.shape[:2] == (2, 3), "decode: images (B, 3, H, W)"
    assert pictures.shape[-1] == pictures.shape[-2], "decode: square images"
    assert 0 <= float(pictures.min()) <= float(pictures.max()) <= 1, "decode: values in [0, 1]"
    leaf = embedded.detach().requires_grad_()
    painted = model.decode_embeddings(leaf)
    torch.testing.assert_close(painted.detach(), pictures, msg="decode is not decode_embeddings(embed)")
    (gradient,) = torch.autograd.grad(painted.sum(), leaf)
    assert bool(gradient.isfinite().all()), "decode_embeddings: finite gradients"
    assert float(gradient.abs().sum()) > 0, "decode_embeddings: gradients reach the embeddings"


def check_vq_generating(model: VQModel) -> None:
    """Conditions become tokens; a seed makes them."""
    if not model.generates:
        return
    values = [Condition(attributes={group: names[0]}) for group, names in model.attributes.items()]
    for condition in [None, Condition(), *(Condition(name) for name in model.classes[:2]), *values[:1]]:
        what = f"generate({condition.text() if condition else None})"
        tokens = model.generate(condition, 2, seed=3)
        _check_ids(tokens, model, 2, what)
        assert torch.equal(tokens, model.generate(condition, 2, seed=3)), f"{what}: a seed makes the tokens"
    same = torch.equal(model.generate(None, 2, seed=3), model.generate(Condition(), 2, seed=3))
    assert same, "generate: None and a condition without class and attributes are the same, neutral"
    try:
        model.generate(Condition("no such class"), 1)
    except UserError:
        return
    raise AssertionError("generate: a class that is not known is refused with a UserError")
