"""Many runs as a table: every metric with its interval, tags and notes; and which run is best, where a test says so."""

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import read_json
from conceptlens.reports.material import shown_split, value_of
from conceptlens.runs.annotations import FILE, Annotation, read_annotations
from conceptlens.runs.predictions import StoredPredictions, load_predictions
from conceptlens.stats.paired_permutation import holm, p_values, unit_differences
from conceptlens.stats.questions import Question, exists, value
from conceptlens.web.schemas.run_table import Best, TableRow
from conceptlens.web.server.folders import RunEntry
from conceptlens.web.server.problems import bad, missing
from conceptlens.web.views.runs import RunIndex, reason_of
from conceptlens.workflows.compare.measures import Answers, questions
from conceptlens.workflows.compare.significance import MEASURES

LEVEL = 0.05
OWN = "run"  # how a folder calls itself among its annotations


class RunTable:
    """The rows; what has not changed is not read again. Safe to use from several threads."""

    def __init__(self) -> None:
        self._rows: dict[Path, tuple[tuple[float, ...], TableRow]] = {}
        self._lock = threading.Lock()

    def rows(self, index: RunIndex) -> list[TableRow]:
        """A row for each trained model."""
        return [self._row(entry) for entry in index.folders.all() if index.card(entry).kind == "bottleneck"]

    def _row(self, entry: RunEntry) -> TableRow:
        paths = [entry.file(name) for name in ("metrics.json", FILE)]
        stamp = tuple(path.stat().st_mtime_ns if path else 0 for path in paths)
        known = self._rows.get(entry.path)
        if known and known[0] == stamp and known[1].key == entry.key:
            return known[1]
        try:
            row = _read(entry, paths[0])
        except Exception as error:  # a folder may hold anything: its own row says so, the others stay
            row = TableRow(key=entry.key, reason=reason_of(error))
        with self._lock:
            self._rows[entry.path] = (stamp, row)
        return row


def _read(entry: RunEntry, metrics: Path | None) -> TableRow:
    raw = value_of(read_json(metrics), "splits") if metrics else None
    said = read_annotations(entry.path)["run"].get(OWN, Annotation())
    splits = raw if isinstance(raw, Mapping) else {}
    split = shown_split(splits) if splits else None
    numbers = splits.get(split) if split else None
    values = flat(numbers) if isinstance(numbers, Mapping) else {}
    pairs = numbers.get("intervals") if isinstance(numbers, Mapping) else None
    intervals = {
        name: (float(pair[0]), float(pair[1]))
        for name, pair in (pairs.items() if isinstance(pairs, Mapping) else ())
        if isinstance(pair, list) and len(pair) == 2
    }
    return TableRow(
        key=entry.key, split=split, metrics=values, intervals=intervals, tag=said.group, note=said.note
    )  # fmt: skip


def flat(tree: Mapping[str, Any], above: str = "") -> dict[str, float]:
    """Numbers by their path, as `class.accuracy`; lists, intervals and parts by class or concept are left out."""
    found: dict[str, float] = {}
    for name, item in tree.items():
        if isinstance(item, Mapping):
            if name != "intervals" and not name.startswith("per_"):
                found |= flat(item, f"{above}{name}.")
        elif isinstance(item, (int, float)) and not isinstance(item, bool):
            found[f"{above}{name}"] = float(item)
    return found


def best_of(entries: Sequence[RunEntry], metric: str) -> Best:
    """The run that is best by a metric, if it differs significantly from each other one: a paired permutation test over
    the units of the test images, corrected by Holm's method. It speaks of these trainings, not of other seeds."""
    if metric not in MEASURES:
        raise bad(f"{metric}: there is no test of it. Choose one of {', '.join(MEASURES)}.")
    stored = [_stored(entry) for entry in entries]
    first = stored[0]
    for entry, other in zip(entries, stored, strict=True):
        if other.ids != first.ids or other.classes != first.classes or not np.array_equal(other.labels, first.labels):
            raise missing(f"{entry.shown} and {entries[0].shown} were tested on different images or labels.")
    asked = [_question(entry, one, metric) for entry, one in zip(entries, stored, strict=True)]
    if any(question is None for question in asked):
        raise missing(f"{metric} is not known of all of these runs.")
    known = [question for question in asked if question is not None]
    ones = np.ones((1, len(first.ids)))
    values = [float(value(question, ones)[0]) for question in known]
    top = int(np.argmax(values))
    others = [place for place in range(len(known)) if place != top]
    units = np.array(first.units)
    parts = np.stack([unit_differences([known[top]], [known[place]], units) for place in others], axis=1)
    adjusted = holm(p_values(parts))
    return Best(
        metric=metric,
        images=len(first.ids),
        values={entry.key: number for entry, number in zip(entries, values, strict=True)},
        p={entries[place].key: float(p) for place, p in zip(others, adjusted, strict=True)},
        highest=entries[top].key,
        best=entries[top].key if (adjusted < LEVEL).all() else None,
    )


def _stored(entry: RunEntry) -> StoredPredictions:
    if entry.file("predictions/test.safetensors") is None:
        raise missing(f"{entry.shown}: this run keeps no predictions of its test images.")
    return load_predictions(entry.path)


def _question(entry: RunEntry, stored: StoredPredictions, metric: str) -> "Question | None":
    count = len(stored.ids)
    answers = Answers(
        task=stored.task,
        logits=stored.logits,
        concept_logits=stored.concept_logits,
        labels=stored.labels,
        concept_labels=stored.concepts,
        concepts=ConceptSet.load(entry.path / "concepts.yaml"),
        thresholds=np.tile(stored.thresholds, (count, 1)),
        fold=np.zeros(count, np.int64),
    )
    question = questions(answers).get(metric)
    return question if question is not None and exists(question) else None
