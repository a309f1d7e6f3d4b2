"""The part of a step that learns: images and labels in, loss terms out. One function, so that it can be compiled whole,
and one module, so that several processes share its gradients."""

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from conceptlens.methods.contract import Pipeline
from conceptlens.training.batches.augment import Draw, augment
from conceptlens.training.optimization.compiled import Compiled
from conceptlens.training.optimization.losses import Counts, SupervisedLoss, Targets

Result = tuple[Tensor, dict[str, Tensor], Tensor | None]


class Step(nn.Module):
    """Augmentation, pipeline and losses of a piece of a batch.

    Args:
        pipeline: What learns; its weights keep their names wherever it is saved.
        loss: The supervised losses.
        autocast: The precision of the forward pass.
        rank_images: How many images' patches are handed out for the rank.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        loss: SupervisedLoss,
        autocast: Callable[[], contextlib.AbstractContextManager[Any]],
        rank_images: int,
    ) -> None:
        super().__init__()
        self.pipeline, self.loss, self.autocast, self.rank_images = pipeline, loss, autocast, rank_images
        self.compute: Callable[..., Result] = self.plain

    def use_compiled(self, *, graphs: bool, must: bool, note: Callable[[str], object]) -> None:
        """Compile from here on; see `Compiled`. The module stays what it is, only what it calls changes."""
        self.compute = Compiled(self.plain, graphs=graphs, must=must, note=note)

    def forward(self, inputs: Tensor, views: tuple[Draw, ...], targets: Targets, counts: Counts) -> Result:
        """The loss of a piece, its terms, and patches of its first images.

        Args:
            inputs: Bytes (B, 3, H, W), or stored tokens (B, N, D).
            views: What happens to each image in each view; none for stored tokens.
            targets: Labels of these images.
            counts: Of the whole batch.
        """
        return self.compute(inputs, views, targets, counts)

    def plain(self, inputs: Tensor, views: tuple[Draw, ...], targets: Targets, counts: Counts) -> Result:
        """The work itself."""
        images = [augment(inputs, view) for view in views] or [inputs]
        with self.autocast():
            model = self.pipeline.model
            chance = targets.chance
            output = self.pipeline(*images, draws=None if chance is None else chance[:, : model.draws])
            output.chance = None if chance is None else chance[:, model.draws :]
            output = model.teach_classes(model.teach(output, targets.concepts), targets.labels)
            if targets.places is not None:
                output = model.teach_places(output, targets.places)
        terms = self.loss(output, targets, counts)
        patches = None if output.patches is None else output.patches.detach()[: self.rank_images]
        return torch.stack(list(terms.values())).sum(), {name: term.detach() for name, term in terms.items()}, patches
