"""`conceptlens data detect`: concept labels and boxes of a detector, as a table, a concept file and a table of boxes.

VLG-CBM's labels (Srivastava, Yan and Weng, 2024, section 3.1): an image shows a concept if the detector has a box for
it above a confidence. What `data.source`, `concepts` and `data.regions.boxes` of a recipe then name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from conceptlens.concepts import ConceptSet
from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError
from conceptlens.core.files import dump_yaml, read_json, write_json, write_text
from conceptlens.core.progress import Note
from conceptlens.data.dataset import UNLABELED, DataSource
from conceptlens.data.labels.words import LIST_SEPARATOR, NONE_OF_THEM
from conceptlens.workflows.prepare.tables import write
from conceptlens.workflows.regions.detections import Detection, plain
from conceptlens.workflows.regions.detectors import Detector

GROUP = "detected"
EVERY = 50  # images between two writes


@dataclass(frozen=True, repr=False)
class Detected(ResultMixin):
    """What was written."""

    folder: Path
    images: int
    boxes: int
    shown: Mapping[str, int]  # concept → images that show it

    def text(self) -> str:
        never = [name for name, count in self.shown.items() if not count]
        lines = [
            f"{self.images} images, {self.boxes} boxes, "
            f"{len(self.shown) - len(never)} of {len(self.shown)} concepts seen",
            f"written to {self.folder}: labels.csv, boxes.csv, concepts.yaml",
            f"recipe: data.source: {self.folder}/labels.csv, data.regions.boxes: {self.folder}/boxes.csv, concepts: "
            f"{self.folder}/concepts.yaml, method: vlg-cbm; data.images as before",
        ]
        return "\n".join([*lines, *([f"never seen: {', '.join(never[:8])}"] if never else [])])


def phrases(words: str | Path) -> list[str]:
    """What is looked for: lines of a text file, or the values of a concept file."""
    path = Path(words)
    if path.suffix.lower() == ".txt":
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()] if path.is_file() else []
        if not lines:
            raise UserError(f"{path}: expected a text file with a phrase a line.")
        named = [plain(line) for line in lines if line]
    else:
        named = [plain(concept.name.partition(": ")[2] or concept.name) for concept in ConceptSet.load(words).concepts]
    return list(dict.fromkeys(named))


def run_detector(source: DataSource, labels: Sequence[str], detect: Detector, kept: Path, note: Note) -> None:
    """Boxes of all images as one JSON file, written as it goes; images that are in it are not looked at again."""
    done: dict[str, list[dict[str, object]]] = {}
    if kept.exists():
        done = {name: boxes for name, boxes in read_json(kept).items() if name != "schema"}
    ids = source.examples.ids
    for index, name in enumerate(ids):
        if name in done:
            continue
        done[name] = [
            {"label": box.label, "score": round(box.confidence, 5), "box": [round(edge, 2) for edge in box.box]}
            for box in detect(source.read(index), labels)
        ]
        if (index + 1) % EVERY == 0 or index + 1 == len(ids):
            write_json(kept, done)
            note(f"{index + 1} of {len(ids)} images")


def write_detections(
    source: DataSource, labels: Sequence[str], found: Mapping[int, Sequence[Detection]], out: Path, *, threshold: float
) -> Detected:
    """The three files. Of several boxes of a concept in an image, the most confident is kept.

    An image of which nothing is said has unknown labels; one without a box shows none of the concepts.
    """
    examples, known = source.examples, set(labels)
    if examples.labels.ndim != 1:
        raise UserError(f"{source.name}: images have several classes; detections are written for one class an image.")
    rows, boxes = [], []
    shown = dict.fromkeys(labels, 0)
    for index, name in enumerate(examples.ids):
        best: dict[str, Detection] = {}
        for box in found.get(index, ()):
            least = best[box.label].confidence if box.label in best else threshold
            if box.label in known and box.confidence > least:
                best[box.label] = box
        cell = "" if index not in found else LIST_SEPARATOR.join(best) or NONE_OF_THEM
        label = int(examples.labels[index])
        row = [name, "" if label == UNLABELED else source.classes[label], cell]
        rows.append(row + [part[index] for part in (examples.split, examples.group) if part is not None])
        for word, box in best.items():
            shown[word] += 1
            left, top, right, bottom = np.maximum(box.box, 0).tolist()
            boxes.append([name, f"{GROUP}: {word}", left, top, right - left, bottom - top, round(box.confidence, 5)])
    header = ["image", "class", GROUP, *(["split"] if examples.split else []), *(["group"] if examples.group else [])]
    write(out / "labels.csv", header, rows)
    write(out / "boxes.csv", ["image", "part", "x", "y", "w", "h", "confidence"], boxes)
    group = {"kind": "independent", "prompt": "a photo of {value}", "values": list(labels)}
    write_text(out / "concepts.yaml", dump_yaml({"classes": list(source.classes), "groups": {GROUP: group}}))
    return Detected(out, len(found), len(boxes), shown)
