"""`RUN/tensorboard`: the numbers of `history.jsonl` as event files for TensorBoard; needs the extra `tensorboard`.

Event files cannot be cut back to a place, as the history is when a run resumes: they are written anew from its lines,
so that no point is there twice.
"""

import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError

FOLDER = "tensorboard"  # in the run folder: where it exists, the history writes there, too
NO_CURVES = ("epoch", "step", "time")  # where a line stands, not what it says


def summary_writer() -> Any:
    """torch's writer of event files, or a refusal where TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "training.tensorboard: needs the package tensorboard. Install it: pip install 'conceptlens[tensorboard]', "
            "or set training.tensorboard to false; history.jsonl has the same numbers."
        ) from None
    return SummaryWriter


class Events:
    """Writes each number of a line as a point of the curve `split/name`, at the line's step."""

    def __init__(self, folder: Path, lines: Iterable[Mapping[str, Any]], began: float) -> None:
        """Start anew.

        Args:
            folder: Where the event files are.
            lines: What the history holds already.
            began: When training would have begun, had it never been interrupted: seconds since 1970.
        """
        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self.writer, self.began = summary_writer()(log_dir=str(folder)), began
        weakref.finalize(self, self.writer.close)  # its thread would hold the file open as long as the process lives
        for line in lines:
            self.add(line)

    def add(self, line: Mapping[str, Any]) -> None:
        for name, value in line.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool) and name not in NO_CURVES:
                tag = f"{line['split']}/{name}"
                self.writer.add_scalar(tag, value, global_step=line["step"], walltime=self.began + line["time"])

    def flush(self) -> None:
        self.writer.flush()
