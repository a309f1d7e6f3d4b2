"""Dynamic batching: images of several requests go through the model together.

While one batch is computed, the next gathers. It is handed over when it is full, even if the one before is not answered
yet, or when that one is. An image waits for others only if others came lately: a client that asks alone is not delayed.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from conceptlens.explanations.image_answer import Answer
from conceptlens.explanations.subjects import Subject
from conceptlens.web.server.problems import Problem

Compute = Callable[[Sequence[Subject], bool], list[Answer]]  # images, whether evidence is wanted → answers
AHEAD = 2  # batches handed over: one in the model, and one that waits for it or is told


@dataclass
class Waiting:
    """One image of a request."""

    subject: Subject
    evidence: bool
    answer: "asyncio.Future[Answer]"
    request: object
    since: float = field(default_factory=time.perf_counter)


class Batcher:
    """Gathers images and hands them to the model.

    Args:
        compute: Answers a batch; called in `threads` threads at once.
        size: Largest number of images in a batch.
        wait: Seconds that an image waits for others.
        most: Images that may wait; more are refused.
        seen: Told of each batch: its images, and the seconds it took.
        threads: One or two. With two, a batch is told while the next is in the model: for a model on a GPU. On a CPU
            the threads of the one would only wait for those of the other.
    """

    def __init__(
        self,
        compute: Compute,
        *,
        size: int,
        wait: float,
        most: int,
        seen: Callable[[int, float], object],
        threads: int = AHEAD,
    ) -> None:
        self.compute, self.size, self.wait, self.most, self.seen = compute, size, wait, most, seen
        self.waiting: deque[Waiting] = deque()
        self.changed = asyncio.Event()  # an image arrived, or a batch was answered
        self.threads = ThreadPoolExecutor(threads, "conceptlens-model")
        self.under_way: set[asyncio.Task[None]] = set()
        self.alone = True  # one client asks at a time
        self.task: asyncio.Task[None] | None = None

    async def answer(self, subjects: Sequence[Subject], *, evidence: bool) -> list[Answer]:
        """Answers in the order of the images.

        Raises:
            Problem: Too many images wait already, or the service ends before they are answered.
        """
        if len(self.waiting) + len(subjects) > self.most:
            raise Problem(503, "busy", "Too many images are waiting. Try again in a moment.", wait=1)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._work())
        loop, request = asyncio.get_running_loop(), object()
        entries = [Waiting(subject, evidence, loop.create_future(), request) for subject in subjects]
        self.waiting.extend(entries)
        self.changed.set()
        try:
            return list(await asyncio.gather(*(entry.answer for entry in entries)))
        except asyncio.CancelledError:
            raise Problem(503, "busy", "The service is being stopped. Try again in a moment.", wait=1) from None
        finally:
            for entry in entries:  # of a client that went away
                entry.answer.cancel()

    async def _work(self) -> None:
        while True:
            await self._gather()
            batch = [self.waiting.popleft() for _ in range(min(self.size, len(self.waiting)))]
            batch = [entry for entry in batch if not entry.answer.cancelled()]
            self.alone = len({entry.request for entry in (*batch, *self.waiting)}) < 2
            task = asyncio.create_task(self._answer(batch))
            self.under_way.add(task)
            task.add_done_callback(self._answered)

    async def _gather(self) -> None:
        """Wait until there is a batch to hand over."""
        while True:
            left: float | None = None  # seconds until the images that wait are enough
            if len(self.waiting) >= self.size and len(self.under_way) < AHEAD:
                return
            if self.waiting and not self.under_way:
                left = 0.0 if self.alone else self.waiting[0].since + self.wait - time.perf_counter()
                if left <= 0:
                    return
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), left)
            except TimeoutError:
                return

    def _answered(self, task: "asyncio.Task[None]") -> None:
        self.under_way.discard(task)
        self.alone = self.alone and not self.waiting
        self.changed.set()

    async def _answer(self, batch: list[Waiting]) -> None:
        for evidence in (False, True):
            await self._run([entry for entry in batch if entry.evidence is evidence], evidence)

    async def _run(self, batch: list[Waiting], evidence: bool) -> None:
        if not batch:
            return
        began = time.perf_counter()
        try:
            subjects = [entry.subject for entry in batch]
            answers = await asyncio.get_running_loop().run_in_executor(self.threads, self.compute, subjects, evidence)
        except Exception as error:  # whoever waits must hear of it, and the next batch must be computed
            for entry in batch:
                if not entry.answer.done():
                    entry.answer.set_exception(error)
            return
        self.seen(len(batch), time.perf_counter() - began)
        for entry, answer in zip(batch, answers, strict=True):
            if not entry.answer.done():
                entry.answer.set_result(answer)

    def close(self) -> None:
        """End the work."""
        if self.task is not None:
            self.task.cancel()
        self.threads.shutdown(wait=False, cancel_futures=True)
