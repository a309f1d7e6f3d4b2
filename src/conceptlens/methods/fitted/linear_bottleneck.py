"""The part that fitted bottlenecks share: concept scores are a linear map of one vector, the class head is sparse.

logits = W_g s + b_g,   s = V x + o,   x: one vector an image.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptModel, ConceptOutput
from conceptlens.methods.fitted.data import FitData, FitImages, Floats
from conceptlens.nn.attention.global_token import Pool, global_token
from conceptlens.nn.setup import Setup
from conceptlens.nn.sparse_head import SparseHead, fit_elastic_net, fit_path

CHUNK = 65_536  # rows of vectors that are multiplied at a time
PATH: dict[str, Any] = {"steps": 30, "ratio": 3e-3}  # of λ, for validation to choose from
DENSE: dict[str, Any] = {"steps": 60, "ratio": 1e-3}  # of λ, followed until there are as many concepts as wanted
LARGE = 2**27  # scores beyond which single precision must do; double reaches its duality gap in fewer passes
Lam = float | Literal["validation"]


class FittedModel(ConceptModel):
    """Base of methods that fit their concept scores and a sparse head. `fit` of a subclass fills the map."""

    def __init__(self, setup: Setup, *, width: int, pool: Pool, nec: float | None, lam: Lam, alpha: float) -> None:
        super().__init__()
        if nec is not None and not nec > 0:
            raise UserError(f"method.nec: expected a number of concepts per class above 0, or null, found {nec}.")
        if lam != "validation" and not (isinstance(lam, float | int) and lam > 0):
            raise UserError(f"method.lam: expected a number above 0, or validation, found {lam}.")
        if not 0 < alpha <= 1:
            raise UserError(f"method.alpha: expected a share above 0, up to 1, found {alpha}.")
        self.pool: Pool = pool
        self.nec, self.lam, self.alpha = nec, lam, alpha
        concepts = len(setup.concepts)
        self.register_buffer("text", setup.text.clone())
        self.register_buffer("vectors", torch.randn(concepts, width) / max(width, 1) ** 0.5)  # until `fit` knows them
        self.register_buffer("offsets", torch.zeros(concepts))
        self.text: Tensor
        self.vectors: Tensor
        self.offsets: Tensor
        self.head = nn.Linear(concepts, setup.classes)

    def summarize(self, tokens: Tokens) -> Tensor:
        return global_token(tokens, self.pool)

    def scores(self, vectors: Tensor) -> Tensor:
        """(B, D) → (B, K)."""
        return F.linear(vectors.to(self.vectors.dtype), self.vectors, self.offsets)

    def forward(self, tokens: Tokens) -> ConceptOutput:
        scores = self.scores(self.summarize(tokens))
        return ConceptOutput(logits=self.decide(scores), concept_logits=scores, bottleneck=scores)

    def keep(self, columns: Sequence[int]) -> None:
        chosen = list(columns)
        self.text, self.vectors, self.offsets = self.text[chosen], self.vectors[chosen], self.offsets[chosen]
        weight, bias = self.head.weight.data[:, chosen], self.head.bias.data
        self.head = nn.Linear(len(chosen), len(bias)).to(weight)
        self.head.weight.data, self.head.bias.data = weight.contiguous(), bias

    @torch.no_grad()
    def score_all(self, images: FitImages) -> Floats:
        """Concept scores of all images, (N, K)."""
        pieces = [
            self.scores(torch.from_numpy(np.ascontiguousarray(images.vectors[start : start + CHUNK])).to(self.vectors))
            for start in range(0, len(images), CHUNK)
        ]
        return np.asarray(torch.cat(pieces).cpu().numpy(), dtype=np.float32)

    def fit_head(self, data: FitData, *, standardize: bool = False) -> dict[str, float]:
        """The sparse class head on the concept scores, which stand by now.

        Args:
            data: What to fit it on.
            standardize: Fit it on scores of zero mean and unit variance; the head is then rescaled to the scores as
                they are, so that they keep their meaning.
        """
        if data.task == "multilabel":
            raise UserError(
                "method.name: this method's sparse head decides between classes that exclude each other, but "
                "data.task is multilabel. Choose a method that trains."
            )
        train, val = self.score_all(data.train), self.score_all(data.val)
        mean, spread = np.zeros(train.shape[1], np.float32), np.ones(train.shape[1], np.float32)
        if standardize:
            mean, spread = train.mean(0), np.maximum(train.std(0), 1e-12)
        head = _sparse_head(data, (train - mean) / spread, (val - mean) / spread, self.nec, self.lam, self.alpha)
        weight = head.weights.cpu() / torch.from_numpy(spread).to(head.weights.dtype)
        self.head.weight.data.copy_(weight)
        self.head.bias.data.copy_(head.biases.cpu() - weight @ torch.from_numpy(mean).to(weight.dtype))
        return {"lambda": head.lam, "effective_concepts": head.nec, "duality_gap": head.gap}


def _sparse_head(data: FitData, train: Floats, val: Floats, nec: float | None, lam: Lam, alpha: float) -> SparseHead:
    """At a wanted number of concepts per class; else at a λ; else at the λ that validation likes best."""
    rows, classes = data.train.labeled, len(data.classes)
    scores = train[rows].astype(np.float64 if train.size <= LARGE else np.float32)
    labels = torch.from_numpy(data.train.labels[rows])
    settings: dict[str, Any] = {"alpha": alpha, "class_weight": data.class_weights.tolist(), "device": data.device}
    if nec is not None:
        nec = min(nec, scores.shape[1])
        return fit_path(scores, labels, classes, until_nec=nec, **DENSE, **settings).at_nec(nec, or_fewer=True)
    if lam != "validation":
        return fit_elastic_net(scores, labels, classes, float(lam), **settings)
    path = fit_path(scores, labels, classes, **PATH, **settings)
    seen = data.val.labeled
    right = [_balanced_accuracy(head, val[seen], data.val.labels[seen]) for head in path]
    return path[int(np.argmax(right))]  # of equals, the sparsest


def _balanced_accuracy(head: SparseHead, scores: Floats, labels: npt.NDArray[np.int64]) -> float:
    said = head.logits(torch.from_numpy(scores).to(head.weights)).argmax(-1).cpu().numpy()
    return float(np.mean([(said[labels == each] == each).mean() for each in np.unique(labels)]))
