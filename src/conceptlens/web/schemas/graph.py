"""The shapes of a graph as the page draws it: nodes by number, edges in columns, details asked for one by one."""

from typing import Literal

from pydantic import Field

from conceptlens.core.documents import Part
from conceptlens.gig.document import About, Completeness, Crop, Kind, Place, Row
from conceptlens.web.schemas.runs import Answer

GraphName = Literal["classes", "image", "data", "noise", "attack"]


class NodePart(Part):
    """A node; lists have a value for each output of the graph."""

    id: str
    kind: Kind
    row: int  # from the input up; the outputs are the last
    name: str
    contributions: list[float]
    shares: list[float]
    top_of: list[int]
    shared: bool
    active: int
    crops: int  # pictures on its sheet


class EdgeColumns(Part):
    """Edges, strongest first; nodes by their number."""

    source: list[int]
    target: list[int]
    value: list[float]
    weight: list[float]
    all: int  # that the file has


class ImagePart(Part):
    """An image of the graph whose picture has an address."""

    number: int
    name: str


class GraphAnswer(Answer):
    """A graph without what only one node's sheet shows."""

    name: GraphName
    others: list[GraphName] = Field(description="All graphs of this folder")
    about: About
    title: str
    model: str
    outputs: list[str]
    images: int
    examples: list[ImagePart]  # the first few
    images_of: list[int]  # of each output
    path: str
    target: str
    rows: list[Row]
    completeness: Completeness
    nodes: list[NodePart]
    edges: EdgeColumns


class SeenPlace(Place):
    """Where a concept is, and the number of the image, whose picture has an address; null: there is none."""

    picture: int | None


class NodeAnswer(Answer):
    """The sample sheet of a node."""

    number: int
    id: str
    samples: int | None  # members of its cluster
    active_of: list[int] | None  # images of each output in which it is used
    crops: list[Crop]
    sheet: bool  # whether there is a picture of them
    places: list[SeenPlace]
