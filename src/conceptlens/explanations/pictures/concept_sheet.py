"""Many images of one concept on one sheet, surest first; with a file beside it that says what is on it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from PIL import Image

from conceptlens.core.files import fingerprint, write_bytes, write_json
from conceptlens.explanations.document import ConceptMaps, Explanation, MapKind, PatchMap
from conceptlens.explanations.file_names import slug
from conceptlens.explanations.pictures.panel import NAMES, capital, draw_map, map_lines
from conceptlens.explanations.pictures.sheet import Tile, png, sheet
from conceptlens.explanations.sentence import percent

MOST = 48  # images on a sheet
SIDE = 128


@dataclass(frozen=True)
class _Entry:
    """A tile to be, and what the file says of it."""

    image: str
    file: str
    predicted: str
    probability: float
    kind: MapKind
    range: tuple[float, float]
    tile: Tile


@dataclass
class ConceptSheets:
    """Gathers tiles while images pass; memory is bounded by the number of concepts, not of images."""

    opacity: float
    _captions: dict[str, str] = field(default_factory=dict)  # by kind of map
    _found: dict[tuple[str, MapKind], list[_Entry]] = field(default_factory=dict)
    _left_out: dict[tuple[str, MapKind], int] = field(default_factory=dict)

    def add(self, told: Explanation, file: str, picture: Image.Image) -> None:
        small = picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
        self._captions = told.map_captions
        for maps in told.maps:
            for kind in get_args(MapKind):
                self._add(told, file, small, maps, kind)

    def _add(self, told: Explanation, file: str, picture: Image.Image, maps: ConceptMaps, kind: MapKind) -> None:
        patches: PatchMap | None = getattr(maps, kind)
        if patches is None:
            return
        entries = self._found.setdefault((maps.concept, kind), [])
        if len(entries) == MOST:
            self._left_out[maps.concept, kind] = self._left_out.get((maps.concept, kind), 0) + 1
            return
        reading = told.concept(maps.concept)
        said = ", ".join(told.predicted) or "no class"
        lines = [f"{percent(reading.probability)} {said}", *map_lines("", patches)]
        tile = Tile(draw_map(picture, patches, self.opacity), lines)
        entries.append(_Entry(told.image, file, said, reading.probability, kind, patches.range, tile))

    def write(self, folder: Path) -> list[Path]:
        """A PNG and a JSON for each concept and kind of map."""
        written: list[Path] = []
        for (concept, kind), entries in self._found.items():
            ranked = sorted(entries, key=lambda each: -each.probability)
            left = self._left_out.get((concept, kind), 0)
            path = folder / f"sheet-{slug(concept)}-{kind}.png"
            if path in written:  # two concepts that differ in signs only
                path = folder / f"sheet-{slug(concept)}-{fingerprint(concept)[:6]}-{kind}.png"
            write_json(
                path.with_suffix(".json"),
                {
                    "concept": concept,
                    "map": kind,
                    "opacity": self.opacity,
                    "left_out": left,
                    "images": [
                        {
                            "image": each.image,
                            "file": each.file,
                            "predicted": each.predicted,
                            "probability": each.probability,
                            "range": each.range,
                        }
                        for each in ranked
                    ],
                },
            )
            signed = kind == "evidence"
            colors = "striped orange takes away, blue adds" if signed else "the colours of each run from 0"
            note = (
                f"{capital(NAMES[kind])}; {colors}, up to its own largest value, where they are "
                f"{percent(self.opacity)} opaque. Below each: how sure the concept is, the predicted class, the map's "
                f"range{', and how it adds up to the logit' if signed else ''}."
            )
            more = f" {left} more images are not shown." if left else ""
            doubt = [capital(self._captions[kind])] if kind in self._captions else []
            tiles = [each.tile for each in ranked]
            page = sheet(concept, doubt, tiles, [note + more], columns=8, bar=not signed, signed=signed)
            write_bytes(path, png(page))
            written.append(path)
        return written
