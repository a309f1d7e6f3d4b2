"""`corrections.csv` of a run: labels that people gave on the page, as `train --data.corrections` reads them.

Rows are only ever added. The file is written anew and renamed, so that a reader never sees half of a row; one process
writes at a time, guarded by a lock beside it.
"""

import contextlib
import re
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import write_text
from conceptlens.core.locks import lock_file
from conceptlens.core.spreadsheet import csv_text
from conceptlens.data.labels.corrections import CLASS, COLUMNS, Correction, read_corrections
from conceptlens.nn.heads.probabilities import concept_labels_of
from conceptlens.web.schemas.what_if import Corrected, CorrectionRow, Corrections, CorrectRequest
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.server.problems import Problem, bad

FILE = "corrections.csv"
MOST = 200_000  # rows of a file
SHOWN = 1000
# Letters of any alphabet; nothing with which a spreadsheet begins a formula.
_RATER = re.compile(r"[^\W_][\w .'@-]*")
_writing = threading.Lock()


def correct(loaded: LoadedRun, request: CorrectRequest) -> Corrected:
    """Add what a person says of one image of the run; what stands already is not written again."""
    rater = request.rater.strip()
    if not _RATER.fullmatch(rater):
        raise bad("rater: expected a name of letters, digits, spaces, . _ - ' @ that begins with a letter or digit.")
    index = loaded.index(request.image.split, request.image.row)
    examples = loaded.source.examples
    labels = examples.concepts[index].tolist()
    said = _said(loaded, request)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    rows: list[CorrectionRow] = []
    for edit in request.edits:
        if (name := _class_of(loaded, edit)) is not None:
            rows.append(_class_row(loaded, request, now, name))
            continue
        concept, after = as_label(loaded.concepts, edit)
        rows.append(
            CorrectionRow(
                time=now,
                rater=rater,
                image=examples.ids[index],
                concept=concept,
                before=_answer(loaded.concepts, concept, labels),
                said=_answer(loaded.concepts, concept, said),
                after=after,
            )
        )
    added, total = _append(loaded, rows)
    idle = [row.concept for row in rows if row not in added]
    note = f"{', '.join(idle)}: already predicted, labeled or saved so" if idle else ""
    if not added:
        note = f"nothing changed ({note})"
    return Corrected(file=_shown(loaded), total=total, rows=added, added=len(added), note=note)


def _changing(rows: Sequence[CorrectionRow], saved: Sequence[Correction]) -> list[CorrectionRow]:
    """The rows that change something: neither what the model says already, nor what the same person said before."""
    last = {(row.image, row.concept): row.after for row in saved}
    own = {(row.rater, row.image, row.concept): row.after for row in saved}

    def idle(row: CorrectionRow) -> bool:
        confirms = row.after == row.said and row.before in ("", row.after)
        repeats = own.get((row.rater, row.image, row.concept)) == row.after
        return last.get((row.image, row.concept), row.after) == row.after and (confirms or repeats)

    return [row for row in rows if not idle(row)]


def listed(loaded_path: Path, shown: str) -> Corrections:
    """What a run's file holds, newest first."""
    rows = [CorrectionRow(**vars(row)) for row in _read(loaded_path / FILE)]
    return Corrections(file=f"{shown}/{FILE}", total=len(rows), rows=rows[::-1][:SHOWN])


def as_label(concepts: ConceptSet, edit: str) -> tuple[str, str]:
    """An edit in words as (what is labeled, the label): a group and its value, or a concept and yes or no."""
    name, equals, word = (part.strip() for part in edit.partition("="))
    groups = {group.name: group for group in concepts.groups}
    if not equals or not word:
        raise bad(f"{edit!r}: expected `group=value`, `group: value=yes` or `group: value=no`.")
    if name in groups:
        group = groups[name]
        if word not in group.values:
            raise bad(str(unknown_name(f"value of {name!r}", word, group.values)))
        return (name, word) if group.kind == "exclusive" else (f"{name}: {word}", "yes")
    if name not in concepts.names:
        raise bad(str(unknown_name("concept or group", name, [*groups, *concepts.names])))
    if word not in ("yes", "no"):
        raise bad(f"{edit!r}: a correction is a label: a value of a group, or yes or no of a concept.")
    concept = concepts.concepts[concepts.names.index(name)]
    group = groups[concept.group]
    if group.kind == "independent":
        return name, word
    others = [value for value in group.values if value != concept.value]
    if word == "yes":
        return group.name, concept.value
    if len(others) == 1:
        return group.name, others[0]
    raise bad(f"{edit!r}: say which value of {group.name!r} it is instead: {', '.join(others)}.")


