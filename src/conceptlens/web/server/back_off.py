"""Wrong tokens: after a few of them a client waits before the next one counts, longer each time."""

import time
from collections.abc import Callable

from conceptlens.web.server.problems import Problem

FREE = 4  # wrong tokens before the first pause
LONGEST = 60.0  # seconds
FORGET = 900.0  # seconds after which a client begins anew
MOST = 10_000  # clients remembered


class BackOff:
    """Counts wrong tokens by client."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: dict[str, tuple[int, float]] = {}  # how many, and when the last one came

    def check(self, client: str) -> None:
        """Refuse who has to wait, before their token is looked at."""
        count, last = self._wrong.get(client, (0, 0.0))
        passed = self._clock() - last
        if passed > FORGET:
            self._wrong.pop(client, None)
            return
        pause = min(LONGEST, 2.0 ** (count - FREE)) if count >= FREE else 0.0
        if passed < pause:
            wait = int(pause - passed) + 1
            raise Problem(429, "busy", f"Too many wrong tokens. Try again in {wait} seconds.", wait=wait)

    def wrong(self, client: str) -> None:
        count, _ = self._wrong.pop(client, (0, 0.0))
        while len(self._wrong) >= MOST:
            self._wrong.pop(next(iter(self._wrong)))
        self._wrong[client] = (min(count + 1, 1000), self._clock())

    def right(self, client: str) -> None:
        self._wrong.pop(client, None)
