"""Which reader: variants of evidence-cbm on frozen tokens, compared on validation images. No test image is read.

    python evidence/evidence-cbm/ablation.py OUT.jsonl DATA [--encoder NAME] [--seeds N] [--only WORD]

DATA: a recipe's `data` section as YAML, or the name of a source that knows regions (shapes, blood-cells-off-center).
A row has the concepts' AUC, pooled and within classes, and, for the value that the reader says of each group, average
precision and pointing on the part that the group speaks of, with those of the best blind map. Rows that are there are
not made again. The reader and the measures are the product's; the loop is a short one of its own.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import functional as F

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.regions.regions import read_regions, region_names
from conceptlens.data.sources.open import open_source
from conceptlens.data.splits.splits import make_splits
from conceptlens.encoders import make_encoder
from conceptlens.evaluation.localization import center_prior_maps, fit_center_prior, mean_region_maps, measure, truth_of
from conceptlens.evaluation.localization.concept_parts import concept_parts
from conceptlens.evaluation.localization.image_maps import color_distance_maps, darkness_maps
from conceptlens.nn.attention.additive_reader import AdditiveReader
from conceptlens.nn.grounding.part_attention import attention_entropy
from conceptlens.nn.heads.probabilities import concept_probabilities
from conceptlens.recipes import LossConfig
from conceptlens.recipes.parse import load_recipe
from conceptlens.training.optimization.losses import SupervisedLoss, Targets

BATCH, EPOCHS, STEPS, RATE = 64, 20, 600, 2e-3


def variants(depth: int, names: list[str]) -> dict[str, dict[str, Any]]:
    """What is varied, one thing at a time, from the base: half way, two thirds and last; attention a group."""
    several = [round(depth / 2) - 1, round(depth * 2 / 3) - 1, depth - 1]
    base: dict[str, Any] = {"layers": several}
    rows = {"base": base}
    for layer in range(depth):
        rows[f"layer {layer + 1} of {depth}"] = base | {"layers": [layer]}
    rows["half and last"] = base | {"layers": [several[0], depth - 1]}
    rows["all"] = base | {"layers": list(range(depth))}
    for per in ("concept", "shared"):
        rows[f"attention per {per}"] = base | {"attention": per}
    for value in (0.25, 4.0, 16.0):
        rows[f"temperature {value}"] = base | {"temperature": value}
    for value in (0.01, 0.1, 0.3):
        rows[f"entropy {value}"] = base | {"entropy": value}
    for value in (0.25, 0.5, 0.75):
        rows[f"patch dropout {value}"] = base | {"dropout": value}
    rows["attention by the last layer"] = base | {"attend": "last"}
    rows["half and last, attention by the last"] = base | {"layers": [several[0], depth - 1], "attend": "last"}
    cool = base | {"temperature": 4.0}
    rows["4.0, half and last"] = cool | {"layers": [several[0], depth - 1]}
    rows["4.0, patch dropout 0.25"] = cool | {"dropout": 0.25}
    rows["4.0, patch dropout 0.5"] = cool | {"dropout": 0.5}
    rows["4.0, patch dropout 0.75"] = cool | {"dropout": 0.75}
    rows["4.0, patch dropout 0.5, last layer"] = cool | {"dropout": 0.5, "layers": [depth - 1]}
    rows["16.0, patch dropout 0.5"] = cool | {"dropout": 0.5, "temperature": 16.0}
    rows["4.0, entropy 0.01"] = cool | {"entropy": 0.01}
    rows["4.0, attention by the last layer"] = cool | {"attend": "last"}
    for temperature, weight in ((4.0, 0.3), (4.0, 1.0), (4.0, 3.0), (16.0, 3.0)):
        name = f"{temperature}, patch dropout 0.5, patch loss {weight}"
        rows[name] = base | {"temperature": temperature, "dropout": 0.5, "patch_loss": weight}
    rows["class token"] = base | {"class_token": True}
    rows["weight decay 0.3"] = base | {"decay": 0.3}
    rows["mean of patches"] = base | {"frozen_attention": True}
    return {name: row for name, row in rows.items() if not names or any(word in f"/{name}/" for word in names)}


class World:
    """Tokens of training and validation images, labels and regions, in memory."""

    def __init__(self, data: str, encoder: str, size: int | None) -> None:
        section = yaml.safe_load(data)
        section = section if isinstance(section, dict) else {"source": section}
        concepts = section.pop("concepts", None)
        recipe = load_recipe(
            {
                "data": section,
                "method": "evidence-cbm",
                "encoder": {"name": encoder, "layers": "all", "train": "none", "image_size": size},
                **({"concepts": concepts} if concepts else {}),
            }
        )
        self.source, self.concepts = open_source(
            recipe.data, ConceptSet.load(recipe.concepts) if recipe.concepts else None
        )
        splits = make_splits(
            self.source.examples,
            recipe.data.split,
            self.source.task,
            classes=self.source.classes,
            limit=recipe.data.limit,
        )
        network = make_encoder(recipe.encoder).eval()
        size = size or network.image_size
        self.grid = network.grid(size, size)
        self.indices = {"train": splits.train, "val": splits.val}
        self.layers: dict[str, list[Tensor]] = {}
        self.cls: dict[str, Tensor] = {}
        plain: dict[str, list[tuple[Tensor, Tensor]]] = {}
        with PixelReader(self.source, size, recipe.data.fit, cache_mb=0) as reader, torch.inference_mode():
            for name, indices in self.indices.items():
                pieces: list[list[Tensor]] = []
                for start in range(0, len(indices), 32):
                    pixels = reader.batch(indices[start : start + 32])
                    tokens = network(pixels)
                    plain.setdefault(name, []).append(
                        (color_distance_maps(pixels / 255, self.grid), darkness_maps(pixels / 255, self.grid))
                    )
                    pieces.append([*(layer.half() for layer in tokens.layers), tokens.cls])
                columns = [torch.cat(column) for column in zip(*pieces, strict=True)]
                self.layers[name], self.cls[name] = columns[:-1], columns[-1].float()
        self.color, self.dark = (torch.cat(maps) for maps in zip(*plain["val"], strict=True))
        self.depth = len(self.layers["train"])
        self.widths = [layer.shape[-1] for layer in self.layers["train"]]
        labels = self.source.examples.concepts
        self.labels = {name: torch.as_tensor(labels[indices]) for name, indices in self.indices.items()}
        self.classes = {name: self.source.examples.labels[indices] for name, indices in self.indices.items()}
        self.regions = {
            name: read_regions(self.source, indices, size=size, fit=recipe.data.fit, grid=self.grid)
            for name, indices in self.indices.items()
        }
        parts = concept_parts(self.concepts, region_names(self.source), recipe.data.regions.concepts)
        self.part_of = torch.from_numpy(np.maximum(parts, 0))  # a concept without a part speaks of the object


def concept_loss(logits: Tensor, labels: Tensor, concepts: ConceptSet, shares: Tensor | None = None) -> Tensor:
    """The product's loss by group: of logits of images (B, K), or of patches (B, L, K) by their shares."""
    loss = SupervisedLoss(LossConfig(concept="group"), concepts, "single", torch.ones(1))
    targets = Targets(labels.new_zeros(len(labels), dtype=torch.int64), labels, (labels != UNKNOWN).float())
    return loss.concept_loss(logits, targets, loss.count(targets), shares)


