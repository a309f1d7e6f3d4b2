"""A run from start to finish: data, pipeline, training, the one look at the test images, the files."""

import contextlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json
from conceptlens.core.network import offline
from conceptlens.core.plugins import code_records
from conceptlens.core.processes import Launched
from conceptlens.core.registry import METHODS
from conceptlens.data.checks.learnable import check_learnable, constant_findings
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import BUILTIN, open_source
from conceptlens.data.splits.splits import Splits, make_splits
from conceptlens.data.splits.spread import spread
from conceptlens.encoders.freezing import weights_hash
from conceptlens.encoders.store.encode import check_storable
from conceptlens.evaluation.black_box import black_box_reference
from conceptlens.evaluation.concepts.groups import concept_counts, concept_priors
from conceptlens.evaluation.summary import full_summary, thresholds_from
from conceptlens.methods.build import Blueprint, build_pipeline
from conceptlens.methods.contract import Pipeline
from conceptlens.recipes import Recipe
from conceptlens.recipes.parse import load_recipe, recipe_code, recipe_tree, recipe_yaml, retired
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.folds import FOLDS
from conceptlens.runs.image_distribution import TRAINING, ImageDistribution, Vectors
from conceptlens.runs.predict import Predictions, predict
from conceptlens.runs.predictions import save_predictions
from conceptlens.runs.saved import Card, load_card, save_model
from conceptlens.training.batches.own_transform import OwnTransform, Transform
from conceptlens.training.batches.stored import stored_tokens
from conceptlens.training.encoder_choice import with_encoder
from conceptlens.training.epochs import with_epochs
from conceptlens.training.folds import for_final_model, keep_asked, pooled_result, train_folds
from conceptlens.training.loop import Session, check_stages, fit, stages_of
from conceptlens.training.optimization.losses import class_weights
from conceptlens.training.paths import with_absolute_paths
from conceptlens.training.records import tensorboard
from conceptlens.training.records.callbacks import Callback, Callbacks
from conceptlens.training.records.checkpoint import StateFolder
from conceptlens.training.records.progress import Progress
from conceptlens.training.records.warnings import chance_warnings, mirror_warnings, training_warnings
from conceptlens.training.session import Shared


def open_session(
    recipe: Recipe,
    run: RunFolder | None,
    processes: Launched,
    progress: Progress,
    data: Any = None,
    shared: Shared | None = None,
) -> Session:
    """Data, splits and a fresh pipeline; a resumed run brings its own concepts and splits.

    Args:
        recipe: What to train.
        run: The run to go on with; None for a new one.
        processes: Who takes part.
        progress: Says how far it is.
        data: Data in memory, in the place of what the recipe names (see `data.sources.memory`).
        shared: What the folds of a cross-validation share; a recipe with folds begins it.
    """
    if shared is None and recipe.data.folds and recipe.data.limit is None:  # a limit leaves each fold other images
        shared = Shared((run.path if run else Path(recipe.out)) / "tokens")
    if recipe.training.tensorboard:
        tensorboard.summary_writer()  # refuses before the work where it is not installed
    torch.set_num_threads(recipe.training.threads or torch.get_num_threads())
    if processes.device.type == "cpu":
        # Sums over indexed rows are added in any order by several threads otherwise, and a resumed run would drift.
        torch.use_deterministic_algorithms(True, warn_only=True)
    concepts = (
        ConceptSet.load(run.path / "concepts.yaml")
        if run
        else ConceptSet.load(recipe.concepts)
        if recipe.concepts
        else None
    )
    if concepts is None and not METHODS.get(str(recipe.method["name"])).reads_concepts and data is None:
        concepts = None if recipe.data.source in BUILTIN else ConceptSet.none()  # built-in data brings its own
    source, concepts = open_source(recipe.data, concepts, data=data)
    if run is not None:
        known = run.info["data"]["hash"]
        if source.examples.fingerprint != known:
            raise UserError(
                f"{recipe.data.source}: the data changed since this run began (names or labels; {known} then, "
                f"{source.examples.fingerprint} now). Restore them, or train again."
            )
        splits = Splits.from_json(
            read_json(run.path / "splits.json"), source.examples.ids, where=str(run.path / "splits.json")
        )
    else:
        recipe, examples = for_final_model(recipe, source.examples)
        splits = make_splits(examples, recipe.data.split, source.task, classes=source.classes, limit=recipe.data.limit)
    recipe = with_encoder(recipe, source, splits, progress.note, shared.vectors if shared else None)
    recipe = with_epochs(recipe, len(splits.train))
    pointer = retired(str(recipe.method["name"]))
    mirrored = [] if recipe.encoder.store else mirror_warnings(concepts, recipe.training.augment)
    for warning in [*splits.warnings, *([pointer] if pointer else []), *mirrored]:
        progress.note(f"warning: {warning}")
    loss = recipe.training.loss
    check_learnable(source, splits, concepts, class_loss=loss.class_weight > 0, concept_loss=loss.concept_weight > 0)
    for finding in constant_findings(source, splits, concepts) if loss.concept_weight > 0 else ():
        progress.note(f"warning: {finding.message}")
    class_weights(loss, source.examples.labels[splits.train], len(source.classes), source.task)  # refuses a wrong count
    torch.manual_seed(recipe.seed)
    blueprint = Blueprint(recipe, concepts, source.classes)
    pipeline = build_pipeline(blueprint)
    check_stages(stages_of(recipe), pipeline)
    size = recipe.encoder.image_size or pipeline.encoder.image_size
    if recipe.encoder.store and run is None:
        check_storable(pipeline.encoder, recipe.encoder, size)
    reader = PixelReader(source, size, recipe.data.fit, recipe.data.cache_mb, workers=recipe.data.workers)
    return Session(
        blueprint,
        pipeline,
        source,
        splits,
        reader,
        run or RunFolder(Path(recipe.out)),
        processes,
        progress,
        data=data,
        shared=shared,
    )


