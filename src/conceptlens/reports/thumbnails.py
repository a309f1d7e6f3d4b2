"""Small pictures of the stories' images, inside the page. Without the data there are none, and the page says why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.network import offline
from conceptlens.data.dataset import DataSource
from conceptlens.data.sources.open import open_source
from conceptlens.pages.pictures import data_address, encode_image
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.folder import RunFolder

SIDE = 160  # pixels of the longer side, at most
CREDITS = {
    "blood-cells": "Images: Acevedo et al. (2020), Data in Brief 30, 105474, CC BY 4.0, made smaller. "
    "Labels: WBCAtt, Tsutsui et al. (2023), MIT license."
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
    reason: str | None = None


def pictures_from(source: DataSource, ids: Sequence[str]) -> Pictures:
    """Read the images from an open source."""
    place = {name: index for index, name in enumerate(source.examples.ids)}
    found: dict[str, Picture] = {}
    reason = None
    for name in ids:
        try:
            found[name] = _picture(source.read_at_least(place[name], SIDE))
        except KeyError:
            reason = f"{name} is not among the data"
        except (UserError, OSError) as error:
            reason = str(error)
    return Pictures(found, reason)


def pictures_of(run: RunFolder, info: Mapping[str, Any], concepts: ConceptSet, ids: Sequence[str]) -> Pictures:
    """Open the run's data again; a source that is gone or has changed gives no pictures."""
    if not ids:
        return Pictures()
    try:
        with offline():
            source, _ = open_source(load_recipe(run.path / "recipe.yaml").data, concepts)
    except (UserError, OSError) as error:
        return Pictures(reason=str(error).splitlines()[0])
    if source.examples.fingerprint != info["data"]["hash"]:
        return Pictures(reason=f"the data of {source.name} changed since the run")
    return pictures_from(source, ids)


def _picture(image: Image.Image) -> Picture:
    small = image.convert("RGB")
    small.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    return Picture(data_address(encode_image(small, "JPEG", quality=85), "image/jpeg"), *small.size)
