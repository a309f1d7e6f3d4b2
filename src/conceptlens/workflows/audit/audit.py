"""The audit of a run, and its files: `audit/` in the run folder."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.core.engines.workers import IN_PROCESS, Workers
from conceptlens.core.errors import DamagedError, UserError, unknown_name
from conceptlens.core.figures import png_bytes
from conceptlens.core.files import write_bytes, write_text
from conceptlens.core.processes import Processes
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.calibration.conformal import ALPHA
from conceptlens.evaluation.codebook.codebook import audit_codebook
from conceptlens.evaluation.codebook.collect import Collected
from conceptlens.evaluation.codebook.document import Audit
from conceptlens.evaluation.codebook.pictures import codes_figure, groups_figure, index_sheet, patch_sheet
from conceptlens.evaluation.codebook.stream import open_stream
from conceptlens.evaluation.concepts.findings import concept_findings
from conceptlens.evaluation.interventions.order import mean_influence
from conceptlens.evaluation.ood.codebook_distance import RATE
from conceptlens.evaluation.subgroups.failures import measure_failures
from conceptlens.evaluation.subgroups.outcomes import ACCURACY
from conceptlens.explanations.pictures.sheet import png
from conceptlens.methods.contract import Pipeline
from conceptlens.runs.image_distribution import TRAINING as MOST
from conceptlens.runs.image_distribution import ImageDistribution
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.predict import Predictions, predict
from conceptlens.runs.predictions import ARRAYS, StoredPredictions, save_predictions, to_stored
from conceptlens.runs.predictions import FOLDER as PREDICTIONS
from conceptlens.runs.readout import read_out
from conceptlens.stats.folds import assign_folds
from conceptlens.workflows.audit.collect import Sides, collect
from conceptlens.workflows.audit.measured import read_trust
from conceptlens.workflows.audit.page import audit_page
from conceptlens.workflows.audit.sentences import findings

FOLDER = "audit"
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Split = Literal["test", "val"]


def audit_run(
    run: OpenedRun,
    *,
    split: str | None = None,
    by: Sequence[str] | None = None,
    alpha: float = ALPHA,
    false_alarm_rate: float = RATE,
    resamples: int = 1000,
    workers: Workers = IN_PROCESS,
    note: Callable[[str], object] = lambda text: None,
) -> Audit:
    """Audit a finished run; nothing is written.

    Args:
        run: The run.
        split: `test` or `val`; the one that the run's numbers speak of by default.
        by: Columns of metadata that make subgroups, as `sex` or `age=40,60`; all by default.
        alpha: Share of images whose prediction set may miss the truth.
        false_alarm_rate: Share of in-distribution images that may be flagged as out of distribution.
        resamples: Of the intervals.
        workers: Which processes read the images; the result is the same.
        note: Called with progress messages.
    """
    started = time.perf_counter()
    if not 0 < false_alarm_rate < 1:
        raise UserError(
            f"--false-alarm-rate: expected a share between 0 and 1, such as 0.05, found {false_alarm_rate:g}."
        )
    pipeline, concepts = run.pipeline, run.concepts
    chosen = split or run.reported_images()[0]
    if chosen not in ("test", "val"):
        raise unknown_name("split to audit", chosen, ("test", "val"))
    with ExitStack() as stack:
        stream = open_stream(run, stack)
        sides = _sides(run, chosen, note)
        found, ood = collect(stream, run, sides, chosen, false_alarm_rate, resamples, workers, note)
    note("subgroups")
    metadata = {name: [words[row] for row in sides.rows] for name, words in run.source.examples.metadata.items()}
    failures = measure_failures(
        sides.judged,
        sides.calibration,
        concepts,
        metadata,
        run=run.name,
        split=chosen,
        by=by,
        alpha=alpha,
        ood=ood,
        resamples=resamples,
        note=note,
    )
    if sides.note:
        failures.notes.append(sides.note)
    note("codes and concepts")
    audited = concept_findings(
        sides.judged,
        concepts,
        influence=_influence(pipeline, sides.judged, concepts),
        slot_mass=found.slot_mass(pipeline),
    )
    codebook = audit_codebook(found, pipeline, concepts, run.source, audited, resamples=resamples)
    audit = Audit(
        run=run.name,
        method=str(run.info["method"]),
        regularizer=str(run.info.get("regularizer")),
        data=str(run.info["data"]["name"]),
        split=chosen,
        images=len(found.indices),
        tokens=stream.where,
        seconds=0.0,
        codebook=codebook,
        no_codebook=None if codebook else _why_none(run),
        concepts=audited,
        failures=failures,
        trust=read_trust(run.path),
        findings=[],
        pictures={},
    )
    audit.findings = findings(codebook, audit.no_codebook, audited, failures, audit.trust)
    note("pictures")
    audit._drawn = _pictures(audit, found, run)
    audit.pictures = {name: f"{name}.png" for name in audit.drawn}
    audit.seconds = round(time.perf_counter() - started, 1)
    return audit


def save_audit(audit: Audit, folder: Path, *, failures: Path | None = None) -> None:
    """Write `audit.json`, its pictures and its page.

    Args:
        audit: What `audit_run` returned.
        folder: For the files.
        failures: File for the subgroup results alone; `failures.json` in the folder by default.
    """
    for name, picture in audit.drawn.items():
        write_bytes(folder / audit.pictures[name], picture)
    audit.failures.write(failures or folder / "failures.json")
    audit.write(folder / "audit.json")
    write_text(folder / "audit.html", audit_page(audit, audit.drawn))
    audit._files = (folder / "audit.json", folder / "audit.html")


def _why_none(run: OpenedRun) -> str:
    return (
        f"This run has no codebook (regularizer {run.info.get('regularizer')}), so there are no codes to audit. "
        "Its concepts are audited, and images are compared with centers of training patches."
    )


def _sides(run: OpenedRun, split: str, note: Callable[[str], object]) -> Sides:
    """What is judged and what it is calibrated on. Without a test split, validation images are halved, patients "
    "kept together."""
    place = {name: index for index, name in enumerate(run.source.examples.ids)}

    def rows(stored: StoredPredictions) -> Indices:
        return np.array([place[name] for name in stored.ids], dtype=np.int64)

    validation = _stored(run, "val", note)
    if split == "test":
        test = _stored(run, "test", note)
        return Sides(test, rows(test), validation, rows(validation))
    half = assign_folds(validation.units, 2)
    parts = [_some(validation, np.flatnonzero(half == side)) for side in (0, 1)]
    halved = (
        "There is no test split: one half of the validation images is used for calibration, the other half is judged."
    )
    return Sides(parts[1], rows(parts[1]), parts[0], rows(parts[0]), halved)


