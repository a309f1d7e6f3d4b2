"""`graph.json`: the causal graph of concepts, their samples, and how far to trust it. Pages are made from it alone."""

from typing import Literal

from pydantic import Field

from conceptlens.core.documents import Document, Part

About = Literal["image", "class", "classes", "data"]
Kind = Literal["output", "concept", "error"]
NamedBy = Literal["number", "texts", "hand"]


class Place(Part):
    """Where a concept is in one image: its coefficients, row by row over the layer's grid."""

    image: str
    grid: tuple[int, int]
    values: list[list[float]]  # (h, w)


class Crop(Part):
    """One of the samples nearest to a concept, which show what it is."""

    image: str
    position: int  # in the layer, row by row
    cosine: float
    box: tuple[float, float, float, float]  # x0, y0, x1, y1 of its receptive field with context, in sides of the image
    picture: str | None = None  # file beside the graph


class Node(Part):
    """A class (or another output), a concept of a layer, or the part of a layer that no concept explains."""

    id: str
    kind: Kind
    layer: str | None = None
    concept: int | None = None
    name: str
    named_by: NamedBy = "number"  # its number, the text nearest to its pictures, or a person
    # To each output of the graph: mean GIG over its images (Eq. 7), and the same as shares of all that the layer adds
    # or takes away, its error included.
    contributions: dict[str, float] = Field(default_factory=dict)
    shares: dict[str, float] = Field(default_factory=dict)
    top_of: list[str] = Field(default_factory=list)  # outputs for which it is among the first of its layer
    shared: bool = False  # among the first that several outputs have in common
    active: int = 0  # images of the graph in which it is used
    active_of: dict[str, int] = Field(default_factory=dict)  # the same, of the images of each output
    samples: int | None = None  # members of its cluster
    crops: list[Crop] = Field(default_factory=list)
    sheet: str | None = None  # file beside the graph: pictures of the crops, square, one beside the other
    places: list[Place] = Field(default_factory=list)


class Edge(Part):
    """What one node adds to another: mean GIG over the images (Eq. 5, 7)."""

    source: str
    target: str
    value: float
    weight: float  # |value|, divided by the largest of a concept between the same two rows; at most 1


class Completeness(Part):
    """How well sums of contributions meet what they must add up to, over all images, rows and targets."""

    mean: float
    worst: float
    above: float  # share of integrals above the tolerance
    tolerance: float
    steps_mean: float
    steps_most: int


class Row(Part):
    """A layer of the graph."""

    layer: str
    grid: tuple[int, int]
    channels: int
    concepts: int  # in its dictionary
    used: float  # mean number an image uses
    relative_l2: float  # mean over positions of ‖x − x̃‖ / ‖x‖ (Table 1)
    zero_share: float  # mean share of coefficients that are zero (the paper's l0 ratio)
    error_share: float  # mean share of the unexplained residual in what the layer adds to the outputs


class Graph(Document):
    """The file."""

    remedy = "Draw the graph again."

    about: About
    title: str
    model: str
    outputs: list[str]
    images: list[str]
    images_of: dict[str, list[str]]  # of each output: the images its contributions are means over
    path: Literal["shifted", "printed"]
    target: Literal["probability", "logit"]
    rows: list[Row]  # from the input up
    nodes: list[Node]
    edges: list[Edge]
    completeness: Completeness
    pictures: dict[str, str] = Field(default_factory=dict)  # image → a small picture, file beside the graph

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.id == name)

    def into(self, name: str) -> list[Edge]:
        """Edges that end at a node, strongest first."""
        return sorted((edge for edge in self.edges if edge.target == name), key=lambda edge: -abs(edge.value))

    def out_of(self, name: str) -> list[Edge]:
        """Edges that begin at a node, strongest first."""
        return sorted((edge for edge in self.edges if edge.source == name), key=lambda edge: -abs(edge.value))
