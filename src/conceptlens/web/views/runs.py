"""Cards, details and histories of result folders, from their files alone; what has not changed is not read again."""

import re
import threading
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import parse_json, read_json, read_text, read_yaml
from conceptlens.core.manifest import check, has_manifest, written_at
from conceptlens.core.system_errors import not_as_written
from conceptlens.reports.material import shown_split, value_of
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.results import Kind, results
from conceptlens.runs.saved import load_card
from conceptlens.runs.verdicts import badge, outcomes
from conceptlens.web.schemas.runs import GroupPart, History, RankCurve, RunCard, RunDetail, Split
from conceptlens.web.server.folders import RunEntry, RunFolders
from conceptlens.web.server.kinds import WORDS, about, command_for, files, kind_of
from conceptlens.web.server.problems import Problem, bad, missing

SCORES = (
    "class.accuracy",
    "class.balanced_accuracy",
    "class.macro_auc",
    "class.ece",
    "concept.balanced_accuracy",
    "concept.auc",
    "concept.auc_within_class",
    "rank.effective",
)
POINTS = 60  # of a sparkline
TAIL = 4_000_000  # bytes of a history that a card reads, at most
LINES = 5000  # of an answer
BYTES = 4_000_000  # of an answer
_EPOCHS = re.compile(
    r"^training:\n(?:[ #].*\n)*?  epochs: (\d+)$", re.MULTILINE
)  # parsing 200 YAML files takes seconds
_RANKS = {"val": ("rank.effective", "effective"), "train": ("rank_effective", "effective, while training")}


class RunIndex:
    """All runs. Safe to use from several threads."""

    def __init__(self, folders: RunFolders) -> None:
        self.folders = folders
        self._cards: dict[Path, tuple[tuple[float, ...], RunCard]] = {}
        self._lock = threading.Lock()
        self._reading = threading.Lock()

    def cards(self) -> list[RunCard]:
        """A card for each run, last changed first; broken ones last."""
        entries = self.folders.all()
        cards = [self.card(entry) for entry in entries]
        with self._lock:
            for gone in set(self._cards) - {entry.path for entry in entries}:
                del self._cards[gone]
        return sorted(cards, key=lambda card: (card.changed or "", card.key), reverse=True)

    def card(self, entry: RunEntry) -> RunCard:
        """The card of one run; a run that cannot be read says why on it."""
        if entry.reason:
            return _broken(entry, entry.reason)
        try:
            if (known := self._known(entry)) is not None:
                return known
            with self._reading:  # of two views that open at once, one reads, and the other finds what it read
                return self._known(entry) or self._read(entry)
        except Exception as error:  # a folder may hold anything: its own card says so, the others stay
            return _broken(entry, reason_of(error))

    def _known(self, entry: RunEntry) -> RunCard | None:
        known = self._cards.get(entry.path)
        same = known and known[1].key == entry.key and known[0] == _stamp(entry, known[1].kind)
        return known[1] if known and same else None

    def _read(self, entry: RunEntry) -> RunCard:
        info = _info(entry)
        kind = kind_of(info, entry.shown)
        stamp = _stamp(entry, kind)
        card = _card(entry, kind, info)
        with self._lock:
            self._cards[entry.path] = (stamp, card)
        return card

    def of_kind(self, key: str, *kinds: Kind) -> RunEntry:
        """The folder of that key, or a 409 where it is of another kind than one of these, or broken."""
        entry = self.folders.get(key)
        card = self.card(entry)
        if card.kind is None:
            raise Problem(409, "broken", card.reason or "This folder cannot be read.")
        if card.kind not in kinds:
            wanted = " or ".join(WORDS[kind] for kind in kinds)
            raise missing(f"{entry.shown}: expected {wanted}, found {WORDS[card.kind]}.")
        return entry

    def detail(self, entry: RunEntry) -> RunDetail:
        """Everything about one run but its images."""
        card = self.card(entry)
        if card.status == "broken":
            raise Problem(409, "broken", card.reason or "This run cannot be read.")
        model = load_card(entry.path / "model") if entry.file("model/model.json") else None
        concepts = ConceptSet.load(path) if (path := entry.file("concepts.yaml")) else None
        splits = read_json(path) if (path := entry.file("splits.json")) else {}
        metrics = read_json(path) if (path := entry.file("metrics.json")) else {}
        named = splits.get("splits") if isinstance(splits, dict) else None
        return RunDetail(
            card=card,
            recipe=read_yaml(path) if (path := entry.file("recipe.yaml")) else None,
            classes=model.classes if model else None,
            task=model.task if model else None,
            image_size=model.image_size if model else None,
            fit=model.fit if model else None,
            groups=groups_of(concepts) if concepts else [],
            splits={side: len(names) for side, names in named.items()} if isinstance(named, dict) else {},
            metrics=metrics.get("splits") if isinstance(metrics, dict) else None,
            environment=read_json(path) if (path := entry.file("environment.json")) else None,
            missing=_missing(entry, card),
            results=_results(card),
        )

    def history(self, entry: RunEntry, after: str | None) -> History:
        """Complete lines behind a cursor: the bytes read so far, and a checksum of the last of them."""
        card = self.card(entry)
        path = entry.file("history.jsonl")
        start, reset, lines, cursor = 0, False, [], "0-0"
        if after is not None and not re.fullmatch(r"\d{1,15}-[0-9a-f]{1,8}", after):
            raise bad("after: expected the `cursor` of an earlier answer.")
        if path:
            check(path)
            with path.open("rb") as file:
                if after:
                    start = int(after.split("-")[0])
                    if _cursor(file, start) != after:
                        start, reset = 0, True
                file.seek(start)
                block = file.read(BYTES)
                if len(block) == BYTES and b"\n" not in block:
                    raise UserError(f"{entry.shown}/history.jsonl: a line is too long; the file is damaged.")
                whole = block[: block.rfind(b"\n") + 1].splitlines(keepends=True)[:LINES]
                lines = [_line(line) for line in whole]
                cursor = _cursor(file, start + sum(map(len, whole)))
        elif after and after != "0-0":
            reset = True
        return History(status=card.status, reason=card.reason, cursor=cursor, reset=reset, lines=lines)


