"""A codebook study from its files alone: what its commands wrote, without opening its model."""

import shlex
from pathlib import Path
from typing import Any, get_args

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_checked, read_json
from conceptlens.runs.annotations import FILE as ANNOTATIONS
from conceptlens.runs.annotations import read_annotations
from conceptlens.runs.folder import RunFolder
from conceptlens.web.schemas.studio import (
    STEPS,
    Heat,
    Neighbor,
    PictureName,
    Reading,
    ResultName,
    ShownImage,
    Studio,
    StudioLimits,
    StudioModel,
)
from conceptlens.web.server.folders import RunEntry
from conceptlens.web.server.kinds import command_for, shown_path
from conceptlens.web.server.problems import Problem, missing, not_found

FOLDER = "codebook"
SECONDS = 60.0  # an edit may take
RESULTS = get_args(ResultName)


def study_info(entry: RunEntry) -> dict[str, Any]:
    """run.json of a finished study."""
    info = RunFolder(entry.path).info
    if info["status"] != "done":
        raise missing(f"{entry.shown}: this study is not finished ({info['status']}).")
    return info


def maker(entry: RunEntry, name: str, concept: str = "CONCEPT") -> str:
    """The command that makes a result of a study."""
    words = command_for("codebook", name, entry.shown)
    assert words is not None
    return words.replace("CONCEPT", shlex.quote(concept))


def studio_of(entry: RunEntry) -> Studio:
    """Everything but single images."""
    info = study_info(entry)
    card = _read(entry, "extractor/extractor.json")
    grids = _read(entry, f"{FOLDER}/grids.json") if entry.file(f"{FOLDER}/grids.json") else None
    has: list[ResultName] = [name for name in RESULTS if entry.file(f"{FOLDER}/{name}.json")]
    pictures: dict[PictureName, str] = {
        name: f"/api/v1/runs/{entry.key}/studio/pictures/{name}"
        for name in get_args(PictureName)
        if entry.file(f"{FOLDER}/{name}.png")
    }
    entry.file(ANNOTATIONS)  # refuses a link that leads out
    said = read_annotations(entry.path)["token"]
    try:
        lacks = {name: maker(entry, name, card["concepts"][-1]) for name in RESULTS if name not in has}
        if grids is None:
            lacks["images"] = maker(entry, "tokens")
        return Studio(
            model=model_of(info),
            source=str(info["data"]["source"]),
            network=card["network"],
            grid=card["grid"],
            codes=card["codes"],
            width=card["width"],
            concepts=card["concepts"],
            accuracy=card["accuracy"],
            variant=grids["variant"] if grids else None,
            images=[_shown(entry, each, grids["pictures"]) for each in grids["images"]] if grids else [],
            has=has,
            pictures=pictures,
            missing=lacks,
            limits=StudioLimits(steps=STEPS, seconds=SECONDS),
            names={int(token): each.called for token, each in said.items() if token.isdecimal()},
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise _damaged(entry, error) from None


def model_of(info: dict[str, Any]) -> StudioModel:
    """Whether the model that a study names can be opened, by a look at its files."""
    from conceptlens.cortex.generators.builtin.generator import CARD
    from conceptlens.cortex.generators.open import BUILTIN, PACKAGED

    name = str(info["model"]["name"])
    if name == BUILTIN:
        here = (PACKAGED / CARD).exists()
        why = "this copy of conceptlens comes without the built-in generator's weights"
    else:
        here = Path(name).exists()
        why = f"{shown_path(name)} is not there any more"
    return StudioModel(name=shown_path(name), here=here, why=None if here else why)


def image_of(entry: RunEntry, row: int) -> Reading:
    """One written image."""
    study_info(entry)
    if entry.file(f"{FOLDER}/grids.json") is None:
        raise missing(f"{entry.shown}: no images were written yet.", maker(entry, "tokens"))
    grids = _read(entry, f"{FOLDER}/grids.json")
    try:
        found = next((each for each in grids["images"] if each["row"] == row), None)
        if found is None:
            raise not_found(f"Image {row} is not among those that were written.")
        tokens = found["tokens"]
        own = {str(token) for line in tokens for token in line}
        return Reading(
            tokens=tokens,
            probabilities=found["probabilities"],
            concept=found["concept"],
            heat=[Heat(**each) for each in found["heat"]],
            near={
                int(token): [Neighbor(code=code, distance=far) for code, far in near]
                for token, near in grids["near"].items()
                if token in own
            },
            picture=_address(entry, row) if grids["pictures"] else None,
            title=f"{grids['concepts'][found['concept']]}, {grids['split']} sample {row}",
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise _damaged(entry, error) from None


def picture_file(entry: RunEntry, name: str) -> bytes:
    """A PNG that a command wrote, by a name that is known or a number."""
    study_info(entry)
    path = entry.file(f"{FOLDER}/{name}.png")
    if path is None:
        raise missing(f"{entry.shown}: no picture {name} yet.", maker(entry, "tokens"))
    return read_checked(path)


def _address(entry: RunEntry, row: int) -> str:
    return f"/api/v1/runs/{entry.key}/studio/images/{row}/picture"


def _shown(entry: RunEntry, each: dict[str, Any], pictures: bool) -> ShownImage:
    row, concept = each["row"], each["concept"]
    share = each["probabilities"][concept]
    return ShownImage(row=row, concept=concept, probability=share, picture=_address(entry, row) if pictures else None)


def _read(entry: RunEntry, name: str) -> dict[str, Any]:
    path = entry.file(name)
    if path is None:
        raise Problem(409, "broken", f"{entry.shown}/{name}: no such file; the study is not whole.")
    value = read_json(path)
    if not isinstance(value, dict):
        raise UserError(f"{entry.shown}/{name}: expected what a codebook command writes.")
    return value


def _damaged(entry: RunEntry, error: Exception) -> Problem:
    words = f"{entry.shown}: its codebook files are damaged or of another version ({type(error).__name__})."
    return Problem(409, "broken", words, command=maker(entry, "tokens"))
