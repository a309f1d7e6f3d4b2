"""Prototypes of an IVQ-CBM explained twice: by CORTEX, and by the audit's counts of who was assigned to what.

    python evidence/cortex/bridge.py runs/demo --out evidence/cortex/bridge.json.gz

The codes of each patch are the tokens. For every group of concepts an extractor is trained on the training images'
tokens; importance names the tokens of each value. The audit matches codes and values by correlation of a code's share
of an image with the label. Both name positions of test images; as many are hidden from the IVQ-CBM itself, which says
whose mattered. Written as it goes: a group that is there is not made again.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import spearmanr
from torch import Tensor

from conceptlens.core.files import read_json, write_json
from conceptlens.cortex.extractors.importance import SmoothGrad, token_importance
from conceptlens.cortex.extractors.trained import InformationExtractor
from conceptlens.cortex.extractors.training import ExtractorTraining, train_extractor
from conceptlens.cortex.generators.contract import lookup
from conceptlens.cortex.generators.ivq import IVQCodebook
from conceptlens.cortex.judges import run_judge
from conceptlens.cortex.masking import cover
from conceptlens.cortex.samples import Samples
from conceptlens.cortex.token_sets import image_sets, top_positions
from conceptlens.data.images.read import resize_square
from conceptlens.data.sources.open import open_source
from conceptlens.evaluation.codebook.matching import by_labels, correlations
from conceptlens.recipes import DataConfig
from pretraining.command import command

FEWEST = 10  # images of a value, in both splits, for it to be compared


@dataclass(frozen=True)
class Encoded:
    """Images of a split: pixels as bytes, tokens, and labels of all concepts."""

    images: Tensor  # (N, 3, H, W)
    tokens: Tensor  # (N, h, w)
    labels: npt.NDArray[np.int8]  # (N, K)
    ids: list[str]


def encode(model: IVQCodebook, data: Any, split: str, limit: int | None, device: torch.device) -> Encoded:
    rows = [row for row, given in enumerate(data.examples.split) if given == split]
    rows = rows if limit is None else rows[:: max(1, len(rows) // limit)][:limit]
    side = model.image_size
    images = torch.from_numpy(np.stack([resize_square(data.read_at_least(row, side), side) for row in rows]))
    tokens = [model.encode(part.to(device).float() / 255).cpu() for part in torch.split(images, 32)]
    ids = [data.examples.ids[row] for row in rows]
    return Encoded(images, torch.cat(tokens), data.examples.concepts[rows], ids)


def counts(tokens: Tensor, codes: int) -> npt.NDArray[np.int64]:
    """How often each image (N, h, w) holds each code, (N, M)."""
    table = torch.zeros(len(tokens), codes, dtype=torch.int64)
    flat = tokens.flatten(1).long()
    return table.scatter_add_(1, flat, torch.ones_like(flat)).numpy()


def columns_of(group: Any, part: Encoded) -> range:
    return range(part.labels.shape[1])[group.concepts]


def present(group: Any, train: Encoded, test: Encoded, fewest: int) -> list[int]:
    """Values of a group that enough images of both splits show."""
    return [
        place
        for place, column in enumerate(columns_of(group, train))
        if min(int((part.labels[:, column] == 1).sum()) for part in (train, test)) >= fewest
    ]


def compare(
    model: IVQCodebook, group: Any, train: Encoded, test: Encoded, judged: Any, options: argparse.Namespace
) -> dict[str, Any]:
    """One group of concepts: two explanations of each of its values, and what hiding their tokens does."""
    device, codebook = torch.device(options.device), model.codebook.detach()
    own = columns_of(group, train)
    values = present(group, train, test, options.fewest)
    names = [group.values[place] for place in values]
    if len(names) < 2:
        return {"group": group.name, "left_out": f"fewer than two values with {options.fewest} images"}

    def samples(part: Encoded) -> tuple[Samples, Tensor]:
        given = part.labels[:, [own[place] for place in values]]
        rows = torch.from_numpy(np.flatnonzero((given == 1).any(1)))
        return Samples(part.tokens[rows], torch.from_numpy(given.argmax(1))[rows], tuple(names)), rows

    learned, _ = samples(train)
    held, rows = samples(test)
    extractor = InformationExtractor.make(
        "CE", codebook, model.grid, names, filters=options.filters, hidden=4 * options.filters
    ).to(device)
    settings = ExtractorTraining(epochs=options.epochs, batch=64)
    train_extractor(extractor, codebook, learned, test=held, settings=settings)
    smooth = SmoothGrad(options.noise)
    codes = len(codebook)
    frequency = np.zeros((len(names), codes))
    for place in range(len(names)):
        tokens = learned.of(place, options.images)
        scores = token_importance(
            extractor, lookup(codebook, tokens.to(device)), torch.full((len(tokens),), place, device=device), smooth
        )
        top = image_sets(tokens, scores.cpu(), options.n)
        frequency[place] = torch.bincount(top.flatten(), minlength=codes).numpy() / top.numel()
    others = (frequency.sum(0) - frequency) / (len(names) - 1)
    lift = frequency - others  # what a value's important tokens hold more of than those of its rivals
    shares = counts(train.tokens, codes)
    labels = train.labels[:, [own[place] for place in values]]
    known = np.isin(labels, (0, 1)).astype(np.float64)
    together = correlations(shares / shares.sum(1, keepdims=True), (labels == 1).astype(np.float64), known)(
        np.arange(len(labels))
    ).T
    matched = by_labels(shares.astype(np.int32), labels, train.ids, names)
    sure = {match.concept: match for match in matched.matches} if matched else {}
    used = shares.sum(0) > 0
    found = []
    for place, name in enumerate(names):
        agree = spearmanr(lift[place][used], together[place][used]).statistic
        by_audit = int(together[place].argmax())
        order = [int(code) for code in np.argsort(-lift[place], kind="stable")]
        found.append(
            {
                "value": name,
                "cortex": [
                    {"code": code, "share": frequency[place, code], "lift": lift[place, code]} for code in order[:3]
                ],
                "most_frequent_important": int(frequency[place].argmax()),
                "audit": {"code": by_audit, "correlation": float(together[place, by_audit])},
                "audit_match": (
                    {"code": sure[name].code, "strength": sure[name].strength, "sure": sure[name].sure}
                    if name in sure
                    else None
                ),
                "rank_of_audits_code": order.index(by_audit) + 1,
                "rank_correlation": None if np.isnan(agree) else float(agree),
            }
        )
    hidden = hide(extractor, codebook, held, test.images[rows], lift, together, judged, options)
    return {
        "group": group.name,
        "accuracy": dict(extractor.card.accuracy),
        "most_frequent_value": float(np.bincount(held.labels.numpy()).max() / len(held)),
        "values": found,
        "codes_used": int(used.sum()),
        "hidden": hidden,
    }


def hide(
    extractor: InformationExtractor,
    codebook: Tensor,
    held: Samples,
    images: Tensor,
    lift: npt.NDArray[np.float64],
    together: npt.NDArray[np.float64],
    judged: Any,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Mean change of the model's own probability of the true value when equally many positions are blurred."""
    device = codebook.device
    chosen = torch.cat([(held.labels == place).nonzero()[: options.hide, 0] for place in range(len(held.concepts))])
    tokens, labels = held.tokens[chosen].long(), held.labels[chosen]
    pixels = images[chosen].float() / 255
    scores = token_importance(
        extractor, lookup(codebook, tokens.to(device)), labels.to(device), SmoothGrad(options.noise)
    )
    jitter = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(0))

    def of_codes(table: npt.NDArray[np.float64]) -> Tensor:
        """Every position has its code's weight for the image's own value; the jitter breaks ties."""
        weight = torch.from_numpy(table)[labels]  # (n, M)
        return weight.gather(1, tokens.flatten(1)).view_as(jitter) + 1e-6 * jitter

    ways = {
        "importance in the image (CORTEX)": scores.cpu(),
        "codes by lift among important ones (CORTEX)": of_codes(lift),
        "codes by correlation with the label (audit)": of_codes(together),
        "random": jitter,
    }
    before = _judge(judged, pixels, labels)
    found: dict[str, Any] = {"images": len(chosen), "positions": options.n, "probability": float(before.mean())}
    for name, weight in ways.items():
        marked = torch.zeros(len(chosen), weight[0].numel(), dtype=torch.bool)
        marked.scatter_(1, top_positions(weight, options.n), True)
        gap = _judge(judged, cover(pixels, marked.view_as(tokens), "blur"), labels) - before
        found[name] = {"change": float(gap.mean()), "error": float(gap.std() / len(gap) ** 0.5)}
    return found


