"""The graph that is exported: bytes → class and concept probabilities and, where there are any, maps and cautions.

Everything between the pixels of a square image and the numbers that `predict` reports is inside: whoever runs the
file need not know how the encoder normalizes, which concepts exclude each other, or what training images look like.
"""

import copy
import warnings

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Task
from conceptlens.encoders.contract import Tokens
from conceptlens.explanations.caution import Caution
from conceptlens.explanations.maps.concept_maps import own_maps
from conceptlens.methods.contract import Pipeline
from conceptlens.runs.image_distribution import ImageDistribution, image_vectors

INPUT = "images"
CLASSES, CONCEPTS, MAPS, UNPLACED = "class_probabilities", "concept_probabilities", "maps", "unplaced"
SCORE, SETS = "out_of_distribution_score", "prediction_set"


class Readout(nn.Module):
    """Images (B, 3, S, S) of values 0 to 255 → outputs by name.

    Args:
        pipeline: A trained pipeline.
        concepts: Those it reads, if any; an exclusive group gets a softmax, every other concept a sigmoid.
        task: The task; the classes of a multi-label one get a sigmoid each.
        size: S.
        caution: What warns of an answer; nothing by default.
        half: Compute the encoder in half precision; what reads its tokens stays in single precision.
    """

    bounds: Tensor | None

    def __init__(
        self,
        pipeline: Pipeline,
        concepts: ConceptSet,
        task: Task,
        size: int,
        caution: Caution | None = None,
        *,
        half: bool = False,
    ) -> None:
        super().__init__()
        self.half_encoder = half
        self.pipeline = halved(pipeline) if half else pipeline
        self.distribution = _Distribution.of(caution, pipeline.encoder.width)
        self.register_buffer("bounds", None if caution is None or caution.bounds is None else _single(caution.bounds))
        self.spans = [(group.concepts.start, group.concepts.stop, group.kind) for group in concepts.groups]
        self.task = task
        self.grid = pipeline.encoder.grid(size, size)

    @property
    def outputs(self) -> list[str]:
        """Names in their order."""
        model = self.pipeline.model
        maps = [MAPS, UNPLACED] if model.has_evidence else [MAPS] if model.has_attention else []
        cautions = [*([SCORE] if self.distribution else []), *([SETS] if self.bounds is not None else [])]
        return [CLASSES, *([CONCEPTS] if self.spans else []), *maps, *cautions]

    def _tokens(self, images: Tensor) -> Tokens:
        # A division makes numbers of bytes and of bytes written as numbers alike, so that the graph takes both.
        images = images / 255
        if not self.half_encoder:
            return self.pipeline.encoder(images)  # type: ignore[no-any-return]
        tokens: Tokens = self.pipeline.encoder(images.half())
        return tokens.with_parts([part.float() for part in tokens.parts()])

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        said = self.pipeline.read(self._tokens(images))
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
        if self.distribution is not None:
            assert said.patches is not None  # set by the pipeline
            outputs[SCORE] = self.distribution(image_vectors(said.patches))
        if self.bounds is not None:
            outputs[SETS] = 1 - outputs[CLASSES] <= self.bounds
        return outputs


class _Distribution(nn.Module):
    """`ImageDistribution.scores` in the graph, divided by the bound beyond which an image is unlike training.

    In double precision, as there: what the main directions leave of a vector is a small difference of large numbers.
    """

    mean: Tensor
    scale: Tensor
    directions: Tensor
    variances: Tensor

    def __init__(self, images: ImageDistribution) -> None:
        super().__init__()
        for name in ("mean", "scale", "directions", "variances"):
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(getattr(images, name), dtype=np.float64)))
        self.rest, self.bound = images.rest, max(images.bound, 1e-12)

    @classmethod
    def of(cls, caution: Caution | None, width: int) -> "_Distribution | None":
        images = None if caution is None else caution.images
        return cls(images) if images is not None and len(images.mean) == width else None

    def forward(self, vectors: Tensor) -> Tensor:
        scaled = (vectors.double() - self.mean) / self.scale  # (B, D)
        along = scaled @ self.directions  # (B, R)
        left = (scaled.square().sum(1) - along.square().sum(1)).clamp(min=0)
        return (((along.square() / self.variances).sum(1) + left / self.rest).sqrt() / self.bound).float()


def _single(numbers: npt.NDArray[np.floating]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.float32))


def halved(pipeline: Pipeline) -> Pipeline:
    """A copy whose encoder is in half precision, but for heads that read its tokens once these are single again."""
    pipeline = copy.deepcopy(pipeline)
    pipeline.encoder.half()
    for head in pipeline.encoder.heads():
        head.float()
    return pipeline


@torch.no_grad()
def trace(readout: Readout, size: int) -> ExportedProgram:
    """The graph for any number of images of one size."""
    readout.eval().requires_grad_(False)
    # The example is kept in the file: black images give nothing away.
    example = torch.zeros(2, 3, size, size, dtype=torch.uint8)
    try:
        try:  # reads Python's `len` of a batch as its size
            program = _exported(readout, example, strict=True)
        except RuntimeError:  # follows hooks, as those of `transformers/…`; `len` fixes the size and is refused
            program = _exported(readout, example, strict=False)
    except (RuntimeError, torch._dynamo.exc.UserError) as error:
        raise UserError(
            f"torch.export cannot follow {readout.pipeline.encoder.name} ({_first_line(error)}). "
            "Its graph depends on the values or the number of images; train with another encoder to export."
        ) from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # would tell the folders of this machine to whoever gets the file
    return program


def _exported(readout: Readout, example: Tensor, *, strict: bool) -> ExportedProgram:
    dynamic = {INPUT: {0: Dim("batch", min=1)}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch warns of its own code
        program: ExportedProgram = torch.export.export(readout, (example,), dynamic_shapes=dynamic, strict=strict)
        plain: ExportedProgram = program.run_decompositions({})  # no autocast regions, nothing in place
    return plain


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
