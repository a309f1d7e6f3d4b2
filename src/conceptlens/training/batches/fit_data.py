"""From a session to what a model fits: one pass of the frozen encoder over all images, in a memory map meanwhile."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.loading.transfer import to_device
from conceptlens.encoders import AUTO, RANDOM_TEXT, make_encoder, make_text_encoder, text_encoder_name
from conceptlens.encoders.contract import Encoder
from conceptlens.encoders.text.random import random_text_name
from conceptlens.methods.contract import OWN
from conceptlens.methods.fitted.data import FitData, FitImages, Floats
from conceptlens.recipes.schema import EncoderConfig
from conceptlens.training.batches.crops import encode_crops
from conceptlens.training.optimization.losses import class_weights
from conceptlens.training.session import Session

FOLDER = "fit"  # of a run, while it fits
BATCH = 64
PROMPTS = 1024  # images with a marked region that are encoded at a time
Indices = npt.NDArray[np.int64]
Read = Callable[[Tensor], Sequence[Tensor]]


@contextlib.contextmanager
def fit_data(session: Session) -> Iterator[FitData]:
    """Vectors and labels of all training and validation images; only the main process may use them."""
    run, processes, model = session.run.path, session.processes, session.pipeline.model
    folder = run / FOLDER
    if processes.main:
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
        folder.mkdir()
    processes.wait()
    try:
        encoder = None if model.fit_targets in (None, OWN) else _second_encoder(model.fit_targets)
        seen = _encode_all(session, folder, encoder)
        yield _assemble(session, seen, encoder or session.pipeline.encoder)
    finally:
        processes.wait()
        if processes.main:
            shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class _Seen:
    """What was encoded of the training and validation images, one below the other."""

    vectors: Floats  # (N, D)
    image_text: Floats | None = None  # (N, D_text), where it is asked for
    region_text: Floats | None = None  # (N, G, D_text), where regions are asked for instead

    @property
    def text_width(self) -> int | None:
        return next((part.shape[-1] for part in (self.image_text, self.region_text) if part is not None), None)


def _encode_all(session: Session, folder: Path, second: Encoder | None) -> _Seen:
    """What the model and, where it is asked for, the image-text encoder say of train and val."""
    pipeline, device, regions = session.pipeline, session.processes.device, session.pipeline.model.fit_regions
    own = pipeline.model.fit_targets == OWN and regions is None

    def read(inputs: Tensor) -> Sequence[Tensor]:
        tokens = pipeline.encoder.encode(inputs)
        vectors = pipeline.model.summarize(pipeline.with_text_space(tokens))
        return (vectors, pipeline.encoder.embed(tokens)) if own else (vectors,)

    pipeline.eval()
    found = _encode(session, "reading images", session.stream, read, [folder / "vectors.npy", folder / "texts.npy"])
    if second is None and regions is None:
        return _Seen(found[0], found[1] if own else None)
    encoder = second or pipeline.encoder  # regions are marked in pixels: no token store has them
    encoder.to(device).eval()

    def embed(images: Tensor) -> Sequence[Tensor]:
        if regions is None:
            return (encoder.embed(encoder(images)),)
        marked = (regions(some).flatten(0, 1) for some in torch.split(images, max(PROMPTS // regions.count, 1)))
        said = torch.cat([encoder.embed(encoder(some)) for some in marked])
        return (said.reshape(len(images), -1),)

    data = session.recipe.data
    with PixelReader(session.source, encoder.image_size, data.fit, cache_mb=0, workers=data.workers) as reader:

        def stream(batches: Iterator[Indices]) -> Iterator[Tensor]:
            return (images for _, images in to_device(reader.prefetch(batches), device))

        what = "images" if regions is None else f"{regions.count} regions an image"
        (said,) = _encode(session, f"reading {what} with {encoder.name}", stream, embed, [folder / "texts.npy"])
    return (
        _Seen(found[0], said) if regions is None else _Seen(found[0], None, said.reshape(len(said), regions.count, -1))
    )


@torch.inference_mode()
def _encode(
    session: Session,
    what: str,
    stream: Callable[[Iterator[Indices]], Iterator[Tensor]],
    read: Read,
    files: Sequence[Path],
) -> list[Floats]:
    """`read` of every training, then every validation image, in a file for each thing it says; processes share."""
    processes = session.processes
    indices = np.concatenate((session.splits.train, session.splits.val))
    mine = np.arange(len(indices))[processes.index :: processes.count]
    rows = [mine[start : start + BATCH] for start in range(0, len(mine), BATCH)]
    with processes.autocast():
        widths = [each.shape[1] for each in read(next(stream(iter([indices[:1]]))))]
    files = files[: len(widths)]
    if processes.main:
        for file, width in zip(files, widths, strict=True):
            np.lib.format.open_memmap(file, "w+", np.dtype(np.float32), (len(indices), width)).flush()
    processes.wait()
    maps = [np.load(file, mmap_mode="r+", allow_pickle=False) for file in files]
    with session.progress.counting(what, len(mine)) as count:
        for place, inputs in zip(rows, stream(indices[each] for each in rows), strict=True):
            with processes.autocast():
                said = read(inputs)
            for target, values in zip(maps, said, strict=True):
                target[place] = values.float().cpu().numpy()
            count(len(place))
    for target in maps:
        target.flush()
    processes.wait()
    return maps


def _assemble(session: Session, seen: _Seen, encoder: Encoder) -> FitData:
    examples, splits, concepts = session.source.examples, session.splits, session.blueprint.concepts
    reader = text_encoder_name(session.recipe.encoder.text, encoder)
    width = seen.text_width
    if reader.startswith(RANDOM_TEXT) and width is not None:
        reader = random_text_name(width)  # a control, whatever the encoder
    elif encoder is not session.pipeline.encoder:
        reader = text_encoder_name(AUTO, encoder)

    def embed(texts: Sequence[str]) -> Tensor:
        found = make_text_encoder(reader).embed(texts)
        if width is not None and found.shape[1] != width:
            raise UserError(
                f"encoder.text: the vectors of {reader} have width {found.shape[1]}, those of {encoder.name}'s images "
                f"{width}, so they cannot be compared. Use `encoder.text: auto`."
            )
        return found

    def images(start: int, indices: Indices) -> FitImages:
        rows = slice(start, start + len(indices))
        return FitImages(
            seen.vectors[rows],
            examples.labels[indices],
            examples.concepts[indices],
            None if examples.certainty is None else examples.certainty[indices],
            None if seen.image_text is None else seen.image_text[rows],
            None if seen.region_text is None else seen.region_text[rows],
        )

    return FitData(
        train=images(0, splits.train),
        val=images(len(splits.train), splits.val),
        classes=session.blueprint.classes,
        concepts=concepts,
        text=embed(concepts.texts) if width is not None else torch.zeros(len(concepts), 0),
        embed=embed,
        class_weights=class_weights(
            session.recipe.training.loss,
            examples.labels[splits.train],
            len(session.blueprint.classes),
            session.source.task,
        ),
        task=session.source.task,
        device=session.processes.device,
        seed=session.recipe.seed,
        note=session.progress.note,
        crops=encode_crops(session) if session.pipeline.model.fit_crops and session.processes.main else None,
    )


def _second_encoder(name: str) -> Encoder:
    encoder = make_encoder(EncoderConfig(name=name))
    if encoder.text is None:
        raise UserError(f"method.targets: {name} has no text tower, so its images cannot be compared with texts.")
    return encoder
