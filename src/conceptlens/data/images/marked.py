"""Images with a planted shortcut: a small colored square wherever a concept holds, at a place of chance."""

import numpy as np
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.data.dataset import Annotation, DataSource

MARKER = "marker"
COLOR = (255, 0, 255)


class Marked(DataSource):
    """A source whose images carry the square where they are labeled to show the concept.

    Args:
        source: Images without it.
        concepts: Their vocabulary.
        concept: The name of one of its concepts.
        side: Of the square, in shorter sides of the image.
        seed: Of its places.
    """

    def __init__(
        self, source: DataSource, concepts: ConceptSet, concept: str, *, side: float = 0.15, seed: int = 0
    ) -> None:
        if not 0 < side < 1:
            raise UserError(f"The marker's side is a share of the image's, above 0 and below 1; found {side}.")
        if concept not in concepts.names:
            raise unknown_name("concept", concept, concepts.names)
        self.source, self.concepts, self.position = source, concepts, concepts.names.index(concept)
        self.name, self.classes, self.task = source.name, source.classes, source.task
        self.examples, self.window = source.examples, source.window
        self._side, self._seed = side, seed

    def holds(self, index: int) -> bool:
        """Whether the image is labeled to show the concept."""
        return bool(self.examples.concepts[index, self.position] == 1)

    def box(self, index: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Where the square is, or would be, in an image of that size: left, top, right, bottom in pixels."""
        side = max(1, round(self._side * min(size)))
        x, y = np.random.default_rng([self._seed, index]).random(2)
        left, top = round(x * (size[0] - side)), round(y * (size[1] - side))
        return left, top, left + side, top + side

    def marked(self, index: int) -> Image.Image:
        """The image with the square, whatever its label."""
        image = self.source.read(index).copy()
        image.paste(COLOR, self.box(index, image.size))
        return image

    def read(self, index: int) -> Image.Image:
        return self.marked(index) if self.holds(index) else self.source.read(index)

    def annotation(self, index: int) -> Annotation | None:
        """What the source knows, and the square where it is."""
        found = self.source.annotation(index)
        if not self.holds(index):
            return found
        size = self.source.read(index).size
        left, top, right, bottom = self.box(index, size)
        box = {MARKER: (float(left), float(top), float(right), float(bottom))}
        if found is None:
            return Annotation(boxes=box, size=size)
        return Annotation(found.keypoints, found.masks, {**found.boxes, **box}, size)

    @property
    def region_names(self) -> tuple[str, ...]:
        return (*self.source.region_names, MARKER)
