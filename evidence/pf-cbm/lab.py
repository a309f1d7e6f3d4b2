"""A recipe's stages on tokens that lie on the device: the parts of `conceptlens train`, without its files.

Model, targets, losses, order, rates and parameter groups are the package's own; on a CPU the weights come out as those
of `conceptlens train` (`check.py`). On a GPU a step is one CUDA graph that picks its own batch, so a training of 2,100
steps takes seconds. The weights of the last epoch count; nothing is chosen by validation on the way.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from bank import Bank, Labels
from torch import nn

from conceptlens.core.registry import METHODS
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.pf_cbm.pf_cbm import PFCBM
from conceptlens.nn.grounding.places import PlaceTargets
from conceptlens.nn.setup import Setup
from conceptlens.recipes import Recipe, StageConfig
from conceptlens.training.batches.order import Order
from conceptlens.training.batches.targets import TargetTable
from conceptlens.training.epochs import number_of
from conceptlens.training.loop import stages_of
from conceptlens.training.optimization.losses import SupervisedLoss, class_weights
from conceptlens.training.optimization.optimizer import build_optimizer, clip_gradients
from conceptlens.training.optimization.schedule import rate

WARM = 3  # steps before a graph is made of the next


class Pipeline(nn.Module):
    """Under the names that a recipe's stages use."""

    def __init__(self, model: PFCBM) -> None:
        super().__init__()
        self.model = model


def make_model(bank: Bank, labels: Labels, recipe: Recipe) -> PFCBM:
    torch.manual_seed(recipe.seed)
    concepts, width = labels.concepts, bank.tokens.shape[-1]
    setup = Setup(concepts, torch.zeros(len(concepts), 0), width, len(bank.source.classes), bank.source.classes)
    options = {key: value for key, value in recipe.method.items() if key != "name"}
    made = METHODS.get(str(recipe.method["name"]))(setup, **options)
    assert isinstance(made, PFCBM)
    return made


@dataclass
class Trained:
    """A model, and whether its steps ran as graphs."""

    model: PFCBM
    graph: bool
    loss: float


def train(bank: Bank, labels: Labels, recipe: Recipe, model: PFCBM | None = None) -> Trained:
    """All stages; the model is in evaluation mode afterwards."""
    model = (model or make_model(bank, labels, recipe)).to(bank.device)
    pipeline = Pipeline(model)
    model.eval()
    with torch.no_grad():
        places = model.find_places(bank.training_images(recipe.seed))
        model.prepare(bank.batches(bank.splits.train[:16]), labels.concepts)
    model.train()
    torch.manual_seed(recipe.seed)
    done, graph, loss = 0, True, math.nan
    for stage in stages_of(recipe):
        steps = _Steps(bank, labels, recipe, pipeline, stage, places, first_epoch=done)
        loss = steps.run()
        done, graph = done + number_of(stage.epochs), graph and steps.graph
        if not math.isfinite(loss):
            raise RuntimeError(f"{stage.name}: the loss is no longer a number")
    model.eval().requires_grad_(False)
    return Trained(model, graph, loss)


class _Steps:
    """All steps of a stage. Batches and rates wait on the device; `at` counts."""

    def __init__(
        self,
        bank: Bank,
        labels: Labels,
        recipe: Recipe,
        pipeline: Pipeline,
        stage: StageConfig,
        places: PlaceTargets | None,
        first_epoch: int,
    ) -> None:
        training, device = recipe.training, bank.device
        self.bank, self.model, self.device = bank, pipeline.model, device
        for name, parameter in pipeline.named_parameters():
            parameter.requires_grad_(any(name == part or name.startswith(f"{part}.") for part in stage.train))
        self.parameters = [parameter for parameter in pipeline.parameters() if parameter.requires_grad]
        peak = stage.learning_rate or training.learning_rate
        self.optimizer = build_optimizer(pipeline, training, recipe.encoder, peak)  # type: ignore[arg-type]
        self.clip = training.clip
        classes = class_weights(
            training.loss, labels.examples.labels[bank.splits.train], len(bank.source.classes), bank.source.task
        )
        weighted = replace(training.loss, class_weight=stage.class_weight or 0.0)
        loss = SupervisedLoss(weighted, labels.concepts, bank.source.task, classes.to(device))
        self.loss = loss
        self.table = TargetTable(labels.examples, loss, device, places, bank.splits.train)
        order = Order.plan(bank.splits.train, training.batch_size, 1, recipe.seed)
        epochs = number_of(stage.epochs)
        batches = [batch for epoch in range(epochs) for batch in order.epoch(first_epoch + epoch)]
        self.batches = torch.from_numpy(np.stack(batches)).to(device)
        scheduled = replace(training, schedule=stage.schedule or training.schedule)
        factors = [rate(scheduled, step, order.steps, epochs) for step in range(len(batches))]
        groups = self.optimizer.param_groups
        self.rates = [[group["peak"] * factor for group in groups] for factor in factors]
        self.at = torch.zeros(1, dtype=torch.int64, device=device)
        self.total = torch.zeros((), device=device)
        self.graph = device.type == "cuda"
        if self.graph:
            self.rate_table = torch.tensor(self.rates, device=device)
            for group in groups:
                group["lr"], group["capturable"] = torch.zeros((), device=device), True

    def work(self) -> None:
        """One step; reads and changes nothing but what lies on the device."""
        index = self.batches.index_select(0, self.at).squeeze(0)
        if self.device.type == "cuda":
            now = self.rate_table.index_select(0, self.at).squeeze(0)
            for group, value in zip(self.optimizer.param_groups, now, strict=True):
                group["lr"].copy_(value)
        targets, counts = self.table.targets(index), self.table.counts(index)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            output = self.model(Tokens(self.bank.tokens[index], self.bank.grid))
            if targets.places is not None:
                output = self.model.teach_places(output, targets.places)
        total = torch.stack(list(self.loss(output, targets, counts).values())).sum()
        total.backward()  # type: ignore[no-untyped-call]
        clip_gradients(self.parameters, self.clip)
        self.optimizer.step()
        self.total.copy_(total.detach())
        self.at.add_(1)

    def eager(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        if self.device.type != "cuda":
            for group, value in zip(self.optimizer.param_groups, self.rates[int(self.at)], strict=True):
                group["lr"] = value
        self.work()

    def run(self) -> float:
        """Returns the last step's loss."""
        number, step = len(self.rates), self.eager
        first = min(WARM, number) if self.graph else 0
        if self.graph:
            aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):  # these are steps of the training, too
                for _ in range(first):
                    step()
            torch.cuda.current_stream().wait_stream(aside)
            if number > first:
                step = self.captured() or self.eager
        for _ in range(first, number):
            step()
        return float(self.total)

    def captured(self) -> Callable[[], None] | None:
        """The step as a graph; None where it cannot be made one, and then steps run as they are."""
        self.optimizer.zero_grad(set_to_none=True)
        self.made = torch.cuda.CUDAGraph()  # kept: what it allocated goes with it
        try:
            with torch.cuda.graph(self.made):
                self.work()
        except RuntimeError as error:
            print(f"no CUDA graph of this step: {str(error).splitlines()[0]}", flush=True)
            torch.cuda.synchronize()
            self.graph = False
            return None
        return self.made.replay
