"""A JSON file of results that grows: what is in it is not measured again, and every result is written at once."""

import os
import platform
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from conceptlens.core.files import read_json, write_json

HERE = Path(__file__).parent


def machine() -> dict[str, Any]:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} CPU cores"
    return {
        "device": device,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


class Results:
    """`rows` of one question, by name.

    Args:
        name: Of the file in this folder.
        seconds: No new row is begun after so many; call again to go on.
    """

    def __init__(self, name: str, seconds: float) -> None:
        self.path = HERE / name
        kept = read_json(self.path) if self.path.exists() else {}
        self.rows: dict[str, Any] = kept.get("rows", {})
        self._until = time.monotonic() + seconds

    def missing(self, names: Iterable[str]) -> Iterable[str]:
        """Names that have no row yet, as long as there is time."""
        for name in [name for name in names if name not in self.rows]:
            if time.monotonic() > self._until:
                print(f"{self.path.name}: time is up, {len(self.rows)} rows; call again to go on")
                return
            yield name

    def put(self, name: str, row: Any) -> None:
        self.rows[name] = row
        write_json(self.path, {"machine": machine(), "rows": self.rows})
        print(f"{self.path.name}: {name}", flush=True)


def short(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)
