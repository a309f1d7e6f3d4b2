"""The default head beside three references, on the same concepts: only what the head reads and learns from differs.

    python evidence/corrections/heads.py WORK [--only WORD]

In a preset whose concepts never see the class, the head is a layer on fixed inputs. For each finished run of
`examine.py test`, the concept logits of all images are read once, clean and blurred; then four heads learn from the
training images' logits with the same steps, rate and seed, and each is corrected as `conceptlens interventions` does.
For `evidence-cbm` the default head also learns with larger ε.
Rows go to WORK/heads.jsonl.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from examine import BLUR, COUNTS, EPSILON, SETTINGS, encode_once, set_epsilon
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.processes import Launched
from conceptlens.data.loading.loader import PixelReader
from conceptlens.evaluation.interventions.blurred import blurred_readout
from conceptlens.evaluation.interventions.curve import follow_policy
from conceptlens.evaluation.interventions.units import make_units
from conceptlens.evaluation.interventions.value_map import cross_map
from conceptlens.nn.heads.bottleneck import Bottleneck
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.predict import predict
from conceptlens.runs.readout import Readout
from conceptlens.stats.folds import assign_folds

HEADS = {
    "log-probabilities, RandInt uniform": SETTINGS["log-probabilities, sequential, uniform"],
    "log-probabilities": SETTINGS["log-probabilities, sequential"],
    "probabilities": SETTINGS["probabilities, sequential"],
    "labels (independent)": SETTINGS["probabilities, independent"],
}
LARGER = (0.01, 0.03, 0.1, 0.3)  # ε, for evidence-cbm
STEPS, BATCH, RATE = 3000, 64, 5e-3  # some 31 epochs of the presets' batch, at the rate of their head


def training_logits(run: OpenedRun) -> Tensor:
    """Calibrated concept logits of the training images, (T, K)."""
    reader = PixelReader(run.source, run.card.image_size, run.card.fit, 0, workers=1)
    read = predict(run.pipeline, reader, run.splits["train"], processes=Launched("fp32"))
    return torch.from_numpy(read.concept_logits)


def fit_head(bottleneck: Bottleneck, logits: Tensor, concepts: Tensor, labels: Tensor, seed: int) -> nn.Linear:
    """A class head on fixed concept logits, as the product's loop would teach it."""
    torch.manual_seed(seed)
    head = nn.Linear(logits.shape[1], int(labels.max()) + 1)
    optimizer = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    read = bottleneck(logits)
    for _ in range(STEPS):
        rows = torch.randint(len(logits), (BATCH,))
        seen = bottleneck.rehearse(read[rows], concepts[rows]) if bottleneck.randint else read[rows]
        optimizer.zero_grad()
        F.cross_entropy(head(seen), labels[rows]).backward()
        optimizer.step()
        schedule.step()
    return head


def with_head(readout: Readout, bottleneck: Bottleneck, head: nn.Linear) -> Readout:
    """The same images and concepts behind another head."""

    @torch.inference_mode()
    def decide(rows: Any) -> Any:
        return head(torch.from_numpy(rows).float()).double().numpy()

    read = bottleneck(torch.from_numpy(readout.concept_logits).float()).double().numpy()
    return replace(readout, space=bottleneck.space, bottleneck=read, decide=decide, head=None, answers=None)


def examine(path: Path, seed: int) -> list[dict[str, Any]]:
    run = OpenedRun.open(path)
    encode_once(run.pipeline.encoder)
    clean = run.readout("test")
    images = {0: clean, **{pixels: blurred_readout(run, "test", pixels) for pixels in BLUR}}
    examples, train = run.source.examples, run.splits["train"]
    logits = training_logits(run)
    concepts, labels = torch.from_numpy(examples.concepts[train]), torch.from_numpy(examples.labels[train]).long()
    units, fold, rows = make_units(run.concepts, "groups"), assign_folds(clean.units, seed=0), []
    heads = [(name, options, EPSILON) for name, options in HEADS.items()]
    if run.recipe.method["name"] == "evidence-cbm":
        name, options = next(iter(HEADS.items()))
        heads += [(f"{name}, ε {epsilon:g}", options, epsilon) for epsilon in LARGER]
    for name, options, epsilon in heads:
        set_epsilon(epsilon)
        bottleneck = Bottleneck(run.concepts, **{**options, "calibrate": False})  # the logits are calibrated already
        head = fit_head(bottleneck, logits, concepts, labels, seed)
        maps = cross_map(with_head(clean, bottleneck, head), fold)
        curves = {}
        for pixels, readout in images.items():
            known = replace(with_head(readout, bottleneck, head), truth=clean.truth, labels=clean.labels)
            followed = follow_policy(known, maps, units, "chance", seed=0)
            curves[str(pixels)] = [round(float(value), 5) for value in np.nanmean(followed.right, axis=1)]
        told = [curve[count] for curve in curves.values() for count in COUNTS]
        rows.append({"head": name, "curves": curves, "area": round(float(np.mean(told)), 5)})
    set_epsilon(EPSILON)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    out = options.work / "heads.jsonl"
    kept = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(row["method"], row["seed"]) for row in kept}
    tests = [json.loads(line) for line in (options.work / "test.jsonl").read_text().splitlines()]
    for test in sorted(tests, key=lambda row: row["method"] == "evidence-cbm"):
        key = (test["method"], test["seed"])
        if key in done or options.only not in test["method"]:
            continue
        path = options.work / "test" / f"blood-cells-{test['method']}-preset-{test['seed']}"
        if not path.exists():  # its row came from another machine
            continue
        bottleneck = getattr(OpenedRun.open(path).pipeline.model, "bottleneck", None)
        if bottleneck is None or bottleneck.class_gradient or bottleneck.space == "logit":
            continue  # its concepts saw the class: another head would need other concepts
        for row in examine(path, test["seed"]):
            with out.open("a") as file:
                file.write(json.dumps({"method": key[0], "seed": key[1], **row}) + "\n")
            print(*key, row["head"], f"{row['area']:.4f}", flush=True)
