"""What a person sees while it trains: loss, rank, time left. A line an epoch where the output is a file."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from tqdm import tqdm


class Progress:
    """Writes to the error stream, so that results on the output stay clean; silent when `quiet`."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet, self.live = quiet, sys.stderr.isatty() and not quiet
        self.bar: tqdm[Any] | None = None
        self.losses: dict[str, float] = {}
        self.rank: float | None = None
        self.total = self.done = 0
        self.started = self.shown = time.monotonic()

    def note(self, text: str) -> None:
        if not self.quiet:
            tqdm.write(text, file=sys.stderr)

    @contextlib.contextmanager
    def counting(self, what: str, images: int) -> Iterator[Callable[[int], object]]:
        """A bar for one pass over images; gives what to call with the number just done."""
        with tqdm(total=images, desc=what, unit="image", disable=not self.live) as bar:
            yield bar.update

    def start(self, epochs: int, done: int) -> None:
        self.total, self.done, self.started = epochs, done, time.monotonic()
        self.first = done
        if self.live:
            self.bar = tqdm(
                total=epochs,
                initial=done,
                unit="epoch",
                bar_format="{l_bar}{bar:24}| {n:.1f}/{total} epochs, {remaining} left {postfix}",
            )

    def step(self, share: float, mean_loss: Callable[[], float | None]) -> None:
        """At most four times a second; `mean_loss` is asked only then, and may not know yet."""
        now = time.monotonic()
        if self.bar is None or now - self.shown < 0.25:
            return
        self.shown = now
        self.bar.n = self.done + share
        loss = mean_loss()
        words = [] if loss is None else [f"loss {loss:.3f}"]
        words += [] if self.rank is None else [f"rank {self.rank:.0f}"]
        self.bar.set_postfix_str(", ".join(words), refresh=True)

    def epoch(self, done: int, summary: dict[str, Any], *, best: bool) -> None:
        self.done = done
        if self.quiet:
            return
        seconds = (time.monotonic() - self.started) / max(done - self.first, 1) * (self.total - done)
        words = [f"epoch {done:3d}/{self.total}", f"loss {sum(self.losses.values()):.3f}"]
        for name, label in (("class", "class"), ("concept", "concepts")):
            value = summary.get(name, {}).get("balanced_accuracy")
            if value is not None:
                words.append(f"{label} {value:.3f}")
        if "rank" in summary and summary["rank"].get("published") is not None:
            words.append(f"rank {summary['rank']['published']:.0f}")
        words.append(f"{int(seconds // 60)}:{int(seconds % 60):02d} left" + (" *" if best else ""))
        self.note(" · ".join(words))

    def finish(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None
