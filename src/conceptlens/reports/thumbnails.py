"""Small pictures of the stories' images, inside the page. Without the data there are none, and the page says why."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.core.network import offline
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import Fit, resize_square
from conceptlens.data.sources.open import open_source
from conceptlens.explanations.pictures.overlay import OPACITY, evidence_overlay
from conceptlens.pages.pictures import data_address, encode_image
from conceptlens.recipes.parse import load_recipe
from conceptlens.reports.material import Material
from conceptlens.reports.stories import Stories
from conceptlens.runs.folder import RunFolder

SIDE = 160  # pixels of the longer side, at most
_ACEVEDO = "Images: Acevedo et al. (2020), Data in Brief 30, 105474, CC BY 4.0,"
_WBCATT = "Labels: WBCAtt, Tsutsui et al. (2023), MIT license."
CREDITS = {
    "blood-cells": f"{_ACEVEDO} made smaller. {_WBCATT}",
    "blood-cells-off-center": f"{_ACEVEDO} made smaller, each cell moved to another background. {_WBCATT}",
}


@dataclass(frozen=True)
class Picture:
    """A JPEG as an address, with its size in pixels."""

    address: str
    width: int
    height: int


@dataclass(frozen=True)
class Pictures:
    """Pictures by image id; `reason` says why some are missing."""

    found: Mapping[str, Picture] = field(default_factory=dict)
    maps: Mapping[str, Picture] = field(default_factory=dict)  # the same with evidence over it
    reason: str | None = None


def pictures_from(source: DataSource, stories: Stories | None, fit: Fit) -> Pictures:
    """Read the images from an open source; evidence is drawn over the square that the model saw."""
    place = {name: index for index, name in enumerate(source.examples.ids)}
    found: dict[str, Picture] = {}
    maps: dict[str, Picture] = {}
    reason = None
    for story in stories.stories if stories else []:
        name = story.image
        try:
            image = source.read_at_least(place[name], SIDE)
            found[name] = _picture(image)
            if story.map:
                square = np.ascontiguousarray(resize_square(image, SIDE, fit).transpose(1, 2, 0))
                maps[name] = _picture(evidence_overlay(Image.fromarray(square), story.map.evidence, OPACITY))
        except KeyError:
            reason = f"{name} is not among the data"
        except (UserError, OSError) as error:
            reason = str(error)
    return Pictures(found, maps, reason)


def pictures_of(run: RunFolder, material: Material) -> Pictures:
    """Open the run's data again; a source that is gone or has changed gives no pictures."""
    if not material.stories or not material.stories.stories:
        return Pictures()
    try:
        with offline():
            source, _ = open_source(load_recipe(run.path / "recipe.yaml").data, material.concepts)
    except (UserError, OSError) as error:
        return Pictures(reason=str(error).splitlines()[0])
    if source.examples.fingerprint != material.info["data"]["hash"]:
        return Pictures(reason=f"the data of {source.name} changed since the run")
    return pictures_from(source, material.stories, material.card.get("fit", "squash"))


def _picture(image: Image.Image) -> Picture:
    small = image.convert("RGB")
    small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return Picture(data_address(encode_image(small, "JPEG", quality=85), "image/jpeg"), *small.size)
