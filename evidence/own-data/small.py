"""Small data: what the class head learns from, and how the concepts are read. Held-out images, never the official test.

    python evidence/own-data/small.py DATA WORK OUT.jsonl [--settings NAME …] [--seeds 0 1 2] [--ph2 FOLDER]

A setting is a set cut to a few images of its training side: for training, for validation, and up to 400 to judge by.
Some are made worse: `blurred` cells are 20 pixels wide, of `noisy` ones a quarter of the concept labels is drawn anew.
Concepts are read by `evidence-cbm`'s reader with uniform attention, which is a linear model of the mean of the patches
seen; rates, steps, patch dropout, loss and temperatures are the product's. Heads are fitted on fixed readings, as the
product's head learns: AdamW, RandInt where the labels do not follow from the class. A row is one head.
"""

import argparse
import csv
import json
import random
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from folders import Found, rows_of
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn import functional as F

import conceptlens as cl
from conceptlens.concepts import ConceptSet
from conceptlens.core.processes import Launched
from conceptlens.data.labels.class_table import labels_follow_from_class
from conceptlens.data.loading.loader import PixelReader
from conceptlens.evaluation.classification.balanced import balanced_accuracy
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.nn.heads.bottleneck import Bottleneck
from conceptlens.recipes.parse import load_recipe
from conceptlens.stats.folds import assign_folds
from conceptlens.training.epochs import auto_epochs
from conceptlens.training.records.progress import Progress
from conceptlens.training.train import open_session

SETTINGS = {  # set, training images
    "cells, blurred, 100": ("blood-cells", 100),
    "cells, noisy, 100": ("blood-cells", 100),
    "idrid, 100": ("idrid", 100),
    "ph2, 100": ("ph2", 100),
    "shapes, 90": ("shapes", 90),
    "birds, 100": ("birds", 100),
    "skin, 100": ("skin", 100),
    "cells, noisy, 300": ("blood-cells", 300),
    "idrid, 300": ("idrid", 300),
    "shapes, 300": ("shapes", 300),
    "birds, 300": ("birds", 300),
    "skin, 300": ("skin", 300),
}
JUDGED, NOISE, WIDTH, FOLDS, DRAWS, BATCH = 400, 0.25, 20, 5, 8, 64
READERS: dict[str, dict[str, float]] = {  # what differs from the product's reader
    "as it is": {},
    "decay 10": {"decay": 10.0},
    "centered": {"center": 1.0},
    "standardized, decay 30": {"center": 1.0, "power": 1.0, "decay": 30.0},
}
PH2 = {
    "asymmetry": {"0": "symmetric", "1": "one axis", "2": "two axes"},
    "network": {"T": "typical", "AT": "atypical"},
    "dots": {"A": "absent", "T": "typical", "AT": "atypical"},
    "streaks": {"A": "absent", "P": "present"},
    "regression": {"A": "absent", "P": "present"},
    "veil": {"A": "absent", "P": "present"},
}
COLORS = ("white", "red", "light brown", "dark brown", "blue gray", "black")
DIAGNOSES = {"0": "common nevus", "1": "atypical nevus", "2": "melanoma"}
Row = dict[str, Any]


@dataclass
class Block:
    """A setting and a seed: vectors and labels."""

    vectors: Tensor  # (N, D), the mean of all patches of each layer, layers side by side
    views: Tensor  # (n, V, D), means over random halves of the patches of the training images
    image_vectors: Tensor  # (N, E), class token and mean patch: what a black box reads
    labels: Tensor  # (N,)
    truth: Tensor  # (N, K) of 0, 1, UNKNOWN
    concepts: ConceptSet
    classes: int
    weights: Tensor  # (C,), of the class loss
    train: Tensor
    val: Tensor
    judged: Tensor
    follows: bool  # the concept labels from the class

    def bottleneck(self) -> Bottleneck:
        return Bottleneck(self.concepts, "log-probability", 0.0 if self.follows else "uniform", 0.0, calibrate=True)

    def columns(self) -> Iterator[list[int]]:
        """The columns that one label tells."""
        every = list(range(len(self.concepts)))
        for group in self.concepts.groups:
            yield from [every[group.concepts]] if group.kind == "exclusive" else [[c] for c in every[group.concepts]]


