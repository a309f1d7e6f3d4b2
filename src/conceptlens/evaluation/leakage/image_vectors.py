"""One vector an image, from the class token and the mean patch of a run's encoder: what the reference reader reads.

Images pass through the encoder a batch at a time; nothing but their vectors is kept.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.encoders import make_encoder
from conceptlens.encoders.freezing import weights_hash
from conceptlens.evaluation.codebook.stream import open_stream
from conceptlens.evaluation.leakage.reference import TaughtImages
from conceptlens.methods.contract import Pipeline

if TYPE_CHECKING:
    from conceptlens.encoders.contract import Encoder, Tokens
    from conceptlens.runs.opened import OpenedRun

NOTED = 1024  # images between two words about progress


def image_vectors(run: "OpenedRun", split: str, note: Callable[[str], object]) -> list[TaughtImages]:
    """Vectors of the run's training images and of a split: of the initial encoder, and of the final one if it learned.

    Raises:
        UserError: The run's images are not what they were, or not there.
    """
    source, indices = run.source, {"train": run.splits["train"], "split": run.splits[split]}
    final = run.pipeline.encoder
    encoders: dict[str, Encoder] = {"initial": final}
    if weights_hash(final) != run.info["encoder"]["hash"]:
        encoders = {"final": final}
        initial = make_encoder(run.recipe.encoder)
        if weights_hash(initial) == run.info["encoder"]["hash"]:  # not if it was made at random, or changed since
            encoders = {"initial": initial.to(run.device).eval().requires_grad_(False), "final": final}
    found = []
    with ExitStack() as stack:
        stream = open_stream(run, stack)
        for name, encoder in encoders.items():
            encoder.cut = final.cut
            mine = replace(stream, pipeline=Pipeline(encoder, run.pipeline.regularizer, run.pipeline.model))
            vectors = {}
            for side, places in indices.items():
                rows: list[npt.NDArray[np.float32]] = []
                for batch, tokens in mine.tokens(places):
                    if sum(map(len, rows)) % NOTED < len(batch):
                        note(f"{name} encoder: {sum(map(len, rows))} of {len(places)} {side} images")
                    rows.append(_vectors(tokens))
                vectors[side] = np.concatenate(rows).astype(np.float64)
            train = indices["train"]
            found.append(
                TaughtImages(
                    name,
                    vectors["train"],
                    source.examples.concepts[train],
                    source.examples.labels[train],
                    vectors["split"],
                )
            )
    return found


def _vectors(tokens: "Tokens") -> npt.NDArray[np.float32]:
    parts = [tokens.patches.mean(1)] if tokens.cls is None else [tokens.cls, tokens.patches.mean(1)]
    return torch.cat([part.float() for part in parts], dim=1).cpu().numpy()
