"""Error against sparsity with intervals: three dictionaries, three seeds, images that no concept was learned from.

    python evidence/gig/pack.py --out PACK --samples DIR --imagenette DIR --tiny DIR --numbers 1000 150 100 --val 1
    python evidence/gig/sparsity.py --out OUT --work WORK --weights resnet50.safetensors --pack PACK
                                    [--sections samples errors curves] [--layers …] [--seeds 0 1 2]
    python evidence/gig/gig_tables.py --rows evidence/gig        once OUT/sparsity.jsonl lies there

samples    ten vectors of each of 1,000 photographs and layer, drawn by gradient × input, on disk
errors     each dictionary with each seed: relative l2 of 250 held-out photographs (six vectors each) by concepts a
           vector, coded by the same lasso; clusters once with means of raw vectors and once of unit vectors
curves     C-Insertion and C-Deletion of held-out photographs that the network gets right, at the paper's sparsity

A seed draws five sixths of the photographs to learn from and starts the dictionary. A row holds a number for every
held-out photograph, so that intervals are over photographs and seeds. What has a row is not made again.
"""

import argparse
import json
import time
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from masks import kept
from sparsity_settings import MAKERS, PAPER_USED, TIMES
from subjects import Pictures, read_pack, resnet50
from torch import Tensor

from conceptlens.gig.attribution.integrated_gradients import contributions
from conceptlens.gig.attribution.targets import between, to_classes
from conceptlens.gig.dictionaries.autoencoder import fit_autoencoder
from conceptlens.gig.dictionaries.bisecting import bisect
from conceptlens.gig.dictionaries.clusters import segment_sums
from conceptlens.gig.dictionaries.coded import coded
from conceptlens.gig.dictionaries.dictionary_learning import fit_dictionary
from conceptlens.gig.dictionaries.lasso import Dictionary, decompose, lambda_for
from conceptlens.gig.network import Network, open_network
from conceptlens.gig.samples import Samples, collect
from conceptlens.gig.validation.curves import area
from conceptlens.gig.validation.validation import relative_l2

JUDGED, EACH, PER_IMAGE, MOST_K, SIDE = 250, 6, 10, 2048, 224
POINTS, AT_ONCE = 11, 22
Row = dict[str, Any]


def learned(maker: str, features: Tensor, shift: Tensor, k: int, seed: int, epochs: int) -> Tensor:
    """Concept vectors (k, C) of unit length."""
    centered = features - shift
    if maker.startswith("clusters"):
        size = torch.linalg.vector_norm(centered, dim=1, keepdim=True).clamp_min(1e-12)
        labels = bisect(centered, k, size, seed=seed)
        means = segment_sums(centered / size if "unit" in maker else centered, labels, k)
        return torch.nn.functional.normalize(means, dim=1)
    if maker == "dictionary learning":
        return torch.nn.functional.normalize(fit_dictionary(centered, k, seed=seed).concepts, dim=1)
    return torch.nn.functional.normalize(fit_autoencoder(centered, k, epochs=epochs, seed=seed).concepts, dim=1)


def by_image(features: Tensor, unit: Tensor, shift: Tensor, wanted: list[float]) -> tuple[Tensor, list[Row]]:
    """Mean relative l2 of each image (times, images) at `wanted` concepts a vector, between two λ on either side."""
    words, centered = Dictionary(unit), features - shift
    top = lambda_for(centered, unit, 1.0)
    tried: dict[float, tuple[float, Tensor]] = {}

    def used(share: float) -> float:
        if share not in tried:
            codes = decompose(centered, words, top * share, tolerance=1e-3)
            error = relative_l2(features, codes.reconstruct(unit) + shift).view(-1, EACH).mean(1)
            tried[share] = float(codes.number.double().mean()), error
        return tried[share][0]

    share = 0.5
    while used(share) < max(wanted) and share > 2e-4:
        share /= 1.6
    share = 0.8
    if used(0.5) > min(wanted):
        used(share)
    line = sorted(tried.values(), key=lambda pair: pair[0])
    xs = np.log([max(number, 1e-3) for number, _ in line])
    rows = []
    for number in np.log(wanted):
        high = int(np.clip(np.searchsorted(xs, number), 1, len(xs) - 1))
        part = float((number - xs[high - 1]) / (xs[high] - xs[high - 1]))
        outside = part < 0 or part > 1
        rows.append(line[high][1] * torch.nan if outside else line[high - 1][1] * (1 - part) + line[high][1] * part)
    points = [{"used": number, "relative_l2": float(error.mean())} for number, error in line]
    return torch.stack(rows), points


