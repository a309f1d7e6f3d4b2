"""From finished runs to what is compared: predictions of the same images in the same order, and single numbers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from conceptlens.concepts import ConceptSet
from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.reports.material import value_of
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.predictions import StoredPredictions, load_predictions
from conceptlens.stats.questions import Question, exists
from conceptlens.workflows.compare.jobs import Entry, Job
from conceptlens.workflows.compare.measures import Answers, questions

Replicate = tuple[int, int]  # repeat of the cross-validation (0 without), training seed


@dataclass
class Row:
    """One entry on one data set: all its finished trainings."""

    entry: Entry
    info: Mapping[str, Any]  # run.json of one of its runs
    recipe: Any  # of one of its jobs
    concepts: ConceptSet
    trainings: dict[Replicate, dict[str, Question]]
    numbers: dict[str, list[float]]  # rank, effective concepts, seconds: by run
    ranks: list[list[dict[str, float]]]  # validation lines of each run's history
    chosen: list[dict[str, Any]] = field(default_factory=list)  # settings that trials chose
    concept_sets: frozenset[str] = frozenset()


@dataclass
class Gathered:
    """Everything finished on one data set."""

    data: str
    ids: tuple[str, ...]
    units: npt.NDArray[np.str_]
    classes: tuple[str, ...]
    by_class: bool  # concept labels follow from the class, by a table in the concept file
    rows: list[Row]


def gather(data: str, runs: Iterable[tuple[Job, Path]], *, folds: int = 1) -> Gathered | None:
    """Read the finished runs of one data set; None if no training is complete.

    Raises:
        UserError: Runs were tested on different images, or their files are damaged.
    """
    by_row: dict[str, dict[Replicate, list[tuple[Job, Path]]]] = {}
    for job, path in runs:
        replicate = (job.cell.repeat or 0, job.recipe.seed)
        by_row.setdefault(job.cell.entry.name, {}).setdefault(replicate, []).append((job, path))
    rows: list[Row] = []
    first: tuple[StoredPredictions, Path] | None = None
    order: dict[str, int] = {}
    for replicates in by_row.values():
        complete = {key: parts for key, parts in sorted(replicates.items()) if len(parts) == folds}
        if not complete:
            continue
        trainings: dict[Replicate, dict[str, Question]] = {}
        for key, parts in complete.items():
            stored = [load_predictions(path) for _, path in parts]
            if first is None:
                first = (_joined(stored), parts[0][1])
                order = {name: place for place, name in enumerate(first[0].ids)}
            trainings[key] = _questions(stored, [path for _, path in parts], order, first)
        rows.append(_row([part for parts in complete.values() for part in parts], trainings))
    if first is None:
        return None
    stored_first, _ = first
    return Gathered(
        data,
        stored_first.ids,
        np.array(stored_first.units),
        stored_first.classes,
        bool(rows[0].concepts.by_class) and _follow(stored_first),
        rows,
    )


def _joined(parts: list[StoredPredictions]) -> StoredPredictions:
    """The folds of a cross-validation as one: names, units and labels are what counts."""
    whole = parts[0]
    return StoredPredictions(
        ids=tuple(name for part in parts for name in part.ids),
        units=tuple(unit for part in parts for unit in part.units),
        classes=whole.classes,
        task=whole.task,
        logits=np.concatenate([part.logits for part in parts]),
        concept_logits=np.zeros((0, 0), np.float32),
        labels=np.concatenate([part.labels for part in parts]),
        concepts=np.concatenate([part.concepts for part in parts])
        if len({part.concepts.shape[1] for part in parts}) == 1
        else np.zeros((0, 0), np.int8),
        thresholds=(),
    )


def _questions(
    parts: list[StoredPredictions], paths: list[Path], order: Mapping[str, int], first: tuple[StoredPredictions, Path]
) -> dict[str, Question]:
    whole, _ = first
    ids = [name for part in parts for name in part.ids]
    if set(ids) != set(order) or len(ids) != len(order) or parts[0].classes != whole.classes:
        raise UserError(
            f"{paths[0]} and {first[1]} were tested on different images or classes, so they cannot be compared. Were "
            "the data changed in between? Delete the older run, and call `conceptlens compare` again."
        )
    back = np.argsort([order[name] for name in ids], kind="stable")
    labels = np.concatenate([part.labels for part in parts])[back]
    if not np.array_equal(labels, whole.labels):
        raise UserError(
            f"{paths[0]} and {first[1]} have different labels for the same images; delete the older run, and call "
            "`conceptlens compare` again."
        )
    sets = [ConceptSet.load(path / "concepts.yaml") for path in paths]
    common = len({each.fingerprint for each in sets}) == 1  # a method may choose other concepts in each fold
    answers = Answers(
        task=whole.task,
        logits=np.concatenate([part.logits for part in parts])[back],
        concept_logits=np.concatenate([part.concept_logits for part in parts])[back] if common else _none(len(back)),
        labels=labels,
        concept_labels=np.concatenate([part.concepts for part in parts])[back] if common else _none(len(back)),
        concepts=sets[0] if common else ConceptSet("none", (), (), ()),
        thresholds=np.concatenate([np.tile(part.thresholds, (len(part.ids), 1)) for part in parts])[back],
        fold=np.repeat(np.arange(len(parts)), [len(part.ids) for part in parts])[back],
    )
    return {name: question for name, question in questions(answers).items() if exists(question)}


def _none(n: int) -> Any:
    return np.zeros((n, 0), np.int8)


def _row(runs: list[tuple[Job, Path]], trainings: dict[Replicate, dict[str, Question]]) -> Row:
    numbers: dict[str, list[float]] = {}
    ranks, chosen, fingerprints = [], [], set()
    for job, path in runs:
        run = RunFolder(path)
        history = run.read_history()
        metrics = read_json(path / "metrics.json")["splits"]["test"]
        concepts = ConceptSet.load(path / "concepts.yaml")
        fingerprints.add(concepts.fingerprint)
        told = {
            "rank.effective": value_of(metrics, "rank.effective"),
            "rank.published": value_of(metrics, "rank.published"),
            "effective_concepts": effective_concepts(path, metrics, len(concepts)),
            "seconds": history[-1].get("time") if history else None,
        }
        for name, value in told.items():
            if isinstance(value, (int, float)):
                numbers.setdefault(name, []).append(float(value))
        ranks.append([line for line in history if line.get("split") == "val" and "kind" not in line])
        if job.settings and job.settings not in chosen:
            chosen.append(job.settings)
    job, path = runs[0]
    return Row(
        job.cell.entry,
        RunFolder(path).info,
        job.recipe,
        ConceptSet.load(path / "concepts.yaml"),
        trainings,
        numbers,
        ranks,
        chosen,
        frozenset(fingerprints),
    )


def effective_concepts(run: Path, metrics: Mapping[str, Any], count: int) -> float | None:
    """Concepts that speak for or against a class, on average over classes (NEC; VLG-CBM, NeurIPS 2024).

    As the run measured it, or the weights that are not zero in its linear head over `count` concepts; None where there
    is no such head, or where the weights were not kept: everything else is known without them.
    """
    for path in ("effective_concepts", "head.effective_concepts", "class.effective_concepts", "sparsity.nec", "nec"):
        if isinstance(found := value_of(metrics, path), (int, float)):
            return float(found)
    file = run / "model" / "weights.safetensors"
    if not file.exists():
        return None
    manifest.check(file)
    try:
        with safe_open(file, "np") as weights:
            if "model.head.weight" not in weights.keys():  # noqa: SIM118 - the file is no mapping
                return None
            head = weights.get_tensor("model.head.weight")
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: cannot be read ({error}). Copy the run folder again.") from None
    return float((head != 0).sum(1).mean()) if head.ndim == 2 and head.shape[1] == count else None


def _follow(stored: StoredPredictions) -> bool:
    """Whether, on these images, the class says every concept label."""
    if stored.labels.ndim != 1 or not len(stored.concepts):
        return False
    number = np.unique(stored.labels, return_inverse=True)[1].reshape(-1)
    first = np.array([np.flatnonzero(number == each)[0] for each in range(number.max(initial=-1) + 1)])
    return bool(len(first)) and np.array_equal(stored.concepts[first][number], stored.concepts)