Report = Callable[[RunFolder, Pipeline, PixelReader, ConceptSet, dict[str, Predictions]], object]


@dataclass(frozen=True)
class Own:
    """What a user adds to a training in Python.

    Attributes:
        callbacks: Told as it goes on.
        transform: Changes training images, in the place of `training.augment`.
    """

    callbacks: Sequence[Callback] = ()
    transform: Transform | None = None

    def join(self, session: Session, began_with: str | None = None) -> Session:
        """The session with them; a run that began with a transform needs one to go on."""
        session.callbacks = Callbacks(self.callbacks)
        if self.transform is not None:
            if session.recipe.encoder.store:
                raise UserError(
                    "transform: stored tokens (encoder.store) are those of unchanged images. Leave one out."
                )
            session.transform = OwnTransform(self.transform, session.recipe.seed)
        elif began_with:
            raise UserError(
                f"{session.run.path}: this run was trained with an own transform ({began_with}); pass it to resume: "
                "conceptlens.resume(run, transform=…)."
            )
        return session


def start_run(
    recipe: Recipe,
    report: Report,
    *,
    data: Any = None,
    overwrite: bool = False,
    quiet: bool = False,
    own: Own | None = None,
    shared: Shared | None = None,
) -> RunFolder:
    """Train a recipe into a new run folder; `report` draws the page when everything is measured."""
    processes = Launched(recipe.training.precision)
    if recipe.data.folds and processes.count > 1:
        raise UserError("data.folds: cross-validation trains in one process; data.split.fold trains one fold in many.")
    progress = Progress(quiet=quiet or not processes.main)
    session = (own or Own()).join(open_session(recipe, None, processes, progress, data, shared))

    def describe(run: RunFolder) -> None:
        keep_asked(recipe, run.path)
        _describe(session, run)

    with contextlib.ExitStack() as held:
        created = RunFolder.create(recipe.out, overwrite=overwrite)
        processes.first(lambda: describe(held.enter_context(created)))
        return _finish(session, report)


def _describe(session: Session, run: RunFolder) -> None:
    """What makes the run again; `run.json` comes last and makes the folder a run."""
    recipe, processes = session.recipe, session.processes
    run.write("recipe.yaml", recipe_yaml(with_absolute_paths(recipe)))
    run.write("concepts.yaml", session.blueprint.concepts.to_yaml())
    write_json(run.path / "splits.json", session.splits.to_json())
    run.write_environment(threads=torch.get_num_threads(), device=str(processes.device), processes=processes.count)
    run.update(
        id=run.path.name,
        kind="bottleneck",
        method=recipe.method["name"],
        regularizer=recipe.regularizer["name"],
        supervision=session.pipeline.model.supervision,
        bypass=session.pipeline.model.bypass,
        status="running",
        reason=None,
        data={
            "name": session.source.name,
            "hash": session.source.examples.fingerprint,
            "split_hash": session.splits.hash,
            "images": len(session.source),
        },
        encoder={"name": recipe.encoder.name, "hash": weights_hash(session.pipeline.encoder)},
        concepts={"name": session.blueprint.concepts.name, "hash": session.blueprint.concepts.fingerprint},
        seed=recipe.seed,
        **({"transform": session.transform.name} if session.transform else {}),
        **({"code": code_records(own_code)} if (own_code := recipe_code(recipe_tree(recipe))) else {}),
    )


def resume_run(
    path: str | Path,
    report: Report,
    *,
    data: Any = None,
    quiet: bool = False,
    own: Own | None = None,
    shared: Shared | None = None,
) -> RunFolder:
    """Go on with a run that was stopped; one that is done stays as it is."""
    run = RunFolder.open(path)
    if run.info["status"] == "done":
        return run
    recipe = load_recipe(run.path / "recipe.yaml")
    recipe.out = str(run.path)
    recipe.training.threads = read_json(run.path / "environment.json").get("threads") or recipe.training.threads
    processes = Launched(recipe.training.precision)
    progress = Progress(quiet=quiet or not processes.main)
    with run.lock() if processes.main else contextlib.nullcontext(), offline():
        if run.info["status"] == "done":  # by another process, just now
            return run
        session = open_session(recipe, run, processes, progress, data, shared)
        return _finish((own or Own()).join(session, run.info.get("transform")), report)


