"""Whether concepts and contributions can be trusted (GIG paper, Sec. 4.2): curves, agreement, reconstruction."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from conceptlens.core.documents import Document, Part
from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.progress import Note
from conceptlens.gig.attribution.integrated_gradients import Read
from conceptlens.gig.attribution.orders import ORDERS, Order
from conceptlens.gig.attribution.targets import TargetKind, between, to_classes, to_concepts
from conceptlens.gig.dictionaries.coded import Coded
from conceptlens.gig.graph import Coder, Cut, Drawn, Known, Seen
from conceptlens.gig.means import top
from conceptlens.gig.validation.curves import POINTS, Curves, concept_curves, projection_read

RANDOM_ORDERS = 5  # over which chance is averaged


class OrderCurves(Part):
    """Mean curves of one way to rank concepts."""

    order: str
    insertion: list[float]
    deletion: list[float]
    insertion_area: float
    deletion_area: float
    difference: float  # insertion less deletion
    over_random: float  # that difference less that of random order


class LayerCurves(Part):
    """C-Insertion and C-Deletion to the class each image is given, or between two layers."""

    layer: str
    to: str | None  # None: the class
    images: int
    targets: int  # pairs of image and target
    orders: list[OrderCurves]


class Agreement(Part):
    """What the network says of reconstructions, beside what it says of the images."""

    layer: str
    images: int
    same_class: float  # share of images whose reconstruction gets the same class
    divergence: float  # mean KL(F(X) ‖ F(X̃)) in nats
    relative_l2: float
    zero_share: float


class TradeOff(Part):
    """Reconstruction against sparsity at one penalty."""

    penalty: float | None  # None: the dictionary's own way to code
    relative_l2: float
    zero_share: float
    used: float  # mean number of concepts at a position


class Reconstruction(Part):
    """A dictionary's curve of relative l2 against sparsity."""

    layer: str
    dictionary: str
    coding: str  # `own`, or `lasso` with the same penalties for all
    concepts: int
    points: list[TradeOff]


class Validation(Document):
    """`validation.json`."""

    remedy = "Validate again."

    points: int  # on the x axis of curves: shares of active concepts
    classes: list[LayerCurves]
    between: list[LayerCurves]
    agreement: list[Agreement]
    reconstruction: list[Reconstruction]
    sizes: list[Reconstruction]  # the same lasso on dictionaries of several sizes
    held_out: bool = False  # whether concepts were learned without these images


def _mean_curves(found: Mapping[str, Sequence[Curves]]) -> list[OrderCurves]:
    means = {
        name: (
            torch.cat([each.insertion for each in curves]).double().mean(0),
            torch.cat([each.deletion for each in curves]).double().mean(0),
        )
        for name, curves in found.items()
    }
    rows = {name: Curves(insertion[None], deletion[None]) for name, (insertion, deletion) in means.items()}
    chance = float(rows["random"].difference)
    return [
        OrderCurves(
            order=name,
            insertion=row.insertion[0].tolist(),
            deletion=row.deletion[0].tolist(),
            insertion_area=float(row.insertion_area),
            deletion_area=float(row.deletion_area),
            difference=float(row.difference),
            over_random=float(row.difference) - chance,
        )
        for name, row in rows.items()
    ]


def _run_orders(
    ranked: Read, shown: Read, layer: Coded, orders: Mapping[str, Order], points: int, seed: int
) -> dict[str, Curves]:
    """Curves of `shown` in the order that each way gives for `ranked`; chance is a mean of several orders."""
    found = {}
    for name, order in orders.items():
        repeats = RANDOM_ORDERS if name == "random" else 1
        rows = [
            concept_curves(shown, layer, order(ranked, layer, seed + repeat), points=points)
            for repeat in range(repeats)
        ]
        found[name] = Curves(
            torch.stack([row.insertion for row in rows]).mean(0), torch.stack([row.deletion for row in rows]).mean(0)
        )
    return found


