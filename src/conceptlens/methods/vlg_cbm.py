"""VLG-CBM: concepts that an open-vocabulary detector saw, with their boxes, and a sparse head at a fixed NEC.

VLG-CBM: Training Concept Bottleneck Models with Vision-Language Guidance (D. Srivastava, G. Yan, T.-W. Weng; NeurIPS
2024). Section 3.1: labels are the detector's boxes above a confidence; 3.2: a concept layer on a frozen backbone by
binary cross-entropy, with images cut to the box of a concept at a probability; 3.3 and 4: a sparse head, compared at
the same number of effective concepts (NEC 5 to 30; ANEC is the mean of the accuracies).
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.methods.contract import Supervision
from conceptlens.methods.fitted.data import FitCrops, FitData, FitImages
from conceptlens.methods.fitted.linear_bottleneck import FittedModel, Lam
from conceptlens.nn.attention.global_token import Pool
from conceptlens.nn.setup import Setup
from conceptlens.nn.sparse_head import fit_path
from conceptlens.nn.sparse_head.nec import WANTED

Array = npt.NDArray[np.float32]


def overlap(one: npt.NDArray[np.float64], others: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Intersection over union of a box (4,) with boxes (M, 4)."""
    width = np.minimum(one[2], others[:, 2]) - np.maximum(one[0], others[:, 0])
    height = np.minimum(one[3], others[:, 3]) - np.maximum(one[1], others[:, 1])
    shared = np.maximum(width, 0) * np.maximum(height, 0)
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    ratio: npt.NDArray[np.float64] = shared / ((one[2] - one[0]) * (one[3] - one[1]) + areas - shared)
    return ratio


def concept_of(parts: tuple[str, ...], concepts: ConceptSet) -> npt.NDArray[np.int64]:
    """Which concept each box speaks of, −1 for none: a part is a concept's name, or a value that only one group has."""
    values = [name.partition(": ")[2] for name in concepts.names]
    known = {value: place for place, value in enumerate(values) if values.count(value) == 1}
    known |= {name: place for place, name in enumerate(concepts.names)}
    return np.asarray([known.get(part, -1) for part in parts], dtype=np.int64)


def crop_targets(crops: FitCrops, concept: npt.NDArray[np.int64], count: int, most: float) -> Array:
    """Labels (M, K) of the cut-outs: its own concept, and those whose boxes overlap it by more than `most`."""
    targets = np.zeros((len(crops), count), np.float32)
    for row in np.unique(crops.rows):
        mine = np.flatnonzero((crops.rows == row) & (concept >= 0))
        for place in mine:
            near = mine[overlap(crops.boxes[place], crops.boxes[mine]) > most]
            targets[place, concept[[place, *near]]] = 1
    return targets


