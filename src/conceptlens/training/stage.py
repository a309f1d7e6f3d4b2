"""What every stage does, whether it trains or fits: measure on validation, keep the best, write history and state."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from conceptlens.evaluation.summary import quick_summary, standing
from conceptlens.methods.contract import Pipeline
from conceptlens.recipes import StageConfig
from conceptlens.runs.predict import Predictions, predict
from conceptlens.training.records.checkpoint import Position, StateFolder, random_tensors, restore_random
from conceptlens.training.records.history import History
from conceptlens.training.session import Session


class Stage(ABC):
    """A stage at a position. `TrainStage` and `FitStage` say how it goes on from there."""

    def __init__(
        self, session: Session, stage: StageConfig, position: Position, states: StateFolder, history: History | None
    ) -> None:
        self.session, self.stage, self.position = session, stage, position
        self.states, self.history, self.training = states, history, session.recipe.training

    @abstractmethod
    def run(self) -> None:
        """All that is left of the stage."""

    def evaluated(self) -> tuple[Predictions, dict[str, Tensor]]:
        """What the model says of validation, and the weights it says it with."""
        return self.predict_validation(), self.session.pipeline.state_dict()

    def validate(self, *, start: bool = False) -> None:
        """Measure on validation, and keep the weights if they are the best so far; at the start, measure only."""
        session, position = self.session, self.position
        predictions, weights = self.evaluated()
        summary = quick_summary(
            predictions, session.source, session.blueprint.concepts, session.splits, session.recipe.metrics
        )
        gain, tie = standing(summary, self.training.select)
        self.record("val", **_flat(summary))
        if start:
            return
        if position.best_value is None or (gain, tie) > (position.best_value, position.best_tie):
            position.best_value, position.best_tie, position.best_epoch = gain, tie, position.total_epochs
            position.epochs_without_gain = 0
            if session.processes.main:
                position.best_file = self.states.save_best(position, weights)
            position.best_file = session.processes.gather(position.best_file)[0]
        else:
            position.epochs_without_gain += 1
        if self.history:
            session.callbacks.tell("on_epoch_end", position.total_epochs, _flat(summary))
        session.progress.epoch(position.total_epochs, summary, best=position.best_epoch == position.total_epochs)
        labels = torch.from_numpy(session.source.examples.concepts[predictions.indices])
        notes = session.pipeline.model.calibrate(torch.from_numpy(predictions.concept_logits), labels)
        if notes:  # what was just measured and kept had the temperatures of the validation before
            self.record("train", kind="temperature", **notes)

    def predict_validation(self) -> Predictions:
        session = self.session
        return predict(
            session.pipeline,
            session.inputs,
            session.splits.val,
            rank_images=min(32, session.recipe.metrics.rank_images),
            processes=session.processes,
        )

    def record(self, split: str, **values: Any) -> None:
        if self.history:
            running = split == "train" and values.get("kind") is None  # an epoch that is not over yet
            self.history.add(
                epoch=self.position.total_epochs + running, step=self.position.total_steps, split=split, **values
            )

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """What a state holds of this stage."""
        return {"pipeline": self.session.pipeline.state_dict(), "optimizer": {}, "random": random_tensors()}

    def save(self) -> None:
        """A state to resume from."""
        if self.history is None:
            return
        self.position.history_bytes, self.position.seconds = self.history.flush(), self.history.seconds
        self.position.concepts, self.position.dropped = (
            self.session.blueprint.concepts.to_yaml(),
            self.session.dropped,
        )
        self.states.save(self.position, self.tensors())
        self.session.write_choice()  # only now: without a state, a resumed run must begin with all concepts

    def restore(self, tensors: dict[str, dict[str, Tensor]]) -> None:
        if self.session.processes.main:
            restore_random(tensors["random"])

    def close(self) -> None:
        """Let go of what ran beside the steps."""
        return


def clone(pipeline: Pipeline) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in pipeline.state_dict().items()}


def _flat(summary: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """Single numbers of a nested summary, with dotted names."""
    flat: dict[str, float] = {}
    for key, value in summary.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            flat[f"{prefix}{key}"] = value
    return flat
