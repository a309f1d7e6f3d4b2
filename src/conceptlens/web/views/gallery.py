"""The images of a run: lists that can be filtered, and the pictures of single ones."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.data.images.read import resize_square
from conceptlens.explanations.subjects import class_names
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.pages.pictures import encode_image
from conceptlens.runs.image_choice import order
from conceptlens.runs.predictions import StoredPredictions
from conceptlens.web.schemas.image import ImageItem, Images, Show
from conceptlens.web.schemas.runs import Split
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.server.problems import bad, missing

THUMBNAIL = 160  # pixels a side
PICTURE = 384
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Said:
    """What a run said of the images of a split, from the predictions it keeps."""

    predicted: list[list[str]]
    top: Floats  # (N,): probability of the first class
    margin: Floats  # (N,)
    right: list[bool | None]


def list_images(
    loaded: LoadedRun,
    split: Split,
    *,
    show: Show,
    true: str | None,
    predicted: str | None,
    name: str | None = None,
    page: int,
    size: int,
) -> Images:
    """A page of the images of a split.

    Args:
        loaded: The run.
        split: Of its data.
        show: All in order; right or wrong ones, surest first; or the least sure first.
        true: Only images of this class.
        predicted: Only images that are taken for this class.
        name: Only the image of this name.
        page: Which page, from 0.
        size: Images on a page.
    """
    stored = _stored(loaded, split)
    for word in (true, predicted):
        if word is not None and word not in loaded.card.classes:
            raise bad(str(unknown_name("class", word, loaded.card.classes)))
    if isinstance(stored, str) and (show != "all" or predicted):
        raise missing(f"{stored} So they cannot be chosen by their prediction.")
    if isinstance(stored, StoredPredictions):
        ids, labels = stored.ids, stored.labels
        shares = class_probabilities(stored.logits, loaded.card.task)
        rows = (
            np.arange(len(ids))
            if show == "all"
            else order(shares, labels, loaded.card.task, list(stored.thresholds), show)
        )
        said: Said | None = _said(loaded, shares, labels, stored)
    else:
        indices, examples = loaded.opened.splits[split], loaded.source.examples
        ids, labels = tuple(examples.ids[index] for index in indices.tolist()), examples.labels[indices]
        rows, said = np.arange(len(ids)), None
    truth = [class_names(label, loaded.card.classes) for label in labels]
    chosen = [
        row
        for row in rows.tolist()
        if (name is None or ids[row] == name)
        and (true is None or true in (truth[row] or ()))
        and (predicted is None or (said is not None and predicted in said.predicted[row]))
    ]
    return Images(
        split=split,
        total=len(chosen),
        page=page,
        size=size,
        stored=said is not None,
        why=stored if isinstance(stored, str) else None,
        items=[
            ImageItem(
                split=split,
                row=row,
                id=ids[row],
                truth=truth[row],
                predicted=said.predicted[row] if said else None,
                probability=float(said.top[row]) if said else None,
                margin=float(said.margin[row]) if said else None,
                right=said.right[row] if said else None,
                thumbnail=picture_address(loaded.entry.key, split, row, "thumbnail"),
            )
            for row in chosen[page * size : (page + 1) * size]
        ],
    )


def picture_address(key: str, split: str, row: int, kind: str) -> str:
    return f"/api/v1/runs/{key}/images/{split}/{row}/{kind}"


def _stored(loaded: LoadedRun, split: Split) -> StoredPredictions | str:
    """The predictions of a split, or why there are none."""
    found = loaded.kept(split)
    if found is not None:
        return found
    loaded.source  # noqa: B018 - a run without its data as well has nothing to list
    return f"This run keeps no predictions of its {split} images."


def _said(loaded: LoadedRun, shares: Floats, labels: npt.NDArray[np.int64], stored: StoredPredictions) -> Said:
    classes = loaded.card.classes
    if loaded.card.task == "multilabel":
        cuts = np.asarray(stored.thresholds)
        held, known = shares >= cuts, labels >= 0
        names = [[name for name, mark in zip(classes, row, strict=True) if mark] for row in held]
        some, wrong = (np.asarray(part.any(1)).tolist() for part in (known, known & (held != (labels == 1))))
        right = [not mistaken if judged else None for judged, mistaken in zip(some, wrong, strict=True)]
        return Said(names, shares.max(1), np.abs(shares - cuts).min(1), right)
    first = shares.argmax(1)
    ranked = np.sort(shares, axis=1)
    margin = ranked[:, -1] - ranked[:, -2] if shares.shape[1] > 1 else ranked[:, -1]
    right = [bool(place == label) if label >= 0 else None for place, label in zip(first, labels, strict=True)]
    return Said([[classes[place]] for place in first], ranked[:, -1], margin, right)


def read_image(loaded: LoadedRun, split: str, row: int, side: int) -> Image.Image:
    """An image of the run, decoded with at least so many pixels a side."""
    index = loaded.index(split, row)
    try:
        return loaded.source.read_at_least(index, side)
    except UserError as error:
        raise missing(str(error)) from None


def square_jpeg(loaded: LoadedRun, image: Image.Image, side: int) -> bytes:
    """The square that the model sees, for people."""
    pixels = resize_square(image, side, loaded.card.fit)
    return encode_image(Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))), "JPEG", quality=88)
