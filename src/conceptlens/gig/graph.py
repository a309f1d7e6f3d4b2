"""The causal graph of concepts: the first concepts of each layer and output, joined by what they add to each other.

GIG paper, Fig. 1 and 3. For one image, one class, two classes or the whole data, the rows are layers; a concept is in
its row because it adds most to an output (Eq. 7) or because several outputs share it; an edge is the mean contribution
of a concept to one in the next row (Eq. 5). The part of a layer that no concept explains is a node of its own: what the
network says of the layer as it is, less what it says of its reconstruction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.progress import Note
from conceptlens.gig.attribution.integrated_gradients import MOST, TOLERANCE, Contributions, Path, Read, contributions
from conceptlens.gig.attribution.targets import Onwards, TargetKind, between, to_classes, to_concepts
from conceptlens.gig.dictionaries.coded import Coded
from conceptlens.gig.document import About, Completeness, Edge, Graph, Node, Place, Row
from conceptlens.gig.means import Mean, shared, top


class Cut(Onwards, Protocol):
    """A network split at named layers."""

    def features(self, images: Tensor, layer: str) -> Tensor: ...

    @property
    def grids(self) -> Mapping[str, tuple[int, int] | None]: ...  # (h, w) of a layer's positions, where they have one


class Coder(Protocol):
    """A layer's dictionary of concepts, and how features become coefficients (Eq. 2)."""

    @property
    def vectors(self) -> Tensor: ...  # (k, C)

    def code(self, features: Tensor) -> Coded: ...


@dataclass(frozen=True)
class Seen:
    """An image as the network takes it, (3, H, W)."""

    name: str
    pixels: Tensor


@dataclass(frozen=True)
class Drawn:
    """What a graph shows, and how its contributions are computed.

    Attributes:
        concepts: First concepts of each row and output.
        shared: Further ones that the outputs share.
        places: Images in which each concept is shown.
    """

    concepts: int = 5
    shared: int = 3
    places: int = 3
    path: Path = "shifted"
    target: TargetKind = "probability"
    tolerance: float = TOLERANCE
    most: int = MOST
    steps: int | None = None

    def contributions(self, read: Read, layer: Coded) -> Contributions:
        return contributions(read, layer, steps=self.steps, tolerance=self.tolerance, most=self.most, path=self.path)


class Known:
    """Layers of images in concepts, and contributions to outputs: each is computed once for all graphs of a run."""

    def __init__(self, network: Cut, coders: Mapping[str, Coder]) -> None:
        self.network, self.coders = network, coders
        self._codes: dict[tuple[str, str], Coded] = {}
        self._to_output: dict[tuple[str, str, int, Drawn], Contributions] = {}

    def code(self, layer: str, seen: Seen) -> Coded:
        """A layer of an image in concepts."""
        if (layer, seen.name) not in self._codes:
            features = self.network.features(seen.pixels[None], layer)[0]
            self._codes[layer, seen.name] = self.coders[layer].code(features)
        return self._codes[layer, seen.name]

    def to_output(self, layer: str, seen: Seen, output: int, how: Drawn) -> Contributions:
        """Contributions of a layer to an output, summed over positions."""
        key = (layer, seen.name, output, how)
        if key not in self._to_output:
            read = to_classes(between(self.network, layer, None, seen.pixels), [output], how.target)
            found = how.contributions(read, self.code(layer, seen))
            self._to_output[key] = replace(found, at=found.total[:, None])
        return self._to_output[key]


