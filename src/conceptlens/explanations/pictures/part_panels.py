"""For methods whose slots are parts: all part maps of one image (as PF-CBM's Figure 2b), of a page of images, and where
the parts were expected before and after training. Numbers first, in a file beside each picture."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw

from conceptlens.core.files import write_bytes, write_json
from conceptlens.explanations.document import PatchMap
from conceptlens.explanations.maps.patch_maps import patch_map
from conceptlens.explanations.pictures.colors import code_color, rgb
from conceptlens.explanations.pictures.overlay import overlay
from conceptlens.explanations.pictures.sheet import Key, Tile, png, sheet
from conceptlens.explanations.subjects import Subject
from conceptlens.methods.contract import Pipeline

MOST = 16  # images on the page
SIDE = 96  # pixels of a map there
GROUND = 288  # pixels of the picture of the prior


@dataclass(frozen=True)
class PartMaps:
    """The maps of one image."""

    slots: dict[str, PatchMap]
    gate: PatchMap | None


@dataclass
class PartPanels:
    """Draws the part maps of images as they pass, and gathers a page of them."""

    pipeline: Pipeline
    names: Sequence[str]
    folder: Path
    opacity: float
    caption: str | None = None  # why the maps are to be doubted
    _rows: list[list[Tile]] = field(default_factory=list)

    @classmethod
    def of(cls, pipeline: Pipeline, folder: Path, opacity: float, caption: str | None = None) -> "PartPanels | None":
        """None for a method whose slots are no parts."""
        names = getattr(pipeline.model, "slot_names", None)
        return cls(pipeline, names, folder, opacity, caption) if names else None

    def add(self, name: str, subject: Subject) -> None:
        """Write `NAME-parts.json` and `NAME-parts.png`."""
        assert subject.picture is not None
        found = self.look(subject)
        maps = {**found.slots, **({"foreground": found.gate} if found.gate else {})}
        write_json(
            self.folder / f"{name}-parts.json",
            {
                "image": subject.image,
                "opacity": self.opacity,
                "maps": {key: each.model_dump() for key, each in maps.items()},
            },
        )
        tiles = [Tile(subject.picture, [subject.image])]
        tiles += [
            Tile(overlay(subject.picture, each, self.opacity), [key, _largest(each)]) for key, each in maps.items()
        ]
        note = "Attention of each part's slot; foreground: the gate. Colours run from 0 to each map's largest value."
        page = sheet(f"{subject.image}: parts", self._doubt, tiles, [note], columns=5, bar=True)
        write_bytes(self.folder / f"{name}-parts.png", png(page))
        if len(self._rows) < MOST:
            small = subject.picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
            row = [Tile(overlay(small, each, self.opacity), [key]) for key, each in maps.items()]
            self._rows.append([Tile(small, [subject.image]), *row])

    @property
    def _doubt(self) -> list[str]:
        return [self.caption[:1].upper() + self.caption[1:]] if self.caption else []

    @torch.inference_mode()
    def look(self, subject: Subject) -> PartMaps:
        """The part maps of an image that could be read."""
        assert subject.pixels is not None
        pixels = torch.from_numpy(subject.pixels[None]).to(next(self.pipeline.parameters()).device)
        tokens = self.pipeline.encoder(pixels)
        output = self.pipeline.read(tokens)
        assert output.attention is not None
        slots = {
            name: patch_map(values.float().cpu().numpy(), tokens.grid)
            for name, values in zip(self.names, output.attention[0], strict=True)
        }
        gate = None if output.gate is None else patch_map(output.gate[0].float().sigmoid().cpu().numpy(), tokens.grid)
        return PartMaps(slots, gate)

    def write(self) -> list[Path]:
        """`parts.png`, a row an image, and `prior.png` with `prior.json`, where there is a prior."""
        written = []
        if self._rows:
            tiles = [tile for row in self._rows for tile in row]
            note = "A row an image: the image, the attention of each part's slot, the gate."
            page = sheet("Parts", self._doubt, tiles, [note], columns=len(self._rows[0]), bar=True)
            written.append(self.folder / "parts.png")
            write_bytes(written[0], png(page))
        found = prior_places(self.pipeline)
        if found:
            write_json(self.folder / "prior.json", found)
            written.append(self.folder / "prior.png")
            write_bytes(written[-1], png(prior_picture(found)))
        return written


def _largest(patches: PatchMap) -> str:
    return f"{patches.range[0]:.2g} to {patches.range[1]:.2g}"


def prior_places(pipeline: Pipeline) -> dict[str, Any] | None:
    """Where parts are expected, in patches: mean (row, column) and covariance, at the start and now."""
    grounding: Any = getattr(pipeline.model, "grounding", None)
    prior = getattr(grounding, "prior", None)
    if prior is None:
        return None
    means, covariances = prior.ellipses()
    names: Any = pipeline.model.part_names
    start = torch.diag_embed(prior.start_scale.float().square())
    return {
        "unit": "patches",
        "grid": grounding.grid.tolist(),
        "frame": grounding.pose,
        "parts": {
            str(name): {
                "start": {"mean": prior.start_means[at].tolist(), "covariance": start[at].tolist()},
                "now": {"mean": means[at].tolist(), "covariance": covariances[at].tolist()},
            }
            for at, name in enumerate(names)
        },
    }


def prior_picture(found: dict[str, Any]) -> Image.Image:
    """Ellipses of one deviation, before and after training, a color a part."""
    parts: dict[str, dict[str, dict[str, Any]]] = found["parts"]
    rows, columns = found["grid"]
    colors = {name: code_color(at, True) for at, name in enumerate(parts)}
    tiles = []
    for when, words in (("start", "before training"), ("now", "after training")):
        picture = Image.new("RGB", (GROUND, GROUND), (246, 246, 246))
        draw = ImageDraw.Draw(picture)
        for name, each in parts.items():
            outline = ellipse(each[when]["mean"], each[when]["covariance"])
            scaled = [(float(c) * GROUND / columns, float(r) * GROUND / rows) for r, c in outline]
            draw.line([*scaled, scaled[0]], rgb(colors[name]), 2)
            r, c = each[when]["mean"]
            x, y = c * GROUND / columns, r * GROUND / rows
            draw.ellipse((x - 3, y - 3, x + 3, y + 3), rgb(colors[name]))
        tiles.append(Tile(picture, [words]))
    keys = [Key(color, name) for name, color in colors.items()]
    frame = "the image" if found["frame"] == "image" else "the object, laid over a typical image"
    note = f"Where each part is expected: the mean and an ellipse of one deviation, in the frame of {frame}."
    return sheet("The parts' Gaussians", [], tiles, [note], keys=keys)


def ellipse(
    mean: Sequence[float], covariance: Sequence[Sequence[float]], points: int = 48
) -> list[tuple[float, float]]:
    """Points (row, column) one deviation from the mean."""
    factor = np.linalg.cholesky(np.asarray(covariance, dtype=np.float64))
    angle = np.arange(points) * 2 * np.pi / points
    around = np.asarray(mean) + np.stack((np.cos(angle), np.sin(angle)), 1) @ factor.T
    return [(float(row), float(column)) for row, column in around]
