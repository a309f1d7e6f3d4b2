"""A run of an earlier version, written as this version writes it: what reading upgrades each time is kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from conceptlens.core import manifest
from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError
from conceptlens.core.files import (
    dump_yaml,
    file_hash,
    new_folder,
    read_json,
    read_text,
    write_bytes,
    write_json,
    write_text,
)
from conceptlens.core.upgrades import SCHEMA, upgrade_parameters
from conceptlens.recipes.parse import read_recipe
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.predictions import FOLDER
from conceptlens.runs.results import EARLIER_NAMES
from conceptlens.runs.saved import WEIGHTS


@dataclass(frozen=True, repr=False)
class Migrated(ResultMixin):
    """What was written."""

    path: Path
    files: tuple[str, ...]

    def text(self) -> str:
        if not self.files:
            return f"{self.path}: every file is of this version's schema ({SCHEMA})."
        head = f"{self.path}: {len(self.files)} files written with schema {SCHEMA}."
        return "\n  ".join([head, *self.files])


def migrate_run(path: str | Path) -> Migrated:
    """Upgrade the files of a run in their place, each whole or not at all; killed halfway, it can be called again."""
    run = RunFolder.open(path)
    with run.lock():
        written = [*_renamed(run.path), *_weights(run.path), *_recipe(run.path), *_predictions(run.path)]
        for file in sorted(run.path.rglob("*.json")) + sorted(run.path.rglob("*.json.gz")):
            inner = file.relative_to(run.path)
            if not any(part.startswith(".") or part in manifest.SEPARATE for part in inner.parts):
                raw = read_json(file, as_written=True)
                if isinstance(raw, dict) and raw.get("schema", SCHEMA) != SCHEMA:
                    write_json(file, {**read_json(file), "schema": SCHEMA})
                    written.append(inner.as_posix())
        if written or not manifest.has_manifest(run.path):
            manifest.rewrite(run.path)
    return Migrated(run.path, tuple(written))


def _renamed(run: Path) -> list[str]:
    """Files that have a new name."""
    moved = [(old, new) for old, new in EARLIER_NAMES.items() if (run / old).is_file() and not (run / new).exists()]
    for old, new in moved:
        (run / old).rename(run / new)
    return [new for _, new in moved]


def _weights(run: Path) -> list[str]:
    """Weights by the names that parameters have now, and their hash in the card."""
    weights, card = run / "model" / WEIGHTS, run / "model" / "model.json"
    if not weights.is_file() or not card.is_file():
        return []
    tensors, words = _tensors(weights)
    renamed = upgrade_parameters(tensors)
    raw = read_json(card)
    if renamed.keys() == tensors.keys() or file_hash(weights) != raw.get("weights_hash"):  # damaged: its readers say so
        return []
    with new_folder(card.parent) as aside:  # both or none
        write_bytes(aside / WEIGHTS, save(renamed, words or None))
        write_json(aside / card.name, {**raw, "schema": SCHEMA, "weights_hash": file_hash(aside / WEIGHTS)})
    return [f"model/{WEIGHTS}", f"model/{card.name}"]


def _recipe(run: Path) -> list[str]:
    file = run / "recipe.yaml"
    if not file.is_file():
        return []
    if f"schema: {SCHEMA}\n" in read_text(file):
        return []
    tree, _ = read_recipe(file)
    write_text(file, dump_yaml({**tree, "schema": SCHEMA}))
    return ["recipe.yaml"]


def _predictions(run: Path) -> list[str]:
    """The schema in their headers; nothing else of them has changed."""
    written = []
    for file in sorted((run / FOLDER).glob("*.safetensors")):
        tensors, words = _tensors(file)
        if words.get("schema", str(SCHEMA)) != str(SCHEMA):
            write_bytes(file, save(tensors, {**words, "schema": str(SCHEMA)}))
            written.append(f"{FOLDER}/{file.name}")
    return written


def _tensors(file: Path) -> tuple[dict[str, Any], dict[str, str]]:
    manifest.check(file)
    try:
        with safe_open(file, "np") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}, opened.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file}: cannot be read ({error}). Copy the run folder again.") from None
