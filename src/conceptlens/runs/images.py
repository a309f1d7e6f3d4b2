"""Images of the run's own data: opened when asked for, and only if they are still those of the run."""

from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import read_json
from conceptlens.core.processes import Processes
from conceptlens.data.dataset import SPLITS, DataSource, Task
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import open_source
from conceptlens.data.splits.splits import Splits
from conceptlens.data.splits.spread import spread
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.predict import predict
from conceptlens.runs.saved import Card

Indices = npt.NDArray[np.int64]
Show = Literal["right", "wrong", "uncertain", "all"]


class OwnImages:
    """The data and the splits of a run."""

    def __init__(self, run: RunFolder, concepts: ConceptSet) -> None:
        self.run, self.concepts = run, concepts

    @cached_property
    def source(self) -> DataSource:
        source, _ = open_source(load_recipe(self.run.path / "recipe.yaml").data, self.concepts)
        if source.examples.fingerprint != self.run.info["data"]["hash"]:
            raise UserError(
                f"{source.name}: names or labels changed since this run was trained. Bring the same data back, or name "
                "image files instead."
            )
        return source

    @cached_property
    def splits(self) -> Splits:
        where = self.run.path / "splits.json"
        return Splits.from_json(read_json(where), self.source.examples.ids, where=str(where))

    def shown(self) -> tuple[str, Indices]:
        """The split that the run's numbers speak of: the test, or validation where no test image has a class."""
        where = self.run.path / "metrics.json"
        try:
            split = "test" if read_json(where)["splits"].get("test", {}).get("class", {}).get("n") else "val"
        except (KeyError, TypeError, AttributeError):
            raise UserError(f"{where}: expected what training writes. Copy the run folder again.") from None
        indices = self.splits[split]
        if not len(indices):
            raise UserError(f"{self.run.path / 'splits.json'}: no image in {split}.")
        return split, indices

    def choose(self, pipeline: Pipeline, card: Card, *, split: str, show: str, n: int) -> Indices:
        """At most n images of a split; all but `all` need predictions of the whole split."""
        if split not in SPLITS:
            raise unknown_name("split", split, SPLITS)
        if show not in get_args(Show):
            raise unknown_name("choice of images", show, get_args(Show))
        if n < 1:
            raise UserError(f"--n: expected at least 1, found {n}.")
        indices = self.splits[split]
        if show == "all":
            chosen = spread(indices, n)
        else:
            device = next(pipeline.parameters()).device
            with PixelReader(self.source, card.image_size, card.fit, cache_mb=0) as reader:
                found = predict(pipeline, reader, indices, processes=Processes(device))
            shares = class_probabilities(found.logits, card.task)
            labels = self.source.examples.labels[indices]
            chosen = indices[order(shares, labels, card.task, card.thresholds, show)[:n]]
        if not len(chosen):
            what = "image" if show in ("all", "uncertain") else f"labelled image that the model gets {show}"
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
        wrong, labelled = errors.any(1), known.any(1)
        sure = np.where(wrong, np.where(errors, distance, 0).max(1), distance.min(1))
        margin = distance.min(1)
    else:
        wrong, labelled = shares.argmax(1) != labels, known
        ranked = np.sort(shares, axis=1)
        margin = sure = ranked[:, -1] - ranked[:, -2] if shares.shape[1] > 1 else ranked[:, -1]
    if show == "uncertain":
        return np.argsort(margin, kind="stable")
    rows = np.flatnonzero(labelled & (wrong if show == "wrong" else ~wrong))
    return rows[np.argsort(-sure[rows], kind="stable")]
