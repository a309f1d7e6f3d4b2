"""Some images of a study as a page shows them without its model: token grids, pictures, importance for each concept.

`grids.json` beside the other results, and `grids/ROW.png`: painted by models that decode, of others the image that the
tokens were read from, where its data is still there. Importance is kept as whole numbers from −255 to 255, parts of the
largest of its map: enough for a color, and small.
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from conceptlens.core.files import new_folder, write_bytes, write_json
from conceptlens.cortex.extractors.importance import SmoothGrad, token_importance
from conceptlens.cortex.extractors.trained import probabilities
from conceptlens.cortex.pictures import png, to_bytes
from conceptlens.cortex.study import Study

NAME = "grids"
MOST_IMAGES = 48  # whatever the number of concepts
MOST_HEATS = 6  # concepts of an image: its own and the most probable ones
NEAR = 4  # neighbors of a code


def levels(scores: Tensor) -> tuple[float, list[int]]:
    """Importance (h, w) as its largest absolute value and whole numbers from −255 to 255, row by row."""
    most = float(scores.abs().max())
    if most == 0:
        return 0.0, [0] * scores.numel()
    return most, (scores.flatten() * (255 / most)).round().int().tolist()


def nearest_codes(codebook: Tensor, codes: Sequence[int], count: int = NEAR) -> dict[int, list[tuple[int, float]]]:
    """The codes that lie nearest to each of some, with their distances; nearest first."""
    chosen = torch.as_tensor(list(codes), device=codebook.device)
    found: dict[int, list[tuple[int, float]]] = {}
    for part in torch.split(chosen, 256):
        apart = torch.cdist(codebook[part].float(), codebook.float())
        apart.scatter_(1, part[:, None], torch.inf)  # a code is none of its own neighbors
        near = apart.topk(min(count, len(codebook) - 1), largest=False)
        for code, ids, values in zip(part.tolist(), near.indices.tolist(), near.values.tolist(), strict=True):
            found[code] = [(other, round(value, 4)) for other, value in zip(ids, values, strict=True)]
    return found


def heats(
    study: Study, tokens: Tensor, concepts: Sequence[int], settings: SmoothGrad, *, seed: int = 0
) -> list[dict[str, Any]]:
    """Importance of the tokens (h, w) of one image to each of some concepts."""
    embedded = study.embed(tokens[None].long())
    found = []
    for place in concepts:
        label = torch.tensor([place], device=embedded.device)
        # Its noise follows from the concept alone: asked for later and by itself, it is the same map.
        scores = token_importance(study.extractor, embedded, label, settings, seed=seed, first=place)
        most, parts = levels(scores[0].cpu())
        found.append({"concept": int(place), "most": most, "levels": parts})
    return found


def shown_rows(labels: Tensor, concepts: int, per_concept: int) -> list[int]:
    """The first samples of each concept, in turn, so that a limit cuts all of them alike."""
    own = [(labels == place).nonzero()[:per_concept, 0].tolist() for place in range(concepts)]
    rows = [rows[turn] for turn in range(per_concept) for rows in own if turn < len(rows)]
    return rows[:MOST_IMAGES]


def write_grids(
    study: Study, folder: Path, settings: SmoothGrad, *, variant: str, per_concept: int = 4, seed: int = 0
) -> list[Path]:
    """Write some samples of the test split; returns the files.

    Args:
        study: Whose.
        folder: Of its results.
        settings: Of the importance.
        variant: Its name.
        per_concept: Samples of each concept; `MOST_IMAGES` in all at most.
        seed: Of the noise.
    """
    test, names = study.samples["test"], study.extractor.card.concepts
    rows = shown_rows(test.labels, len(names), per_concept)
    tokens = test.tokens[rows].long()
    shares = probabilities(study.extractor, study.embed(tokens)).cpu() if rows else torch.zeros(0, len(names))
    images = []
    for row, grid, share in zip(rows, tokens, shares, strict=True):
        own = int(test.labels[row])
        likely = [place for place in share.argsort(descending=True).tolist() if place != own]
        images.append(
            {
                "row": row,
                "concept": own,
                "probabilities": [round(value, 5) for value in share.tolist()],
                "tokens": grid.tolist(),
                "heat": heats(study, grid, [own, *likely][:MOST_HEATS], settings, seed=seed),
            }
        )
    pictures = study.pictures("test", rows) if rows else None
    data = {
        "split": "test",
        "grid": list(study.extractor.card.grid),
        "codes": len(study.codebook),
        "concepts": list(names),
        "pictures": pictures is not None,
        "variant": variant,
        "settings": asdict(settings),
        "images": images,
        "near": nearest_codes(study.codebook, sorted(set(tokens.flatten().tolist()))) if rows else {},
    }
    path = folder / f"{NAME}.json"
    write_json(path, data)
    if pictures is not None:
        with new_folder(folder / NAME) as aside:
            for row, picture in zip(rows, to_bytes(pictures), strict=True):
                write_bytes(aside / f"{row}.png", png(Image.fromarray(picture)))
        return [path, folder / NAME]
    return [path]
