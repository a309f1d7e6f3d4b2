"""What every command of the recipe has in common: a user's mistake is a message and exit code 2, no traceback."""

import sys
from collections.abc import Callable, Sequence
from functools import wraps

from conceptlens.core.errors import UserError

Main = Callable[[Sequence[str] | None], object]


def command(main: Main) -> Callable[..., int]:
    """A main function that takes the words of the command line (the program's own if None), as an exit code."""

    @wraps(main)
    def run(arguments: Sequence[str] | None = None) -> int:
        try:
            main(arguments)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        return 0

    return run
