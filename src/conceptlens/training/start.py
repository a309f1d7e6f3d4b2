"""The start of a training, as its regulariser meets it."""

from conceptlens.core.errors import UserError
from conceptlens.encoders.freezing import weights_hash
from conceptlens.methods.contract import Pipeline


def meet_encoder(pipeline: Pipeline, begun_with: str | None = None) -> None:
    """Attach the regulariser to the encoder, before a state is loaded.

    Args:
        pipeline: With the weights that training starts from, on its device.
        begun_with: Hash of the encoder that a resumed run began with: an anchor must be that encoder.
    """
    encoder, regulariser = pipeline.encoder, pipeline.regulariser
    if begun_with is not None and regulariser.anchored and weights_hash(encoder) != begun_with:
        raise UserError(
            f"The regulariser is anchored to the encoder that the run began with ({begun_with}), but {encoder.name} "
            f"now comes with other weights ({weights_hash(encoder)}). Bring them back, or train anew."
        )
    regulariser.attach(encoder)