def ph2_rows(root: Path) -> Iterator[Found]:
    for line in (root / "PH2_dataset.txt").read_text().splitlines():
        cells = [cell.strip() for cell in line.replace("||", "|").split("|")][1:]
        if line.startswith("|| IMD"):
            row = {"image": cells[0], "diagnosis": DIAGNOSES[cells[2]]}
            said = zip(PH2, cells[3:9], strict=True)
            row |= {name: PH2[name].get(value, value) for name, value in said}
            told = cells[9].split()
            row |= {f"color {name}": "yes" if str(n) in told else "no" for n, name in enumerate(COLORS, 1)}
            yield root / "images" / f"{cells[0]}.jpg", row, cells[0], "train"


def folder_of(setting: str, seed: int, given: argparse.Namespace) -> Path:
    """Images and a sheet; the images to judge by are called `test` there."""
    name, size = SETTINGS[setting]
    out: Path = given.work / "small" / f"{setting.replace(', ', '-')}-{seed}"
    if (out / "sheet.csv").exists():
        return out
    (out / "photos").mkdir(parents=True, exist_ok=True)
    groups: dict[str, list[tuple[Path, dict[str, str]]]] = {}
    for image, row, group, side in ph2_rows(given.ph2) if name == "ph2" else rows_of(name, given.data, seed):
        if side != "test":
            groups.setdefault(group, []).append((image, row))
    pool = sorted(groups)
    random.Random(seed).shuffle(pool)
    sheet: list[dict[str, str]] = []
    for side, wanted in {"train": size, "val": 40 if name == "ph2" else size // 2, "test": JUDGED}.items():
        left = wanted
        while left > 0 and pool:
            for image, row in groups[pool.pop(0)]:
                column = next(iter(row))
                photo, pixels = out / "photos" / f"{Path(row[column]).stem}.png", Image.open(image).convert("RGB")
                if name == "ph2":
                    pixels = pixels.resize((256, 192), Image.Resampling.LANCZOS)
                if "blurred" in setting:
                    small = pixels.resize((WIDTH, WIDTH), Image.Resampling.LANCZOS)
                    pixels = small.resize(pixels.size, Image.Resampling.BICUBIC)
                pixels.save(photo)
                sheet.append({**row, column: photo.name, "split": side})
                left -= 1
    if "noisy" in setting:
        draw = random.Random(99 + seed)
        keys = [key for key in sheet[0] if key not in ("img_name", "label", "split")]
        values = {key: sorted({row[key] for row in sheet}) for key in keys}
        for row in sheet:
            for key in keys if row["split"] != "test" else ():
                if draw.random() < NOISE:
                    row[key] = draw.choice(values[key])
    with (out / "sheet.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(sheet[0]))
        writer.writeheader()
        writer.writerows(sheet)
    return out


def recipe_of(setting: str, seed: int, given: argparse.Namespace) -> Any:
    name, _ = SETTINGS[setting]
    tree: Row = {"seed": seed, "training": {"threads": 1}, "encoder": {"name": "builtin/vit"}}
    if name == "shapes":
        data = {"source": "shapes", "shapes": {"n": 3000, "size": 96, "seed": seed}}
        encoder = {"name": "builtin/vit", "image_size": 96, "train": "none"}
        return load_recipe({**tree, "data": data, "encoder": encoder, "method": "evidence-cbm"})
    folder = folder_of(setting, seed, given)
    place = given.work / "small-setups" / folder.name
    if not (place / "recipe.yaml").exists():
        made = cl.init(folder, out=place, class_column="species" if name == "birds" else "")
        if not made.check.ok:
            raise SystemExit(made.text())
    if name == "birds":
        tree["encoder"]["name"] = "builtin/efficientnet-lite0"
    if name == "skin":
        tree |= {"concepts": "dermoscopy", "method": "evidence-cbm"}
    return load_recipe(place / "recipe.yaml", tree, trusted=True)


def open_block(setting: str, seed: int, given: argparse.Namespace) -> Block:
    session = open_session(recipe_of(setting, seed, given), None, Launched(), Progress(quiet=True))
    splits = {side: np.asarray(session.splits[side]) for side in ("train", "val", "test")}
    size = SETTINGS[setting][1]
    if setting.startswith("shapes"):
        order = np.random.default_rng(seed).permutation(splits["train"])
        ends = [size, size + size // 2, size + size // 2 + JUDGED]
        splits = dict(zip(splits, np.split(order, ends)[:3], strict=True))
    used = np.concatenate(list(splits.values()))
    encoder = session.pipeline.encoder.eval()
    pixels = session.recipe.encoder.image_size or encoder.image_size
    reader = PixelReader(session.source, pixels, session.recipe.data.fit)
    patches, image_vectors = [], []
    with torch.no_grad():
        for start in range(0, len(used), 32):
            tokens = encoder(encoder.normalize(reader.batch(used[start : start + 32])))
            found = [pooled(layer.half().float()) for layer in (*tokens.layers, tokens.patches)]
            patches.append(torch.cat(found, -1).half())
            mean = tokens.patches.half().float().mean(1)
            image_vectors.append(mean if tokens.cls is None else torch.cat([tokens.cls.float(), mean], 1))
    x, sizes = torch.cat(patches).float(), [len(splits[side]) for side in splits]
    train, val, judged = torch.arange(len(used)).split(sizes)
    labels, truth = session.source.examples.labels[used], session.source.examples.concepts[used]
    classes = len(session.blueprint.classes)
    counts = np.bincount(labels[train], minlength=classes)
    weights = counts.sum() / np.maximum(counts, 1) / (counts > 0).sum()
    if session.recipe.training.loss.class_balance != "balanced":
        weights = np.ones(classes)
    return Block(
        x.mean(1),
        halves(x[train], seed),
        torch.cat(image_vectors),
        torch.from_numpy(labels.astype(np.int64)),
        torch.from_numpy(truth.astype(np.int64)),
        session.blueprint.concepts,
        classes,
        torch.from_numpy(weights.astype(np.float32)),
        train,
        val,
        judged,
        labels_follow_from_class(truth[train], labels[train]),
    )


def pooled(layer: Tensor) -> Tensor:
    """(B, L, D), normalized as the reader does, four neighbors as one: half of these are as diverse, and cheaper."""
    batch, count, width = layer.shape
    side = int(count**0.5)
    if side * side == count and side % 2 == 0:
        layer = layer.view(batch, side // 2, 2, side // 2, 2, width).mean((2, 4)).flatten(1, 2)
    return F.layer_norm(layer, layer.shape[-1:])


def halves(x: Tensor, seed: int, views: int = 24) -> Tensor:
    draw, (count, patches, _) = np.random.default_rng(seed), x.shape
    kept = np.argsort(draw.random((count, views, patches)), -1)[..., : max(round(patches / 2), 1)]
    shares = np.zeros((count, views, patches), np.float32)
    np.put_along_axis(shares, kept, 1 / kept.shape[-1], -1)
    return torch.from_numpy(shares) @ x


def surprise(logits: Tensor, truth: Tensor, counted: Tensor, concepts: ConceptSet) -> Tensor:
    """Concept loss `group` of logits (T, B, K), by reader; `counted` (T, B) says which images count."""
    known, present, parts = (truth >= 0).float(), truth.clamp_min(0).float(), []
    for group in concepts.groups:
        own = group.concepts
        if group.kind == "exclusive":
            weight = counted * known[:, own].amin(1) * (present[:, own].sum(1) == 1)
            each = -(logits[..., own].log_softmax(-1) * present[:, own]).sum(-1)
            parts.append((each * weight).sum(1) / weight.sum(1).clamp_min(1e-8))
        else:
            weight = counted[..., None] * known[:, own]
            target = present[:, own].expand_as(logits[..., own])
            each = F.binary_cross_entropy_with_logits(logits[..., own], target, reduction="none")
            parts.append((each * weight).sum((1, 2)) / weight.sum((1, 2)).clamp_min(1e-8))
    return torch.stack(parts).mean(0)


def train_readers(block: Block, readers: list[Row], fold: np.ndarray[Any, Any], seed: int) -> Tensor:
    """Concept logits (T, N, K) of readers that are trained side by side, each without the images of its `fold`."""
    torch.manual_seed(seed)
    n, width, count, trials = len(block.train), block.vectors.shape[1], len(block.concepts), len(readers)
    counted = torch.ones(trials, n)
    for number, reader in enumerate(readers):
        if "fold" in reader:
            counted[number, fold == reader["fold"]] = 0
    mean, spread = block.vectors[block.train].mean(0), block.vectors[block.train].std(0) + 1e-3

    def option(name: str, usual: float) -> Tensor:
        return torch.tensor([float(reader.get(name, usual)) for reader in readers])

    scale = (1 / spread) ** option("power", 0.0)[:, None, None]
    shift = mean * option("center", 0.0)[:, None, None]
    exclusive, of = torch.as_tensor(block.concepts.exclusive), torch.as_tensor(block.concepts.group_of)
    same = (of[:, None] == of).float()
    center = torch.eye(count) - same / same.sum(1, keepdim=True) * exclusive[:, None]
    weights = torch.nn.init.kaiming_uniform_(torch.empty(count, width), a=5**0.5).repeat(trials, 1, 1)
    parameters = [weights.requires_grad_(), torch.zeros(trials, count, 1, requires_grad=True)]
    rates = [option("rate", 1.0)[:, None, None], (option("rate", 1.0) * option("bias", 1.0))[:, None, None]]
    decays = [option("decay", 0.01)[:, None, None], torch.zeros(trials, 1, 1)]
    moments = [(torch.zeros_like(value), torch.zeros_like(value)) for value in parameters]

    def read(x: Tensor) -> Tensor:
        rows = (center @ parameters[0]) * scale
        unplaced = center @ parameters[1] - (rows * shift).sum(-1, keepdim=True)
        return torch.einsum("bd,tkd->tbk", x, rows) + unplaced.transpose(1, 2)

    batch = min(BATCH, n)
    steps, draw = n // batch, np.random.default_rng(seed)
    epochs = auto_epochs(n, batch)
    warmup, done, truth = min(5, 0.1 * epochs), 0, block.truth[block.train]
    for epoch in range(epochs):
        order = draw.permutation(n)
        for step in range(steps):
            rows = order[step * batch : (step + 1) * batch]
            seen = block.views[rows, draw.integers(0, block.views.shape[1], batch)]
            loss = surprise(read(seen), truth[rows], counted[:, rows], block.concepts)
            slopes = torch.autograd.grad(loss.sum(), parameters)
            done += 1
            at = (epoch * steps + step + 1) / steps
            factor = at / warmup if at < warmup else 0.05 ** min((at - warmup) / max(epochs - warmup, 1e-9), 1)
            norm = torch.stack([slope.flatten(1).square().sum(1) for slope in slopes]).sum(0).sqrt()
            clip = (1 / (norm + 1e-6)).clamp_max(1)[:, None, None]
            with torch.no_grad():
                for value, slope, (first, second), rate, decay in zip(
                    parameters, slopes, moments, rates, decays, strict=True
                ):
                    pull, lr = slope * clip, 1e-3 * factor * rate
                    first.lerp_(pull, 0.1)
                    second.mul_(0.999).addcmul_(pull, pull, value=0.001)
                    value.mul_(1 - lr * decay)
                    value.sub_(lr / (1 - 0.9**done) * first / ((second / (1 - 0.999**done)).sqrt() + 1e-8))
    with torch.no_grad():
        return read(block.vectors)


def fit_head(block: Block, reads: Tensor, seed: int, *, mixed: float = 0.0, l2: float = 0.0, told: bool = True) -> Any:
    """A linear head of readings (S, n, K) of the training images; each of a batch takes the first, or one of the others
    with the chance `mixed`. All batches are drawn at once.
    """
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    bottleneck, n, classes = block.bottleneck(), reads.shape[1], block.classes
    labels, truth = block.labels[block.train], block.truth[block.train]
    head, batch, steps = torch.nn.Linear(reads.shape[2], classes), min(BATCH, n), 2000
    rows = torch.rand(steps, n, generator=generator).argsort(1)[:, :batch].flatten()
    others = torch.randint(1, max(len(reads), 2), (len(rows),), generator=generator)
    source = torch.where(torch.rand(len(rows), generator=generator) < mixed, others, 0)
    seen = reads[source, rows]
    if bottleneck.randint and told:
        seen = bottleneck.rehearse(seen, truth[rows], torch.rand(len(rows), bottleneck.draws, generator=generator))
    x = torch.cat([seen, torch.ones(len(seen), 1)], 1).view(steps, batch, -1).numpy()
    target = F.one_hot(labels[rows], classes).float().view(steps, batch, -1).numpy()
    counted = block.weights[labels[rows]].view(steps, batch, 1)
    share = (counted / counted.sum(1, keepdim=True)).numpy()
    weights = torch.cat([head.weight, head.bias[:, None]], 1).detach().numpy()
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(steps):
        logits = x[step] @ weights.T
        p = np.exp(logits - logits.max(1, keepdims=True))
        slope = ((p / p.sum(1, keepdims=True) - target[step]) * share[step]).T @ x[step]
        slope[:, :-1] += 2 * l2 * weights[:, :-1]
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        rate = 5e-3 * 0.05 ** (step / steps)
        moved = first / (1 - 0.9 ** (step + 1)) / (np.sqrt(second / (1 - 0.999 ** (step + 1))) + 1e-8)
        weights = weights * (1 - rate * 0.01) - rate * moved
    kept = torch.from_numpy(weights.astype(np.float32))
    return lambda read: read @ kept[:, :-1].T + kept[:, -1]


def drawn(block: Block, read: Tensor, source: Tensor, rows: Tensor, seed: int) -> Tensor:
    """What others with the same label read, question by question, (DRAWS, n, K): `source` are readings of `rows`."""
    draw, found = np.random.default_rng(seed), read.repeat(DRAWS, 1, 1)
    said, others = block.truth[block.train], block.truth[rows]
    for columns in block.columns():
        for value in said[:, columns].unique(dim=0):
            at = (said[:, columns] == value).all(1).nonzero()[:, 0]
            same = (others[:, columns] == value).all(1).nonzero()[:, 0].numpy()
            for copy in found if len(same) else ():
                copy[at[:, None], columns] = source[draw.choice(same, len(at))][:, columns]
    return found


def judge(block: Block, bottleneck: Bottleneck, head: Any, logits: Tensor, rows: Tensor) -> Row:
    """Balanced accuracy without corrections, with the model's own answers, with true ones, and the curve's area."""
    truth, labels, read = block.truth[rows], block.labels[rows].numpy(), bottleneck(logits[rows])
    own = torch.zeros_like(truth)
    for columns in block.columns():
        part = logits[rows][:, columns]
        own[:, columns] = F.one_hot(part.argmax(1), len(columns)) if len(columns) > 1 else (part > 0).long()
    own = torch.where(truth < 0, truth, own)

    def right(shown: Tensor) -> float:
        return float(balanced_accuracy(head(shown).argmax(1).numpy(), labels, block.classes) or 0.0)

    true, groups = bottleneck.write(truth, read), len(block.concepts.groups)
    units, of = (groups, bottleneck.group_of) if groups > 1 else (len(block.concepts), torch.arange(truth.shape[1]))
    if groups == 1 and block.concepts.groups[0].kind == "exclusive":
        units, of = 1, torch.zeros(truth.shape[1], dtype=torch.long)
    ranks = torch.from_numpy(np.random.default_rng(0).random((len(rows), units)).argsort(1).argsort(1))
    points = [right(torch.where(ranks[:, of] < told, true, read)) for told in range(units + 1)]
    area = float(np.trapezoid(points) / units)
    return {"class": right(read), "sham": right(bottleneck.write(own, read)), "truth": points[-1], "area": area}


def rows_of_block(setting: str, seed: int, block: Block) -> Iterator[Row]:
    about = {"setting": setting, "seed": seed, "follows": block.follows}
    everyone = torch.ones(1, len(block.judged))

    def calibrated(logits: Tensor) -> Bottleneck:
        bottleneck = block.bottleneck()
        bottleneck.fit_temperature(logits[block.val], block.truth[block.val])
        return bottleneck

    def row(reader: str, learns: str, bottleneck: Bottleneck, head: Any, logits: Tensor) -> Row:
        said = bottleneck.calibrated(logits)[block.judged]
        labels, truth = block.labels[block.judged].numpy(), block.truth[block.judged]
        found = concept_metrics(said.numpy(), truth.numpy(), block.concepts, class_labels=labels)
        line = {**about, "reader": reader, "head": learns, **judge(block, bottleneck, head, logits, block.judged)}
        line |= {"val": judge(block, bottleneck, head, logits, block.val)["class"]}
        line |= {
            "concept_auc": found["auc"],
            "concept_ece": found["ece"],
            "concept_balanced": found["balanced_accuracy"],
        }
        return line | {"concept_loss": float(surprise(said[None], truth, everyone, block.concepts)[0])}

    fold = assign_folds([str(number) for number in range(len(block.train))], folds=FOLDS, seed=seed)
    asked: list[Row] = [*READERS.values(), *({"fold": number} for number in range(FOLDS))]
    every = train_readers(block, asked, fold, seed)
    for (reader, _), logits in zip(READERS.items(), every, strict=False):
        bottleneck = calibrated(logits)
        own = bottleneck(logits[block.train])
        others = drawn(block, own, bottleneck(logits[block.val]), block.val, seed)
        heads = {"training images": fit_head(block, own[None], seed)}
        heads["half drawn from validation"] = fit_head(block, torch.cat([own[None], others]), seed, mixed=0.5)
        if reader == "as it is":
            heads["drawn from validation"] = fit_head(block, torch.cat([own[None], others]), seed, mixed=1.0)
            heads["training images, labels never told"] = fit_head(block, own[None], seed, told=False)
            heads["training images, L2 0.03"] = fit_head(block, own[None], seed, l2=0.03)
            out = torch.empty_like(own)
            for number, part in enumerate(every[len(READERS) :]):
                theirs, places = calibrated(part), torch.from_numpy(np.flatnonzero(fold == number))
                out[places] = theirs(part[block.train[places]])
            heads["out of fold"] = fit_head(block, out[None], seed)
            heads["out of fold, L2 0.03"] = fit_head(block, out[None], seed, l2=0.03)
            heads["half drawn, else out of fold"] = fit_head(block, torch.cat([out[None], others]), seed, mixed=0.5)
            heads["cooled to validation's loss"] = fit_head(block, cooled(block, bottleneck, logits)[None], seed)
        for learns, head in heads.items():
            yield row(reader, learns, bottleneck, head, logits)
        if reader == "as it is":  # at equal priors: what is said beyond how frequent a value is
            even = bottleneck.calibrated(logits) - log_priors(block)
            plain = block.bottleneck()
            yield row(
                reader,
                "training images, equal priors",
                plain,
                fit_head(block, plain(even[block.train])[None], seed),
                even,
            )
    for name, vectors in (("linear, image vectors", block.image_vectors), ("linear, layers", block.vectors)):
        yield {**about, "reader": name, "head": "logistic regression", **linear(block, vectors)}


def cooled(block: Block, bottleneck: Bottleneck, logits: Tensor) -> Tensor:
    """Readings of the training images at a temperature at which their loss is that of validation."""
    said, low, high = bottleneck.calibrated(logits), 0.0, 1.0

    def loss(part: Tensor, rows: Tensor) -> float:
        return float(surprise(part[None], block.truth[rows], torch.ones(1, len(rows)), block.concepts)[0])

    wanted = loss(said[block.val], block.val)
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle * said[block.train], block.train) > wanted else (low, middle)
    return bottleneck(middle * logits[block.train])


def log_priors(block: Block) -> Tensor:
    """Of each value among the training labels, as logits."""
    truth = block.truth[block.train]
    share = ((truth == 1).sum(0) + 0.5) / ((truth >= 0).sum(0) + 1.0)
    return torch.where(torch.as_tensor(block.concepts.exclusive), share.log(), (share / (1 - share)).log())


def linear(block: Block, vectors: Tensor) -> Row:
    """A linear classifier of the class; validation chooses how regular."""
    x, labels = StandardScaler().fit(vectors[block.train].numpy()).transform(vectors.numpy()), block.labels.numpy()
    balance = "balanced" if len(block.weights.unique()) > 1 else None
    best = {"val": -1.0, "class": 0.0}
    for c in (1e-4, 1e-3, 1e-2, 1e-1, 1.0):
        model = LogisticRegression(C=c, max_iter=400, class_weight=balance).fit(x[block.train], labels[block.train])
        said = model.predict(x)
        val, right = (
            float(balanced_accuracy(said[rows], labels[rows], block.classes) or 0.0)
            for rows in (block.val, block.judged)
        )
        best = {"val": val, "class": right} if val > best["val"] else best
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--ph2", type=Path, help="the PH2 folder")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    done = {(row["setting"], row["seed"]) for row in map(json.loads, lines)}
    for setting, seed in ((setting, seed) for seed in given.seeds for setting in given.settings):
        if (setting, seed) in done:
            continue
        started = time.perf_counter()
        rows = list(rows_of_block(setting, seed, open_block(setting, seed, given)))
        with given.out.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
        print(setting, seed, f"{time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
