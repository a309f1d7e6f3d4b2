"""A trained run on its own test images, or on other data: external validation."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import read_json, write_json
from conceptlens.core.processes import Launched
from conceptlens.data.dataset import SPLITS
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import open_source
from conceptlens.data.splits.splits import Splits
from conceptlens.evaluation.summary import full_summary, text_table
from conceptlens.recipes import DataConfig
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.predict import predict
from conceptlens.runs.saved import load_pipeline


@dataclass(frozen=True)
class Evaluation:
    """What was measured, and where it is written."""

    run: str
    data: str
    split: str
    metrics: dict[str, Any]
    path: Path

    def text(self) -> str:
        return f"{self.run} on {self.data} ({self.split})\n{text_table(self.metrics)}\nwritten to {self.path}"


def evaluate_run(
    path: str | Path, *, data: DataConfig | None = None, split: str | None = None, out: str | Path | None = None
) -> Evaluation:
    """Measure a finished run.

    Args:
        path: The run folder.
        data: Other data with the same classes (see `data.rename` for other names); the run's own if None.
        split: `train`, `val`, `test` or `all`; by default `test` of the run's own data, `all` of other data.
        out: File for the result; `evaluation/<data>-<split>.json` in the run folder by default.
    """
    run = RunFolder.open(path)
    if run.info["status"] != "done":
        raise UserError(f"{run.path}: this run is not done ({run.info['status']}). Finish it with {run.how_to_go_on}.")
    split = split or ("test" if data is None else "all")
    if split not in (*SPLITS, "all"):
        raise unknown_name("split", split, (*SPLITS, "all"))
    pipeline, card, concepts = load_pipeline(run.path)
    recipe = load_recipe(run.path / "recipe.yaml")
    config = recipe.data
    if data is not None:
        config = replace(data, classes=list(card.classes), task=card.task, fit=card.fit, window=card.window)
    source, _ = open_source(config, concepts)
    if source.classes != tuple(card.classes):
        missing = [name for name in source.classes if name not in card.classes]
        raise UserError(
            f"{config.source}: its classes {list(source.classes)} are not the run's {card.classes}"
            + (f"; rename or leave out {missing} with --data.rename.classes." if missing else ".")
        )
    if data is None and source.examples.fingerprint != run.info["data"]["hash"]:
        raise UserError(
            f"{config.source}: names or labels changed since this run was trained, so its own test images are not what "
            f"they were. Bring the same data back, or evaluate it as other data: --data {config.source}."
        )
    if data is None:
        splits: Splits | None = Splits.from_json(
            read_json(run.path / "splits.json"), source.examples.ids, where=str(run.path / "splits.json")
        )
    else:
        splits = None
    if split == "all":
        indices = np.arange(len(source), dtype=np.int64)
    elif splits is not None:
        indices = getattr(splits, split)
    else:
        given = source.examples.split
        indices = np.array([i for i, name in enumerate(given or ()) if name == split], dtype=np.int64)
        if not len(indices):
            raise UserError(f"{config.source}: no image has the split {split!r}; use --split all.")
    processes = Launched(recipe.training.precision)
    reader = PixelReader(source, card.image_size, card.fit, config.cache_mb, workers=config.workers)
    predictions = predict(
        pipeline.to(processes.device), reader, indices, rank_images=recipe.metrics.rank_images, processes=processes
    )
    metrics = full_summary(
        predictions,
        source,
        concepts,
        splits,
        recipe.metrics,
        thresholds=card.thresholds,
        priors=np.array(card.concept_priors),
    )
    mark = "" if data is None else f"-{source.examples.fingerprint[:6]}"  # other data may have the same name
    file = Path(out) if out else run.path / "evaluation" / f"{source.name}-{split}{mark}.json"
    if processes.main:
        write_json(
            file,
            {
                "run": run.path.name,
                "data": source.name,
                "data_hash": source.examples.fingerprint,
                "splits": {split: metrics},
            },
        )
    return Evaluation(run.path.name, source.name, split, metrics, file)