class Variant(torch.nn.Module):
    """A reader of some layers, perhaps with the class token."""

    def __init__(self, world: World, options: dict[str, Any]) -> None:
        super().__init__()
        self.chosen: list[int] = options["layers"]
        self.reader = AdditiveReader(
            world.concepts,
            [world.widths[layer] for layer in self.chosen],
            attention=options.get("attention", "group"),
            temperature=options.get("temperature", 1.0),
            dropout=options.get("dropout", 0.0),
            alone=options.get("patch_loss", 0) > 0,
        )
        if options.get("frozen_attention"):
            self.reader.queries.requires_grad_(False)
        if options.get("attend") == "last":  # queries begin at 0 and stay there for the other layers
            shown = torch.zeros(self.reader.queries.shape[1])
            shown[-world.widths[self.chosen[-1]] :] = 1
            self.reader.queries.register_hook(lambda gradient: gradient * shown)
        width = world.cls["train"].shape[1]
        self.unplaced = torch.nn.Linear(width, len(world.concepts)) if options.get("class_token") else None

    def forward(self, world: World, split: str, rows: Tensor) -> tuple[Tensor, Any]:
        read = self.reader([world.layers[split][layer][rows].float() for layer in self.chosen])
        logits = read.logits
        if self.unplaced is not None:
            cls = world.cls[split][rows]
            logits = logits + self.unplaced(F.layer_norm(cls, cls.shape[-1:]))
        return logits, read


