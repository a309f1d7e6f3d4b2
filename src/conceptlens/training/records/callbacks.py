"""What a user wants to know of a training while it goes on: callbacks, and ready ones for three trackers.

All numbers of a training go through its history; what is written there is told here, by the main process alone.
"""

import re
import time
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError

Line = Mapping[str, Any]


class Callback:
    """Called during a training. Override the methods that you need. With several processes, only the main one calls.

    >>> import conceptlens as cl
    >>> class Printer(cl.Callback):
    ...     def on_epoch_end(self, epoch, metrics):
    ...         print(epoch, round(metrics["class.balanced_accuracy"], 2))
    >>> Printer().on_epoch_end(1, {"class.balanced_accuracy": 0.5})
    1 0.5
    """

    def on_train_begin(self, run: Path, recipe: Mapping[str, Any]) -> None:
        """Before the first step, and again when a stopped run is resumed.

        Args:
            run: The run folder.
            recipe: Every setting, as in `recipe.yaml`.
        """

    def on_log(self, line: Line) -> None:
        """At each line of `history.jsonl`: losses, validations, ranks.

        Args:
            line: With `epoch`, `step`, `split`, and the numbers by name.
        """

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """After each epoch that was validated.

        Args:
            epoch: Counted from 1, over all stages.
            metrics: On validation images, with dotted names.
        """

    def on_train_end(self, run: Path, metrics: Mapping[str, Any]) -> None:
        """When the run is done and everything is measured.

        Args:
            run: The run folder.
            metrics: What `metrics.json` holds, by split.
        """

    def on_failure(self, run: Path, error: BaseException) -> None:
        """When the training ends with an error, or is interrupted.

        Args:
            run: The run folder; `conceptlens.resume` goes on from its last state.
            error: What happened.
        """


class Callbacks:
    """Tells several callbacks; none by default."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self.all = list(callbacks)
        for callback in self.all:
            if not isinstance(callback, Callback):
                raise UserError(f"callbacks: expected conceptlens.Callback objects, found {type(callback).__name__}.")

    def tell(self, event: str, *words: Any) -> None:
        """Call the method of that name of each, in order."""
        for callback in self.all:
            getattr(callback, event)(*words)


def numbers_of(line: Line) -> dict[str, float]:
    """The numbers of a line as curves `split/name`, without where it stands."""
    where = ("epoch", "step", "time")
    return {
        f"{line['split']}/{name}": value
        for name, value in line.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in where
    }


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A tree with dotted names."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise UserError(f"The callback needs the package {name}: pip install {name}.") from None


class TensorBoard(Callback):
    """The history as event files in a folder of your own; `training.tensorboard` writes them into the run folder.

    Args:
        folder: Where they go; older ones there are replaced.

    >>> import conceptlens as cl
    >>> cl.train("blood-cells/cbm", callbacks=[cl.TensorBoard("events")])  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path) -> None:
        from conceptlens.training.records.tensorboard import summary_writer

        summary_writer()  # refuses now where it is not installed
        self.folder = Path(folder)

    def on_train_begin(self, run: Path, recipe: Mapping[str, Any]) -> None:
        from conceptlens.training.records.tensorboard import Events

        self.folder.mkdir(parents=True, exist_ok=True)
        self.events = Events(self.folder, (), began=time.time())

    def on_log(self, line: Line) -> None:
        self.events.add(line)

    def on_train_end(self, run: Path, metrics: Mapping[str, Any]) -> None:
        self.events.flush()

    def on_failure(self, run: Path, error: BaseException) -> None:
        self.events.flush()


class WeightsAndBiases(Callback):
    """The recipe, the history and the result to Weights & Biases; needs `pip install wandb`.

    Args:
        project: Of the tracker.
        options: Further arguments of `wandb.init`, as `entity`, `tags` or `mode="offline"`.

    >>> import conceptlens as cl
    >>> cl.train("blood-cells/cbm", callbacks=[cl.WeightsAndBiases("cells")])  # doctest: +SKIP
    """

    def __init__(self, project: str = "conceptlens", **options: Any) -> None:
        self.wandb, self.project, self.options = _package("wandb"), project, options

    def on_train_begin(self, run: Path, recipe: Mapping[str, Any]) -> None:
        own = {"project": self.project, "name": run.name, "config": dict(recipe)}
        self.run = self.wandb.init(**{**own, **self.options})

    def on_log(self, line: Line) -> None:
        self.run.log({**numbers_of(line), "epoch": line["epoch"]}, step=line["step"])

    def on_train_end(self, run: Path, metrics: Mapping[str, Any]) -> None:
        self.run.summary.update({name: value for name, value in _flat(metrics).items() if isinstance(value, float)})
        self.run.finish()

    def on_failure(self, run: Path, error: BaseException) -> None:
        self.run.finish(exit_code=1)


class MLflow(Callback):
    """The recipe, the history and the result to MLflow; needs `pip install mlflow`.

    Args:
        experiment: Its name; the active one by default.
        options: Further arguments of `mlflow.start_run`, as `tags`.

    >>> import conceptlens as cl
    >>> cl.train("blood-cells/cbm", callbacks=[cl.MLflow("cells")])  # doctest: +SKIP
    """

    def __init__(self, experiment: str | None = None, **options: Any) -> None:
        self.mlflow, self.experiment, self.options = _package("mlflow"), experiment, options

    def on_train_begin(self, run: Path, recipe: Mapping[str, Any]) -> None:
        if self.experiment:
            self.mlflow.set_experiment(self.experiment)
        self.mlflow.start_run(**{"run_name": run.name, **self.options})
        self.mlflow.log_params({name: str(value)[:500] for name, value in _flat(recipe).items()})  # its limit

    def on_log(self, line: Line) -> None:
        self._log(numbers_of(line), step=line["step"])

    def on_train_end(self, run: Path, metrics: Mapping[str, Any]) -> None:
        self._log({name: value for name, value in _flat(metrics).items() if isinstance(value, float)})
        self.mlflow.end_run()

    def _log(self, numbers: Mapping[str, float], **more: int) -> None:
        """Numbers by names that it takes: a class or a concept may have other letters in its own."""
        self.mlflow.log_metrics({re.sub(r"[^\w./ :-]", "_", name): value for name, value in numbers.items()}, **more)

    def on_failure(self, run: Path, error: BaseException) -> None:
        self.mlflow.end_run(status="FAILED")
