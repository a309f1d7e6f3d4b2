"""`conceptlens audit`: from a run folder to `audit/` in it."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import write_bytes, write_text
from conceptlens.core.processes import Processes
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.calibration.conformal import ALPHA
from conceptlens.evaluation.codebook.codebook import audit_codebook
from conceptlens.evaluation.codebook.document import Audit, Codebook
from conceptlens.evaluation.codebook.passes import Judgement, Pass, run_pass
from conceptlens.evaluation.codebook.pictures import codes_figure, groups_figure, index_sheet, patch_sheet
from conceptlens.evaluation.codebook.stream import TokenStream, open_stream
from conceptlens.evaluation.concepts.findings import concept_findings
from conceptlens.evaluation.interventions.order import influence
from conceptlens.evaluation.interventions.units import make_units
from conceptlens.evaluation.ood.codebook_distance import RATE, Unlike, familiar, judge_unlike
from conceptlens.evaluation.subgroups.failures import measure_failures
from conceptlens.evaluation.subgroups.outcomes import ACCURACY
from conceptlens.explanations.pictures.sheet import png
from conceptlens.methods.contract import Pipeline
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.folder import RunFolder, check_writable
from conceptlens.runs.images import OwnImages
from conceptlens.runs.predict import predict
from conceptlens.runs.predictions import FOLDER as PREDICTIONS
from conceptlens.runs.predictions import StoredPredictions, load_predictions, save_predictions
from conceptlens.runs.readout import read_out
from conceptlens.runs.saved import Card, load_pipeline
from conceptlens.stats.folds import deal
from conceptlens.workflows.audit.measured import read_trust
from conceptlens.workflows.audit.page import audit_page
from conceptlens.workflows.audit.sentences import findings

FOLDER = "audit"
TRAINING = 256  # images that say what is usual
MAPS = 9  # images with index maps
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Split = Literal["test", "val"]


@dataclass(frozen=True)
class Audited:
    """What was found, and where it is written."""

    found: Audit
    folder: Path

    def text(self) -> str:
        return f"{self.found.text()}\nwritten to {self.folder / 'audit.json'}, drawn in {self.folder / 'audit.html'}"


@dataclass(frozen=True)
class _Sides:
    """Predictions to judge and predictions to calibrate on, with their positions in the data."""

    judged: StoredPredictions
    rows: Indices
    calibration: StoredPredictions
    calibration_rows: Indices
    note: str | None = None


def audit_run(
    path: str | Path,
    *,
    split: str | None = None,
    by: Sequence[str] | None = None,
    alpha: float = ALPHA,
    false_alarms: float = RATE,
    resamples: int = 1000,
    out: str | Path | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> Audited:
    """Audit a finished run.

    Args:
        path: The run folder.
        split: `test` or `val`; the one that the run's numbers speak of by default.
        by: Columns of metadata to look for failures by, as `sex` or `age=40,60`; all by default.
        alpha: Share of images whose prediction set may miss the truth.
        false_alarms: Share of usual images that may be called strange.
        resamples: Of the intervals.
        out: Folder for the files; `audit/` in the run folder by default.
        note: Says something to the person who waits.
    """
    started = time.perf_counter()
    run = RunFolder.open(path)
    if run.info["status"] != "done":
        raise UserError(f"{run.path}: this run is not done ({run.info['status']}). Finish it with {run.how_to_go_on}.")
    if not 0 < false_alarms < 1:
        raise UserError(f"--false-alarms: expected a share between 0 and 1, such as 0.05, found {false_alarms:g}.")
    folder = Path(out) if out else run.path / FOLDER
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: expected a folder, found a file. Choose another one with --out.")
    pipeline, card, concepts = load_pipeline(run.path)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    pipeline.to(device).eval()
    own = OwnImages(run, concepts)
    chosen = split or own.shown()[0]
    if chosen not in ("test", "val"):
        raise unknown_name("split to audit", chosen, ("test", "val"))
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder)
    recipe = load_recipe(run.path / "recipe.yaml")
    with ExitStack() as stack:
        stream = open_stream(run, recipe, pipeline, card, own, stack)
        sides = _sides(run, pipeline, card, own, chosen, note)
        found, unlike = _look(stream, own, concepts, sides, chosen, false_alarms, resamples, note)
    pipeline.encoder.cut = None
    note("who it fails")
    metadata = {name: [words[row] for row in sides.rows] for name, words in own.source.examples.metadata.items()}
    failures = measure_failures(
        sides.judged,
        sides.calibration,
        concepts,
        metadata,
        run=run.path.name,
        split=chosen,
        by=by,
        alpha=alpha,
        unlike=unlike,
        resamples=resamples,
        note=note,
    )
    if sides.note:
        failures.notes.append(sides.note)
    note("prototypes and concepts")
    audited = concept_findings(
        sides.judged,
        concepts,
        influence=_influence(pipeline, sides.judged, concepts),
        slot_mass=found.slot_mass(pipeline),
    )
    codebook = audit_codebook(found, pipeline, concepts, own.source, audited, resamples=resamples)
    made = Audit(
        run=run.path.name,
        method=str(run.info["method"]),
        regulariser=str(run.info.get("regulariser")),
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
    made.findings = findings(codebook, made.no_codebook, audited, failures, made.trust)
    note("pictures and page")
    pictures = _pictures(made, found, own, card)
    for name, picture in pictures.items():
        made.pictures[name] = f"{name}.png"
        write_bytes(folder / f"{name}.png", picture)
    made.seconds = round(time.perf_counter() - started, 1)
    made.write(folder / "audit.json")
    failures.write(run.path / "trust" / "failures.json" if out is None else folder / "failures.json")
    write_text(folder / "audit.html", audit_page(made, pictures))
    return Audited(made, folder)


def _why_none(run: RunFolder) -> str:
    return (
        f"This run has no codebook (regulariser {run.info.get('regulariser')}), so there are no prototypes to audit; "
        "its concepts are, and images are compared with centres of training patches."
    )


def _look(
    stream: TokenStream,
    own: OwnImages,
    concepts: ConceptSet,
    sides: _Sides,
    split: str,
    rate: float,
    resamples: int,
    note: Callable[[str], object],
) -> tuple[Pass, Unlike]:
    """The passes: some training images, the calibration images, the judged ones."""
    codebook = getattr(stream.pipeline.regulariser, "codebook", None)
    note("training images: what is usual")
    training = spread(own.splits["train"], TRAINING)
    usual = familiar(lambda: (tokens.patches for _, tokens in stream.tokens(training)), codebook, len(concepts))
    usual = usual.to(stream.device)
    if split == "test":
        note(f"{len(sides.calibration_rows)} validation images")
        strange = [usual.scores(tokens.patches).double().cpu() for _, tokens in stream.tokens(sides.calibration_rows)]
        before: Floats = torch.cat(strange).numpy() if strange else np.zeros((0, 3))
    indices = own.splits[split]
    note(f"{len(indices)} {split} images")
    judgement = Judgement(usual, own.source, split, spread(indices, MAPS))
    found = run_pass(stream, indices, codebook, judgement)
    place = {int(index): row for row, index in enumerate(found.indices)}
    scores = found.strangeness[[place[int(index)] for index in sides.rows]]
    if split == "val":
        before = found.strangeness[[place[int(index)] for index in sides.calibration_rows]]
    unlike = judge_unlike(usual, before, scores, sides.judged.ids, sides.judged.units, rate=rate, resamples=resamples)
    return found, unlike


def _sides(
    run: RunFolder, pipeline: Pipeline, card: Card, own: OwnImages, split: str, note: Callable[[str], object]
) -> _Sides:
    """What is judged and what it is calibrated on. Validation images alone are halved, patients kept together."""
    place = {name: index for index, name in enumerate(own.source.examples.ids)}

    def rows(stored: StoredPredictions) -> Indices:
        return np.array([place[name] for name in stored.ids], dtype=np.int64)

    validation = _stored(run, pipeline, card, own, "val", note)
    if split == "test":
        test = _stored(run, pipeline, card, own, "test", note)
        return _Sides(test, rows(test), validation, rows(validation))
    half = deal(validation.units, 2)
    parts = [_some(validation, np.flatnonzero(half == side)) for side in (0, 1)]
    told = "There is no test: half of the validation images calibrate, the other half is judged."
    return _Sides(parts[1], rows(parts[1]), parts[0], rows(parts[0]), told)


def _some(stored: StoredPredictions, rows: Indices) -> StoredPredictions:
    return replace(
        stored,
        ids=tuple(stored.ids[row] for row in rows),
        units=tuple(stored.units[row] for row in rows),
        logits=stored.logits[rows],
        concept_logits=stored.concept_logits[rows],
        labels=stored.labels[rows],
        concepts=stored.concepts[rows],
        bottleneck=None if stored.bottleneck is None else stored.bottleneck[rows],
        context=None if stored.context is None else stored.context[rows],
    )


def _stored(
    run: RunFolder, pipeline: Pipeline, card: Card, own: OwnImages, split: str, note: Callable[[str], object]
) -> StoredPredictions:
    """Predictions that the run keeps; a run of an older version kept none of validation, and they are made now."""
    if not (run.path / PREDICTIONS / f"{split}.safetensors").exists():
        note(f"predicting {split} images, of which this run keeps no predictions")
        cut, pipeline.encoder.cut = pipeline.encoder.cut, None
        with PixelReader(own.source, card.image_size, card.fit, cache_mb=0) as reader:
            made = predict(pipeline, reader, own.splits[split], processes=Processes(next(pipeline.parameters()).device))
        pipeline.encoder.cut = cut
        save_predictions(run.path, split, made, own.source, card.thresholds)
    return load_predictions(run.path, split)


def _influence(pipeline: Pipeline, stored: StoredPredictions, concepts: ConceptSet) -> Floats | None:
    """How much each concept (K,) moves the class; None where it cannot be asked."""
    try:
        readout = read_out(pipeline.model, stored, concepts)
    except UserError:
        return None
    return np.asarray(influence(readout, make_units(concepts, "concepts"), readout.bottleneck).mean(0))


def _pictures(made: Audit, found: Pass, own: OwnImages, card: Card) -> dict[str, bytes]:
    drawn: dict[str, bytes] = {}
    codebook: Codebook | None = made.codebook
    if codebook is not None:
        drawn["prototypes"] = png(patch_sheet(codebook, own.source, card.fit, found.grid))
        drawn["codes"] = codes_figure(codebook)
        if found.maps:
            drawn["index-maps"] = png(index_sheet(codebook, found.maps, own.source, card.fit, found.grid))
    groups = groups_figure(made.failures.groups, ACCURACY)
    if groups is not None:
        drawn["groups"] = groups
    return drawn
