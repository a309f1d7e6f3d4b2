"""Starts waiting jobs, oldest first, one at a time per device. Of several servers of one folder, one does it."""

import contextlib
import logging
import subprocess
import threading

from conceptlens.core.engines.environment import python
from conceptlens.core.locks import lock_file
from conceptlens.web.jobs.store import JobStore

EVERY = 0.5  # seconds between two looks
log = logging.getLogger("conceptlens.web")


class Scheduler:
    """A thread that looks at the queue."""

    def __init__(self, store: JobStore) -> None:
        self.store = store
        self._children: dict[str, subprocess.Popen[bytes]] = {}  # job → its process
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="jobs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Start no more jobs; those that run go on."""
        self._ended.set()
        self._wake.set()
        self._thread.join(5)

    def wake(self) -> None:
        """Look now."""
        self._wake.set()

    def _work(self) -> None:
        self.store.folder.mkdir(parents=True, exist_ok=True)
        while not self._ended.is_set():
            with contextlib.suppress(BlockingIOError), lock_file(self.store.folder / ".lock"):
                while not self._ended.is_set():
                    try:
                        self.look()
                    except Exception:  # a full disk, a file in the way: it is tried again
                        log.exception("the queue of jobs cannot be looked at")
                    self._wake.wait(EVERY)
                    self._wake.clear()
            self._ended.wait(5)  # another server has the queue

    def look(self) -> None:
        """Start what may start."""
        jobs = self.store.all()
        waiting = {status.job.id for status in jobs if status.state == "queued"}
        for name, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[name]
                if name in waiting:  # it could not even say that it began
                    self.store.start(name, child.pid, made=0.0)
        busy = {status.job.device for status in jobs if status.state == "running" or status.job.id in self._children}
        for status in jobs:
            job = status.job
            if status.state == "queued" and job.device not in busy:
                busy.add(job.device)
                folder = str(self.store.folder / job.id)
                # A session of its own: Ctrl-C at the server does not reach it.
                words = [*python(), "-m", "conceptlens.web.jobs.runner", folder]
                self._children[job.id] = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )  # fmt: skip
