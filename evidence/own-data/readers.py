"""Small data: how the evidence is read, by the product's own training with attention. Held-out images, never the test.

    python evidence/own-data/readers.py DATA WORK OUT.jsonl [--settings NAME …] [--seeds 0 1 2] [--ph2 FOLDER]

Settings are those of `small.py`, and more images of them. All readers of a setting and a seed are trained side by side
(`together.py`): the same images, order, hidden patches, losses, rates, temperatures and choice of the epoch. A reader
differs from `as it is` in what its row names. A row holds what validation says and what up to 400 further images of the
training side say: the class without corrections, with the model's own answers written back, with true ones.
"""

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from small import SETTINGS, Block, drawn, fit_head, judge, linear, recipe_of
from together import Decoded, Trial, train_together
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.allocation import kept_memory
from conceptlens.core.devices import best_device
from conceptlens.core.processes import Launched
from conceptlens.data.labels.class_table import labels_follow_from_class
from conceptlens.data.loading.loader import PixelReader
from conceptlens.encoders.contract import Cut
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.methods.build import Blueprint, build_pipeline, sample_indices
from conceptlens.training.epochs import with_epochs
from conceptlens.training.optimization.losses import class_weights
from conceptlens.training.records.progress import Progress
from conceptlens.training.train import open_session

READERS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "centered": {"standardize": True, "spread": False},
    "centered, decay 10": {"standardize": True, "spread": False, "decay": 10.0},
    "standardized, decay 10": {"standardize": True, "decay": 10.0},
    "standardized, decay 30": {"standardize": True, "decay": 30.0},
    "from zero": {"zero": True},
    "centered, from zero": {"standardize": True, "spread": False, "zero": True},
    "standardized, decay 10, from zero": {"standardize": True, "decay": 10.0, "zero": True},
    "averaged": {"ema": 0.99},
    "averaged, from zero": {"ema": 0.99, "zero": True},
    "chosen by concepts": {"by_concepts": True},
    "from zero, chosen by concepts": {"zero": True, "by_concepts": True},
    "averaged, from zero, chosen by concepts": {"ema": 0.99, "zero": True, "by_concepts": True},
    "head rate 25": {"head_rate": 25.0},
    "from zero, head rate 25": {"zero": True, "head_rate": 25.0},
    "from zero, head rate 100": {"zero": True, "head_rate": 100.0},
    "rate 0.0003": {"rate": 3e-4},
    "rate 0.0003, from zero": {"rate": 3e-4, "zero": True},
    "rate 0.0003, from zero, chosen by concepts": {"rate": 3e-4, "zero": True, "by_concepts": True},
}
REFITTED = ("as it is", "from zero", "chosen by concepts", "from zero, chosen by concepts")
LEAST_SPREAD = 1e-3
Row = dict[str, Any]