def _finish(session: Session, report: Report) -> RunFolder:
    """Train to the end, then measure once, then write; the caller holds the run."""
    run, processes = session.run, session.processes
    try:
        if processes.main:
            run.clean()
            run.update(status="running", reason=None)
            if session.recipe.training.tensorboard:
                (run.path / tensorboard.FOLDER).mkdir(exist_ok=True)
            session.callbacks.tell("on_train_begin", run.path, recipe_tree(session.recipe))
        with stored_tokens(session):
            session.pipeline.load_state_dict(fit(session))
            predicted = _predict(session)
            training = _training_vectors(session)
        _measure(session, predicted, training, report)
    except BaseException as error:
        if processes.main:
            reason = str(error) or type(error).__name__
            with contextlib.suppress(OSError):
                run.update(status="failed", reason=reason[:2000])
            with contextlib.suppress(Exception):  # of a callback, which must not hide what happened
                session.callbacks.tell("on_failure", run.path, error)
        raise
    return run


def _predict(session: Session) -> dict[str, Predictions]:
    """The chosen model on validation and, for the only time and unless it is a trial, on test; from stored tokens where
    there are any, as it was trained and chosen."""
    splits, recipe = session.splits, session.recipe
    sides = {"val": splits.val} | ({"test": splits.test} if recipe.metrics.test else {})
    session.progress.note(f"measuring the chosen model on {' and '.join(sides)} images")
    return {
        name: predict(
            session.pipeline,
            session.stored or session.reader,
            indices,
            rank_images=recipe.metrics.rank_images,
            every_layer=True,
            processes=session.processes,
        )
        for name, indices in sides.items()
    }


def _training_vectors(session: Session) -> Vectors | None:
    """What some training images look like to the chosen encoder."""
    rows = spread(session.splits.train, TRAINING)
    return predict(session.pipeline, session.stored or session.reader, rows, processes=session.processes).vectors


def _measure(session: Session, predicted: dict[str, Predictions], training: Vectors | None, report: Report) -> None:
    """What the predictions are worth; then the run's files."""
    run, processes, recipe = session.run, session.processes, session.recipe
    source, splits, concepts = session.source, session.splits, session.blueprint.concepts
    if not processes.main:
        processes.wait()
        return
    thresholds = thresholds_from(predicted["val"], source)
    priors = concept_priors(source.examples.concepts[splits.train], concepts)
    metrics = {
        name: full_summary(found, source, concepts, splits, recipe.metrics, thresholds=thresholds, priors=priors)
        for name, found in predicted.items()
    }
    learned = source.examples.labels[spread(splits.train, TRAINING)]
    for name, found in predicted.items():
        labels = source.examples.labels[found.indices]
        metrics[name]["black_box"] = black_box_reference(training, learned, found.vectors, labels)
    encoder = session.pipeline.encoder
    structure = {} if encoder.structure is None else {"structure": encoder.structure}
    card = Card(
        classes=list(source.classes),
        task=source.task,
        image_size=session.reader.size,
        fit=recipe.data.fit,
        encoder={"name": recipe.encoder.name, "hash": weights_hash(encoder), **structure},
        thresholds=thresholds,
        concept_priors=priors.tolist(),
        concept_counts=concept_counts(source.examples.concepts[splits.train]),
        window=recipe.data.window,
    )
    save_model(run.path / "model", session.pipeline.state_dict(), card)
    write_json(run.path / "metrics.json", {"splits": metrics})
    if recipe.data.folds:
        same: dict[str, Any] = {"data": session.data, "quiet": session.progress.quiet, "shared": session.shared}
        same["own"] = Own(transform=session.transform.function if session.transform else None)
        train_folds(
            run.path,
            lambda fold: start_run(fold, report, **same),
            lambda fold: resume_run(fold, report, **same),
            session.progress.note,
        )
        if session.shared:
            shutil.rmtree(session.shared.tokens, ignore_errors=True)
        metrics[FOLDS] = pooled_result(run.path, source, concepts, recipe)
        write_json(run.path / "metrics.json", {"splits": metrics})
    where, judged = ("cross-validated", metrics[FOLDS]) if FOLDS in metrics else ("validation", metrics["val"])
    warnings = training_warnings(run.read_history(), judged, recipe, len(splits.train), where=where)
    warnings += chance_warnings(metrics.get(FOLDS) or metrics.get("test") or metrics["val"], source.task)
    if recipe.training.loss.concept_weight > 0:
        warnings += [finding.message for finding in constant_findings(source, splits, concepts)]
    run.update(warnings=warnings)
    for warning in warnings:
        session.progress.note(f"warning: {warning}")
    for name, found in predicted.items():
        save_predictions(run.path, name, found, source, thresholds)
    weights = load_card(run.path / "model").weights_hash
    ImageDistribution.keep(training, predicted["val"].vectors, run.path, weights)
    report(run, session.pipeline, session.reader, concepts, predicted)
    run.update(status="done", reason=None)
    StateFolder(run.path).clear()
    session.callbacks.tell("on_train_end", run.path, metrics)
    processes.wait()
