"""The graph that is exported: bytes → class probabilities, concept probabilities and, where there are any, maps.

Everything between the pixels of a square image and the numbers that `predict` reports is inside: whoever runs the
file need not know how the encoder normalizes, or which concepts exclude each other.
"""

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Task
from conceptlens.explanations.maps.concept_maps import own_maps
from conceptlens.methods.contract import Pipeline

INPUT = "images"
CLASSES, CONCEPTS, MAPS, UNPLACED = "class_probabilities", "concept_probabilities", "maps", "unplaced"


class Readout(nn.Module):
    """Images (B, 3, S, S) of values 0 to 255 → outputs by name.

    Args:
        pipeline: A trained pipeline.
        concepts: Those it reads, if any; an exclusive group gets a softmax, every other concept a sigmoid.
        task: The task; the classes of a multi-label one get a sigmoid each.
        size: S.
    """

    def __init__(self, pipeline: Pipeline, concepts: ConceptSet, task: Task, size: int) -> None:
        super().__init__()
        self.pipeline = pipeline
        self.spans = [(group.concepts.start, group.concepts.stop, group.kind) for group in concepts.groups]
        self.task = task
        self.grid = pipeline.encoder.grid(size, size)

    @property
    def outputs(self) -> list[str]:
        """Names in their order."""
        model = self.pipeline.model
        maps = [MAPS, UNPLACED] if model.has_evidence else [MAPS] if model.has_attention else []
        return [CLASSES, *([CONCEPTS] if self.spans else []), *maps]

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        # A division makes numbers of bytes and of bytes written as numbers alike, so that the graph takes both.
        said = self.pipeline.read(self.pipeline.encoder(images / 255))
        logits, scores = said.logits.float(), said.concept_logits.float()
        shares = [
            scores[:, start:stop].softmax(-1) if kind == "exclusive" else scores[:, start:stop].sigmoid()
            for start, stop, kind in self.spans
        ]
        outputs = {CLASSES: logits.sigmoid() if self.task == "multilabel" else logits.softmax(-1)}
        if shares:
            outputs[CONCEPTS] = torch.cat(shares, 1)
        own = own_maps(said, self.pipeline.model)  # (B, K, L)
        if own is not None:
            outputs[MAPS] = own.reshape(*own.shape[:2], *self.grid)
        if said.evidence is not None and said.unplaced is not None:
            outputs[UNPLACED] = said.unplaced.float()
        return outputs


@torch.no_grad()
def trace(readout: Readout, size: int) -> ExportedProgram:
    """The graph for any number of images of one size."""
    readout.eval().requires_grad_(False)
    # The example is kept in the file: black images give nothing away.
    example = torch.zeros(2, 3, size, size, dtype=torch.uint8)
    try:
        program: ExportedProgram = torch.export.export(
            readout,
            (example,),
            dynamic_shapes={INPUT: {0: Dim("batch", min=1)}},
            strict=True,  # reads Python's `len` of a batch as its size; otherwise the example's would be fixed
        ).run_decompositions({})  # plain operators: no autocast regions, nothing in place
    except RuntimeError as error:
        raise UserError(
            f"torch.export cannot follow {readout.pipeline.encoder.name} ({_first_line(error)}). "
            "Its graph depends on the values or the number of images; train with another encoder to export."
        ) from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # would tell the folders of this machine to whoever gets the file
    return program


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
