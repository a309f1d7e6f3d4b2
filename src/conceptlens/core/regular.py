"""Whether a path may be opened: what has no end or waits for a writer is refused before."""

import contextlib
import stat
from pathlib import Path

from conceptlens.core.errors import UserError


def check_regular(path: Path) -> None:
    """Refuse devices, pipes and sockets.

    Raises:
        UserError: It is none of a file, a folder and a name without either.
    """
    with contextlib.suppress(OSError, ValueError):  # what opens it says what is wrong
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            kinds = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))
            found = next((name for is_kind, name in kinds if is_kind(mode)), "a device")
            raise UserError(f"{path}: expected a file, found {found}. It is not read.")
