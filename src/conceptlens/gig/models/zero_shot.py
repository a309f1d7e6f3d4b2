"""A CLIP with texts as its classes: an image's output is its cosine with each text, scaled as in CLIP."""

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.gig.models.loaded import FRESH, Asked, LoadedModel
from conceptlens.gig.models.own import count_outputs
from conceptlens.gig.models.run import prefix_tokens_of
from conceptlens.gig.preprocessing import Preprocessing

SCALE = 100.0  # CLIP's logit scale at the end of its training
PROMPT = "a photo of a {}"


class ZeroShot(nn.Module):
    """Images with values in [0, 1], (B, 3, H, W), to logits of the texts, (B, classes)."""

    def __init__(self, encoder: nn.Module, vectors: Tensor) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("vectors", vectors)
        prefix = prefix_tokens_of(encoder)
        if prefix is not None:
            self.num_prefix_tokens = prefix

    def forward(self, images: Tensor) -> Tensor:
        image_vectors: Tensor = self.encoder.embed(self.encoder(images))  # type: ignore[operator]
        return SCALE * image_vectors @ self.vectors.T  # type: ignore[operator]


def open_zero_shot(word: str, asked: Asked) -> LoadedModel:
    """An encoder with a text tower of its own: `open_clip/…` or `builtin/vit`."""
    from conceptlens.encoders import make_encoder, make_text_encoder
    from conceptlens.recipes.schema import EncoderConfig

    if not asked.names:
        raise UserError(
            f"{word}: its outputs are texts. Name them: --classes FILE with a class a line, and --prompt with {{}} in "
            f"the place of the class (default: {PROMPT!r})."
        )
    prompt = asked.prompt or PROMPT
    if "{}" not in prompt:
        raise UserError(f"--prompt {prompt!r}: expected {{}} in the place of the class.")
    if asked.normalize:
        raise UserError(f"--normalize: {word} normalizes its images by itself; leave this out.")
    if asked.weights == FRESH:
        raise UserError(f"--weights {FRESH}: a CLIP with random weights cannot match images with texts.")
    encoder = make_encoder(EncoderConfig(name=word, image_size=asked.image_size, weights=asked.weights)).eval()
    if encoder.text is None:
        raise UserError(f"{word} has no text tower of its own. Use open_clip/… with its weights, or builtin/vit.")
    with torch.no_grad():
        vectors = make_text_encoder(encoder.text).embed([prompt.replace("{}", name) for name in asked.names])
    module = ZeroShot(encoder, vectors).eval()
    count_outputs(module, word, encoder.image_size)
    return LoadedModel(
        name=word,
        module=module,
        image_size=encoder.image_size,
        outputs=list(asked.names),
        preprocessing=Preprocessing(source="the encoder normalizes by itself"),
        what="text",
    )
