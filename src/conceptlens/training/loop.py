"""The loop: setup → stages → epochs → steps → validation → the chosen model. One explicit loop for every machine.

`fit` reads top to bottom. Nothing in a step asks the device for a number: a GPU always has its next work in hand.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from conceptlens.core.allocation import kept_memory
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.processes import Launched
from conceptlens.data.loading.transfer import send
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.build import join, rest_idle_parameters, sample_indices, sample_tokens
from conceptlens.methods.contract import Pipeline
from conceptlens.recipes import AugmentConfig, Recipe, StageConfig
from conceptlens.runs.predict import Predictions
from conceptlens.training.batches.augment import Draw
from conceptlens.training.batches.order import Order, piece
from conceptlens.training.batches.places import find_places
from conceptlens.training.batches.targets import TargetTable
from conceptlens.training.batches.views import draw_views
from conceptlens.training.epochs import number_of
from conceptlens.training.fit_stage import FitStage, check_fits
from conceptlens.training.optimization.average import WeightAverage
from conceptlens.training.optimization.compiled import compiles
from conceptlens.training.optimization.losses import SupervisedLoss, class_weights
from conceptlens.training.optimization.optimizer import build_optimizer, check_optimizer, clip_gradients, set_rate
from conceptlens.training.optimization.schedule import rate
from conceptlens.training.optimization.step import Step
from conceptlens.training.optimization.sums import Sums
from conceptlens.training.records.checkpoint import Position, StateFolder, optimizer_tensors, restore_optimizer
from conceptlens.training.records.history import History
from conceptlens.training.records.ranks import Means, RankTracker
from conceptlens.training.session import Session as Session
from conceptlens.training.stage import Stage, clone
from conceptlens.training.start import meet_encoder, rest_randint

Indices = npt.NDArray[np.int64]
NO_CHANGE = AugmentConfig(crop=1.0, flip_horizontal=False, flip_vertical=False)  # beside the user's own
RANDINT = 26  # keeps its draws apart from those of the augmentation


def stages_of(recipe: Recipe) -> list[StageConfig]:
    """The stages with nothing left open; a training without stages is one of all parts."""
    training = recipe.training
    stages = training.stages or [StageConfig()]
    return [
        StageConfig(
            stage.name,
            1 if stage.kind == "fit" else stage.epochs or training.epochs,
            stage.train,
            stage.learning_rate or training.learning_rate,
            stage.kind,
            training.loss.class_weight if stage.class_weight is None else stage.class_weight,
            stage.schedule or training.schedule,
        )
        for stage in stages
    ]


def _chosen(name: str, stage: StageConfig) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in stage.train)


def check_stages(stages: list[StageConfig], pipeline: Pipeline) -> None:
    """Refuse a stage that names no part of the pipeline, or whose parts are all frozen, before the first one starts."""
    names = [name for name, _ in (*pipeline.named_modules(), *pipeline.named_parameters()) if name]
    for stage in stages:
        if stage.kind == "fit":
            check_fits(stage, pipeline)
            continue
        for name in stage.train:
            if name not in names:
                raise unknown_name("part in training.stages", name, [known for known in names if known.count(".") < 2])
        if not any(value.requires_grad and _chosen(name, stage) for name, value in pipeline.named_parameters()):
            raise UserError(
                f"training.stages ({stage.name}): nothing would learn, every parameter of {', '.join(stage.train)} is "
                "frozen. Check encoder.train and the stage's `train`."
            )


def fit(session: Session) -> dict[str, Tensor]:
    """Train, or go on where the newest state stands; returns the weights that validation chose."""
    with session.resident_images(), kept_memory(session.processes.device.type == "cpu"):
        best = _train(session)
    session.pipeline.load_state_dict(best)
    session.pipeline.regularizer.detach()
    return session.pipeline.state_dict()


def _train(session: Session) -> dict[str, Tensor]:
    recipe, pipeline, processes = session.recipe, session.pipeline, session.processes
    states = StateFolder(session.run.path)
    resumed = states.load()
    if resumed is not None:
        session.take_over(resumed[0].concepts, resumed[0].dropped)
    sample = session.inputs.batch(sample_indices(session.splits.train, recipe.seed)).to(processes.device)
    pipeline.to(processes.device)
    meet_encoder(pipeline, None if resumed is None else session.run.info["encoder"]["hash"])
    session.places = find_places(session)  # before a state is loaded, which knows better where parameters stand
    if resumed is None:
        pieces = sample_tokens(pipeline, sample)
        pipeline.regularizer.prepare(pieces)
        session.choose(pipeline.model.prepare(pieces, session.blueprint.concepts))
        position = Position()
    else:
        position = resumed[0]
        try:
            pipeline.load_state_dict(resumed[1]["pipeline"])
        except RuntimeError as error:
            raise UserError(
                f"{states.path}: the state and the recipe do not fit ({str(error).splitlines()[-1].strip()}). "
                "Bring the run's own recipe.yaml and concepts.yaml back, or train again."
            ) from None
        if not processes.main:
            _sum_code_uses(pipeline, keep=False)  # the state holds the sum over all processes
    idle = rest_idle_parameters(pipeline, sample)
    examples, train = session.source.examples, session.splits.train
    if rest_randint(pipeline, examples.concepts[train], examples.labels[train]):
        session.progress.note("RandInt is off: the concept labels follow from the class, to tell them tells the class")
    learning = {name for name, parameter in pipeline.named_parameters() if parameter.requires_grad}
    history = (
        History(
            session.run.history,
            keep_bytes=position.history_bytes,
            seconds=position.seconds,
            listen=lambda line: session.callbacks.tell("on_log", line),
        )
        if processes.main
        else None
    )
    if idle and resumed is None:
        session.progress.note(f"no output depends on {', '.join(idle)}: left as they are")
    session.progress.start(sum(number_of(stage.epochs) for stage in stages_of(recipe)), position.total_epochs)
    torch.manual_seed(recipe.seed + 1000 * processes.index)  # for layers that draw; a resumed state overrides it

    for number, stage in enumerate(stages_of(recipe)):
        if number < position.stage:
            continue
        runner: Stage
        if stage.kind == "fit":
            runner = FitStage(session, stage, position, states, history)
        else:
            runner = TrainStage(session, stage, learning, position, states, history, sample)
        if resumed is not None:
            runner.restore(resumed[1])
            resumed = None
        elif position.total_epochs == 0 and stage.kind == "train":
            runner.validate(start=True)
        try:
            runner.run()
        finally:
            runner.close()
        position.stage, position.epoch, position.step, position.epochs_without_gain = number + 1, 0, 0, 0
        if position.stage < len(stages_of(recipe)):
            position.best_value, position.best_file = None, None  # a later stage is there to change the model
    session.progress.finish()
    best = states.load_best(position)
    assert best is not None  # every stage validates after its last epoch
    return best


class TrainStage(Stage):
    """A stage that trains: its parameters, its optimizer, its epochs."""

    def __init__(
        self,
        session: Session,
        stage: StageConfig,
        learning: set[str],
        position: Position,
        states: StateFolder,
        history: History | None,
        sample: Tensor,
    ) -> None:
        super().__init__(session, stage, position, states, history)
        recipe, pipeline, processes = session.recipe, session.pipeline, session.processes
        self.sample, self.epochs = sample, number_of(stage.epochs)
        self.seen: Tokens | None = None  # the sample's tokens, where no epoch changes them
        for name, parameter in pipeline.named_parameters():
            parameter.requires_grad_(name in learning and _chosen(name, stage))
        self.parameters = [parameter for parameter in pipeline.parameters() if parameter.requires_grad]
        self.optimizer: AdamW = build_optimizer(
            pipeline, self.training, recipe.encoder, stage.learning_rate or self.training.learning_rate
        )
        check_optimizer(pipeline, self.optimizer)
        self.average = WeightAverage(pipeline, self.training.ema) if self.training.ema else None
        examples = session.source.examples
        weights = class_weights(
            self.training.loss,
            examples.labels[session.splits.train],
            len(session.blueprint.classes),
            session.source.task,
        )
        weighted = self.training.loss
        if stage.class_weight is not None:
            weighted = replace(weighted, class_weight=stage.class_weight)
        loss = SupervisedLoss(weighted, session.blueprint.concepts, session.source.task, weights.to(processes.device))
        self.targets = TargetTable(examples, loss, processes.device, session.places, session.splits.train)
        self.pieces = processes.count * self.training.accumulate
        self.order = Order.plan(
            session.splits.train, self.training.batch_size, self.pieces, recipe.seed, session.source.blocks
        )
        self.ranks = RankTracker()
        step = Step(pipeline, loss, processes.autocast, self.training.rank_images)
        self.compiled = compiles(self.training.compile, self.order.steps * self.epochs, processes.device)
        if self.compiled:
            session.progress.note("compiling the step: the first ones take a minute or two")
            # A graph's gradients are gone with its next run: it cannot add them up, nor wait for other processes.
            step.use_compiled(graphs=self.pieces == 1, must=self.training.compile is True, note=session.progress.note)
        self.step: nn.Module = processes.wrap(step)

    @property
    def out_of_patience(self) -> bool:
        return 0 < (self.training.patience or 0) <= self.position.epochs_without_gain

    def run(self) -> None:
        """All epochs from the position on, or as many as patience allows."""
        while self.position.epoch < self.epochs and not self.out_of_patience:
            self.train_epoch()
            self.position.epoch, self.position.step = self.position.epoch + 1, 0
            self.position.total_epochs += 1
            last = self.position.epoch == self.epochs
            validates = last or self.position.total_epochs % (self.training.validate_every or 1) == 0
            if validates:
                self.validate()
            if not last:
                self.upkeep()
            if validates:
                self.save()
        if self.out_of_patience:
            self.session.progress.note(f"no gain in {self.training.patience} validations: stopped early")

    def train_epoch(self) -> None:
        """One pass over the training images."""
        session, position, processes = self.session, self.position, self.session.processes
        self.step.train()
        sums = Sums({name: value if processes.main else 0.0 for name, value in position.sums.items()}, processes.device)
        batches = list(self.order.epoch(position.total_epochs, start=position.step))
        batch_size, accumulate = self.order.batch_size, self.training.accumulate
        own = [piece(range(batch_size), processes.index * accumulate + part, self.pieces) for part in range(accumulate)]
        inputs = session.stream(batch[part] for batch in batches for part in own)
        indices = send(torch.from_numpy(np.stack(batches)), processes.device) if batches else ()
        first = position.step
        for step, batch in enumerate(indices, position.step):
            set_rate(self.optimizer, self.rate(step))
            whole, counts = replace(self.targets.targets(batch), chance=self.chance(step)), self.targets.counts(batch)
            views = self.draw(step)
            for part in own:
                with processes.hold(self.step, last=part is own[-1]):
                    images = next(inputs)
                    if session.transform:
                        own_images = batches[step - first][part].tolist()
                        images = session.transform(images, own_images, position.total_epochs)
                    total, terms, patches = self.step(images, tuple(view[part] for view in views), whole[part], counts)
                    processes.backward(total)
                sums.add(terms)
            clip_gradients(self.parameters, self.training.clip)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            session.pipeline.model.see_labels(whole.concepts)
            if self.average:
                self.average.update(session.pipeline)
            position.step, position.total_steps = step + 1, position.total_steps + 1
            if self.training.rank_every and position.total_steps % self.training.rank_every == 0:
                self.track_rank(patches)
            if self.training.checkpoint_every and position.total_steps % self.training.checkpoint_every == 0:
                position.sums = self.checked(sums.totals(processes))  # the state holds the sum over all processes
                self.save()
            session.progress.step(position.step / self.order.steps, lambda: sums.glance(position.step))
        self.close_epoch(sums)

    def draw(self, step: int) -> tuple[Draw, ...]:
        """What happens to the images of a batch, on the device; nothing to stored tokens."""
        session, epoch = self.session, self.position.total_epochs
        if session.stored is not None:
            return ()
        second = session.pipeline.regularizer.second_view
        key = (session.recipe.seed, epoch, step)
        drawn = draw_views(
            NO_CHANGE if session.transform else self.training.augment, second, self.order.batch_size, key
        )
        return tuple(view.to(session.processes.device) for view in drawn)

    def chance(self, step: int) -> Tensor | None:
        """What chance has in store for the images of a batch, the same for any number of processes and pieces.

        First what the model's forward pass draws, then what RandInt does.
        """
        model = self.session.pipeline.model
        bottleneck = getattr(model, "bottleneck", None)
        count = model.draws + (bottleneck.draws if bottleneck is not None and bottleneck.randint else 0)
        if not count:
            return None
        key = (self.session.recipe.seed, self.position.total_epochs, step, RANDINT)
        drawn = np.random.default_rng(key).random((self.order.batch_size, count), dtype=np.float32)
        return send(torch.from_numpy(drawn), self.session.processes.device)

    def rate(self, step: int) -> float:
        """The learning rate at a step of the running epoch, relative to the peak."""
        done = self.position.epoch * self.order.steps
        training = replace(self.training, schedule=self.stage.schedule or self.training.schedule)
        return rate(training, done + step, self.order.steps, self.epochs)

    def close_epoch(self, sums: Sums) -> None:
        """The epoch's mean losses, over all processes."""
        totals = sums.totals(self.session.processes)
        losses = self.checked({name: value / self.order.steps for name, value in totals.items()})
        self.position.sums = {}
        self.session.progress.losses = losses
        self.record(
            "train",
            stage=self.stage.name,
            learning_rate=self.optimizer.param_groups[0]["peak"] * self.rate(self.order.steps - 1),
            loss=sum(losses.values()),
            **{f"loss_{name}": value for name, value in losses.items()},
        )

    def checked(self, losses: dict[str, float]) -> dict[str, float]:
        """The losses, or the end of a training that has lost its way."""
        if not all(math.isfinite(value) for value in losses.values()):
            raise UserError(
                f"The loss is no longer a number in epoch {self.position.total_epochs + 1} ({losses}). Try a smaller "
                "training.learning_rate, training.clip above 0, or training.precision: fp32."
            )
        return losses

    def track_rank(self, patches: Tensor | None) -> None:
        """The rank of the patch matrix of the first images of the batch; the main process holds them."""
        if patches is None or self.history is None:
            return
        history, progress = self.history, self.session.progress
        where = {"epoch": self.position.total_epochs + 1, "step": self.position.total_steps, "split": "train"}

        def report(means: Means) -> None:
            progress.rank = means["published"]
            if all(math.isfinite(value) for value in means.values()):
                history.add(**where, kind="rank", **{f"rank_{name}": value for name, value in means.items()})

        self.ranks.measure(patches, report)

    def evaluated(self) -> tuple[Predictions, dict[str, Tensor]]:
        if not self.average:
            return super().evaluated()
        with self.average.applied(self.session.pipeline):
            return self.predict_validation(), clone(self.session.pipeline)

    def upkeep(self) -> None:
        """Between epochs: revive dead codes, refill empty slots."""
        pipeline = self.session.pipeline
        tokens = self.seen or join(sample_tokens(pipeline, self.sample))
        learns = pipeline.regularizer.acts_on_tokens or any(p.requires_grad for p in pipeline.encoder.parameters())
        self.seen = None if learns else tokens  # of a frozen encoder they stay the same
        notes = {
            **pipeline.regularizer.end_epoch(tokens, self.session.processes.total),
            **pipeline.model.end_epoch(tokens),
        }
        self.session.processes.agree(pipeline)
        if notes:
            self.record("train", kind="upkeep", **notes)

    def record(self, split: str, **values: Any) -> None:
        if self.history:
            self.ranks.settle()
        super().record(split, **values)

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        tensors = super().tensors() | {"optimizer": optimizer_tensors(self.session.pipeline, self.optimizer)}
        return tensors | {"average": self.average.tensors()} if self.average else tensors

    def save(self) -> None:
        processes = self.session.processes
        if self.position.step:
            _sum_code_uses(self.session.pipeline, keep=processes.main, total=processes)
        if self.history:
            self.ranks.settle()
        super().save()

    def restore(self, tensors: dict[str, dict[str, Tensor]]) -> None:
        restore_optimizer(self.session.pipeline, self.optimizer, tensors["optimizer"])
        if self.average and "average" in tensors:
            self.average.restore(tensors["average"])
        super().restore(tensors)

    def close(self) -> None:
        """Let go of what ran beside the steps, and of what was compiled for them."""
        self.ranks.close()
        if self.compiled:
            torch.compiler.reset()


def _sum_code_uses(pipeline: Pipeline, *, keep: bool, total: Launched | None = None) -> None:
    """Counts of use are kept per process; a state must hold their sum, in the main one."""
    for name, buffer in pipeline.named_buffers():
        if name.endswith(".uses"):
            if total is not None:
                buffer.copy_(total.total(buffer))
            if not keep:
                buffer.zero_()