def build_graph(
    network: Cut,
    coders: Mapping[str, Coder],
    groups: Mapping[int, Sequence[Seen]],
    names: Sequence[str],
    *,
    about: About,
    title: str,
    model: str,
    how: Drawn | None = None,
    note: Note = lambda text: None,
    known: Known | None = None,
) -> Graph:
    """Draw a graph from images.

    Args:
        network: Split at the layers of `coders`.
        coders: Layer → its concepts, from the input up.
        groups: Output → the images over which its contributions are means; an image may be in several.
        names: Of all outputs of the network.
        about: What it is a graph of. In one of the `data`, concepts are chosen by their mean over all groups.
        title: In words.
        model: The network's name.
        how: What is shown.
        note: Is told how far it is.
        known: What was computed for other graphs of the same network and coders.
    """
    how, known = how or Drawn(), known or Known(network, coders)
    groups = {output: list(images) for output, images in groups.items()}
    if not groups or not all(groups.values()):
        empty = [names[output] for output, images in groups.items() if not images]
        raise UserError(f"No image of {', '.join(map(repr, empty)) or 'any class'} to draw a graph from.")
    images = list({seen.name: seen for group in groups.values() for seen in group}.values())
    layers = list(coders)
    codes: dict[str, dict[str, Coded]] = {
        layer: {seen.name: known.code(layer, seen) for seen in images} for layer in layers
    }
    grids = {layer: network.grids[layer] or (1, len(next(iter(codes[layer].values())).features)) for layer in layers}
    outputs = [names[output] for output in groups]
    to_output: dict[str, dict[str, Mean]] = {layer: {} for layer in layers}
    for layer in layers:
        for output, group in groups.items():
            mean = Mean(len(coders[layer].vectors), 1)
            for seen in group:
                mean.add(known.to_output(layer, seen, output, how))
            to_output[layer][names[output]] = mean
        note(f"{layer}: contributions to {', '.join(outputs[:4])}{' …' if len(outputs) > 4 else ''}")

    chosen = {layer: _choose(to_output[layer], how, about) for layer in layers}
    nodes = [Node(id=_output(name), kind="output", name=name) for name in outputs]
    edges: list[Edge] = []
    for layer in layers:
        nodes += _nodes(layer, chosen[layer], to_output[layer])
    integrals = [mean for of in to_output.values() for mean in of.values()]
    for below, above in pairwise(layers):
        mean = Mean(len(coders[below].vectors), len(chosen[above].numbers))
        targets = coders[above].vectors[chosen[above].numbers]
        for seen in images if chosen[above].numbers else []:
            read = to_concepts(between(network, below, above, seen.pixels), targets)
            mean.add(how.contributions(read, codes[below][seen.name]))
        edges += _edges(below, chosen[below].numbers, [_concept(above, each) for each in chosen[above].numbers], mean)
        integrals.append(mean)
        note(f"{below} → {above}: contributions to {len(chosen[above].numbers)} concepts")
    last = layers[-1]
    columns = [_edges(last, chosen[last].numbers, [_output(name)], to_output[last][name]) for name in outputs]
    edges += _rescaled([edge for column in columns for edge in column])

    for node in nodes:
        if node.kind == "concept" and node.layer is not None and node.concept is not None:
            node.places = _places(codes[node.layer], node.concept, grids[node.layer], how.places)
            used = {name for name, code in codes[node.layer].items() if bool((code.concepts == node.concept).any())}
            node.active = len(used)
            node.active_of = {names[output]: sum(seen.name in used for seen in of) for output, of in groups.items()}
    return Graph(
        about=about,
        title=title,
        model=model,
        outputs=outputs,
        images=[seen.name for seen in images],
        images_of={names[output]: [seen.name for seen in group] for output, group in groups.items()},
        path=how.path,
        target=how.target,
        rows=[_row(layer, grids[layer], coders[layer], codes[layer], to_output[layer]) for layer in layers],
        nodes=nodes,
        edges=edges,
        completeness=_completeness(integrals, how.tolerance),
    )


@dataclass(frozen=True)
class _Chosen:
    """The concepts of a row, in the order they are drawn, and why they are there."""

    numbers: list[int]
    top_of: dict[int, list[str]]
    shared: list[int]


def _choose(means: Mapping[str, Mean], how: Drawn, about: About) -> _Chosen:
    shares = {name: mean.shares[0] for name, mean in means.items()}
    if about == "data":
        overall = top(torch.stack(list(shares.values())).mean(0), how.concepts + how.shared)
        top_of = {number: [name for name in shares if number in top(shares[name], how.concepts)] for number in overall}
        return _Chosen(overall, top_of, [number for number in overall if len(top_of[number]) > 1])
    first = {name: top(share, how.concepts) for name, share in shares.items()}
    numbers = list(dict.fromkeys(number for chosen in first.values() for number in chosen))
    top_of = {number: [name for name, chosen in first.items() if number in chosen] for number in numbers}
    both = [number for number in numbers if len(top_of[number]) > 1]
    more = shared(shares, how.shared, without=numbers) if len(shares) > 1 else []
    return _Chosen(numbers + more, top_of | {number: [] for number in more}, both + more)


