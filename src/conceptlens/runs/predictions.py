"""`predictions/SPLIT.safetensors` of a run: what the model said of each image, for whoever judges runs later.

One file, whole or not there: scores and labels as tensors, names in its header. Loading it runs no code.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import parse_json, write_bytes, writer_of
from conceptlens.core.upgrades import SCHEMA, upgrade

if TYPE_CHECKING:
    from conceptlens.data.dataset import DataSource, Task
    from conceptlens.runs.predict import Predictions

FOLDER = "predictions"
ARRAYS = ("logits", "concept_logits", "labels", "concepts", "bottleneck", "context")  # one row an image


@dataclass(frozen=True)
class StoredPredictions:
    """What a run said of N images, and what is true of them."""

    ids: tuple[str, ...]
    units: tuple[str, ...]  # the patient or lesion of each image; its own name where it stands alone
    classes: tuple[str, ...]
    task: "Task"
    logits: npt.NDArray[np.float32]  # (N, C)
    concept_logits: npt.NDArray[np.float32]  # (N, K)
    labels: npt.NDArray[np.int64]  # (N,), or (N, C) for a multi-label task
    concepts: npt.NDArray[np.int8]  # (N, K) of 0, 1, UNKNOWN
    thresholds: tuple[float, ...]  # of the classes, chosen on validation
    bottleneck: npt.NDArray[np.float32] | None = None  # (N, K): what the class head read; None: not kept
    context: npt.NDArray[np.float16] | None = None  # (N, E): what it read of the image besides; None: nothing


def units_of(source: "DataSource", indices: npt.NDArray[np.int64]) -> tuple[str, ...]:
    """What is drawn together when images are drawn again: the group, or the image itself where it has none."""
    ids, group = source.examples.ids, source.examples.group
    return tuple((group[index] if group else "") or f"image {ids[index]}" for index in indices.tolist())


def to_stored(predictions: "Predictions", source: "DataSource", thresholds: list[float]) -> StoredPredictions:
    """Predictions with the truth of their images, as they are kept."""
    chosen = predictions.indices
    return StoredPredictions(
        ids=tuple(source.examples.ids[index] for index in chosen.tolist()),
        units=tuple(units_of(source, chosen)),
        classes=tuple(source.classes),
        task=source.task,
        logits=predictions.logits.astype(np.float32),
        concept_logits=predictions.concept_logits.astype(np.float32),
        labels=source.examples.labels[chosen].astype(np.int64),
        concepts=source.examples.concepts[chosen].astype(np.int8),
        thresholds=tuple(thresholds),
        bottleneck=None if predictions.bottleneck is None else predictions.bottleneck.astype(np.float32),
        context=predictions.context,
    )


def save_predictions(
    run: Path, split: str, predictions: "Predictions", source: "DataSource", thresholds: list[float]
) -> Path:
    """Write the predictions of a split into a run folder."""
    kept = to_stored(predictions, source, thresholds)
    arrays = {name: getattr(kept, name) for name in ARRAYS}
    tensors = {name: values for name, values in arrays.items() if values is not None}
    words = {name: getattr(kept, name) for name in ("ids", "units", "classes", "task", "thresholds")}
    words["schema"] = SCHEMA
    path = run / FOLDER / f"{split}.safetensors"
    header = {key: json.dumps(value, ensure_ascii=False) for key, value in words.items()}
    write_bytes(path, save({name: np.ascontiguousarray(value) for name, value in tensors.items()}, header))
    return path


def load_predictions(run: Path, split: str = "test") -> StoredPredictions:
    """Read them back.

    Raises:
        UserError: They are missing, damaged, or not what `save_predictions` wrote.
    """
    path = run / FOLDER / f"{split}.safetensors"
    if not path.is_file():
        manifest.refuse_gone(path)
        raise UserError(f"{path}: this run keeps no predictions of its {split} images. Train it again.")
    manifest.check(path)
    try:
        with safe_open(path, "np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - the file is no mapping
            words: dict[str, Any] = {key: parse_json(value) for key, value in (file.metadata() or {}).items()}
        upgrade({"schema": words["schema"]}, where=str(path), writer=lambda: writer_of(path))
        found = StoredPredictions(
            ids=tuple(map(str, words["ids"])),
            units=tuple(map(str, words["units"])),
            classes=tuple(map(str, words["classes"])),
            task=cast("Task", words["task"]),
            logits=tensors["logits"],
            concept_logits=tensors["concept_logits"],
            labels=tensors["labels"],
            concepts=tensors["concepts"],
            thresholds=tuple(map(float, words["thresholds"])),
            bottleneck=tensors.get("bottleneck"),
            context=tensors.get("context"),
        )
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: expected what training writes, but {error}. Copy the run folder again.") from None
    sizes = {len(found.ids), len(found.units), *(len(tensor) for tensor in tensors.values())}
    if len(sizes) != 1:
        raise UserError(f"{path}: its parts speak of different numbers of images {sorted(sizes)}; it is damaged.")
    return found