def _chosen(names: Sequence[str]) -> dict[str, Order]:
    for name in names:
        if name not in ORDERS:
            raise UserError(f"Unknown order of concepts {name!r}. {did_you_mean(name, ORDERS)}")
    return {name: ORDERS[name] for name in dict.fromkeys((*names, "random"))}


def class_curves(
    network: Cut,
    layer: str,
    coder: Coder,
    images: Sequence[tuple[Seen, int]],
    *,
    orders: Sequence[str] = ("gig", "random", "gradient x input"),
    target: TargetKind = "probability",
    shown: TargetKind = "probability",
    points: int = POINTS,
    seed: int = 0,
    known: Known | None = None,
) -> LayerCurves:
    """C-Insertion and C-Deletion of images with the class each is judged by.

    Args:
        network: Split at the layer.
        layer: Its name.
        coder: Its concepts.
        images: With the output that each is judged by.
        orders: Ways to rank concepts.
        target: What contributions are measured in.
        shown: What the curves are of; `logit` where outputs are not classes that exclude each other.
        points: On the x axis.
        seed: Of random orders.
        known: What was computed of these images.
    """
    ways, known = _chosen(orders), known or Known(network, {layer: coder})
    found: dict[str, list[Curves]] = {name: [] for name in ways}
    for number, (seen, output) in enumerate(images):
        code = known.code(layer, seen)
        if "gig" in ways:
            gig = known.to_output(layer, seen, output, Drawn(target=target)).total
            ways["gig"] = lambda read, layer, seed, gig=gig: gig  # type: ignore[misc]
        onward = between(network, layer, None, seen.pixels)
        ranked, asked = to_classes(onward, [output], target), to_classes(onward, [output], shown)
        for name, curves in _run_orders(ranked, asked, code, ways, points, seed + 1000 * number).items():
            found[name].append(curves)
    return LayerCurves(layer=layer, to=None, images=len(images), targets=len(images), orders=_mean_curves(found))


def layer_curves(
    network: Cut,
    below: tuple[str, Coder],
    above: tuple[str, Coder],
    images: Sequence[tuple[Seen, int]],
    *,
    orders: Sequence[str] = ("gig", "random", "gradient x input"),
    concepts: int = 5,
    target: TargetKind = "probability",
    points: int = POINTS,
    seed: int = 0,
    known: Known | None = None,
) -> LayerCurves:
    """Inter-layer insertion and deletion: the projection score of the concepts of a later layer that matter most."""
    ways, known = _chosen(orders), known or Known(network, dict([below, above]))
    found: dict[str, list[Curves]] = {name: [] for name in ways}
    targets = 0
    for number, (seen, output) in enumerate(images):
        later = known.code(above[0], seen)
        first = top(known.to_output(above[0], seen, output, Drawn(target=target)).total[0], concepts)
        if not first:
            continue
        targets += len(first)
        vectors = later.vectors[first]
        code = known.code(below[0], seen)
        onward = between(network, below[0], above[0], seen.pixels)
        shown = projection_read(onward, code, vectors)
        for name, curves in _run_orders(
            to_concepts(onward, vectors), shown, code, ways, points, seed + 1000 * number
        ).items():
            found[name].append(curves)
    if not targets:
        raise UserError(f"{above[0]}: no concept adds to the class of any of {len(images)} images.")
    return LayerCurves(layer=below[0], to=above[0], images=len(images), targets=targets, orders=_mean_curves(found))


def agreement(network: Cut, layer: str, coder: Coder, images: Sequence[Seen], known: Known | None = None) -> Agreement:
    """Class agreement and KL divergence of reconstructions, with how sparse and how close they are."""
    same = divergence = relative = zeros = 0.0
    known = known or Known(network, {layer: coder})
    for seen in images:
        code = known.code(layer, seen)
        with torch.no_grad():
            onward = between(network, layer, None, seen.pixels)
            true, made = onward(torch.stack([code.features, code.approximation])).double().log_softmax(-1)
        same += float(true.argmax() == made.argmax())
        divergence += float((true.exp() * (true - made)).sum())
        relative += float(relative_l2(code.features, code.approximation).mean())
        zeros += 1 - float((code.u != 0).sum(1).double().mean()) / len(coder.vectors)
    n = len(images)
    return Agreement(
        layer=layer,
        images=n,
        same_class=same / n,
        divergence=divergence / n,
        relative_l2=relative / n,
        zero_share=zeros / n,
    )