def _output(name: str) -> str:
    return f"output/{name}"


def _concept(layer: str, number: int) -> str:
    return f"{layer}/{number}"


def _error(layer: str) -> str:
    return f"{layer}/error"


def _nodes(layer: str, chosen: _Chosen, means: Mapping[str, Mean]) -> list[Node]:
    found = [
        Node(
            id=_concept(layer, number),
            kind="concept",
            layer=layer,
            concept=number,
            name=f"concept {number}",
            contributions={name: float(mean.values[0, number]) for name, mean in means.items()},
            shares={name: float(mean.shares[0, number]) for name, mean in means.items()},
            top_of=chosen.top_of[number],
            shared=number in chosen.shared,
        )
        for number in chosen.numbers
    ]
    error = Node(
        id=_error(layer),
        kind="error",
        layer=layer,
        name="unexplained",
        contributions={name: float(mean.residual_values[0]) for name, mean in means.items()},
        shares={name: float(mean.residual_shares[0]) for name, mean in means.items()},
    )
    return [*found, error]


def _edges(layer: str, numbers: Sequence[int], targets: Sequence[str], mean: Mean) -> list[Edge]:
    """From each concept of a layer, and from its error, to each target."""
    found = []
    for place, target in enumerate(targets):
        for number in numbers:
            value = float(mean.values[place, number])
            found.append(Edge(source=_concept(layer, number), target=target, value=value, weight=0.0))
        value = float(mean.residual_values[place])
        found.append(Edge(source=_error(layer), target=target, value=value, weight=0.0))
    return _rescaled(found)


def _rescaled(edges: list[Edge]) -> list[Edge]:
    """Weights from 0 to 1, as the paper's figures have them: 1 for the strongest concept, and for errors above it."""
    largest = max((abs(edge.value) for edge in edges if not edge.source.endswith("/error")), default=0.0)
    for edge in edges:
        edge.weight = min(abs(edge.value) / largest, 1.0) if largest > 0 else 0.0
    return edges


def _places(codes: Mapping[str, Coded], number: int, grid: tuple[int, int], most: int) -> list[Place]:
    """The images in which a concept's coefficients are largest, and where."""
    found: list[tuple[float, Place]] = []
    for name, code in codes.items():
        where = torch.nonzero(code.concepts == number).flatten()
        if len(where):
            column = code.u[:, where[0]].detach().float().cpu()
            # Tokens before the grid, as a class token, have no place in the image.
            values = column[len(column) - grid[0] * grid[1] :].reshape(grid)
            found.append((float(values.max()), Place(image=name, grid=grid, values=values.tolist())))
    found.sort(key=lambda pair: -pair[0])
    return [place for value, place in found[:most] if value > 0]


def _row(layer: str, grid: tuple[int, int], coder: Coder, codes: Mapping[str, Coded], means: Mapping[str, Mean]) -> Row:
    k, channels = coder.vectors.shape
    tiny = torch.finfo(torch.float32).tiny
    relative = [
        float((code.residual.norm(dim=1) / code.features.norm(dim=1).clamp_min(tiny)).mean()) for code in codes.values()
    ]
    used = [float((code.u != 0).sum(1).float().mean()) for code in codes.values()]
    return Row(
        layer=layer,
        grid=grid,
        channels=channels,
        concepts=k,
        used=float(np.mean([len(code.concepts) for code in codes.values()])),
        relative_l2=float(np.mean(relative)),
        zero_share=1 - float(np.mean(used)) / k,
        error_share=float(np.mean([float(mean.residual_shares[0]) for mean in means.values()])),
    )


def _completeness(means: Sequence[Mean], tolerance: float) -> Completeness:
    errors = [error for mean in means for error in mean.errors]
    steps = [step for mean in means for step in mean.steps]
    return Completeness(
        mean=float(np.mean(errors)),
        worst=float(np.max(errors)),
        above=float(np.mean([error > tolerance for error in errors])),
        tolerance=tolerance,
        steps_mean=float(np.mean(steps)),
        steps_most=int(np.max(steps)),
    )
