"""What the encoder knew before any training: the AUC of each concept by the cosine of image vector and concept text.

It stands above the table. A method that reads concepts no better than this has learned nothing about them. Cosines are
taken as the `zero-shot` method takes them and judged by the rows' own measure, where values of one group compete.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.devices import best_device
from conceptlens.core.errors import UserError
from conceptlens.core.files import dump_yaml, fingerprint, read_json, write_json
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import open_source
from conceptlens.encoders import make_encoder, make_text_encoder
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.recipes import Recipe
from conceptlens.recipes.parse import recipe_tree

FILE = "zero-shot.json"
BATCH = 64
SCALE = 100.0  # CLIP's, as in `models.zero_shot`


def zero_shot(recipe: Recipe, concepts: ConceptSet, ids: Sequence[str], out: Path) -> dict[str, Any] | None:
    """Of a recipe's encoder with its starting weights, on the images called `ids`; None if it has no text space.

    Returns:
        `encoder`, `text`, `auc` and, of pairs of one class, `auc_within_class`, each a mean over concept groups.
    """
    tree = recipe_tree(recipe)
    settings = {key: tree["encoder"][key] for key in ("name", "weights", "pretrained", "image_size", "options")}
    key = fingerprint(dump_yaml(["by axis", settings, tree["data"], sorted(ids)]), concepts.fingerprint)
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
    device = best_device()
    encoder.to(device)
    texts = make_text_encoder(encoder.text).embed(concepts.texts).to(device)
    cosines = [
        (encoder.embed(encoder(pixels.to(device))).float() @ texts.T).cpu().numpy()
        for _, pixels in reader.prefetch(indices[start : start + BATCH] for start in range(0, len(indices), BATCH))
    ]
    examples = source.examples
    scores = SCALE * np.concatenate(cosines)
    measured = concept_metrics(scores, examples.concepts[indices], concepts, class_labels=examples.labels[indices])
    return {
        "encoder": recipe.encoder.name,
        "text": encoder.text,
        "auc": measured["auc"],
        "auc_within_class": measured["auc_within_class"],
    }