def _some(stored: StoredPredictions, rows: Indices) -> StoredPredictions:
    arrays: dict[str, Any] = {name: getattr(stored, name) for name in ARRAYS}
    kept: dict[str, Any] = {name: values if values is None else values[rows] for name, values in arrays.items()}
    return replace(
        stored, ids=tuple(stored.ids[row] for row in rows), units=tuple(stored.units[row] for row in rows), **kept
    )


def _stored(run: OpenedRun, split: str, note: Callable[[str], object]) -> StoredPredictions:
    """Predictions that the run keeps; a run of an older version kept none of validation, and they are made now."""
    if (run.path / PREDICTIONS / f"{split}.safetensors").exists():
        return run.predictions(split)
    return to_stored(_predict(run, split, note), run.source, run.card.thresholds)


def keep_predictions(run: OpenedRun, splits: Sequence[str], note: Callable[[str], object] = lambda text: None) -> None:
    """Write into the run folder the predictions that an older version did not keep."""
    for split in splits:
        if not (run.path / PREDICTIONS / f"{split}.safetensors").exists():
            save_predictions(run.path, split, _predict(run, split, note), run.source, run.card.thresholds)


def keep_caution(run: OpenedRun, note: Callable[[str], object] = lambda text: None) -> None:
    """Write what warns of answers into a run folder of an older version, as far as its data is there."""
    try:
        keep_predictions(run, ["val"], note)
        if ImageDistribution.read(run.path, run.card.weights_hash) is None:
            note("training images: what new images are compared with")
            sides = spread(run.splits["train"], MOST), run.splits["val"]
            training, validation = (_predict_rows(run, rows).vectors for rows in sides)
            ImageDistribution.keep(training, validation, run.path, run.card.weights_hash)
    except (UserError, OSError) as error:
        note(f"what warns of new images cannot be made: {error}")


def _predict(run: OpenedRun, split: str, note: Callable[[str], object]) -> Predictions:
    note(f"predicting {split} images, of which this run keeps no predictions")
    return _predict_rows(run, run.splits[split])


def _predict_rows(run: OpenedRun, rows: Indices) -> Predictions:
    card, encoder = run.card, run.pipeline.encoder
    cut, encoder.cut = encoder.cut, None
    with PixelReader(run.source, card.image_size, card.fit, cache_mb=0) as reader:
        predictions = predict(run.pipeline, reader, rows, processes=Processes(run.device))
    encoder.cut = cut
    return predictions


def _influence(pipeline: Pipeline, stored: StoredPredictions, concepts: ConceptSet) -> Floats | None:
    """How much each concept (K,) moves the class; None where it cannot be measured."""
    try:
        return mean_influence(read_out(pipeline.model, stored, concepts))
    except DamagedError:
        raise
    except UserError:
        return None


def _pictures(audit: Audit, found: Collected, run: OpenedRun) -> dict[str, bytes]:
    drawn: dict[str, bytes] = {}
    codebook, fit = audit.codebook, run.card.fit
    if codebook is not None:
        drawn["prototypes"] = png(patch_sheet(codebook, run.source, fit, found.grid))
        drawn["codes"] = png_bytes(codes_figure(codebook))
        if found.maps:
            drawn["index-maps"] = png(index_sheet(codebook, found.maps, run.source, fit, found.grid))
    groups = groups_figure(audit.failures.groups, ACCURACY)
    if groups is not None:
        drawn["groups"] = png_bytes(groups)
    return drawn