def trained(setting: str, seed: int, given: argparse.Namespace) -> list[Row]:
    """All readers of a setting and a seed."""
    recipe = recipe_of(setting, seed, given)
    session = open_session(recipe, None, Launched(), Progress(quiet=True))
    if setting.startswith("shapes"):
        size = SETTINGS[setting][1]
        order = np.random.default_rng(seed).permutation(session.splits.train)
        ends = [size, size + size // 2, size + size // 2 + 400]
        train, val, test, _ = np.split(order, ends)
        session.splits = replace(session.splits, train=train, val=val, test=test)
    splits, device = session.splits, best_device()
    used = np.concatenate([splits.train, splits.val, splits.test])
    rows = np.full(len(session.source.examples.labels), -1, dtype=np.int64)
    rows[used] = np.arange(len(used))
    base = with_epochs(replace(recipe, encoder=session.recipe.encoder), len(splits.train))
    if given.limit_epochs:
        base = replace(base, training=replace(base.training, epochs=given.limit_epochs))
    torch.manual_seed(seed)
    pipeline = build_pipeline(Blueprint(base, session.blueprint.concepts, session.blueprint.classes))
    encoder = pipeline.encoder.to(device).eval()
    size = recipe.encoder.image_size or encoder.image_size
    pixels = PixelReader(session.source, size, recipe.data.fit)
    with torch.inference_mode():
        packed = torch.cat(
            [
                encoder.before(encoder.normalize(pixels.batch(used[start : start + 32]).to(device)), 0).half()
                for start in range(0, len(used), 32)
            ]
        )
    packed = packed.clone()
    encoder.cut = Cut(0, encoder.grid(size, size))
    everyone = Decoded(encoder, packed)
    sample = torch.from_numpy(rows[sample_indices(splits.train, seed)])  # what a method may look at before training
    shift, spread = moments(everyone, sample.to(device))
    trials = []
    for name in given.readers or READERS:
        how = READERS[name]
        own = replace(base, method={**base.method, "head_rate": how["head_rate"]}) if "head_rate" in how else base
        rate = how.get("rate", own.training.learning_rate)
        training = replace(own.training, ema=how.get("ema", own.training.ema), learning_rate=rate)
        trial = Trial(name, replace(own, training=training), by_concepts="by_concepts" in how, from_zero="zero" in how)
        trial.reader_decay = how.get("decay")
        trial.shift = shift if "standardize" in how else None
        trial.scale = 1 / (spread + LEAST_SPREAD) if "standardize" in how and how.get("spread", True) else None
        trials.append(trial)
    found = train_together(session, pipeline, packed, rows, trials)
    block = block_of(session, used, everyone, base)
    said_of = [found.said(trial, everyone)[1].float().cpu() for trial in trials]
    model, lines = pipeline.model.eval().cpu(), []
    about = {"setting": setting, "seed": seed, "follows": block.follows, "device": device.type}
    for trial, scores in zip(trials, said_of, strict=True):
        state = {name.removeprefix("model."): value.cpu() for name, value in trial.weights.items()}
        model.load_state_dict(state, strict=False)
        bottleneck = model.bottleneck
        logits = scores / bottleneck.sharpness[bottleneck.group_of]
        labels, truth = block.labels[block.judged].numpy(), block.truth[block.judged]
        metrics = concept_metrics(scores[block.judged].numpy(), truth.numpy(), block.concepts, class_labels=labels)
        said = {"concept_auc": metrics["auc"], "concept_ece": metrics["ece"]}
        with torch.no_grad():
            line = judge(block, bottleneck, model.decide, logits, block.judged)
        if trial.name in REFITTED:  # readings as they are, and a head that learns from them alone
            own = bottleneck(logits[block.train])
            others = drawn(block, own, bottleneck(logits[block.val]), block.val, seed)
            heads = {"refitted": fit_head(block, own[None], seed)}
            heads["refitted, half drawn"] = fit_head(block, torch.cat([own[None], others]), seed, mixed=0.5)
            for learns, head in heads.items():
                again = judge(block, bottleneck, head, logits, block.judged)
                val = judge(block, bottleneck, head, logits, block.val)["class"]
                lines.append({**about, "reader": f"{trial.name}; head {learns}", **again, "val": val, **said})
        on_val = (trial.tie, trial.value) if trial.by_concepts else (trial.value, trial.tie)
        line |= {"val": on_val[0], "val_concept_auc": on_val[1], "epoch": trial.epoch}
        lines.append({**about, "reader": trial.name, **line, **said})
    return [*lines, {**about, "reader": "linear, image vectors", **linear(block, block.image_vectors)}]


def moments(everyone: Decoded, places: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation over images of the mean vector of their patches, as the reader normalizes it, (D,) each."""
    tokens = everyone.of(places)
    layers = (*tokens.layers, tokens.patches)
    spread, mean = torch.std_mean(torch.cat([F.layer_norm(x, x.shape[-1:]).float().mean(1) for x in layers], -1), 0)
    return mean, spread


def block_of(session: Any, used: Any, everyone: Decoded, recipe: Any) -> Block:
    """Labels, and what a black box reads, as `small.judge` and `small.linear` want them."""
    sizes = [len(session.splits[side]) for side in ("train", "val", "test")]
    train, val, judged = torch.arange(len(used)).split(sizes)
    examples, vectors = session.source.examples, []
    for places in torch.arange(len(used), device=everyone.parts[0].device).split(64):
        tokens = everyone.of(places)
        mean = tokens.patches.float().mean(1)
        vectors.append((mean if tokens.cls is None else torch.cat([tokens.cls.float(), mean], 1)).cpu())
    labels, truth, nothing = examples.labels[used], examples.concepts[used], torch.zeros(0)
    weights = class_weights(recipe.training.loss, labels[train.numpy()], len(session.blueprint.classes), "single")
    sides = {"train": train, "val": val, "judged": judged}
    return Block(
        vectors=nothing,
        views=nothing,
        image_vectors=torch.cat(vectors),
        labels=torch.from_numpy(labels.astype(np.int64)),
        truth=torch.from_numpy(truth.astype(np.int64)),
        concepts=session.blueprint.concepts,
        classes=len(session.blueprint.classes),
        weights=weights.float(),
        follows=labels_follow_from_class(truth[train.numpy()], labels[train.numpy()]),
        **sides,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS)
    parser.add_argument("--readers", nargs="+", default=None, choices=READERS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--ph2", type=Path, help="the PH2 folder")
    parser.add_argument("--seconds", type=float, default=1e6, help="no block is begun after these")
    parser.add_argument("--limit-epochs", type=int, default=0, help="to try the script")
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    began = time.perf_counter()
    for setting, seed in ((setting, seed) for seed in given.seeds for setting in given.settings):
        lines = given.out.read_text().splitlines() if given.out.exists() else []
        if (setting, seed) in {(row["setting"], row["seed"]) for row in map(json.loads, lines)}:
            continue
        started = time.perf_counter()
        if started - began > given.seconds:
            break
        try:
            with kept_memory():
                rows = trained(setting, seed, given)
        except Exception as error:  # one block must not end the others
            import traceback

            print(f"{setting} {seed}: {error!r}\n{traceback.format_exc()}", flush=True)
            continue
        with given.out.open("a") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows))
        print(setting, seed, f"{time.perf_counter() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
