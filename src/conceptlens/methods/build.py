"""From a recipe to a pipeline that is ready to learn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.registry import METHODS, REGULARIZERS
from conceptlens.encoders import make_encoder, make_text_encoder, text_encoder_name
from conceptlens.encoders.adapters import add_lora, checkpoint_blocks
from conceptlens.encoders.contract import Encoder, Tokens
from conceptlens.encoders.freezing import set_trainable
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.setup import Setup, no_reader
from conceptlens.recipes import Recipe

SAMPLE = 64  # training images that a method may look at before training, and after each epoch


@dataclass(frozen=True)
class Blueprint:
    """What a pipeline is built from besides its weights."""

    recipe: Recipe
    concepts: ConceptSet
    classes: tuple[str, ...]
    text: Tensor | None = None  # the concepts' vectors (K, width), where they are known already


def _options(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key != "name"}


def build_pipeline(blueprint: Blueprint) -> Pipeline:
    """A pipeline with fresh weights, drawn from torch's generator."""
    recipe = blueprint.recipe
    encoder = make_encoder(recipe.encoder)
    set_trainable(encoder, recipe.encoder.train)
    if recipe.encoder.lora:
        add_lora(encoder, recipe.encoder.train, recipe.encoder.lora)
    if recipe.encoder.checkpointing:
        checkpoint_blocks(encoder)
    method = METHODS.get(str(recipe.method["name"]))
    if (method.uses_image_vector or method.uses_patch_vectors) and encoder.text is None:
        raise UserError(
            f"method.name: {recipe.method['name']!r} compares images with texts, but {encoder.name} has no text tower "
            "of its own. Use builtin/vit or an open_clip/… encoder."
        )
    if method.needs_layers and not encoder.layers:
        raise UserError(
            f"encoder.layers: {recipe.method['name']!r} reads several layers of the encoder, but none are handed on. "
            "Set `encoder.layers: all`, or name some, such as [2, 5, 8, 11]."
        )
    embed = _reader(blueprint, encoder) if method.uses_text else no_reader
    setup = Setup(
        blueprint.concepts,
        embed(blueprint.concepts.texts) if blueprint.text is None else blueprint.text,
        encoder.width,
        len(blueprint.classes),
        blueprint.classes,
        embed,
        encoder.layer_widths,
    )
    # The method draws its weights first: one seed starts it alike under every regularizer.
    model = method(setup, **_options(recipe.method))
    regularizer = REGULARIZERS.get(str(recipe.regularizer["name"]))(setup, **_options(recipe.regularizer))
    stages = recipe.training.stages
    learns = any(part.split(".")[0] == "encoder" for stage in stages for part in stage.train) if stages else True
    if regularizer.acts_on_tokens and not (learns and any(each.requires_grad for each in encoder.parameters())):
        raise UserError(
            f"regularizer.name: {recipe.regularizer['name']!r} acts on the encoder's tokens, but the encoder is frozen "
            "(by encoder.train or in every stage), so no gradient would reach it. Train some blocks, or set "
            "`regularizer: none`."
        )
    if regularizer.second_view is not None and recipe.encoder.store is not None:
        raise UserError(
            f"regularizer.name: {recipe.regularizer['name']!r} needs a second view of every image, but with "
            "encoder.store the encoder reads stored tokens of one view. Leave encoder.store empty, or choose another "
            "regularizer."
        )
    return Pipeline(encoder, regularizer, model)


def _reader(blueprint: Blueprint, encoder: Encoder) -> Callable[[Sequence[str]], Tensor]:
    """What turns texts into vectors. Where those of the concepts are known, all others come with the weights too."""
    known = blueprint.text
    if known is not None:
        return lambda texts: known.new_zeros(len(texts), known.shape[1])
    return make_text_encoder(text_encoder_name(blueprint.recipe.encoder.text, encoder)).embed


@torch.no_grad()
def sample_tokens(pipeline: Pipeline, images: Tensor, *, batch: int = 16) -> list[Tokens]:
    """Tokens of a few images, as the method reads them, in evaluation mode."""
    was_training = pipeline.training
    pipeline.eval()
    pieces = [
        pipeline.with_text_space(pipeline.encoder.encode(images[start : start + batch]))
        for start in range(0, len(images), batch)
    ]
    pipeline.train(was_training)
    return pieces


def join(pieces: list[Tokens]) -> Tokens:
    """Several batches as one; layers and companions are left out."""
    cls = [piece.cls for piece in pieces if piece.cls is not None]
    return Tokens(torch.cat([piece.patches for piece in pieces]), pieces[0].grid, torch.cat(cls) if cls else None)


def sample_indices(train: np.ndarray[Any, np.dtype[np.int64]], seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The training images a method looks at."""
    return np.sort(np.random.default_rng([seed, 7]).permutation(train)[:SAMPLE])


def rest_idle_parameters(pipeline: Pipeline, images: Tensor) -> list[str]:
    """Stop parameters that no output depends on from learning, such as a final norm that only the class token passes.

    Data parallelism would wait for their gradients for ever, and weight decay would slowly erase them.
    """
    pipeline.eval()
    few = images[:2]
    output = pipeline(few) if pipeline.regularizer.second_view is None else pipeline(few, few)
    loss = output.logits.sum() + output.concept_logits.sum() + sum(value.sum() for value in output.losses.values())
    if output.auxiliary is not None:
        loss = loss + output.auxiliary.sum()
    if loss.requires_grad:  # not where a method learns nothing and the encoder is frozen
        loss.backward()
    idle = []
    for name, parameter in pipeline.named_parameters():
        if parameter.requires_grad and parameter.grad is None:
            parameter.requires_grad_(False)
            idle.append(name)
        parameter.grad = None
    pipeline.train()
    return idle