class VLGCBM(FittedModel):
    """Concepts from boxes; a sparse head."""

    supervision: Supervision = "image-labels"
    uses_text = False
    concepts_see_class = False

    def __init__(
        self,
        setup: Setup,
        *,
        pool: Pool = "cls",
        crop: float = 0.5,
        overlap: float = 0.5,
        rate: float = 5e-4,
        decay: float = 1e-5,
        epochs: int = 75,
        batch: int = 32,
        nec: float | None = 5.0,
        lam: Lam = 2e-4,
        alpha: float = 0.99,
    ) -> None:
        """VLG-CBM.

        Args:
            setup: What the model is built for.
            pool: The vector of an image: the class token, or the mean of the patches.
            crop: How often an image is seen cut to the box of one of its concepts; 0 reads no boxes.
            overlap: A cut-out also shows concepts whose boxes overlap it by more than this (intersection over union).
            rate: Adam's rate for the concept layer.
            decay: Its weight decay.
            epochs: Passes over images and cut-outs; the epoch of the lowest validation loss is kept.
            batch: Images and cut-outs a step.
            nec: Effective concepts per class of the sparse head; null: as many as `lam` leaves.
            lam: λ of the sparse head where `nec` is null, or `validation`: the one that does best there.
            alpha: Share of the L1 norm in its penalty.
        """
        super().__init__(setup, width=setup.width, pool=pool, nec=nec, lam=lam, alpha=alpha)
        for option, value in (("rate", rate), ("epochs", epochs), ("batch", batch)):
            if not value > 0:
                raise UserError(f"method.{option}: expected a number above 0, found {value}.")
        for option, value in (("crop", crop), ("overlap", overlap)):
            if not 0 <= value <= 1:
                raise UserError(f"method.{option}: expected a share from 0 to 1, found {value}.")
        self.crop, self.overlap, self.fit_crops = crop, overlap, crop > 0
        self.rate, self.decay, self.epochs, self.batch = rate, decay, epochs, batch

    def fit(self, data: FitData) -> dict[str, float]:
        for place, name in enumerate(data.concepts.names):
            if not (data.train.concepts[:, place] == 1).any():
                data.drop(place, f"no training image shows {name}")
        kept = data.kept()
        rows = training_rows(data, kept, self.crop, self.overlap)
        layer, loss = self.fit_concepts(rows, data, kept)
        self.vectors.zero_()
        self.offsets.zero_()
        self.vectors[kept], self.offsets[kept] = layer.weight.data.to(self.vectors), layer.bias.data.to(self.offsets)
        self.keep(kept)
        return {
            "concepts": float(len(self.vectors)),
            "crops": float(len(rows[0]) - len(data.train)),
            "concept_val_loss": loss,
            **self.fit_head(data, standardize=True),
            **self.accuracy_by_nec(data),
        }

    def fit_concepts(self, rows: tuple[Array, Array, Array], data: FitData, kept: list[int]) -> tuple[nn.Linear, float]:
        """The concept layer by weighted binary cross-entropy, with inputs standardized while it learns."""
        mean, spread = rows[0].mean(0), np.maximum(rows[0].std(0), 1e-6)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(data.seed)
            layer = nn.Linear(rows[0].shape[1], len(kept)).to(data.device)
        tensors = [torch.from_numpy((rows[0] - mean) / spread), torch.from_numpy(rows[1]), torch.from_numpy(rows[2])]
        inputs, targets, weights = (tensor.to(data.device) for tensor in tensors)
        val = torch.from_numpy((np.asarray(data.val.vectors) - mean) / spread).to(data.device)
        val_targets = torch.from_numpy(data.val.concepts[:, kept].astype(np.float32)).to(data.device)
        optimizer = torch.optim.Adam(layer.parameters(), lr=self.rate, weight_decay=self.decay)
        chance = torch.Generator().manual_seed(data.seed)
        lowest, best = float("inf"), {name: value.clone() for name, value in layer.state_dict().items()}
        for _ in range(self.epochs):
            for some in torch.split(torch.randperm(len(inputs), generator=chance).to(data.device), self.batch):
                loss = concept_loss(layer(inputs[some]), targets[some], weights[some, None])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            with torch.no_grad():
                left = float(concept_loss(layer(val), val_targets, val.new_ones(len(val), 1)))
            if left < lowest:
                lowest, best = left, {name: value.clone() for name, value in layer.state_dict().items()}
        layer.load_state_dict(best)
        layer.weight.data /= torch.from_numpy(spread).to(layer.weight)
        layer.bias.data -= layer.weight.data @ torch.from_numpy(mean).to(layer.weight)
        return layer, lowest

    def accuracy_by_nec(self, data: FitData) -> dict[str, float]:
        """Accuracy on validation at NEC 5 to 30, as far as there are so many concepts, and their mean, ANEC."""
        wanted = [value for value in WANTED if value <= len(self.vectors)]
        seen, asked = data.train.labeled, data.val.labeled
        if not wanted or not len(asked):
            return {}
        train, val = (torch.from_numpy(self.score_all(part)).double() for part in (data.train, data.val))
        labels = torch.from_numpy(data.train.labels[seen])
        path = fit_path(
            train[seen].numpy(), labels, len(data.classes), steps=30, ratio=3e-3, until_nec=max(wanted), tolerance=1e-2
        )
        found = path.accuracy_at(val[asked], torch.from_numpy(data.val.labels[asked]), wanted)
        named = {f"accuracy_nec_{value:g}": accuracy for value, accuracy in found.items()}
        return named | {"anec": float(np.mean(list(found.values())))}


def concept_loss(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Binary cross-entropy over what is known (a target of −1 is not), (): the mean of weighted terms."""
    known = weights * (targets >= 0)
    terms = F.binary_cross_entropy_with_logits(logits, targets.clamp(min=0), reduction="none")
    return (known * terms).sum() / known.sum().clamp(min=1e-12)


def training_rows(data: FitData, kept: list[int], share: float, most: float) -> tuple[Array, Array, Array]:
    """Vectors (R, D), targets (R, K) and weights (R,) of images and cut-outs.

    Instead of drawing a cut-out at a probability, every one is there with that weight, which is what the draws come
    to on average.
    """
    images: FitImages = data.train
    targets = images.concepts[:, kept].astype(np.float32)
    weights, vectors = np.ones(len(images), np.float32), np.asarray(images.vectors, np.float32)
    crops = data.crops
    if not share or crops is None:
        return vectors, targets, weights
    concept = concept_of(crops.parts, data.concepts)
    place = np.full(len(data.concepts), -1)
    place[kept] = np.arange(len(kept))
    own = np.where(concept >= 0, place[concept], -1)
    own[own >= 0] = np.where(
        targets[crops.rows[own >= 0], own[own >= 0]] == 1, own[own >= 0], -1
    )  # denied by the labels
    used = own >= 0
    if not used.any():
        raise UserError(
            "method.crop: none of the boxes has the name of a concept that its image shows. Boxes are named in the "
            f"column `part`, as {data.concepts.names[0]!r}; set crop: 0 to do without."
        )
    counts = np.bincount(crops.rows[used], minlength=len(images))
    weights[counts > 0] = 1 - share
    of_crops = crop_targets(crops, own, len(kept), most)[used]
    each = (share / counts[crops.rows[used]]).astype(np.float32)
    return np.concatenate([vectors, crops.vectors[used]]), np.concatenate([targets, of_crops]), np.append(weights, each)
