"""Which images of a run to look at: the surest right, the surest wrong, the least sure, or some of all."""

from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.processes import Processes
from conceptlens.data.dataset import SPLITS, DataSource, Task
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.splits.splits import Splits
from conceptlens.data.splits.spread import spread
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.runs.predict import predict
from conceptlens.runs.saved import Card

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

Indices = npt.NDArray[np.int64]
Show = Literal["right", "wrong", "uncertain", "all"]


class RunImages(Protocol):
    """The data and the splits of a run, opened when asked for."""

    @property
    def source(self) -> DataSource: ...
    @property
    def splits(self) -> Splits: ...


def choose_images(run: "OpenedRun", *, split: str, show: str, n: int) -> Indices:
    """Positions of at most n images of a split; all but `all` need predictions of the whole split."""
    if split in SPLITS and not len(run.splits[split]):
        run.refuse_cross_validated(split)
    return choose(run, run.pipeline, run.card, split=split, show=show, n=n)


def choose(images: RunImages, pipeline: Pipeline, card: Card, *, split: str, show: str, n: int) -> Indices:
    """The same with the model beside the data."""
    if split not in SPLITS:
        raise unknown_name("split", split, SPLITS)
    if show not in get_args(Show):
        raise unknown_name("choice of images", show, get_args(Show))
    if n < 1:
        raise UserError(f"--n: expected at least 1, found {n}.")
    indices = images.splits[split]
    if show == "all":
        chosen = spread(indices, n)
    else:
        processes = Processes(next(pipeline.parameters()).device)
        with PixelReader(images.source, card.image_size, card.fit, cache_mb=0) as reader:
            predictions = predict(pipeline, reader, indices, processes=processes)
        shares = class_probabilities(predictions.logits, card.task)
        labels = images.source.examples.labels[indices]
        chosen = indices[order(shares, labels, card.task, card.thresholds, show)[:n]]
    if not len(chosen):
        what = "image" if show in ("all", "uncertain") else f"labeled image that the model gets {show}"
        raise UserError(f"{split}: no {what} to explain. Choose another --split or --show.")
    return chosen


def order(
    shares: npt.NDArray[Any], labels: Indices, task: Task, thresholds: list[float], show: str
) -> npt.NDArray[np.int64]:
    """Rows to show, most telling first: surest right, surest wrong, or least sure.

    Args:
        shares: (N, C) class probabilities.
        labels: (N,), or (N, C) for a multi-label task; negative is unknown.
        task: The task.
        thresholds: (C,), for a multi-label task.
        show: `right`, `wrong` or `uncertain`.
    """
    known = labels >= 0
    if task == "multilabel":
        distance = np.abs(shares - np.asarray(thresholds))
        errors = known & ((shares >= np.asarray(thresholds)) != (labels == 1))
        wrong, labeled = errors.any(1), known.any(1)
        sure = np.where(wrong, np.where(errors, distance, 0).max(1), distance.min(1))
        margin = distance.min(1)
    else:
        wrong, labeled = shares.argmax(1) != labels, known
        ranked = np.sort(shares, axis=1)
        margin = sure = ranked[:, -1] - ranked[:, -2] if shares.shape[1] > 1 else ranked[:, -1]
    if show == "uncertain":
        return np.argsort(margin, kind="stable")
    rows = np.flatnonzero(labeled & (wrong if show == "wrong" else ~wrong))
    return rows[np.argsort(-sure[rows], kind="stable")]
