"""The start of a training, as its regularizer and its method meet it."""

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError
from conceptlens.data.labels.class_table import labels_follow_from_class
from conceptlens.encoders.freezing import weights_hash
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.heads.bottleneck import RandInt


def meet_encoder(pipeline: Pipeline, begun_with: str | None = None) -> None:
    """Attach the regularizer to the encoder, before a state is loaded.

    Args:
        pipeline: With the weights that training starts from, on its device.
        begun_with: Hash of the encoder that a resumed run began with: an anchor must be that encoder.
    """
    encoder, regularizer = pipeline.encoder, pipeline.regularizer
    if begun_with is not None and regularizer.anchored and weights_hash(encoder) != begun_with:
        raise UserError(
            f"The regularizer is anchored to the encoder that the run began with ({begun_with}), but {encoder.name} "
            f"now comes with other weights ({weights_hash(encoder)}). Bring them back, or train again."
        )
    regularizer.attach(encoder)


def rest_randint(pipeline: Pipeline, concepts: npt.NDArray[np.int8], labels: npt.NDArray[np.int64]) -> bool:
    """Turn RandInt off where concept labels (N, K) follow from the class: a head told them would be told the class."""
    model = pipeline.model
    bottleneck = getattr(model, "bottleneck", None)
    if bottleneck is None or not 0 < _chance(bottleneck.randint) < 1 or model.randint_on_class_tables:
        return False
    if not labels_follow_from_class(concepts, labels):
        return False
    bottleneck.randint = 0.0
    return True


def _chance(randint: RandInt) -> float:
    return 0.5 if randint == "uniform" else randint
