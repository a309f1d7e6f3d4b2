"""A trained run on its own test images, or on other data: external validation."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import PrivateAttr

from conceptlens.core.documents import Document, TableRow
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.processes import Launched
from conceptlens.data.dataset import SPLITS
from conceptlens.data.loading.loader import PixelReader
from conceptlens.evaluation.images import as_trained, given_splits
from conceptlens.evaluation.summary import full_summary, metric_table, text_table
from conceptlens.recipes import DataConfig
from conceptlens.runs.predict import predict

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun


class Evaluation(Document):
    """What was measured of one split."""

    remedy = "Measure it again with `conceptlens evaluate RUN`."

    run: str
    data: str
    data_hash: str
    splits: dict[str, dict[str, Any]]  # one split: its metrics, as in `metrics.json`
    _other: bool = PrivateAttr(default=False)  # not the run's own data

    @property
    def split(self) -> str:
        return next(iter(self.splits))

    @property
    def metrics(self) -> dict[str, Any]:
        return self.splits[self.split]

    @property
    def default_file(self) -> Path:
        """Its place in the run folder."""
        mark = f"-{self.data_hash[:6]}" if self._other else ""  # other data may have the same name
        return Path("evaluation") / f"{self.data}-{self.split}{mark}.json"

    def text(self) -> str:
        return f"{self.run} on {self.data} ({self.split})\n{text_table(self.metrics)}"

    def table(self) -> list[TableRow]:
        return metric_table(self.metrics)


def evaluate_run(run: "OpenedRun", *, data: DataConfig | None = None, split: str | None = None) -> Evaluation:
    """Measure a finished run; nothing is written.

    Args:
        run: The run.
        data: Other data with the same classes (see `data.rename` for other names); the run's own if None.
        split: `train`, `val`, `test` or `all`; by default `test` of the run's own data, `all` of other data.
    """
    split = split or ("test" if data is None else "all")
    if split not in (*SPLITS, "all"):
        raise unknown_name("split", split, (*SPLITS, "all"))
    card, recipe = run.card, run.recipe
    config = recipe.data if data is None else as_trained(run, data)
    source = run.source if data is None else run.open_data(config)
    if source.classes != tuple(card.classes):
        missing = [name for name in source.classes if name not in card.classes]
        raise UserError(
            f"{config.source}: its classes {list(source.classes)} are not the run's {card.classes}"
            + (f"; rename or leave out {missing} with --data.rename.classes." if missing else ".")
        )
    if split == "all":
        indices = np.arange(len(source), dtype=np.int64)
    elif data is None:
        indices = run.splits[split]
    else:
        indices = given_splits(source)[split]
        if not len(indices):
            raise UserError(f"{config.source}: no image has the split {split!r}; use --split all.")
    processes = Launched(recipe.training.precision)
    reader = PixelReader(source, card.image_size, card.fit, config.cache_mb, workers=config.workers)
    pipeline = run.pipeline.to(processes.device)  # of several processes, each has a device of its own
    predictions = predict(
        pipeline, reader, indices, rank_images=recipe.metrics.rank_images, every_layer=True, processes=processes
    )
    metrics = full_summary(
        predictions,
        source,
        run.concepts,
        run.splits if data is None else None,
        recipe.metrics,
        thresholds=card.thresholds,
        priors=np.array(card.concept_priors),
    )
    evaluation = Evaluation(
        run=run.name, data=source.name, data_hash=source.examples.fingerprint, splits={split: metrics}
    )
    evaluation._other = data is not None
    return evaluation
