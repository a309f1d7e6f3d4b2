"""`history.jsonl`: one object a line, appended as training goes; cut back to its place when a run resumes."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conceptlens.training.records.tensorboard import FOLDER, Events


class History:
    """Appends lines and knows how many bytes are safely written."""

    def __init__(
        self,
        path: Path,
        *,
        keep_bytes: int = 0,
        seconds: float = 0.0,
        listen: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        """`keep_bytes`: how much of an existing file belongs to the resumed state; the rest is dropped.

        `listen` is told of each line that is added.
        """
        self.listen = listen
        self.path, self.started = path, time.monotonic() - seconds
        path.touch()
        with path.open("rb+") as file:
            file.truncate(keep_bytes)
        folder = path.with_name(FOLDER)
        self.events: Events | None = None
        if folder.is_dir():
            kept = map(json.loads, path.read_text("utf-8").splitlines())
            self.events = Events(folder, kept, began=time.time() - seconds)

    @property
    def seconds(self) -> float:
        """Training time so far, over all sessions of the run."""
        return time.monotonic() - self.started

    def add(self, **values: Any) -> None:
        line = {**values, "time": round(self.seconds, 2)}
        text = json.dumps(line, allow_nan=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        if self.events:
            self.events.add(line)
        if self.listen:
            self.listen(line)

    def flush(self) -> int:
        """Make the lines durable; returns the file's size."""
        if self.events:
            self.events.flush()
        with self.path.open("rb+") as file:
            os.fsync(file.fileno())
            return file.seek(0, os.SEEK_END)