def groups_of(concepts: ConceptSet) -> list[GroupPart]:
    """The vocabulary, as the page shows it."""
    return [
        GroupPart(
            name=group.name,
            kind=group.kind,
            part=group.part,
            start=group.concepts.start,
            values=list(group.values),
            texts=[concept.text for concept in concepts.concepts[group.concepts]],
            under=group.under,
        )
        for group in concepts.groups
    ]


def measured_split(entry: RunEntry) -> Split:
    """The split that the run's numbers speak of."""
    path = entry.file("metrics.json")
    raw = read_json(path) if path else {}
    return "val" if shown_split(value_of(raw, "splits") or {}) == "val" else "test"


def reason_of(error: Exception) -> str:
    if isinstance(error, (UserError, OSError, Problem)) and str(error):
        return str(error)
    return not_as_written(error)


def _broken(entry: RunEntry, reason: str) -> RunCard:
    return RunCard(key=entry.key, name=entry.name, folder=entry.shown, status="broken", reason=reason)


def _missing(entry: RunEntry, card: RunCard) -> dict[str, str]:
    """The command for everything that is not there and can be made."""
    if card.kind is None:
        return {}
    lacks = [name for name in files(card.kind) if name not in card.has]
    commands = {name: command_for(card.kind, name, entry.shown) for name in lacks}
    return {name: words for name, words in commands.items() if words}


def _results(card: RunCard) -> dict[str, str]:
    """What the documents that are there are about."""
    known = results(card.kind) if card.kind else {}
    return {name: known[name].about for name in card.has if known[name].served}


def _stamp(entry: RunEntry, kind: Kind | None) -> tuple[float, ...]:
    """Changes when a file does that a card is made from."""
    marks: list[float] = []
    for name in ("run.json", *(files(kind).values() if kind else ())):
        path = entry.file(name)
        status = path.stat() if path else None
        marks += (status.st_mtime_ns, status.st_size) if status else (0, 0)
    return tuple(marks)


def _info(entry: RunEntry) -> dict[str, Any]:
    if entry.file("run.json") is None:
        raise UserError(f"{entry.shown}: expected a run folder with a run.json, found none.")
    return RunFolder(entry.path).info