def train(world: World, options: dict[str, Any], seed: int) -> Variant:
    torch.manual_seed(seed)
    model = Variant(world, options)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    count = len(world.indices["train"])
    epochs = max(EPOCHS, -(-STEPS * BATCH // count))
    optimizer = torch.optim.AdamW(learning, RATE, weight_decay=options.get("decay", 0.02))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * -(-count // BATCH))
    for _ in range(epochs):
        for rows in torch.randperm(count).split(BATCH):
            logits, read = model(world, "train", rows)
            loss = concept_loss(logits, world.labels["train"][rows], world.concepts)
            if options.get("patch_loss"):
                alone = concept_loss(read.alone, world.labels["train"][rows], world.concepts, read.shares.detach())
                loss = loss + options["patch_loss"] * alone
            if options.get("entropy"):
                loss = loss + options["entropy"] * attention_entropy(read.attention).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def auc(scores: np.ndarray, truth: np.ndarray, least: int) -> float | None:
    known = truth != UNKNOWN
    yes, no = (truth[known] == 1).sum(), (truth[known] == 0).sum()
    return float(roc_auc_score(truth[known] == 1, scores[known])) if min(yes, no) >= least else None


def mean(values: list[float | None]) -> float | None:
    kept = [value for value in values if value is not None]
    return float(np.mean(kept)) if kept else None


@torch.inference_mode()
def measured(world: World, model: Variant) -> dict[str, Any]:
    """On validation images."""
    rows = torch.arange(len(world.indices["val"]))
    pieces = [model(world, "val", some) for some in rows.split(64)]
    logits = torch.cat([piece[0] for piece in pieces])
    maps = torch.cat([piece[1].evidence for piece in pieces])
    probabilities = concept_probabilities(logits, world.concepts.groups).numpy()
    truth, classes = world.labels["val"].numpy(), world.classes["val"]
    every = range(len(world.concepts))
    pooled = mean([auc(probabilities[:, k], truth[:, k], 1) for k in every])
    within = mean(
        [auc(probabilities[classes == c, k], truth[classes == c, k], 10) for k in every for c in set(classes)]
    )
    said = torch.zeros(logits.shape, dtype=torch.bool)  # the value read in each group
    for group in world.concepts.groups:
        part = torch.from_numpy(probabilities[:, group.concepts])
        if group.kind == "exclusive":
            said[:, group.concepts] = F.one_hot(part.argmax(1), part.shape[1]).bool()
        else:
            said[:, group.concepts] = part >= 0.5
    regions, fit = world.regions["val"], world.regions["train"]
    truth_at = truth_of(regions, world.part_of)
    widths = fit_center_prior(fit)
    center = center_prior_maps([widths.get(fit.parts[part], 0.2) for part in world.part_of.tolist()], world.grid)
    average = torch.from_numpy(mean_region_maps(fit)).float()[world.part_of]
    kinds = {
        "own": maps,
        "attention": torch.cat([p[1].attention for p in pieces])[:, model.reader.concept_slot],
        "center": center.expand_as(maps),
        "mean region": average.expand_as(maps),
        "magnitude": maps.abs(),
        "color": world.color[:, None].expand_as(maps),
        "darkness": world.dark[:, None].expand_as(maps),
    }
    row: dict[str, Any] = {"auc": pooled, "within": within}
    for name, values in kinds.items():
        found = measure(values, truth_at)
        for key in ("average_precision", "pointing", "energy"):
            row[f"{name} {key}"] = float(torch.where(said, found[key], torch.nan).nanmean(0).nanmean())
    mass = maps.clamp(min=0)
    share = mass / mass.sum(-1, keepdim=True).clamp(min=1e-12)
    patches = torch.exp(-(share * share.clamp(min=1e-12).log()).sum(-1))
    row["patches"] = float(patches[said].mean())
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("data")
    parser.add_argument("--encoder", default="builtin/vit")
    parser.add_argument("--size", type=int)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", action="append", default=[])
    options = parser.parse_args()
    started = time.monotonic()
    world = World(options.data, options.encoder, options.size)
    print(f"encoded in {time.monotonic() - started:.0f} s: {world.depth} layers, grid {world.grid}", flush=True)
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    done = {(row["data"], row["encoder"], row["variant"], row["seed"]) for row in map(json.loads, lines)}
    with options.out.open("a") as file:
        for seed in range(options.seeds):
            for variant_name, variant in variants(world.depth, options.only).items():
                name = f"{variant_name}, {options.size} pixels" if options.size else variant_name
                key = (options.data, options.encoder, name, seed)
                if key in done:
                    continue
                started = time.monotonic()
                row = measured(world, train(world, variant, seed))
                seconds = round(time.monotonic() - started, 1)
                row = dict(zip(("data", "encoder", "variant", "seed"), key, strict=True)) | row | {"seconds": seconds}
                file.write(json.dumps(row) + "\n")
                file.flush()
                print(
                    f"{name:24s} {seed} " + " ".join(f"{k} {v:.3f}" for k, v in row.items() if isinstance(v, float)),
                    flush=True,
                )