def _class_of(loaded: LoadedRun, edit: str) -> str | None:
    """The class of an edit `class=NAME`; None where the edit is about a concept."""
    word, equals, name = (part.strip() for part in edit.partition("="))
    if word != CLASS or not equals or any(group.name == CLASS for group in loaded.concepts.groups):
        return None
    if loaded.card.task == "multilabel":
        raise bad("class: an image of this run may have several classes; only their concepts can be corrected here.")
    if name not in loaded.card.classes:
        raise bad(str(unknown_name("class", name, loaded.card.classes)))
    return name


def _class_row(loaded: LoadedRun, request: CorrectRequest, now: str, after: str) -> CorrectionRow:
    index, (split, row) = loaded.index(request.image.split, request.image.row), (request.image.split, request.image.row)
    label, kept = int(loaded.source.examples.labels[index]), loaded.kept(split)
    said = "" if kept is None or row >= len(kept.ids) else loaded.card.classes[int(kept.logits[row].argmax())]
    return CorrectionRow(
        time=now,
        rater=request.rater.strip(),
        image=loaded.source.examples.ids[index],
        concept=CLASS,
        before="" if label < 0 else loaded.card.classes[label],
        said=said,
        after=after,
    )


def _said(loaded: LoadedRun, request: CorrectRequest) -> list[int]:
    """The labels (K,) that the model gives itself; unknown where the run keeps no predictions of the image."""
    kept = loaded.kept(request.image.split)
    if kept is None or request.image.row >= len(kept.ids):
        return [-1] * len(loaded.concepts)
    labels: list[int] = concept_labels_of(kept.concept_logits[[request.image.row]], loaded.concepts)[0].tolist()
    return labels


def _answer(concepts: ConceptSet, concept: str, labels: Sequence[int]) -> str:
    """What labels (K,) say of a group or a concept; empty where they say nothing."""
    if concept in concepts.names:
        label = labels[concepts.names.index(concept)]
        return "" if label < 0 else "yes" if label else "no"
    group = concepts.group(concept)
    part = list(labels[group.concepts.start : group.concepts.stop])
    return group.values[part.index(1)] if part.count(1) == 1 else ""


def _shown(loaded: LoadedRun) -> str:
    return f"{loaded.entry.shown}/{FILE}"


def _read(path: Path) -> list[Correction]:
    try:
        return read_corrections(path) if path.exists() else []
    except UserError as error:
        raise Problem(409, "broken", str(error)) from None


def _append(loaded: LoadedRun, given: Sequence[CorrectionRow]) -> tuple[list[CorrectionRow], int]:
    """Add rows that change something behind what is there; returns them, and how many there are now."""
    loaded.entry.file(FILE)  # refuses a link that leads out
    path = loaded.entry.path / FILE
    with _writing, _lock(path):
        old = _read(path)
        rows = _changing(given, old)
        if not rows:
            return [], len(old)
        if len(old) + len(rows) > MOST:
            raise Problem(413, "too-large", f"{_shown(loaded)} is full: {MOST:,} corrections. Move it elsewhere.")
        added = csv_text([*([] if old else [COLUMNS]), *([getattr(row, name) for name in COLUMNS] for row in rows)])
        before = path.read_text("utf-8") if old else ""
        if before and not before.endswith("\n"):
            before += "\n"
        try:
            write_text(path, before + added)
        except OSError as error:
            raise Problem(409, "missing", f"{_shown(loaded)}: cannot be written ({error.strerror}).") from None
    return rows, len(old) + len(rows)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Other servers wait; the lock dies with its process."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(lock_file(path.with_name(f".{path.name}.lock"), wait=True))
        except OSError as error:
            raise Problem(409, "missing", f"{path.parent}: cannot be written to ({error.strerror}).") from None
        yield
