"""How long interventions and leakage take on 3,000 images with 11 groups, 31 concepts and 5 classes, all four orders.

python bench/interventions.py [--images 3000] [--repeats 3] [--threads 2] [--json FILE]
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import write_json
from conceptlens.evaluation.interventions.curve import follow_policy, summarize
from conceptlens.evaluation.interventions.measure import measure_interventions
from conceptlens.evaluation.interventions.order import POLICIES
from conceptlens.evaluation.interventions.units import make_units
from conceptlens.evaluation.interventions.value_map import cross_map
from conceptlens.evaluation.leakage.leakage import measure_leakage
from conceptlens.methods.contract import ConceptModel, ConceptOutput
from conceptlens.runs.predictions import StoredPredictions
from conceptlens.runs.readout import Readout, read_out
from conceptlens.stats.estimates import Bootstrap
from conceptlens.stats.folds import assign_folds

WANTED = 20.0  # seconds, for the curves of four orders on two cores
SIZES = (4, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2)


class Head(ConceptModel):
    """A linear head and nothing before it."""

    def __init__(self, concepts: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(concepts, classes)

    def forward(self, tokens: object) -> ConceptOutput:
        raise AssertionError("only `decide` is measured")

    def decide(self, bottleneck: Tensor) -> Tensor:
        logits: Tensor = self.head(bottleneck)
        return logits


def world(images: int) -> Readout:
    """Random labels, noisy scores of them, classes by a random head."""
    groups = {f"group {g}": {"values": [f"value {v}" for v in range(size)]} for g, size in enumerate(SIZES)}
    classes = [f"class {c}" for c in range(5)]
    concepts = ConceptSet._build({"classes": classes, "groups": groups}, where="bench", name="bench")
    draw = np.random.default_rng(0)
    truth = np.concatenate([np.eye(size)[draw.integers(size, size=images)] for size in SIZES], axis=1)
    scores = (4 * truth - 2 + draw.normal(0, 2, truth.shape)).astype(np.float32)
    torch.manual_seed(0)
    model = Head(len(concepts), 5)
    with torch.no_grad():
        logits = model.decide(torch.from_numpy(scores)).numpy()
        labels = model.decide(torch.from_numpy(4 * truth - 2).float()).argmax(1).numpy()
    names = tuple(f"{place}.png" for place in range(images))
    stored = StoredPredictions(
        names, names, tuple(classes), "single", logits, scores, labels, truth.astype(np.int8), (0.5,) * 5
    )
    return read_out(model, stored, concepts)


def curves(readout: Readout) -> None:
    units, bootstrap = make_units(readout.concepts), Bootstrap(readout.units)
    maps = cross_map(readout, assign_folds(readout.units))
    for policy in POLICIES:
        summarize(policy, follow_policy(readout, maps, units, policy), bootstrap)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    readout = world(args.images)
    parts: dict[str, Callable[[], object]] = {
        "curves": lambda: curves(readout),
        "interventions": lambda: measure_interventions(readout, Bootstrap(readout.units)),
        "leakage": lambda: measure_leakage(readout, Bootstrap(readout.units)),
    }
    found: dict[str, list[float]] = {}
    for name, part in parts.items():
        for _ in range(args.repeats):
            started = time.perf_counter()
            part()
            found.setdefault(name, []).append(time.perf_counter() - started)
        print(f"{name}: {statistics.median(found[name]):.1f} s")
    print(f"wanted: curves in at most {WANTED:.0f} s")
    if args.json:
        machine = {"system": platform.platform(), "torch": torch.__version__, "threads": args.threads}
        shape = {"images": args.images, "groups": len(SIZES), "concepts": sum(SIZES), "classes": 5}
        write_json(args.json, {"machine": machine, **shape, "wanted": WANTED, "seconds": found})


if __name__ == "__main__":
    main()
