"""Figure 7: one token across images of a class, with what it lies on.

    PYTHONPATH=. python evidence/cortex/figure7.py

Real blood cells as tokens of the built-in generator; nothing is sampled. Of the 100 tokens that CE's extractor found
important for a class (tokens.json.gz), the one that most favors the class in training images is taken: its share of
positions there over its share in other classes, among tokens that at least a tenth of the class's images have. Test
images with the token are then taken in their order. The control: every other token that as many of the class's training
images have, whether important or not; how much of each lies on the kind of place (nucleus, cytoplasm, elsewhere) that
holds most of it. Writes figure-7.webp and figure-7.json; prose.py holds the page's tables to the latter.
"""

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from conceptlens.core.files import read_json, write_bytes, write_json
from conceptlens.cortex.distributed import read_square
from conceptlens.cortex.generators.open import BUILTIN, open_model
from conceptlens.cortex.pictures import boxed, sheet
from conceptlens.cortex.study import encoded_samples
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.schema import DataConfig

HERE = Path(__file__).parent
KINDS = ("nucleus", "cytoplasm")  # and what is neither
EACH, SHOWN, LEAST = 200, 8, 0.1  # images of a class; shown; share of images that have the token


def cells_on(data: Any, row: int, grid: tuple[int, int]) -> dict[str, np.ndarray[Any, Any]]:
    """Share of each token's patch that a region covers, (h, w); masks are of scripts/blood_cell_masks.py."""
    annotation = data.annotation(row)
    found = {}
    for name, mask in (annotation.masks if annotation else {}).items():
        tall, wide = (
            np.linspace(0, side, count + 1).round().astype(int) for side, count in zip(mask.shape, grid, strict=True)
        )
        found[name] = np.array([[mask[a:b, c:d].mean() for c, d in pairwise(wide)] for a, b in pairwise(tall)])
    return found


def concentration(shares: np.ndarray[Any, Any], here: np.ndarray[Any, Any]) -> float | None:
    """Of a token's positions (N, h, w), the share on the kind of place that holds most; shares (N, h, w, kinds)."""
    return float(shares[here].mean(0).max()) if here.any() else None


def main() -> None:
    model = open_model(BUILTIN)
    data, vocabulary = open_source(DataConfig("blood-cells"), None)
    samples = encoded_samples(model, data, vocabulary, None, [], EACH, 0)
    assert samples.rows is not None
    split = np.array(data.examples.split)[samples.rows.numpy()]
    test, tokens = torch.from_numpy(split == "test"), samples.tokens.long()
    rows, pictures = [], []
    for listed in read_json(HERE / "tokens.json.gz")["sets"]:
        concept = listed["concept"]
        mine = samples.labels == samples.concepts.index(concept)
        own, others = tokens[mine & ~test], tokens[~mine & ~test]
        lifts = {
            token: float(((own == token).double().mean() + 1e-6) / ((others == token).double().mean() + 1e-6))
            for token in listed["tokens"]
            if float((own == token).flatten(1).any(1).double().mean()) >= LEAST
        }
        token = max(lifts, key=lambda one: lifts[one])
        have = (tokens == token).flatten(1).any(1)
        seen = (mine & test & have).nonzero()[:, 0]
        tested = (mine & test).nonzero()[:, 0]
        regions = {at: cells_on(data, int(samples.rows[at]), model.grid) for at in tested.tolist()}
        places: dict[str, list[float]] = {}
        usual: dict[str, list[float]] = {}
        for at in seen.tolist():
            for name, share in regions[at].items():
                places.setdefault(name, []).extend(share[(tokens[at] == token).numpy()].tolist())
                usual.setdefault(name, []).append(float(share.mean()))
        masked = [at for at, found in regions.items() if found]  # a few cells have no mask
        on = np.stack([np.stack([regions[at][name] for name in KINDS], -1) for at in masked])
        kinds = np.concatenate([on, 1 - on.sum(-1, keepdims=True)], -1)
        held = tokens[masked].numpy()
        usual_tokens = [
            one
            for one in own.unique().tolist()
            if one != token and float((own == one).flatten(1).any(1).double().mean()) >= LEAST
        ]
        control = [value for one in usual_tokens if (value := concentration(kinds, held == one)) is not None]
        concentrated = concentration(kinds, held == token)
        assert concentrated is not None
        shown = seen[:SHOWN]
        pixels = read_square(data, samples.rows[shown].tolist(), model.image_size)
        images = boxed(torch.from_numpy(pixels).float() / 255, tokens[shown] == token)
        pictures.append((f"{concept}: token {token}", images))
        rows.append(
            {
                "concept": concept,
                "token": token,
                "lift": lifts[token],
                "test_images": int((mine & test).sum()),
                "with_token": len(seen),
                "positions": len(next(iter(places.values()), [])),
                "on": {name: float(np.mean(values)) for name, values in places.items()},
                "on_one_kind": concentrated,
                "control": {
                    "tokens": len(control),
                    "on_one_kind": float(np.mean(control)),
                    "as_much": float(np.mean([value >= concentrated for value in control])),
                },
                "any_position_on": {name: float(np.mean(values)) for name, values in usual.items()},
            }
        )
        print(rows[-1], flush=True)
    drawn, small = Image.open(io.BytesIO(sheet(pictures, scale=1))).convert("RGB"), io.BytesIO()
    drawn.save(small, "WEBP", quality=80, method=6)
    write_bytes(HERE / "figure-7.webp", small.getvalue())
    write_json(HERE / "figure-7.json", {"rows": rows})


if __name__ == "__main__":
    main()
