"""The hand-over note: what a file holds, of which run, made when, by which version. It names no machine, no person."""

from dataclasses import asdict, dataclass, field
from typing import Any

from conceptlens.pages.markup import Html, h, join


@dataclass(frozen=True)
class Note:
    """What whoever opens the file should know; the page reads `views`."""

    run: str
    method: str | None
    data: str | None
    version: str
    made: str  # the day
    views: list[str]
    split: str | None = None
    images: int = 0
    of: int = 0
    pixels: int | None = None  # the side of a picture, at most
    credit: str | None = None
    notes: list[str] = field(default_factory=list)
    verdicts: Html | None = None  # the block at the top; of a trained model

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "verdicts"}

    @property
    def line(self) -> str:
        """The note in a line."""
        told = f" ({self.method} on {self.data})" if self.method else ""
        return f"Shared from the run {self.run}{told}, {self.made}, conceptlens {self.version}"


CAUTION = (
    "Everything is in this file: it asks nothing of the network, and nothing leaves it. A research tool, not a medical "
    "device, not for diagnosis."
)
INSIDE = "Pictures and their names come from the data set: share the file with no one who may not see them."


def footer(note: Note) -> Html:
    """The note as the foot of the page; it is there without JavaScript as well."""
    facts = [
        ("Run", note.run),
        ("Method", note.method),
        ("Data", note.data),
        ("Made", f"{note.made}, with conceptlens {note.version}"),
        ("Views", ", ".join(note.views)),
        (
            "Images",
            f"{note.images} of {note.of} {note.split} images, at most {note.pixels} pixels a side"
            if note.images
            else None,
        ),
        ("Credit", note.credit),
    ]
    rows = [join([h("dt", name), h("dd", told)]) for name, told in facts if told]
    notes = [*note.notes, *([INSIDE] if note.images else [])]
    return h(
        "footer",
        h(
            "details",
            h("summary", note.line),
            h("dl", rows, class_="facts"),
            h("ul", [h("li", each) for each in notes]) if notes else None,
        ),
        h("p", CAUTION),
        class_="foot share-note",
    )
