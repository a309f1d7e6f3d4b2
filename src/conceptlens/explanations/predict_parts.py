"""Predictions of any number of images: a Parquet file for each shard, resumed shard by shard, shared by an engine.

A folder with `predictions.json` (what they were made of), `part-00000.parquet`, … and `part-00000.json`, … (statistics
of each part), and at the end `summary.json`, their sum. Memory does not grow with the number of shards.
"""

import io
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from tqdm import tqdm

from conceptlens.core import manifest
from conceptlens.core.documents import ResultMixin
from conceptlens.core.engines import EngineName, Task, make_engine
from conceptlens.core.errors import DamagedError, UserError
from conceptlens.core.files import fingerprint, read_json, write_bytes, write_json
from conceptlens.data.dataset import DataSource
from conceptlens.data.sources.memory import HeldImages
from conceptlens.data.sources.shard_files import expand, is_pattern, is_remote
from conceptlens.data.sources.shards import open_unlabeled
from conceptlens.explanations.answer import Answerer
from conceptlens.explanations.predict import CAUTION
from conceptlens.explanations.subjects import find_images
from conceptlens.nn.heads.probabilities import class_probabilities, concept_probabilities_of
from conceptlens.runs.folder import is_only_begun
from conceptlens.runs.image_distribution import image_vectors
from conceptlens.runs.opened import OpenedRun
from conceptlens.stats.mergeable import Summary

BATCH = 64
FILES = 10_000  # plain image files of one part
SHARDS = (".tar", ".parquet")


@dataclass(frozen=True, repr=False)
class PredictedParts(ResultMixin):
    """What was predicted, and where it is."""

    path: Path
    parts: int
    new: int  # parts that this call made
    seconds: float
    summary: Summary
    failed: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"path": str(self.path), "parts": self.parts, "new": self.new, "summary": self.summary.to_dict()}

    def text(self) -> str:
        summary = self.summary
        classes = ", ".join(f"{name}: {count:,}" for name, count in sorted(summary.classes.items()))
        lines = [f"{self.path}: {summary.images:,} images in {self.parts:,} parts, {self.new:,} of them new", classes]
        if summary.errors:
            lines.append(f"{summary.errors:,} images could not be read; their column `error` says why")
        if summary.unlike:
            lines.append(f"{summary.unlike:,} images are unlike the training images")
        return "\n".join(lines)


def wants_parts(images: Sequence[str | Path], out: str | Path | None) -> bool:
    """Whether predictions are many: their place is a folder, or the images are in shards."""
    return (out is not None and not Path(out).suffix) or any(_is_sharded(str(name)) for name in images)


def _is_sharded(name: str) -> bool:
    return name.endswith(SHARDS) and (is_pattern(name) or Path(name).is_file())