def _judge(judged: Any, images: Tensor, labels: Tensor) -> Tensor:
    seen = torch.cat([judged(part).cpu() for part in torch.split(images, 32)])
    return seen.gather(1, labels[:, None])[:, 0]


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="a run with a codebook")
    parser.add_argument("--data", default="blood-cells")
    parser.add_argument("--out", type=Path, required=True)
    for name, value, words in (
        ("epochs", 12, "of an extractor"),
        ("filters", 16, "of an extractor"),
        ("noise", 10, "samples of SmoothGrad"),
        ("images", 60, "training images of a value whose importance is computed"),
        ("n", 20, "positions of an image"),
        ("hide", 20, "test images of a value whose positions are hidden"),
        ("fewest", FEWEST, "images of a value in each split"),
    ):
        parser.add_argument(f"--{name}", type=int, default=value, help=words)
    parser.add_argument("--limit", type=int, help="images of each split")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    torch.manual_seed(0)
    data, vocabulary = open_source(DataConfig(options.data), None)
    model = IVQCodebook(options.run).to(device)
    train, test = (encode(model, data, split, options.limit, device) for split in ("train", "test"))
    print(f"{len(train.images)} and {len(test.images)} images as tokens", flush=True)
    done = read_json(options.out)["groups"] if options.out.exists() else []
    for group in vocabulary.groups:
        if group.kind != "exclusive" or group.name in [each["group"] for each in done]:
            continue
        asked = [f"{group.name}={value}" for value in group.values]
        whole = run_judge(options.run, asked, device=device)
        kept = present(group, train, test, options.fewest)

        def judged(images: Tensor, whole: Any = whole, kept: list[int] = kept) -> Tensor:
            return whole(images)[:, kept]  # type: ignore[no-any-return]

        done.append(compare(model, group, train, test, judged, options))
        write_json(options.out, {"codes": len(model.codebook), "images": len(train.images), "groups": done})
        print(json.dumps(done[-1].get("hidden", done[-1])), flush=True)


if __name__ == "__main__":
    sys.exit(main())
