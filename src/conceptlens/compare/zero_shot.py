"""What the encoder knew before any training: the AUC of each concept by the cosine of image vector and concept text.

It stands above the table. A method that reads concepts no better than this has learned nothing about them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.data.loader import PixelReader
from conceptlens.data.sources import open_source
from conceptlens.encoders import make_encoder, make_text_encoder
from conceptlens.errors import UserError
from conceptlens.files import dump_yaml, fingerprint, read_json, write_json
from conceptlens.metrics.auc import auc, auc_within
from conceptlens.metrics.balanced import mean_of
from conceptlens.recipe import Recipe
from conceptlens.recipe.parse import recipe_tree

FILE = "zero-shot.json"
BATCH = 64


def zero_shot(recipe: Recipe, concepts: ConceptSet, ids: Sequence[str], out: Path) -> dict[str, Any] | None:
    """Of a recipe's encoder with its starting weights, on the images called `ids`; None if it has no text space.

    Returns:
        `encoder`, `text`, `auc` and, of pairs of one class, `auc_within_class`, each a mean over concept groups.
    """
    tree = recipe_tree(recipe)
    settings = {key: tree["encoder"][key] for key in ("name", "weights", "pretrained", "image_size", "options")}
    key = fingerprint(dump_yaml([settings, tree["data"], sorted(ids)]), concepts.fingerprint)
    path = out / FILE
    known: dict[str, Any] = read_json(path).get("found", {}) if path.exists() else {}
    if key not in known:
        known[key] = _measure(recipe, concepts, ids)
        write_json(path, {"found": known})
    found: dict[str, Any] | None = known[key]
    return found


@torch.inference_mode()
def _measure(recipe: Recipe, concepts: ConceptSet, ids: Sequence[str]) -> dict[str, Any] | None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # an encoder from scratch is at least always the same
        encoder = make_encoder(recipe.encoder).eval()
    if encoder.text is None:
        return None
    source, _ = open_source(recipe.data, concepts)
    place = {name: index for index, name in enumerate(source.examples.ids)}
    if missing := [name for name in ids if name not in place]:
        raise UserError(f"{recipe.data.source}: {missing[0]} was tested, but is not there now. Bring the data back.")
    indices = np.array([place[name] for name in ids], dtype=np.int64)
    size = recipe.encoder.image_size or encoder.image_size
    reader = PixelReader(source, size, recipe.data.fit, 0, workers=recipe.data.workers)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder.to(device)
    texts = make_text_encoder(encoder.text).embed(concepts.texts).to(device)
    cosines = [
        (encoder.embed(encoder(pixels.to(device))).float() @ texts.T).cpu().numpy()
        for _, pixels in reader.prefetch(indices[start : start + BATCH] for start in range(0, len(indices), BATCH))
    ]
    examples = source.examples
    scores = np.concatenate(cosines)
    return {
        "encoder": recipe.encoder.name,
        "text": encoder.text,
        **concept_aucs(scores, examples.concepts[indices], examples.labels[indices], concepts),
    }


def concept_aucs(
    scores: npt.NDArray[Any], marks: npt.NDArray[np.int8], labels: npt.NDArray[np.int64], concepts: ConceptSet
) -> dict[str, float | None]:
    """Means over groups of the AUC of each concept's own score (N, K); pooled, and from pairs of one class."""
    pooled: list[float | None] = []
    within: list[float | None] = []
    for group in concepts.groups:
        of_pooled, of_within = [], []
        for column in range(group.concepts.start, group.concepts.stop):
            known = marks[:, column] != UNKNOWN
            of_pooled.append(auc(scores[known, column], marks[known, column] == 1))
            if labels.ndim == 1:
                kept = known & (labels >= 0)
                of_within.append(auc_within(scores[kept, column], marks[kept, column] == 1, labels[kept]))
        pooled.append(mean_of(of_pooled))
        within.append(mean_of(of_within))
    return {"auc": mean_of(pooled), "auc_within_class": mean_of(within)}
