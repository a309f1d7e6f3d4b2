"""The run folder: everything that one training made, as plain files (see docs/architecture.md for the list)."""

import contextlib
import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, get_args

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.files import read_json, remove_leftovers, write_json, write_text
from conceptlens.core.upgrades import upgrade

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
    def open(cls, path: str | Path) -> "RunFolder":
        """An existing run."""
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
        return cls(folder)

    @classmethod
    def create(cls, path: str | Path, *, overwrite: bool = False) -> "RunFolder":
        """A new, empty run folder. One that holds something is refused, or replaced if it is a run and may be."""
        folder = Path(path)
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: expected a folder to write the run to, found a file.")
        if folder.is_dir() and any(folder.iterdir()):
            if not (folder / "run.json").exists():
                raise UserError(f"{folder}: this folder holds other files; choose an empty one with --out.")
            if not overwrite:
                run = cls(folder)
                status = run.info["status"]
                go_on = "" if status == "done" else f"Go on with {run.how_to_go_on}, or: "
                raise UserError(
                    f"{folder}: a run is here already ({status}). {go_on}choose another folder with --out, or replace "
                    "it with --overwrite."
                )
            with cls(folder).lock():
                shutil.rmtree(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{folder}: cannot make this folder ({error.strerror}). Choose another one with --out."
            ) from None
        check_writable(folder)
        return cls(folder)

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
        lines = self.history.read_bytes().split(b"\n")
        return [upgrade(json.loads(line), where=str(self.history), schema=1) for line in lines[:-1] if line]

    def update(self, **values: Any) -> None:
        """Change entries of run.json."""
        info = self.info if (self.path / "run.json").exists() else {}
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
    def lock(self) -> Iterator[None]:
        """One process that writes at a time; the lock dies with its process, however it dies."""
        try:
            import fcntl
        except ImportError:  # not on this system: nothing guards the folder
            yield
            return
        handle = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(
                    f"{self.path}: another process is training this run; wait for it or stop it first."
                ) from None
            yield
        finally:
            os.close(handle)

    def clean(self) -> None:
        """Remove what a killed process left half-written."""
        remove_leftovers(self.path)


def check_writable(folder: Path) -> None:
    """Fail before an hour of training, not after."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        probe.write_bytes(b"conceptlens")
        probe.unlink()
    except OSError as error:
        raise UserError(f"{folder}: cannot write here ({error.strerror}). Choose another folder with --out.") from None
