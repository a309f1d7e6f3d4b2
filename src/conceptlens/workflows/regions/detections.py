"""What a detector saw in each image, from JSON as it is published: label, confidence and box.

Read are VLG-CBM's folder of annotations (`NUMBER.json` for each image: a list whose first entry may have `img_path`,
and entries with `label`, `logit` and `box`), or one JSON file from an image's name to such a list. Confidences may be
called `score` or `confidence`, and a box may be the dictionary of corners that transformers' pipelines give.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.data.regions.tables import ImageNames

Box = tuple[float, float, float, float]
CONFIDENCES = ("logit", "score", "confidence")
CORNERS = ("xmin", "ymin", "xmax", "ymax")


@dataclass(frozen=True)
class Detection:
    """One box."""

    label: str
    confidence: float
    box: Box  # left, top, right, bottom in pixels


def plain(label: str) -> str:
    """A label as it is compared: small letters, single spaces, no article in front, no period behind."""
    words = re.sub(r"\s+", " ", str(label).lower().replace(";", ",")).strip(" .")
    return re.sub(r"^(a|an|the) ", "", words)


def parse_detection(entry: Any, where: str) -> Detection:
    """A box from an entry of any of the spellings."""
    try:
        confidence = next(float(entry[name]) for name in CONFIDENCES if name in entry)
        box = entry["box"]
        corners = [float(box[name]) for name in CORNERS] if isinstance(box, Mapping) else [float(edge) for edge in box]
        left, top, right, bottom = corners
        if not all(map(math.isfinite, (confidence, *corners))):
            raise ValueError
        return Detection(plain(entry["label"]), confidence, (left, top, right, bottom))
    except (KeyError, TypeError, ValueError, StopIteration):
        raise UserError(
            f"{where}: expected `label`, `logit` (or `score`, `confidence`) and `box` of four numbers, found "
            f"{str(entry)[:120]}."
        ) from None


def read_detections(path: Path, ids: Sequence[str]) -> dict[int, list[Detection]]:
    """Boxes by the position of their image; an image that nothing is said of is left out.

    Args:
        path: The folder or the file.
        ids: Of the images, in the data's order: a file that is called by a number speaks of the image in that row.
    """
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if not files:
            raise UserError(f"{path}: expected a .json file for each image, found none.")
        entries: Iterable[tuple[str, Any]] = ((file.stem, read_json(file)) for file in files)
    else:
        whole = read_json(path)
        if not isinstance(whole, dict):
            raise UserError(f"{path}: expected a dictionary from an image's name to its boxes.")
        entries = ((name, value) for name, value in whole.items() if name != "schema")
    names = ImageNames(ids)
    found: dict[int, list[Detection]] = {}
    for name, value in entries:
        if not isinstance(value, list):
            raise UserError(f"{path}: {name}: expected a list of boxes, found {type(value).__name__}.")
        boxes = [entry for entry in value if isinstance(entry, Mapping) and "box" in entry]
        heads = (entry.get("img_path") for entry in value if isinstance(entry, Mapping))
        said = next(filter(None, heads), None)
        said = said[0] if isinstance(said, list) and said else said
        index = names.index(str(said)) if said else names.index(name)
        if index is None and not said and re.fullmatch(r"[0-9]{1,12}", name) and int(name) < len(ids):
            index = int(name)
        if index is not None:
            found[index] = [parse_detection(entry, f"{path}: {name}") for entry in boxes]
    if not found:
        raise UserError(
            f"{path}: none of the images it speaks of is in the data, such as {ids[0]!r}. Names of images, or numbers "
            "of rows, must be those of the data."
        )
    return found
