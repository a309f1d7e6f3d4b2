"""Picture files beside a graph: a sheet of crops for each concept, and each image once.

File names are hashes of a node's id or an image's name, so that no name of a layer, a class or an image can lead out of
the folder.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from PIL import Image

from conceptlens.core.files import fingerprint, write_bytes
from conceptlens.gig.document import Graph
from conceptlens.gig.receptive_field_crops import strip
from conceptlens.pages.pictures import encode_image

FOLDER = "pictures"
CROP = 112  # side of a crop on its sheet, pixels
SIDE = 160  # of an image
QUALITY = 86


class Source(Protocol):
    """What has the pictures of a run."""

    def crops_of(self, layer: str, concept: int) -> Sequence[str]: ...

    def image(self, name: str) -> Image.Image: ...


def sheet_file(node: str) -> str:
    """The crops of a node, by its id."""
    return f"{FOLDER}/sheet-{fingerprint(node)}.jpg"


def image_file(name: str) -> str:
    """An image, by its name."""
    return f"{FOLDER}/image-{fingerprint(name)}.jpg"


def keep_pictures(source: Source, graph: Graph, folder: Path, more: Mapping[str, Image.Image] | None = None) -> None:
    """Write the pictures of a graph, and note in it where they are.

    Args:
        source: Has crops and images.
        graph: Its nodes are filled in.
        folder: That of the graph.
        more: Images that the source does not have, such as disturbed ones.
    """
    for node in graph.nodes:
        if node.kind == "concept" and node.layer is not None and node.concept is not None and node.crops:
            crops = [_opened(each) for each in source.crops_of(node.layer, node.concept)]
            node.sheet = sheet_file(node.id)
            write_bytes(folder / node.sheet, _jpeg(strip([crop.resize((CROP, CROP)) for crop in crops], gap=0)))
    for name in graph.images:
        picture = more[name] if more and name in more else source.image(name)
        graph.pictures[name] = image_file(name)
        write_bytes(folder / graph.pictures[name], _jpeg(picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)))


def _opened(address: str) -> Image.Image:
    """From an address with its bytes inside."""
    return Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGB")


def _jpeg(picture: Image.Image) -> bytes:
    return encode_image(picture.convert("RGB"), "JPEG", quality=QUALITY)
