"""How often an endpoint is asked: at most so many requests a minute, and longer waits after each refusal."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime


@dataclass
class Pace:
    """Spreads requests of several threads over time.

    Args:
        per_minute: At most so many requests; 0 for no limit.
        first_wait: Seconds before the first repetition; each further one waits twice as long.
        longest_wait: No wait is longer, whatever the endpoint asks for.
    """

    per_minute: float = 0
    first_wait: float = 1.0
    longest_wait: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _next: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _random: random.Random = field(default_factory=lambda: random.Random(0), init=False)

    def before_request(self) -> None:
        """Wait for this request's turn."""
        with self._lock:
            now = self.clock()
            turn = max(self._next, now)
            self._next = turn + (60 / self.per_minute if self.per_minute > 0 else 0)
        if turn > now:
            self.sleep(turn - now)

    def after_refusal(self, attempt: int, asked_for: float | None) -> None:
        """Wait before attempt + 1; an endpoint that says how long is believed, and holds up all threads alike."""
        wait = self.first_wait * 2**attempt if asked_for is None else asked_for
        wait = min(max(wait, 0.0), self.longest_wait)
        if asked_for is None:
            wait *= self._random.uniform(0.8, 1.2)  # threads that failed together do not come back together
        else:
            with self._lock:
                self._next = max(self._next, self.clock() + wait)
        self.sleep(wait)


def retry_after(header: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Seconds that a `Retry-After` header asks for: a number, or a date; None where it says nothing."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now())
    except (TypeError, ValueError):
        return None
