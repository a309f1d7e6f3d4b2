"""Dynamic batching: images of several requests go through the model together.

A batch starts as soon as the model is free: when it is full, or when its first image has waited `wait` seconds. While
one batch is computed, the next gathers; alone, an image waits no longer than that.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from conceptlens.explanations.answer import Answer
from conceptlens.explanations.subjects import Subject
from conceptlens.web.server.problems import Problem

Compute = Callable[[Sequence[Subject], bool], list[Answer]]  # images, whether evidence is wanted → answers


@dataclass
class Waiting:
    """One image of a request."""

    subject: Subject
    evidence: bool
    answer: "asyncio.Future[Answer]"
    since: float = field(default_factory=time.perf_counter)


class Batcher:
    """Gathers images and hands them to the model, one batch at a time.

    Args:
        compute: Answers a batch; called in a thread of its own.
        size: Largest number of images in a batch.
        wait: Seconds that an image waits for others.
        most: Images that may wait; more are refused.
        seen: Told of each batch: its images, and the seconds it took.
    """

    def __init__(
        self, compute: Compute, *, size: int, wait: float, most: int, seen: Callable[[int, float], object]
    ) -> None:
        self.compute, self.size, self.wait, self.most, self.seen = compute, size, wait, most, seen
        self.waiting: deque[Waiting] = deque()
        self.arrived = asyncio.Event()
        self.thread = ThreadPoolExecutor(1, "conceptlens-model")
        self.task: asyncio.Task[None] | None = None

    async def answer(self, subjects: Sequence[Subject], *, evidence: bool) -> list[Answer]:
        """Answers in the order of the images.

        Raises:
            Problem: Too many images wait already.
        """
        if len(self.waiting) + len(subjects) > self.most:
            raise Problem(503, "busy", "Too many images are waiting. Try again in a moment.", wait=1)
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self._work())
        loop = asyncio.get_running_loop()
        entries = [Waiting(subject, evidence, loop.create_future()) for subject in subjects]
        self.waiting.extend(entries)
        self.arrived.set()
        try:
            return list(await asyncio.gather(*(entry.answer for entry in entries)))
        finally:
            for entry in entries:  # of a client that went away
                entry.answer.cancel()

    async def _work(self) -> None:
        while True:
            while not self.waiting:
                self.arrived.clear()
                await self.arrived.wait()
            await self._gather()
            batch = [self.waiting.popleft() for _ in range(min(self.size, len(self.waiting)))]
            batch = [entry for entry in batch if not entry.answer.cancelled()]
            for evidence in (False, True):
                await self._run([entry for entry in batch if entry.evidence is evidence], evidence)

    async def _gather(self) -> None:
        """Wait until the batch is full or its first image has waited long enough."""
        until = self.waiting[0].since + self.wait
        while len(self.waiting) < self.size and (left := until - time.perf_counter()) > 0:
            self.arrived.clear()
            try:
                await asyncio.wait_for(self.arrived.wait(), left)
            except TimeoutError:
                return

    async def _run(self, batch: list[Waiting], evidence: bool) -> None:
        if not batch:
            return
        began = time.perf_counter()
        try:
            subjects = [entry.subject for entry in batch]
            answers = await asyncio.get_running_loop().run_in_executor(self.thread, self.compute, subjects, evidence)
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
        self.thread.shutdown(wait=False, cancel_futures=True)
