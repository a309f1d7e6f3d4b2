"""Edits of a region: one at a time for a client, in a queue of their own, reported line by line while they run."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.cortex.editing.edit import edit_image
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.web.schemas.studio import Changed, EditEvent, EditRequest
from conceptlens.web.server.problems import Problem, bad
from conceptlens.web.server.work_queue import WorkQueue
from conceptlens.web.views.studio import SECONDS
from conceptlens.web.views.studio_model import LoadedStudy

FRAMES = 6  # pictures on the way
NOTED = 60  # points of the path, at most
MOST = 2**24  # numbers of a selection matrix: positions × codes
Tell = Callable[[EditEvent], None]


def edit(loaded: LoadedStudy, asked: EditRequest, tell: Tell, gone: Callable[[], bool]) -> None:
    """Search, and tell each noted step; the last line has the result.

    Args:
        loaded: The study.
        asked: What for.
        tell: Told each line.
        gone: Whether nobody listens any more.
    """
    tokens, mask = loaded.tokens(asked.tokens), loaded.mask(asked.cells)
    every = max(1, asked.steps // NOTED)
    noted = -(-asked.steps // every) + 1
    shown = {round(place * (noted - 1) / (FRAMES + 1)) for place in range(1, FRAMES + 1)}
    began, count = time.monotonic(), 0

    def late() -> bool:
        return time.monotonic() - began > SECONDS

    def see(step: int, probability: Tensor, draw: Tensor) -> None:
        nonlocal count
        picture = loaded.picture(draw[0].cpu()) if count in shown else None
        count += 1
        tell(EditEvent(kind="step", step=step, probability=float(probability[0]), picture=picture))

    try:
        made = edit_image(
            loaded.study.model,
            loaded.study.extractor,
            tokens,
            mask,
            asked.target,
            method=asked.method,
            settings=SearchSettings(steps=asked.steps, last_temperature=0.3, keep="best", record_every=every),
            seed=asked.seed,
            see=see,
            halt=lambda: gone() or late(),
        )
    except UserError as error:
        tell(EditEvent(kind="failed", message=str(error)))
        return
    if gone():
        return
    after = made.found.tokens[0].cpu()
    names = loaded.study.extractor.card.concepts
    changed = [
        Changed(row=row, column=column, before=int(tokens[row, column]), after=int(after[row, column]))
        for row, column in made.found.changed[0].nonzero().tolist()
    ]
    tell(
        EditEvent(
            kind="done",
            step=made.found.steps[-1],
            probability=float(made.found.end[0]),
            reading=loaded.read(after, title=f"edited towards {asked.target}", concept=names.index(asked.target)),
            changed=changed,
            stopped=late(),
            seconds=round(time.monotonic() - began, 2),
        )
    )


def check(loaded: LoadedStudy, asked: EditRequest) -> None:
    """Refuse what means nothing, or is too much, before a place in the queue is taken."""
    names = loaded.study.extractor.card.concepts
    if asked.target not in names:
        raise bad(f"target: expected one of {', '.join(names[:20])}, found {asked.target!r}.")
    loaded.tokens(asked.tokens)
    marked = int(loaded.mask(asked.cells).sum())
    if marked * len(loaded.study.codebook) > MOST:
        most = MOST // len(loaded.study.codebook)
        raise Problem(413, "too-large", f"At most {most} tokens of this codebook are searched at once; mark fewer.")


@dataclass
class Job:
    """An edit of one client."""

    lines: "asyncio.Queue[EditEvent | None]"
    ahead: int
    stop: threading.Event = field(default_factory=threading.Event)
    begun: bool = False
    task: "asyncio.Task[None] | None" = None

    def cancel(self) -> None:
        """Nobody listens any more: what waits is let go, what runs ends with its step."""
        self.stop.set()
        if self.task is not None and not self.begun:
            self.task.cancel()


class EditJobs:
    """Who is being served."""

    def __init__(self, queue: WorkQueue, most: int) -> None:
        self._queue, self._most = queue, most
        self._jobs: dict[str, Job] = {}

    def start(self, client: str, work: Callable[[Tell, Callable[[], bool]], None]) -> Job:
        """Take a client's work into the queue, or refuse it with a 429."""
        if client in self._jobs:
            raise Problem(429, "busy", "Your last edit is still running. Cancel it, or wait for it.", wait=2)
        if len(self._jobs) >= self._most:
            words = f"{len(self._jobs)} edits of others run or wait already. Try again in a moment."
            raise Problem(429, "busy", words, wait=10)
        loop = asyncio.get_running_loop()
        job = Job(asyncio.Queue(), ahead=len(self._jobs))

        def tell(event: EditEvent | None) -> None:
            loop.call_soon_threadsafe(job.lines.put_nowait, event)

        def begin() -> None:
            job.begun = True
            if not job.stop.is_set():
                work(tell, job.stop.is_set)

        async def run() -> None:
            try:
                await self._queue.run(begin)
            except Problem as problem:
                job.lines.put_nowait(EditEvent(kind="failed", message=problem.message))
            except Exception:
                job.lines.put_nowait(EditEvent(kind="failed", message="This is a bug in conceptlens."))
                raise
            finally:
                tell(None)

        self._jobs[client] = job
        job.task = loop.create_task(run())
        job.task.add_done_callback(lambda task: self._done(client, task))
        return job

    def _done(self, client: str, task: "asyncio.Task[None]") -> None:
        del self._jobs[client]
        if not task.cancelled() and (error := task.exception()):
            asyncio.get_running_loop().call_exception_handler({"message": "an edit failed", "exception": error})


async def told(job: Job) -> AsyncIterator[bytes]:
    """The lines of an edit as JSON; ends the edit where the client goes away."""
    try:
        if job.ahead:
            yield _line(EditEvent(kind="waiting", ahead=job.ahead))
        while (event := await job.lines.get()) is not None:
            yield _line(event)
    finally:
        job.cancel()


def _line(event: EditEvent) -> bytes:
    return event.model_dump_json(by_alias=True, exclude_none=True).encode() + b"\n"
