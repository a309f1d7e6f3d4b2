"""The start of a training, as its regularizer meets it."""

from conceptlens.core.errors import UserError
from conceptlens.encoders.freezing import weights_hash
from conceptlens.methods.contract import Pipeline


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
