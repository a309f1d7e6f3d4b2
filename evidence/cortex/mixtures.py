"""Cliff's δ in mixtures of real images at known shares: does it move with the share, and do other token sets help?

    PYTHONPATH=. python evidence/cortex/mixtures.py --out evidence/cortex/mixtures.json.gz
    PYTHONPATH=. python evidence/cortex/mixtures.py --variants paper released --only "cell size" --out FILE

Blood cells as tokens of the built-in generator, with the labels that people gave. A third of each value's images trains
an extractor and gives token sets, by frequency (the paper) and by lift; a third is mixed at shares from 1:1 to 8:1; an
even mixture of the last third is what no bias looks like. No sampling, no judge; some minutes on a CPU. The token sets
are the same for all shares. `released`: importance as the authors' code computes it, the signed maximum over channels
of the logit's gradient; the same extractor, so that nothing else differs.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.files import write_json
from conceptlens.cortex.bias.bias import measure_bias, set_counts
from conceptlens.cortex.bias.study import value_images, value_sets
from conceptlens.cortex.extractors.importance import VARIANTS, token_importance
from conceptlens.cortex.extractors.trained import InformationExtractor
from conceptlens.cortex.extractors.training import ExtractorTraining, train_extractor
from conceptlens.cortex.generators.contract import VQModel, lookup
from conceptlens.cortex.generators.open import BUILTIN, open_model
from conceptlens.cortex.results import first_of_each
from conceptlens.cortex.samples import Samples
from conceptlens.cortex.study import encoded_samples
from conceptlens.cortex.token_sets import WAYS
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.schema import DataConfig
from pretraining.command import command

RATIOS = (1.0, 1.25, 1.5, 2.0, 4.0, 8.0)
TOP = (5, 10, 20)


def thirds(samples: Samples, seed: int = 0) -> list[Samples]:
    """Three parts with equally many of each value."""
    generator = torch.Generator().manual_seed(seed)
    own = [(samples.labels == place).nonzero()[:, 0] for place in range(len(samples.concepts))]
    each = min(len(rows) for rows in own) // 3
    drawn = [rows[torch.randperm(len(rows), generator=generator)[: 3 * each]].view(3, each) for rows in own]
    return [samples.take(torch.cat([rows[part] for rows in drawn])) for part in range(3)]


def mixture(pool: Samples, ratio: float, seed: int) -> Tensor:
    """As many images (n, h, w) as the pool has of one value; the first is `ratio` times as frequent as the second."""
    generator = torch.Generator().manual_seed(seed)
    values = [pool.of(place) for place in range(2)]
    first = round(len(values[0]) * ratio / (1 + ratio))
    counts = (first, len(values[0]) - first)
    parts = [
        part[torch.randperm(len(part), generator=generator)[:count]] for part, count in zip(values, counts, strict=True)
    ]
    return torch.cat(parts)


def study(model: VQModel, samples: Samples, options: argparse.Namespace) -> dict[str, Any]:
    """One attribute: δ of every mixture, by both ways to choose sets."""
    torch.manual_seed(0)
    codebook = model.codebook.detach()
    codes = len(codebook)
    train, pool, rest = thirds(samples)
    extractor = InformationExtractor.make("CE", codebook, model.grid, samples.concepts, filters=64, hidden=256)
    settings = ExtractorTraining(epochs=options.epochs, batch=64)
    train_extractor(extractor, codebook, train, test=rest, settings=settings)
    some = first_of_each(train, options.limit)
    even = rest.tokens.long()
    found = []
    for variant in options.variants:
        scores = torch.cat(
            [
                token_importance(extractor, lookup(codebook, tokens.long()), labels, VARIANTS[variant], first=start)
                for start, tokens, labels in zip(
                    range(0, len(some), 64), torch.split(some.tokens, 64), torch.split(some.labels, 64), strict=True
                )
            ]
        )
        for way, n in product(WAYS, TOP):
            sets = value_sets(value_images(some, scores, n), n, 10, codes, way)
            counts = [
                [float(set_counts(pool.of(place), each.tokens, codes).mean()) for each in sets] for place in (0, 1)
            ]
            for ratio in RATIOS:
                pairs = [
                    measure_bias(sets, mixture(pool, ratio, seed), codes=codes, balanced=even).pairs[0]
                    for seed in range(options.draws)
                ]
                excess = torch.tensor([pair.excess for pair in pairs], dtype=torch.float64)
                found.append(
                    {
                        "variant": variant,
                        "sets": way,
                        "n": n,
                        "ratio": ratio,
                        "excess": float(excess.mean()),
                        "spread": float(excess.std()),
                        "null": pairs[0].null.value if pairs[0].null else None,
                        "found": sum(bool(pair.found) for pair in pairs) / len(pairs),
                        "tokens_an_image": counts,  # [value shown][value whose set is counted]
                    }
                )
    return {"images": [len(train), len(pool), len(rest)], "accuracy": dict(extractor.card.accuracy), "tables": found}


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=BUILTIN)
    parser.add_argument("--data", default="blood-cells")
    parser.add_argument("--epochs", type=int, default=20, help="of an extractor")
    parser.add_argument(
        "--limit", type=int, default=100, help="training images of a value whose importance is computed"
    )
    parser.add_argument("--draws", type=int, default=20, help="mixtures of each share")
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=["paper"], help="of importance")
    parser.add_argument("--only", nargs="+", default=[], help="these attributes")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    model = open_model(options.model)
    data, vocabulary = open_source(DataConfig(options.data), None)
    rows = []
    for group in vocabulary.groups:
        if len(group.values) != 2 or (options.only and group.name not in options.only):
            continue
        samples = encoded_samples(model, data, vocabulary, group.name, [], 400, 0)
        row = {"attribute": group.name, "values": list(group.values), **study(model, samples, options)}
        rows.append(row)
        write_json(options.out, {"draws": options.draws, "rows": rows})
        print(group.name, row["images"], row["accuracy"], flush=True)


if __name__ == "__main__":
    sys.exit(main())