class Lab:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.begin = given, time.perf_counter()
        self.rows = given.out / "sparsity.jsonl"
        lines = self.rows.read_text("utf-8").splitlines() if self.rows.exists() else []
        self.done = {json.loads(line)["key"] for line in lines}
        sets = read_pack(given.pack, 10**9, 2)
        whole = sets["samples"]
        self.judge = whole.of(range(JUDGED))
        parts = [whole.of(range(JUDGED, len(whole))), *(sets[name] for name in ("imagenette", "tiny") if name in sets)]
        self.learn = Pictures(
            torch.cat([part.pixels for part in parts]),
            torch.cat([part.classes for part in parts]),
            tuple(name for part in parts for name in part.names),
        )
        self.network: Network = open_network(resnet50(given.weights), list(PAPER_USED), image_size=SIDE)

    def row(self, key: str, make: Any) -> None:
        if key in self.done or time.perf_counter() - self.begin > self.given.seconds:
            return
        begin = time.process_time()
        line = {"key": key, **make()}
        line["cpu_seconds"] = round(time.process_time() - begin, 1)
        with self.rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{time.perf_counter() - self.begin:6.0f} s  {key}: {line['cpu_seconds']} s", flush=True)

    def samples(self) -> dict[str, Samples]:
        folder = self.given.work / "samples"
        return collect(self.network, self.learn, folder, PER_IMAGE, rule="gradient", note=self.say)

    def say(self, text: str) -> None:
        print(f"{time.perf_counter() - self.begin:6.0f} s  {text}", flush=True)

    def held_out(self, layer: str) -> Tensor:
        """(JUDGED · EACH, C) vectors at random positions."""
        file = self.given.work / "held-out.pt"
        if not file.exists():
            generator = torch.Generator().manual_seed(1)
            found: dict[str, list[Tensor]] = {name: [] for name in PAPER_USED}
            for some, pixels in self.judge.batches(10, range(JUDGED)):
                with torch.no_grad():
                    for name in PAPER_USED:
                        features = self.network.features(pixels, name)
                        where = torch.rand(len(some), features.shape[1], generator=generator).argsort(1)[:, :EACH]
                        found[name].append(features[torch.arange(len(some))[:, None], where].flatten(0, 1))
            torch.save({name: torch.cat(parts) for name, parts in found.items()}, file)
        return torch.load(file, weights_only=True)[layer]

    def file(self, layer: str, maker: str, seed: int) -> Path:
        return self.given.work / f"{layer}-{maker.replace(' ', '-').replace(',', '')}-{seed}.pt"

    def errors(self, layer: str, maker: str, seed: int) -> Row:
        taken = self.samples()[layer]
        chosen = np.random.default_rng(seed).permutation(len(self.learn))[: len(self.learn) * 5 // 6]
        mine = torch.isin(taken.image, torch.from_numpy(chosen))
        features, shift, judged = taken.features()[mine], self.network.bias_shift(layer), self.held_out(layer)
        k = min(8 * features.shape[1], MOST_K, len(features) // 6)
        begin = time.process_time()
        unit = learned(maker, features, shift, k, seed, self.given.epochs)
        seconds = time.process_time() - begin
        errors, points = by_image(judged, unit, shift, [PAPER_USED[layer] * times for times in TIMES])
        torch.save(unit, self.file(layer, maker, seed))
        return {
            "layer": layer, "maker": maker, "seed": seed, "concepts": len(unit), "channels": unit.shape[1],
            "vectors": len(features), "learned_seconds": round(seconds, 1), "points": points,
            "by_image": [[round(value, 4) for value in line] for line in errors.tolist()],
        }  # fmt: skip

    @cached_property
    def right(self) -> list[int]:
        """Held-out photographs that the network gets right."""
        found = []
        with torch.no_grad():
            for some, pixels in self.judge.batches(10, range(JUDGED)):
                hits = self.network.logits(pixels).argmax(1) == self.judge.classes[some]
                found += [some[place] for place in torch.nonzero(hits).flatten().tolist()]
        return found

    def curves(self, layer: str, maker: str, seed: int) -> Row:
        unit = torch.load(self.file(layer, maker, seed), weights_only=True)
        shift, judged, words = self.network.bias_shift(layer), self.held_out(layer), Dictionary(unit)
        low, high = (lambda_for(judged - shift, unit, share) for share in (2e-4, 1.0))
        for _ in range(8):
            middle = (low * high) ** 0.5
            used = float(decompose(judged[:300] - shift, words, middle, tolerance=1e-3).number.double().mean())
            low, high = (middle, high) if used > PAPER_USED[layer] else (low, middle)
        rows, active, residual = [], [], []
        for number in self.right[: self.given.images]:
            ((_, pixels),) = self.judge.batches(1, [number])
            output = int(self.judge.classes[number])
            features = self.network.features(pixels, layer)[0]
            code = coded(features, decompose(features - shift, words, high, tolerance=1e-3).dense(), unit, shift)
            onward = between(self.network, layer, None, pixels[0])
            found = contributions(to_classes(onward, [output]), code, steps=self.given.steps)
            order = torch.sort(found.total[0], descending=True, stable=True).indices
            both = []
            with torch.no_grad():
                for deletion in (False, True):
                    masks = kept(order, POINTS, deletion=deletion)
                    made = torch.cat(
                        [
                            onward(code.u * some[:, None].to(code.u) @ code.vectors + code.shift)
                            for some in masks.split(AT_ONCE)
                        ]
                    )
                    both.append(round(float(area(made.softmax(1)[:, output])), 4))
            rows.append(both)
            active.append(len(code.concepts))
            residual.append(float(found.residual_share[0]))
        return {
            "layer": layer, "maker": maker, "seed": seed, "concepts": len(unit), "images": len(rows),
            "active": float(np.mean(active)), "residual_share": float(np.mean(residual)),
            "insertion_deletion": rows,
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("out", "work", "weights", "pack"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--sections", nargs="+", default=["samples", "errors", "curves"])
    parser.add_argument("--layers", nargs="+", default=list(PAPER_USED))
    parser.add_argument("--makers", nargs="+", default=list(MAKERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--images", type=int, default=200, help="of the curves")
    parser.add_argument("--steps", type=int, default=16, help="of the integral")
    parser.add_argument("--epochs", type=int, default=30, help="of the autoencoder")
    parser.add_argument("--seconds", type=float, default=1e9)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    given.work.mkdir(parents=True, exist_ok=True)
    lab = Lab(given)
    lab.say(f"{len(lab.learn)} photographs to learn from, {len(lab.judge)} to judge on")
    if "samples" in given.sections:
        lab.samples()
    for section in ("errors", "curves"):
        for seed in given.seeds if section in given.sections else ():
            for layer in given.layers:
                for maker in given.makers:
                    key = f"{section}/{layer}/{maker}/{seed}"
                    if section == "errors" or lab.file(layer, maker, seed).exists():
                        lab.row(key, lambda s=section, a=(layer, maker, seed): getattr(lab, s)(*a))


if __name__ == "__main__":
    main()
