"""Tasks on a Ray cluster, or on a Ray that is started on this machine."""

import logging
import os
from collections.abc import Sequence
from typing import Any

from conceptlens.core.engines.contract import RETRIES, Engine, OnEnd, Task, run_line
from conceptlens.core.engines.environment import lone_environment
from conceptlens.core.errors import UserError


class RayEngine(Engine):
    """`options`: `address` of a running cluster; `num_cpus`, `num_gpus` and `resources` of a task.

    Without an address, a Ray with `at_once` processors is started here. On a cluster, its resources say how many tasks
    run at once. Folders must be on a file system that all machines share.
    """

    def run(self, tasks: Sequence[Task], on_end: OnEnd) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves this machine unasked
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError:
            raise UserError("--engine ray needs Ray. Install it: pip install 'conceptlens[ray]'") from None
        needs = {"num_cpus": 1, **self.options}
        address = needs.pop("address", None)
        here: dict[str, Any] = (
            {"address": address} if address else {"num_cpus": self.at_once, "include_dashboard": False}
        )
        started = not ray.is_initialized()
        if started:
            ray.init(**here, log_to_driver=False, logging_level=logging.ERROR)
        # As many threads as a local process gets: sums in another order would give other bits.
        alone = lone_environment(os.environ, 0, self.at_once, 0, os.cpu_count() or 1)
        variables = {name: alone[name] for name in ("OMP_NUM_THREADS",) if name in alone}
        remote = ray.remote(max_retries=RETRIES, runtime_env={"env_vars": variables}, **needs)(run_line)
        try:
            waiting = {remote.remote(task.to_line()): task for task in tasks}
            while waiting:
                (ready, *_), _ = ray.wait(list(waiting), num_returns=1)
                task = waiting.pop(ready)
                try:
                    on_end(task, ray.get(ready), "")
                except ray.exceptions.RayError as error:
                    on_end(task, 1, f"{type(error).__name__} in the logs of Ray")
        finally:
            for ready in waiting:
                ray.cancel(ready, force=True)
            if started:
                ray.shutdown()
