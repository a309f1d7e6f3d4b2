"""The run folder: everything that one training made, as plain files (docs/files.md lists them)."""

import contextlib
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, get_args

from conceptlens.core import manifest
from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.files import (
    check_links,
    parse_json,
    read_checked,
    read_json,
    remove_leftovers,
    write_json,
    write_text,
)
from conceptlens.core.locks import lock_file
from conceptlens.core.upgrades import upgrade

LOCK = ".lock"
Status = Literal["running", "done", "failed"]
PACKAGES = (
    "conceptlens",
    "torch",
    "torchvision",
    "timm",
    "accelerate",
    "numpy",
    "scipy",
    "scikit-learn",
    "safetensors",
    "pillow",
)


@dataclass(frozen=True)
class RunFolder:
    """A folder with a `run.json`."""

    path: Path

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = True) -> "RunFolder":
        """An existing run without links that lead out; with `--verify`, every file of it is compared with its hash."""
        folder = Path(path)
        if not folder.exists():
            beside = (
                [entry.name for entry in folder.parent.iterdir() if (entry / "run.json").exists()]
                if folder.parent.is_dir()
                else []
            )
            raise UserError(f"{folder}: no such run. {did_you_mean(folder.name, beside)}")
        if not (folder / "run.json").exists():
            raise UserError(
                f"{folder}: expected a run folder with a run.json, found none. `conceptlens train` makes one."
            )
        check_links(folder)
        if verify and manifest.verifies_everything():
            manifest.check_all(folder)
        return cls(folder)

    @classmethod
    @contextlib.contextmanager
    def create(cls, path: str | Path, *, overwrite: bool = False) -> Iterator["RunFolder"]:
        """A new run folder, held by this process: nobody else writes to it from before its first file on.

        One that holds something is refused, or replaced if it is a run, or the beginning of one, and may be. If there
        is no `run.json` in the end, there is no folder.
        """
        run = cls(Path(path))
        run._check_free(overwrite=True)  # before anything is written to it
        try:
            run.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{run.path}: cannot make this folder ({error.strerror}). Choose another one with --out."
            ) from None
        check_writable(run.path)
        with run.lock():
            run._check_free(overwrite)
            try:
                # Killed in between, it is no run any more, and still one that was begun here: it may be replaced.
                for entry in sorted(run._entries(), key=_removal):
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
                manifest.begin(run.path)
                yield run
            except BaseException:
                if not (run.path / "run.json").exists():  # the folder would only be in the way
                    shutil.rmtree(run.path, ignore_errors=True)
                raise

    def _entries(self) -> list[Path]:
        """What is here, but for the lock."""
        return [entry for entry in self.path.iterdir() if entry.name != LOCK] if self.path.is_dir() else []

    def _check_free(self, overwrite: bool) -> None:
        """Refuse a place that holds something else, or a run that may not be replaced."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path}: expected a folder to write the run to, found a file.")
        if all(_is_leftover(entry.name) for entry in self._entries()):
            return
        whole = (self.path / "run.json").exists()
        if not whole and not manifest.has_manifest(self.path):
            raise UserError(f"{self.path}: this folder holds other files; choose an empty one with --out.")
        if not overwrite:
            if not whole:
                raise UserError(
                    f"{self.path}: a run that was stopped before it began is here. Replace it with --overwrite, or "
                    "choose another folder with --out."
                )
            status = self.info["status"]
            go_on = "Choose" if status == "done" else f"Go on with {self.how_to_go_on}, or choose"
            raise UserError(
                f"{self.path}: a run is here already ({status}). {go_on} another folder with --out, or replace it with "
                "--overwrite."
            )

    @property
    def how_to_go_on(self) -> str:
        """The command that goes on with this run, ready to be pasted."""
        return f"`conceptlens resume {shlex.quote(str(self.path))}`"

    @property
    def info(self) -> dict[str, Any]:
        info: dict[str, Any] = read_json(self.path / "run.json")
        fine = isinstance(info, dict) and info.get("status") in get_args(Status) and isinstance(info.get("data"), dict)
        if not fine:
            raise UserError(
                f"{self.path / 'run.json'}: expected what training writes, with `data` and a `status` of "
                f"{', '.join(get_args(Status))}. It was edited or damaged; copy the run folder again."
            )
        return info

    @property
    def history(self) -> Path:
        return self.path / "history.jsonl"

    def read_history(self) -> list[dict[str, Any]]:
        """All complete lines; a torn last one, of a killed run, is left out."""
        if not self.history.exists():
            return []
        lines = read_checked(self.history).split(b"\n")[:-1]
        try:
            entries = [parse_json(line) for line in lines if line]
        except (ValueError, RecursionError) as error:
            raise UserError(f"{self.history}: a line is no JSON ({error}). Copy the run folder again.") from None
        return [upgrade(entry, where=str(self.history), schema=1) for entry in entries if isinstance(entry, dict)]

    def update(self, **values: Any) -> None:
        """Change entries of run.json."""
        info = self.info if (self.path / "run.json").exists() else {}
        if not info:
            manifest.begin(self.path)
        if values.get("status") == "done" and self.history.exists():
            manifest.record(self.history)  # it was written line by line
        write_json(self.path / "run.json", info | values)

    def write_environment(self, **more: Any) -> None:
        versions: dict[str, str | None] = {}
        for package in PACKAGES:
            try:
                versions[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                versions[package] = None
        machine = {
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "cpus": os.cpu_count(),
        }
        write_json(
            self.path / "environment.json",
            {"python": sys.version.split()[0], "packages": versions, "machine": machine} | more,
        )

    def write(self, name: str, text: str) -> None:
        write_text(self.path / name, text)

    @contextlib.contextmanager
    def lock(self) -> Iterator["RunFolder"]:
        """One process that writes at a time; the lock dies with its process, however it dies."""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(lock_file(self.path / LOCK))
            except BlockingIOError:
                raise UserError(
                    f"{self.path}: another process is training this run; wait for it or stop it first."
                ) from None
            yield self

    def clean(self) -> None:
        """Remove what a killed process left half-written, here and in the folders of results."""
        for folder in (
            self.path,
            *(entry for entry in self.path.iterdir() if entry.is_dir() and not entry.is_symlink()),
        ):
            remove_leftovers(folder)


def _removal(entry: Path) -> int:
    """When a file is removed before a run is replaced: what says that it is a run first, the manifest last."""
    return {"run.json": 0, manifest.NAME: 2}.get(entry.name, 1)


def _is_leftover(name: str) -> bool:
    """What a process leaves that was killed before it wrote a first file."""
    return name.startswith(".probe-") or (name.startswith(".") and name.endswith((".tmp", ".old")))


def is_only_begun(folder: Path, first: Collection[str] = ()) -> bool:
    """Whether a folder holds only what a process leaves that was killed as it began; `first`: what it writes first."""
    return all(_is_leftover(name) or name == manifest.NAME or name in first for name in os.listdir(folder))


def check_writable(folder: Path) -> None:
    """Fail before an hour of training, not after."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        probe.write_bytes(b"conceptlens")
        probe.unlink()
    except OSError as error:
        raise UserError(f"{folder}: cannot write here ({error.strerror}). Choose another folder with --out.") from None
