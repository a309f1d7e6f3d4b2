"""Sampling and encoding for a codebook study by several processes of an engine.

A chunk of samples depends on the seed and the chunk's number alone, and becomes a file as soon as it is drawn. Images
are encoded in chunks, too. So the samples are the same as with one process, and a study that was stopped can go on with
any number of processes.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save
from torch import Tensor

from conceptlens.core.devices import best_device
from conceptlens.core.engines import Task
from conceptlens.core.engines.workers import Workers, exit_code
from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint, write_bytes
from conceptlens.core.network import is_offline
from conceptlens.core.progress import Note
from conceptlens.cortex.drawn import absolute_name
from conceptlens.cortex.generators.condition import Condition, parse_condition
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.generators.settings import CheckpointOptions, Sampling
from conceptlens.cortex.samples import Generated, id_type
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import resize_square
from conceptlens.encoders.weights_file import read_weights

BATCH = 64
CHUNK = 16 * BATCH  # images
DRAW, ENCODE = f"{__name__}:draw_chunk", f"{__name__}:encode_chunk"


def model_arguments(
    name: str | Path | VQModel, image_size: int | None, checkpoint: CheckpointOptions, sampling: Sampling
) -> dict[str, Any]:
    """What another process, which may run in another folder, needs to open the same model."""
    if not isinstance(name, str | Path):
        raise UserError("jobs: a model in memory is known to this process alone. Name a file or a folder, or use one.")
    return {
        "name": absolute_name(str(name)),
        "image_size": image_size,
        "checkpoint": {key: absolute_name(v) if isinstance(v, str) else v for key, v in asdict(checkpoint).items()},
        "sampling": asdict(sampling),
        "local": is_offline(),
    }


def draw_chunks(stream: Generated, model: Mapping[str, Any], place: Path, workers: Workers, note: Note) -> None:
    """Draw every chunk that has no file yet."""
    about = {
        "model": dict(model),
        "concepts": {name: condition.text() for name, condition in _named(stream).items()},
        "samples": stream.per_concept,
        "seed": stream.seed,
        "chunk": stream.size,
        "place": str(place.absolute()),
    }
    missing = [index for index in range(stream.chunks) if not stream.kept.has(index)]
    tasks = [Task(f"samples {index + 1} of {stream.chunks}", DRAW, {**about, "index": index}) for index in missing]
    logs = stream.kept.folder / "logs" if stream.kept.folder else place
    workers.run(tasks, logs, note)


def _named(stream: Generated) -> dict[str, Condition]:
    return dict(zip(stream.concepts, stream.conditions, strict=True))


def draw_chunk(
    model: dict[str, Any], concepts: dict[str, str], samples: int, seed: int, chunk: int, place: str, index: int
) -> int:
    """Draw one chunk; 0, or 1 where something is wrong."""

    def work() -> None:
        opened = _model(_key(model))
        conditions = {
            name: parse_condition(words, opened.classes, opened.attributes) for name, words in concepts.items()
        }
        Generated(opened, conditions, samples, seed=seed, chunk=chunk, place=Path(place)).chunk(index)

    return exit_code(work, local=model["local"])


def read_square(source: DataSource, rows: Sequence[int], side: int) -> npt.NDArray[np.uint8]:
    """Images (n, 3, side, side) of data."""
    return np.stack([resize_square(source.read_at_least(row, side), side) for row in rows])


def encode_rows(model: VQModel, source: DataSource, rows: Sequence[int]) -> Tensor:
    """Ids (n, h, w) of some images."""
    parts = []
    with torch.no_grad():
        for start in range(0, len(rows), BATCH):
            some = rows[start : start + BATCH]
            images = (
                torch.from_numpy(read_square(source, some, model.image_size))
                .to(model.codebook.device)
                .float()
                .div_(255)
            )
            parts.append(model.encode(images).cpu().to(id_type(len(model.codebook))))
    return torch.cat(parts)


def encode_in_chunks(
    model: Mapping[str, Any],
    data: tuple[str, str | None],
    place: Path,
    about: str,
    workers: Workers,
    note: Note,
    rows: Sequence[int],
) -> Tensor:
    """Ids (N, h, w) of images of a data set, a chunk at a time.

    Args:
        model: What `model_arguments` returned.
        data: The source and its concept file.
        place: A folder that all processes see.
        about: What else the ids depend on: the weights and the data.
        workers: Which processes encode.
        note: Called with a message after each chunk.
        rows: The images.
    """
    chosen = np.asarray(rows, np.int64)
    folder = place / f".encoded-{fingerprint(about, chosen.tobytes())}"
    write_bytes(folder / "rows.safetensors", save({"rows": torch.from_numpy(chosen)}))
    arguments = {
        "model": dict(model),
        "data": [word and absolute_name(word) for word in data],
        "folder": str(folder.absolute()),
    }
    files = workers.compute(-(-len(chosen) // CHUNK), ENCODE, arguments, folder, note)
    tokens = torch.cat([read_weights(file)["tokens"] for file in files])
    shutil.rmtree(folder)
    return tokens


def encode_chunk(model: dict[str, Any], data: list[str | None], folder: str, chunk: int, file: str) -> int:
    """Encode one chunk of the images; 0, or 1 where something is wrong."""

    def work() -> None:
        rows = read_weights(Path(folder) / "rows.safetensors")["rows"][chunk * CHUNK : (chunk + 1) * CHUNK]
        tokens = encode_rows(_model(_key(model)), _data(str(data[0]), data[1]), rows.tolist())
        write_bytes(Path(file), save({"tokens": tokens.contiguous()}))

    return exit_code(work, local=model["local"])


ModelKey = tuple[str, int | None, CheckpointOptions, Sampling]


def _key(model: dict[str, Any]) -> ModelKey:
    return model["name"], model["image_size"], CheckpointOptions(**model["checkpoint"]), Sampling(**model["sampling"])


@lru_cache(maxsize=1)
def _model(key: ModelKey) -> VQModel:
    name, image_size, checkpoint, sampling = key  # code was allowed in the process that began this one
    return open_model(name, image_size=image_size, checkpoint=checkpoint, sampling=sampling).to(best_device())


@lru_cache(maxsize=1)
def _data(source: str, concepts: str | None) -> DataSource:
    from conceptlens.cortex.study import open_data

    return open_data(source, concepts)[0]
