"""How long a training is where its recipe says `epochs: auto`. Why these numbers: evidence/epochs-auto."""

from dataclasses import replace
from typing import Literal

from conceptlens.recipes import Recipe

STEPS = 1500  # of the optimizer, which small data needs as much as large data
LEAST = 30  # epochs
VALIDATIONS = 50  # at most so many, where epochs are short
WARMUP = 0.1  # of the training, at most
GIVE_UP = 3  # stop after one part in so many of the training without a gain


def auto_epochs(images: int, batch_size: int) -> int:
    """30 epochs, or as many as make 1,500 optimizer steps where these are more.

    >>> auto_epochs(images=90, batch_size=32), auto_epochs(images=1_000, batch_size=32), auto_epochs(10_000, 32)
    (750, 49, 30)
    """
    return max(-(-STEPS // max(images // batch_size, 1)), LEAST)


def with_epochs(recipe: Recipe, images: int) -> Recipe:
    """The recipe with a number for each `auto`: the one that the run folder keeps, and a resumed run goes on with.

    Args:
        recipe: As the user gave it.
        images: Number of training images.
    """
    training = recipe.training
    epochs = auto_epochs(images, training.batch_size)
    settled = training.stages and all(stage.kind == "fit" or isinstance(stage.epochs, int) for stage in training.stages)
    stages = [replace(stage, epochs=epochs) if stage.epochs == "auto" else stage for stage in training.stages]
    training = replace(training, stages=stages)
    if training.epochs == "auto" and settled:
        training = replace(training, epochs=epochs)  # no stage is that long
    elif training.epochs == "auto":
        every = training.validate_every or max(epochs // VALIDATIONS, 1)
        given = training.patience
        training = replace(
            training,
            epochs=epochs,
            validate_every=every,
            patience=-(-epochs // (GIVE_UP * every)) if given is None else given,
            warmup=min(training.warmup, WARMUP * epochs),
        )
    return replace(recipe, training=training)


def number_of(epochs: Literal["auto"] | int | None) -> int:
    """The number of a stage's epochs, which `with_epochs` and `stages_of` have settled."""
    if not isinstance(epochs, int):
        raise TypeError(f"epochs are still {epochs!r}: call with_epochs first")
    return epochs
