"""What a recipe would cost, before anything starts: sizes, memory, time. Nothing is written."""

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from conceptlens.core.documents import ResultMixin
from conceptlens.data.checks.findings import counted
from conceptlens.encoders.contract import Cut
from conceptlens.encoders.store.encode import blocks_behind
from conceptlens.methods.build import rest_idle_parameters
from conceptlens.training.batches.augment import augment
from conceptlens.training.batches.views import draw_views
from conceptlens.training.epochs import number_of
from conceptlens.training.loop import Session, stages_of
from conceptlens.training.optimization.losses import SupervisedLoss, Targets, class_weights
from conceptlens.training.optimization.optimizer import build_optimizer, check_optimizer
from conceptlens.training.start import meet_encoder


@dataclass(frozen=True, repr=False)
class Cost(ResultMixin):
    """An estimate from a few real steps on a throw-away copy of the pipeline."""

    images: dict[str, int]
    concepts: int
    classes: int
    patches: int
    parameters: int
    learning_parameters: int
    steps_per_epoch: int
    epochs: int
    forward_gflops_per_image: float
    seconds_per_step: float
    seconds_in_all: float
    memory_mb: float
    disk_mb: float
    device: str

    def text(self) -> str:
        split = ", ".join(f"{count:,} {name}" for name, count in self.images.items())
        minutes = self.seconds_in_all / 60
        return "\n".join(
            (
                f"images      {split}",
                f"vocabulary  {self.concepts} concepts, {self.classes} classes, {self.patches} patches an image",
                f"parameters  {self.parameters:,}, of which {self.learning_parameters:,} learn",
                f"steps       {self.epochs} epochs × {counted(self.steps_per_epoch, 'step')}; "
                f"{self.forward_gflops_per_image:.2f} GFLOP an image, forward",
                f"memory      about {self.memory_mb:,.0f} MB on {self.device}; {self.disk_mb:,.0f} MB on disk",
                f"time        {self.seconds_per_step * 1000:.0f} ms a step, about {minutes:.1f} minutes in all",
                "nothing was started or written",
            )
        )


def estimate(session: Session, *, steps: int = 3) -> Cost:
    """Time and weigh a few steps."""
    recipe, pipeline, device = session.recipe, session.pipeline, session.processes.device
    training, splits = recipe.training, session.splits
    pipeline.to(device)
    batch = min(training.batch_size // session.processes.count // training.accumulate, len(splits.train))
    indices = splits.train[:batch]
    inputs = session.reader.batch(indices).to(device)
    encoding = stored_bytes = 0.0  # of one image
    if recipe.encoder.store is not None:
        inputs, encoding = _encode(session, inputs)
        stored_bytes = inputs.nbytes / len(inputs)
    meet_encoder(pipeline)
    learns = any(parameter.requires_grad for parameter in pipeline.parameters())  # a method may only fit
    optimizer = None
    if learns:
        rest_idle_parameters(pipeline, inputs)
        optimizer = build_optimizer(pipeline, training, recipe.encoder, training.learning_rate)
        check_optimizer(pipeline, optimizer)
    weights = class_weights(
        training.loss, session.source.examples.labels[splits.train], len(session.source.classes), session.source.task
    )
    criterion = SupervisedLoss(training.loss, session.blueprint.concepts, session.source.task, weights)
    whole = Targets.of(session.source.examples, np.asarray(indices))
    counts = criterion.count(whole)
    saved: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    def step(number: int) -> None:
        seen = [inputs]
        if optimizer is None:
            with torch.inference_mode():
                pipeline(*seen)
            return
        if recipe.encoder.store is None:
            images = session.reader.batch(indices).to(device)
            views = draw_views(training.augment, pipeline.regularizer.second_view, len(indices), (0, number))
            seen = [augment(images, view.to(device)) for view in views]
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            with session.processes.autocast():
                output = pipeline(*seen)
            terms = criterion(output, whole.to(device), counts)
            total = torch.stack(list(terms.values())).sum()
        total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    pipeline.train()
    with FlopCounterMode(display=False) as counter:  # which cannot follow views of weights without their gradients
        seen_patches = pipeline(inputs).patches
    step(0)
    activations = sum(saved.values())
    times = []
    for number in range(1, steps + 1):
        started = time.perf_counter()
        step(number)
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    learning = sum(parameter.numel() for parameter in pipeline.parameters() if parameter.requires_grad)
    everything = sum(parameter.numel() for parameter in pipeline.parameters())
    pieces = training.accumulate * session.processes.count
    steps_per_epoch = max(len(splits.train) // training.batch_size, 1)
    epochs = sum(number_of(stage.epochs) for stage in stages_of(recipe))
    seconds = float(np.median(times)) * training.accumulate
    forward = seconds / 3 if learns else seconds  # a forward pass is a third of a step
    validation = forward * len(splits.val) / max(batch * pieces, 1)
    cache = len(session.source) * 3 * session.reader.size**2 if session.reader.caches else 0
    return Cost(
        images={name: len(getattr(splits, name)) for name in ("train", "val", "test")},
        concepts=len(session.blueprint.concepts),
        classes=len(session.source.classes),
        patches=0 if seen_patches is None else int(seen_patches.shape[1]),
        parameters=everything,
        learning_parameters=learning,
        steps_per_epoch=steps_per_epoch,
        epochs=epochs,
        forward_gflops_per_image=counter.get_total_flops() / len(indices) / 1e9,
        seconds_per_step=seconds,
        seconds_in_all=epochs * (steps_per_epoch * seconds + validation / (training.validate_every or 1))
        + encoding * len(session.source) / session.processes.count,
        memory_mb=(everything * 4 + learning * (16 if training.ema else 12) + activations + cache) / 2**20
        + 450,  # 450: Python and torch
        disk_mb=(everything * 4 * 4 + learning * 8 * 2 + stored_bytes * len(session.source)) / 2**20,
        device=str(device),
    )


@torch.inference_mode()
def _encode(session: Session, pixels: Tensor) -> tuple[Tensor, float]:
    """What a token store would give in the place of these pixels, and the seconds an image takes to get there."""
    encoder, blocks = session.pipeline.encoder.eval(), blocks_behind(session.recipe.encoder)
    images = encoder.normalize(pixels)
    encoder.before(images[:1], blocks)
    started = time.perf_counter()
    entering = encoder.before(images, blocks).half().cpu()
    seconds = (time.perf_counter() - started) / len(images)
    encoder.cut = Cut(blocks, encoder.grid(session.reader.size, session.reader.size))
    return entering.to(session.processes.device), seconds
