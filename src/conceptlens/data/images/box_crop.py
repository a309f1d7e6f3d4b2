"""Images cut to the object's box: `data.regions.crop`, as PF-CBM's box-cropped features."""

from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Annotation, DataSource
from conceptlens.data.images.framing import Box
from conceptlens.data.regions.regions import object_box


class BoxCropped(DataSource):
    """A source whose images end at the object's box; one in which nothing is marked stays whole.

    Args:
        source: Whole images, with regions.
    """

    def __init__(self, source: DataSource) -> None:
        if not source.region_names:
            raise UserError(
                f"data.regions.crop: {source.name} knows no boxes to cut its images to. Name boxes, points or masks in "
                "data.regions, or set crop: false."
            )
        self.source = source
        self.name, self.classes, self.task = source.name, source.classes, source.task
        self.examples, self.window, self.blocks = source.examples, source.window, source.blocks

    def _pixels(self, annotation: Annotation | None) -> tuple[int, int, int, int] | None:
        """The box in whole pixels, one or more a side."""
        box = None if annotation is None else object_box(annotation)
        if box is None:
            return None
        left, top = int(box[0]), int(box[1])
        return left, top, max(left + 1, -int(-box[2] // 1)), max(top + 1, -int(-box[3] // 1))

    def read(self, index: int) -> Image.Image:
        box, image = self._pixels(self.source.annotation(index)), self.source.read(index)
        return (
            image if box is None else image.crop((box[0], box[1], min(box[2], image.width), min(box[3], image.height)))
        )

    def annotation(self, index: int) -> Annotation | None:
        found = self.source.annotation(index)
        box = self._pixels(found)
        if found is None or box is None:
            return found
        full = found.size or self.source.read(index).size
        left, top, right, bottom = box[0], box[1], min(box[2], full[0]), min(box[3], full[1])

        def cut(edges: Box) -> Box:
            x0, y0, x1, y1 = edges
            return max(x0, left) - left, max(y0, top) - top, min(x1, right) - left, min(y1, bottom) - top

        inside = {name: (x, y) for name, (x, y) in found.keypoints.items() if left <= x <= right and top <= y <= bottom}
        boxes = {name: cut(edges) for name, edges in found.boxes.items()}
        masks = {name: mask[top:bottom, left:right] for name, mask in found.masks.items()}
        return Annotation(
            keypoints={name: (x - left, y - top) for name, (x, y) in inside.items()},
            masks={name: mask for name, mask in masks.items() if mask.any()},
            boxes={name: edges for name, edges in boxes.items() if edges[2] > edges[0] and edges[3] > edges[1]},
            size=(right - left, bottom - top),
        )

    @property
    def region_names(self) -> tuple[str, ...]:
        return self.source.region_names