def relative_l2(features: Tensor, made: Tensor) -> Tensor:
    """‖x − x̃‖ / ‖x‖ of each row (P, C)."""
    length = torch.linalg.vector_norm(features, dim=-1).clamp_min(torch.finfo(features.dtype).tiny)
    found: Tensor = torch.linalg.vector_norm(features - made, dim=-1) / length
    return found


def trade_off(features: Tensor, u: Tensor, made: Tensor, penalty: float | None) -> TradeOff:
    """One point of a curve.

    Args:
        features: (n, C) held-out features.
        u: (n, k) their coefficients.
        made: (n, C) reconstructions.
        penalty: What gave them.
    """
    used = float((u != 0).sum(1).double().mean())
    return TradeOff(
        penalty=penalty,
        relative_l2=float(relative_l2(features, made).double().mean()),
        zero_share=1 - used / u.shape[1],
        used=used,
    )


def reconstruction_curve(
    layer: str,
    dictionary: str,
    features: Tensor,
    code: Callable[[Tensor, float], Tensor],
    vectors: Tensor,
    shift: Tensor,
    penalties: Sequence[float],
    note: Note = lambda text: None,
) -> Reconstruction:
    """The same lasso on a dictionary, whoever made it: relative l2 against sparsity over penalties.

    Args:
        layer: The layer's name.
        dictionary: Who made the vectors.
        features: (n, C) held-out features.
        code: Centered features and a penalty → coefficients (n, k).
        vectors: (k, C).
        shift: (C,) β.
        penalties: λ of Eq. 2.
        note: Is told how far it is.
    """
    points = []
    for penalty in penalties:
        u = code(features - shift, penalty)
        points.append(trade_off(features, u, u @ vectors + shift, penalty))
        note(f"{layer}: {dictionary}, λ = {penalty:g}: relative l2 {points[-1].relative_l2:.3f}")
    return Reconstruction(layer=layer, dictionary=dictionary, coding="lasso", concepts=len(vectors), points=points)


def validate(
    network: Cut,
    coders: Mapping[str, Coder],
    images: Sequence[tuple[Seen, int]],
    *,
    orders: Sequence[str] = ("gig", "random", "gradient x input"),
    points: int = POINTS,
    target: TargetKind = "probability",
    shown: TargetKind = "probability",
    reconstruction: Sequence[Reconstruction] = (),
    sizes: Sequence[Reconstruction] = (),
    note: Note = lambda text: None,
) -> Validation:
    """All curves of a network's layers on some images, each with the class it is judged by."""
    layers, known = list(coders), Known(network, coders)
    classes, pairs, agree = [], [], []
    for layer in layers:
        classes.append(
            class_curves(
                network,
                layer,
                coders[layer],
                images,
                orders=orders,
                target=target,
                shown=shown,
                points=points,
                known=known,
            )
        )
        agree.append(agreement(network, layer, coders[layer], [seen for seen, _ in images], known))
        gig = next(row for row in classes[-1].orders if row.order == "gig")
        note(f"{layer}: insertion − deletion {gig.difference:.3f}, {gig.over_random:.3f} above random order")
    for below, above in pairwise(layers):
        pairs.append(
            layer_curves(
                network,
                (below, coders[below]),
                (above, coders[above]),
                images,
                orders=orders,
                target=target,
                points=points,
                known=known,
            )
        )
        note(f"{below} → {above}: validated")
    return Validation(
        points=points,
        classes=classes,
        between=pairs,
        agreement=agree,
        reconstruction=list(reconstruction),
        sizes=list(sizes),
    )
