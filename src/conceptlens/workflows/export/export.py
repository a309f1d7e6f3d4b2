"""`conceptlens export`: trace, write in memory, compare with the run, and only then put the file in its place."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import file_hash, write_bytes
from conceptlens.core.version import __version__
from conceptlens.explanations.answer import Answerer
from conceptlens.runs.folder import check_writable
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.saved import Card
from conceptlens.workflows.export.agreement import TOLERANCE, checked, compare, live_outputs, some_images
from conceptlens.workflows.export.card import (
    Check,
    ConceptEntry,
    ExportCard,
    GroupEntry,
    Input,
    Output,
    card_path,
    refuse_strangers,
)
from conceptlens.workflows.export.graph import CLASSES, CONCEPTS, INPUT, MAPS, SCORE, SETS, UNPLACED, Readout, trace
from conceptlens.workflows.export.onnx_file import OnnxFile, need_onnx, to_onnx
from conceptlens.workflows.export.torch_file import TorchFile, to_torch

Format = Literal["torch", "onnx"]
Precision = Literal["fp32", "fp16"]
SUFFIX = {"torch": ".pt2", "onnx": ".onnx"}
SIZES = range(16, 4097)  # as encoder.image_size
ATTENTION = "attention of the slot that each concept reads"
EVIDENCE = "evidence: how much each patch adds to the concept's logit, signed"


@dataclass(frozen=True, repr=False)
class Exported(ResultMixin):
    """What was written."""

    path: Path
    card: ExportCard

    def to_dict(self) -> dict[str, Any]:
        return {"path": str(self.path), "card": self.card.to_dict()}

    def text(self) -> str:
        check, size = self.card.check, self.path.stat().st_size / 1e6
        return (
            f"written: {self.path} ({size:,.1f} MB) and {card_path(self.path).name}; "
            f"on {check.images} images ({check.of}) it differs from the run by at most {check.largest_difference:.1g}"
        )


def export_run(
    path: str | Path | OpenedRun,
    *,
    format: str = "torch",
    out: str | Path | None = None,
    size: int | None = None,
    precision: str = "fp32",
) -> Exported:
    """Export a finished run to a file and a card beside it.

    Args:
        path: The run folder.
        format: `torch`, for torch.export.load, or `onnx`.
        out: The file; `export/model.pt2` or `export/model.onnx` in the run folder by default.
        size: Side in pixels of the images it takes; the run's own by default.
        precision: `fp16` computes the encoder in half precision.
    """
    if format not in SUFFIX:
        raise unknown_name("format", format, get_args(Format))
    if precision not in TOLERANCE:
        raise unknown_name("precision", precision, get_args(Precision))
    if size is not None and size not in SIZES:
        raise UserError(f"--size: expected {SIZES[0]} to {SIZES[-1]} pixels, found {size}.")
    run = OpenedRun.open(path if isinstance(path, str | Path) else path.path, device="cpu")  # where it is traced
    file = Path(out) if out else run.path / "export" / f"model{SUFFIX[format]}"
    if file.suffix != SUFFIX[format]:
        raise UserError(f"--out {file}: expected a file that ends in {SUFFIX[format]}, as --format is {format}.")
    refuse_strangers(file)
    check_writable(next(folder for folder in file.parents if folder.is_dir()))  # before the work, not after it
    if format == "onnx":
        need_onnx()
    card, answerer = run.card, Answerer.of(run)
    side = size or card.image_size
    caution = answerer.caution
    readout = Readout(run.pipeline, answerer.concepts, card.task, side, caution, half=precision == "fp16")
    program = trace(readout, side)
    data = to_onnx(program, readout.outputs) if format == "onnx" else to_torch(program)
    images, of = some_images(run, side)
    exported = OnnxFile(data) if format == "onnx" else TorchFile(data)
    largest = compare(exported, lambda batch: live_outputs(answerer, batch), images, caution.bounds, precision)
    check = checked(largest, len(images), of, precision)
    write_bytes(file, data)
    about = _card(run, file, format, readout, card, answerer.concepts, side, check)
    about.write(card_path(file))  # last: until then the hash in an older card tells that the file is another
    return Exported(file, about)


def _card(
    run: OpenedRun, file: Path, format: str, readout: Readout, card: Card, concepts: ConceptSet, side: int, check: Check
) -> ExportCard:
    info, k, model = run.info, len(concepts), readout.pipeline.model
    each = "a sigmoid each" if card.task == "multilabel" else "a softmax over the classes"
    known = {
        CLASSES: Output(name=CLASSES, shape=("batch", len(card.classes)), about=f"in the order of `classes`; {each}"),
        CONCEPTS: Output(
            name=CONCEPTS,
            shape=("batch", k),
            about="in the order of `concepts`; a softmax within an exclusive group, a sigmoid otherwise",
        ),
        MAPS: Output(
            name=MAPS,
            shape=("batch", k, *readout.grid),
            about=f"{EVIDENCE if model.has_evidence else ATTENTION}, on the grid of patches, row by row",
        ),
        UNPLACED: Output(
            name=UNPLACED,
            shape=("batch", k),
            about="the part of each concept's logit that has no place: the sum of its map and this are the logit",
        ),
        SCORE: Output(name=SCORE, shape=("batch",), about="above 1 an image is unlike the training images"),
        SETS: Output(
            name=SETS,
            shape=("batch", len(card.classes)),
            about="whether a class cannot be excluded: 9 of 10 images like those of training have theirs among them",
        ),
    }
    return ExportCard(
        file=file.name,
        format=format,
        precision="fp16" if readout.half_encoder else "fp32",
        hash=file_hash(file),
        run=str(info.get("id", run.name)),
        weights=card.weights_hash,
        method=str(info.get("method")),
        bypass=model.bypass,
        task=card.task,
        classes=card.classes,
        thresholds=card.thresholds if card.task == "multilabel" else [],
        concepts=[
            ConceptEntry(name=each.name, group=each.group, value=each.value, text=each.text)
            for each in concepts.concepts
        ],
        groups=[
            GroupEntry(name=group.name, kind=group.kind, first=group.concepts.start, end=group.concepts.stop)
            for group in concepts.groups
        ],
        input=Input(
            name=INPUT,
            shape=("batch", 3, side, side),
            dtypes=["uint8", "float32"] if format == "torch" else ["uint8"],
            size=side,
            fit=card.fit,
            window=card.window,
        ),
        outputs=[known[name] for name in readout.outputs],
        check=check,
        versions={"conceptlens": __version__, "torch": str(torch.__version__)},
    )