def _card(entry: RunEntry, kind: Kind, info: Mapping[str, Any]) -> RunCard:
    data, encoder, concepts = (_mapping(info.get(name)) for name in ("data", "encoder", "concepts"))
    verdicts = outcomes(entry.path) if kind == "bottleneck" else {}
    return RunCard(
        key=entry.key,
        name=entry.name,
        folder=entry.shown,
        within=entry.within,
        status=info["status"],
        reason=info.get("reason"),
        kind=kind,
        about=about(kind, info),
        method=info.get("method"),
        regularizer=info.get("regularizer"),
        bypass=info.get("bypass"),
        data=data.get("name") or data.get("source"),
        images=data.get("images"),
        encoder=encoder.get("name"),
        concepts=concepts.get("name"),
        seed=info.get("seed"),
        changed=_changed(entry, kind, live=info["status"] == "running"),
        unverified=not has_manifest(entry.path),
        has=[name for name, file in files(kind).items() if entry.file(file)],
        trust=badge(verdicts) if kind == "bottleneck" and info["status"] == "done" else None,
        verdicts=verdicts,
        **_training(entry, kind),
    )


def _training(entry: RunEntry, kind: Kind) -> dict[str, Any]:
    """What a card says of a training: how far it is, and what came of it."""
    history = _tail(path) if (path := entry.file("history.jsonl")) else b""
    recipe = entry.file("recipe.yaml")
    epochs = _EPOCHS.search(read_text(recipe)) if recipe else None
    metrics = entry.file("metrics.json") if kind == "bottleneck" else None
    return {
        "scores": _scores(read_json(metrics)) if metrics else None,
        "rank": _rank(history),
        "epochs": int(epochs[1]) if epochs else None,
        "epoch": _last_epoch(history),
    }


def _changed(entry: RunEntry, kind: Kind, *, live: bool) -> str | None:
    """When something was last found out here: of a model, when it was trained.

    From the manifest, because the time of a copied file says when it was copied; None for a folder without one. A run
    that is training now has file times of its own.
    """
    names = {"run.json", *(("history.jsonl",) if kind == "bottleneck" else files(kind).values())}
    paths = [path for name in names if (path := entry.file(name))]
    times = [path.stat().st_mtime for path in paths] if live else [at for path in paths if (at := written_at(path))]
    return datetime.fromtimestamp(max(times), UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if times else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _scores(metrics: Any) -> dict[str, float | str] | None:
    splits = value_of(metrics, "splits")
    if not isinstance(splits, Mapping):
        return None
    split = shown_split(splits)
    numbers = {name: value_of(splits.get(split), name) for name in SCORES}
    return {"split": split} | {name: float(value) for name, value in numbers.items() if isinstance(value, (int, float))}


def _tail(path: Path) -> bytes:
    """The complete lines at the end of a history."""
    check(path)
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL))
        block = file.read(TAIL)
    if size > TAIL:
        block = block[block.find(b"\n") + 1 :]
    return block[: block.rfind(b"\n") + 1]


def _line(line: bytes) -> dict[str, Any]:
    try:
        value = parse_json(line, parse_constant=lambda word: None)
    except (ValueError, RecursionError) as error:
        raise UserError(f"history.jsonl: a line is damaged ({error}). Copy the run folder again.") from None
    return value if isinstance(value, dict) else {}


def _rank(history: bytes) -> RankCurve | None:
    """Validation's effective rank by epoch; while there is none, that of training batches."""
    for split, (key, name) in _RANKS.items():
        marked = [line for line in history.splitlines() if f'"{key}"'.encode() in line]
        found = [value.get(key) for value in map(_line, marked) if value.get("split") == split]
        numbers = [float(value) for value in found if isinstance(value, (int, float))]
        if numbers:
            count = min(POINTS, len(numbers))
            places = [round(step * (len(numbers) - 1) / max(count - 1, 1)) for step in range(count)]
            return RankCurve(name=name, values=[numbers[place] for place in places])
    return None


def _last_epoch(history: bytes) -> int | None:
    for line in reversed(history.splitlines()[-20:]):
        epoch = _line(line).get("epoch")
        if isinstance(epoch, int):
            return epoch
    return None


def _cursor(file: Any, end: int) -> str:
    """A place in a history, with a checksum of what stands before it: a rewritten file is noticed."""
    start = max(0, end - 256)
    file.seek(start)
    block = file.read(end - start)
    return f"{end}-{zlib.crc32(block):x}" if len(block) == end - start and end else "0-0"