def predict_parts(
    run: str | Path,
    images: Sequence[str | Path],
    out: str | Path | None,
    *,
    jobs: int = 1,
    engine: EngineName = "local",
    engine_option: Sequence[str] = (),
    quiet: bool = False,
) -> PredictedParts:
    """Predict shards or many files; a second call goes on where the first was stopped."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UserError("Predictions of shards need pyarrow: pip install 'conceptlens[parquet]'") from None
    if out is None or Path(out).suffix:
        raise UserError(f"--out {out}: expected a folder for the predictions of so many images, as `predictions`.")
    folder, units = Path(out), _units(images)
    opened = OpenedRun.open(run)
    about = {"run": opened.name, "weights": opened.card.weights_hash, "images": fingerprint(*map(repr, units))}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "predictions.json"
    if not file.exists() and not is_only_begun(folder):
        raise UserError(f"{folder}: this folder holds other files; choose an empty one with --out.")
    if file.exists() and any(read_json(file).get(key) != value for key, value in about.items()):
        raise UserError(f"{folder}: these predictions are of another model or other images; choose another folder.")
    manifest.begin(folder)
    write_json(file, about)
    place = str(Path(opened.path).absolute())
    todo = [number for number in range(len(units)) if not _is_done(folder, number)]
    tasks = [
        Task(f"part-{k:05d}", TASK, {"run": place, "unit": units[k], "out": str(folder.absolute()), "number": k})
        for k in todo
    ]
    started, failed, images_done = time.monotonic(), [], 0
    with tqdm(total=len(units), initial=len(units) - len(todo), unit=" parts", disable=quiet or None) as bar:

        def on_end(task: Task, code: int, log: str) -> None:
            nonlocal images_done
            if code:
                failed.append(f"{task.id}: not done (code {code}{f', see {log}' if log else ''}); call again to go on")
            else:
                images_done += read_json(folder / f"{task.id}.json")["images"]
            bar.set_postfix_str(f"{images_done / (time.monotonic() - started):,.0f} images/s")
            bar.update()

        if jobs == 1 and engine == "local":
            for task in tasks:
                on_end(task, task.run(), "")
        elif tasks:
            make_engine(engine, jobs, folder / "jobs", engine_option).run(tasks, on_end)
    summary = Summary()
    for number in range(len(units)):
        if _is_done(folder, number):
            summary = summary.merge(Summary.from_dict(read_json(folder / f"part-{number:05d}.json")))
    write_json(folder / "summary.json", summary.to_dict())
    new = len(todo) - len(failed)
    return PredictedParts(folder, len(units), new, time.monotonic() - started, summary, tuple(failed))


def _units(images: Sequence[str | Path]) -> list[str | list[str]]:
    """What makes up a part: a shard, or some files."""
    units: list[str | list[str]] = []
    for name in filter(_is_sharded, map(str, images)):
        units += [shard if is_remote(shard) else os.path.abspath(shard) for shard in expand(name)]
    plain = [name for name in images if not _is_sharded(str(name))]
    files = [os.path.abspath(path) for path in find_images(plain)] if plain else []
    return units + [files[start : start + FILES] for start in range(0, len(files), FILES)]


def _is_done(folder: Path, number: int) -> bool:
    """The statistics are written after the part. What was damaged since is predicted again."""
    files = [folder / f"part-{number:05d}{suffix}" for suffix in (".json", ".parquet")]
    try:
        for file in files:
            manifest.check(file)
    except DamagedError:
        return False
    return all(file.is_file() for file in files)


TASK = f"{__name__}:predict_part"


@lru_cache(maxsize=1)
def _opened(run: str) -> tuple[OpenedRun, Answerer]:
    opened = OpenedRun.open(run)
    return opened, Answerer.of(opened)


def predict_part(run: str, unit: str | list[str], out: str, number: int) -> int:
    """Predict one part; returns 0, or 1 if its shard cannot be read: that does not stop the others."""
    try:
        _predict_part(run, unit, out, number)
    except UserError as error:
        print(f"part-{number:05d}: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def _predict_part(run: str, unit: str | list[str], out: str, number: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    opened, answerer = _opened(run)
    window = opened.recipe.data.window
    source = open_unlabeled(unit, window) if isinstance(unit, str) else HeldImages(unit, window)
    names, errors, columns, unlike = _scores(opened, answerer, source)
    if isinstance(unit, str):  # shards may use the same names
        shard = PurePosixPath(unit).stem
        names, errors = [f"{shard}/{name}" for name in names], {f"{shard}/{k}": why for k, why in errors.items()}
    classes, vocabulary = opened.card.classes, answerer.concepts
    several = opened.card.task == "multilabel"
    shares, read = columns
    if several:
        above = shares >= np.array(opened.card.thresholds)
        words = [";".join(name for name, kept in zip(classes, row, strict=True) if kept) for row in above.tolist()]
    else:
        words = [classes[best] for best in shares.argmax(1).tolist()]
    held = [answerer.caution.prediction_set(classes, row) for row in shares]
    scores = {f"p({name})": shares[:, k] for k, name in enumerate(classes)}
    scores |= {concept.name: read[:, k] for k, concept in enumerate(vocabulary.concepts)}
    bad = len(errors)
    cautioned: list[bool | None] = [None] * len(names) if unlike is None else [*unlike]
    table = pa.table(
        {
            "image": [*names, *errors],
            "class": [*words, *[None] * bad],
            **{
                name: pa.concat_arrays([pa.array(values, pa.float32()), pa.nulls(bad, pa.float32())])
                for name, values in scores.items()
            },
            CAUTION[0]: pa.array([*cautioned, *[None] * bad], pa.bool_()),
            CAUTION[1]: pa.array(
                [*(None if row is None else ";".join(row) for row in held), *[None] * bad], pa.string()
            ),
            "error": pa.array([*[None] * len(names), *errors.values()], pa.string()),
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    write_bytes(Path(out) / f"part-{number:05d}.parquet", buffer.getbuffer())
    summary = Summary.of(names, words, scores, unlike, bad)
    write_json(Path(out) / f"part-{number:05d}.json", summary.to_dict())


def _scores(
    run: OpenedRun, answerer: Answerer, source: DataSource
) -> tuple[list[str], dict[str, str], tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]], list[bool] | None]:
    """Names of the images that can be read, errors of the others, probabilities of classes and concepts, cautions."""
    device = next(run.pipeline.parameters()).device
    names: list[str] = []
    errors: dict[str, str] = {}
    logits, concepts, vectors = [], [], []
    for batch, pixels, failed in _batches(source, run.card.image_size, run.card.fit, run.recipe.data.workers):
        errors |= failed
        names += batch
        if not batch:
            continue
        with torch.inference_mode():
            output = run.pipeline(pixels.to(device))
        logits.append(output.logits.float().cpu().numpy())
        concepts.append(output.concept_logits.float().cpu().numpy())
        if output.patches is not None:
            vectors.append(image_vectors(output.patches).cpu().numpy())
    if not names:
        empty = np.zeros((0, len(run.card.classes))), np.zeros((0, len(answerer.concepts.concepts)))
        return names, errors, empty, None
    shares = class_probabilities(np.concatenate(logits), run.card.task)
    read = concept_probabilities_of(np.concatenate(concepts), answerer.concepts)
    unlike = answerer.caution.unlike(np.concatenate(vectors)) if vectors else None
    return names, errors, (shares, read), unlike


def _batches(
    source: DataSource, size: int, fit: Any, workers: int
) -> Iterator[tuple[list[str], Tensor, dict[str, str]]]:
    """Names and pixels of the images that can be read, and errors of the others; read ahead of the one who waits."""

    def one(index: int) -> npt.NDArray[np.uint8] | str:
        try:
            return source.read_square(index, size, fit)
        except UserError as error:
            return str(error)

    def load(indices: Iterable[int]) -> tuple[list[str], Tensor, dict[str, str]]:
        images = [
            (source.examples.ids[index], image) for index, image in zip(indices, decode(one, indices), strict=True)
        ]
        read = [(name, image) for name, image in images if not isinstance(image, str)]
        errors = {name: image for name, image in images if isinstance(image, str)}
        stack = np.stack([image for _, image in read]) if read else np.zeros((0, 3, size, size), np.uint8)
        return [name for name, _ in read], torch.from_numpy(stack), errors

    pieces = [range(start, min(start + BATCH, len(source))) for start in range(0, len(source), BATCH)]
    with ThreadPoolExecutor(1) as background, ThreadPoolExecutor(max(workers, 1)) as threads:
        decode: Any = threads.map if workers > 1 else map
        waiting: deque[Future[tuple[list[str], Tensor, dict[str, str]]]] = deque()
        for piece in pieces:
            waiting.append(background.submit(load, piece))
            if len(waiting) > 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
