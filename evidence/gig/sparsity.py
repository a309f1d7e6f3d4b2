"""Error against sparsity with intervals: three dictionaries, three seeds, images that no concept was learned from.

    python evidence/gig/pack.py --out PACK --samples DIR --imagenette DIR --numbers 1000 1500 0 --val 1 --quality 85 \
        --weights resnet50.safetensors
    python evidence/gig/sparsity.py --out OUT --work WORK --weights PACK/resnet50-8-bits.safetensors --pack PACK
        [--sections samples errors curves between disturbed] [--layers …] [--seeds 0 1 2] [--device cuda]
    python evidence/gig/gig_tables.py --rows evidence/gig        once OUT/sparsity.jsonl lies there

samples    sixteen vectors of each photograph and layer, drawn by contribution, on disk
errors     each dictionary with each seed: relative l2 of 250 held-out photographs (six vectors each) by concepts a
           vector, coded by the same lasso; clusters once with means of raw vectors and once of unit vectors
curves     C-Insertion and C-Deletion of held-out photographs that the network gets right, at the paper's sparsity; of
           clusters also in the order of gradient x input, of the coefficients, and of chance
between    the same between neighboring layers, for the five concepts that add most to the class (Figure 5)
disturbed  Appendix J: which of the ten concepts that add most stay under noise and under a targeted attack

A seed draws five sixths of the photographs to learn from and starts the dictionary. A row holds a number for every
held-out photograph, so that intervals are over photographs and seeds. What has a row is not made again.
"""

import argparse
import json
import time
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from masks import kept
from sparsity_settings import MAKERS, PAPER_USED, TIMES
from subjects import Pictures, read_pack, resnet50
from torch import Tensor

from conceptlens.gig.attribution.integrated_gradients import contributions
from conceptlens.gig.attribution.orders import ORDERS
from conceptlens.gig.attribution.srd import Rule
from conceptlens.gig.attribution.targets import between, to_classes
from conceptlens.gig.dictionaries.autoencoder import fit_autoencoder
from conceptlens.gig.dictionaries.bisecting import bisect
from conceptlens.gig.dictionaries.clusters import segment_sums
from conceptlens.gig.dictionaries.coded import Coded, coded
from conceptlens.gig.dictionaries.dictionary_learning import fit_dictionary
from conceptlens.gig.dictionaries.lasso import Dictionary, decompose, lambda_for
from conceptlens.gig.graph import Seen
from conceptlens.gig.means import top
from conceptlens.gig.network import Network, open_network
from conceptlens.gig.samples import Samples, collect
from conceptlens.gig.validation.curves import area
from conceptlens.gig.validation.robustness import noisy
from conceptlens.gig.validation.validation import layer_curves, relative_l2

JUDGED, EACH, SIDE = 250, 6, 224
POINTS, AT_ONCE = 11, 22
RIVAL_ORDERS = ("gradient x input", "coefficients", "random")
FIRST, SIGMA, ALIKE = 10, 70.0, 0.9  # concepts looked at; noise in steps of a byte, as the paper's; cosine, likewise
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
        if used(share) < used(share * 1.6):  # the solver stops early at so small a penalty
            del tried[share]
            break
    if used(0.5) > min(wanted):
        used(0.8)
    line = sorted(tried.values(), key=lambda pair: pair[0])
    xs = np.log([max(number, 1e-3) for number, _ in line])
    rows = []
    for number in np.log(wanted):
        high = int(np.clip(np.searchsorted(xs, number), 1, len(xs) - 1))
        part = float((number - xs[high - 1]) / max(xs[high] - xs[high - 1], 1e-9))
        outside = part < 0 or part > 1
        rows.append(line[high][1] * torch.nan if outside else line[high - 1][1] * (1 - part) + line[high][1] * part)
    points = [{"used": number, "relative_l2": float(error.mean())} for number, error in line]
    return torch.stack(rows), points


class Lasso:
    """A dictionary coded by the lasso at one penalty, as `layer_curves` wants it."""

    def __init__(self, unit: Tensor, shift: Tensor, penalty: float) -> None:
        self.vectors, self.shift, self.penalty, self._words = unit, shift, penalty, Dictionary(unit)

    def code(self, features: Tensor) -> Coded:
        found = decompose(features - self.shift, self._words, self.penalty, tolerance=1e-3)
        return coded(features, found.dense(), self.vectors, self.shift)


def attacked(network: Network, pixels: Tensor, targets: Tensor, *, steps: int = 100, searches: int = 4) -> Tensor:
    """The l2 attack of `conceptlens.gig.validation.robustness.attack` on many images at once; (B, 3, S, S)."""
    weight, low = torch.ones(len(pixels), device=pixels.device), torch.zeros(len(pixels), device=pixels.device)
    high = torch.full_like(low, torch.inf)
    best, least = pixels.clone(), torch.full_like(low, torch.inf)
    start = torch.atanh((pixels.clamp(0, 1) * 2 - 1) * 0.999999)
    for _ in range(searches):
        w = start.clone().requires_grad_()
        optimizer, won = torch.optim.Adam([w], lr=0.01), torch.zeros_like(low, dtype=torch.bool)
        for _ in range(steps):
            with torch.enable_grad():
                there = (w.tanh() + 1) / 2
                z = network.model(there)
                wanted = z.gather(1, targets[:, None])[:, 0]
                gap = z.scatter(1, targets[:, None], -torch.inf).amax(1) - wanted
                change = (there - pixels).square().flatten(1).sum(1)
                loss = (change + weight * gap.clamp_min(0)).sum()
            reached = gap.detach() < 0
            won |= reached
            better = reached & (change.detach().sqrt() < least)
            best[better], least[better] = there.detach()[better], change.detach().sqrt()[better]
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        low, high = torch.where(won, low, weight), torch.where(won, weight, high)
        weight = torch.where(high.isfinite(), (low + high) / 2, weight * 10)
    return best


class Lab:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.begin = given, time.perf_counter()
        self.rows = given.out / "sparsity.jsonl"
        lines = self.rows.read_text("utf-8").splitlines() if self.rows.exists() else []
        self.done = {json.loads(line)["key"] for line in lines}
        sets = read_pack(given.pack, given.limit, 2)
        whole = sets["samples"]
        self.judge = whole.of(range(min(JUDGED, len(whole) // 2)))
        rest = [sets[name] for name in ("imagenette", "tiny") if name in sets]
        parts = [whole.of(range(len(self.judge), len(whole))), *rest]
        self.learn = Pictures(
            torch.cat([part.pixels for part in parts]),
            torch.cat([part.classes for part in parts]),
            tuple(name for part in parts for name in part.names),
        )
        self.device = given.device
        model = resnet50(given.weights).to(self.device)
        self.network: Network = open_network(model, list(given.layers), image_size=SIDE)

    def row(self, key: str, make: Any) -> None:
        if key in self.done or time.perf_counter() - self.begin > self.given.seconds:
            return
        begin = time.perf_counter()
        try:
            line = {"key": key, **make()}
        except Exception as error:  # the next row may still come
            self.say(f"{key} failed: {type(error).__name__}: {error}")
            return
        line["seconds"] = round(time.perf_counter() - begin, 1)
        with self.rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{time.perf_counter() - self.begin:6.0f} s  {key}: {line['seconds']} s", flush=True)

    def samples(self) -> dict[str, Samples]:
        folder = self.given.work / "samples"
        rule: Rule = "srd" if self.device == "cuda" else "gradient"
        return collect(self.network, self.learn, folder, self.given.per_image, rule=rule, note=self.say, batch=32)

    def say(self, text: str) -> None:
        print(f"{time.perf_counter() - self.begin:6.0f} s  {text}", flush=True)

    def held_out(self, layer: str) -> Tensor:
        """(held-out photographs · EACH, C) vectors at random positions."""
        file = self.given.work / "held-out.pt"
        if not file.exists():
            generator = torch.Generator().manual_seed(1)
            found: dict[str, list[Tensor]] = {name: [] for name in self.network.layers}
            for some, pixels in self.judge.batches(10, range(len(self.judge))):
                for name in self.network.layers:
                    features = self.network.features(pixels.to(self.device), name)
                    where = torch.rand(len(some), features.shape[1], generator=generator).argsort(1)[:, :EACH]
                    rows = torch.arange(len(some), device=self.device)[:, None]
                    found[name].append(features[rows, where.to(self.device)].flatten(0, 1).cpu())
            torch.save({name: torch.cat(parts) for name, parts in found.items()}, file)
        vectors: Tensor = torch.load(file, weights_only=True)[layer]
        return vectors.to(self.device)

    def file(self, layer: str, maker: str, seed: int) -> Path:
        return self.given.work / f"{layer}-{maker.replace(' ', '-').replace(',', '')}-{seed}.pt"

    def errors(self, layer: str, maker: str, seed: int) -> Row:
        taken = self.samples()[layer]
        chosen = np.random.default_rng(seed).permutation(len(self.learn))[: len(self.learn) * 5 // 6]
        mine = torch.isin(taken.image, torch.from_numpy(chosen))
        features, shift = taken.features()[mine].to(self.device), self.network.bias_shift(layer)
        judged = self.held_out(layer)
        k = min(8 * features.shape[1], self.given.most_k, len(features) // 6)
        begin = time.perf_counter()
        unit = learned(maker, features, shift, k, seed, self.given.epochs)
        seconds = time.perf_counter() - begin
        errors, points = by_image(judged, unit, shift, [PAPER_USED[layer] * times for times in TIMES])
        torch.save(unit.cpu(), self.file(layer, maker, seed))
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
            for some, pixels in self.judge.batches(10, range(len(self.judge))):
                hits = self.network.logits(pixels.to(self.device)).argmax(1).cpu() == self.judge.classes[some]
                found += [some[place] for place in torch.nonzero(hits).flatten().tolist()]
        return found

    def coder(self, layer: str, maker: str, seed: int) -> Lasso:
        """A dictionary at the penalty at which it uses as many concepts a vector as the paper's clusters."""
        unit = torch.load(self.file(layer, maker, seed), weights_only=True).to(self.device)
        shift, judged, words = self.network.bias_shift(layer), self.held_out(layer), Dictionary(unit)
        low, high = (lambda_for(judged - shift, unit, share) for share in (2e-4, 1.0))
        for _ in range(8):
            middle = (low * high) ** 0.5
            used = float(decompose(judged[:300] - shift, words, middle, tolerance=1e-3).number.double().mean())
            low, high = (middle, high) if used > PAPER_USED[layer] else (low, middle)
        return Lasso(unit, shift, high)

    def pixels(self, number: int) -> tuple[Tensor, int]:
        """A held-out photograph (3, S, S) and its class."""
        ((_, pixels),) = self.judge.batches(1, [number])
        return pixels[0].to(self.device), int(self.judge.classes[number])

    def curves(self, layer: str, maker: str, seed: int) -> Row:
        coder = self.coder(layer, maker, seed)
        rows: dict[str, list[list[float]]] = {"gig": []}
        active, residual = [], []
        for number in self.right[: self.given.images]:
            pixels, output = self.pixels(number)
            code = coder.code(self.network.features(pixels[None], layer)[0])
            onward = between(self.network, layer, None, pixels)
            read = to_classes(onward, [output])
            found = contributions(read, code, steps=self.given.steps)
            scores = {"gig": found.total[0]}
            if maker == MAKERS[0]:
                scores |= {name: ORDERS[name](read, code, seed + 1000 * number)[0] for name in RIVAL_ORDERS}
            for name, score in scores.items():
                order, both = torch.sort(score, descending=True, stable=True).indices, []
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
                rows.setdefault(name, []).append(both)
            active.append(len(code.concepts))
            residual.append(float(found.residual_share[0]))
        return {
            "layer": layer, "maker": maker, "seed": seed, "concepts": len(coder.vectors), "images": len(active),
            "active": float(np.mean(active)), "residual_share": float(np.mean(residual)),
            "insertion_deletion": rows.pop("gig"), "orders": rows,
        }  # fmt: skip

    def between(self, below: str, above: str, seed: int) -> Row:
        """Insertion less deletion of the projection on five concepts of the later layer, of each photograph."""
        pair = ((below, self.coder(below, MAKERS[0], seed)), (above, self.coder(above, MAKERS[0], seed)))
        rows: dict[str, list[float]] = {}
        for number in self.right[: self.given.images]:
            pixels, output = self.pixels(number)
            some = [(Seen(str(number), pixels), output)]
            found = layer_curves(self.network, *pair, some, points=POINTS, seed=1000 * number)
            for each in found.orders:
                rows.setdefault(each.order, []).append(round(each.difference, 4))
        return {"layer": below, "to": above, "seed": seed, "images": len(rows["gig"]), "difference": rows}

    @cached_property
    def disturbed_images(self) -> tuple[list[int], list[int], Tensor, Tensor]:
        """Photographs, the class that each is attacked towards (the next one's), with noise, and attacked."""
        file = self.given.work / "disturbed.pt"
        numbers = self.right[: self.given.disturbed]
        targets = [int(self.judge.classes[number]) for number in (*numbers[1:], numbers[0])]
        if not file.exists():
            clean = torch.stack([self.pixels(number)[0] for number in numbers])
            wanted = torch.tensor(targets, device=self.device)
            with_noise = torch.stack(
                [noisy(image.cpu(), SIGMA, seed=number) for image, number in zip(clean, numbers, strict=True)]
            )
            parts = zip(clean.split(25), wanted.split(25), strict=True)
            found = torch.cat(
                [attacked(self.network, image, target, steps=self.given.attack_steps).cpu() for image, target in parts]
            )
            torch.save({"noise": with_noise, "attack": found}, file)
        kept_ = torch.load(file, weights_only=True)
        return numbers, targets, kept_["noise"], kept_["attack"]

    def disturbed(self, layer: str, seed: int) -> Row:
        """Concepts that add most to the class: of how many the vector or one like it is there after a disturbance."""
        coder = self.coder(layer, MAKERS[0], seed)
        numbers, targets, with_noise, with_attack = self.disturbed_images

        def first(pixels: Tensor, output: int | None) -> tuple[list[int], int]:
            """The concepts, and the class that the network sees."""
            seen = int(self.network.logits(pixels[None]).argmax())
            code = coder.code(self.network.features(pixels[None], layer)[0])
            read = to_classes(between(self.network, layer, None, pixels), [seen if output is None else output])
            most = top(contributions(read, code, steps=self.given.steps).total[0], FIRST)
            return code.concepts[most].tolist(), seen

        def alike(before: list[int], after: list[int]) -> list[int]:
            """Of how many there were; how many are the same; how many have one with a cosine of 0.9 or more."""
            if not before or not after:
                return [len(before), 0, 0]
            cosines = coder.vectors[before] @ coder.vectors[after].T
            return [len(before), len(set(before) & set(after)), int((cosines >= ALIKE).any(1).sum())]

        clean = [first(*self.pixels(number)) for number in numbers]
        rows = []
        for place, number in enumerate(numbers):
            pixels, own = self.pixels(number)
            other = clean[(place + 1) % len(numbers)][0]  # of the photograph of the target class
            noise, seen_in_noise = first(with_noise[place].to(self.device), None)
            noise_own, _ = first(with_noise[place].to(self.device), own)
            attack, seen_attacked = first(with_attack[place].to(self.device), None)
            rows.append(
                {
                    "noise_keeps_class": seen_in_noise == own, "attack_reached": seen_attacked == targets[place],
                    "distance": round(float((with_attack[place].to(self.device) - pixels).norm()), 3),
                    "noise": alike(clean[place][0], noise), "noise_own": alike(clean[place][0], noise_own),
                    "attack": alike(clean[place][0], attack), "attack_target": alike(other, attack),
                    "chance": alike(clean[place][0], other),
                }
            )  # fmt: skip
        return {"layer": layer, "seed": seed, "images": len(rows), "by_image": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("out", "work", "weights", "pack"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    sections = ("samples", "errors", "curves", "between", "disturbed")
    parser.add_argument("--sections", nargs="+", choices=sections, default=list(sections))
    parser.add_argument("--layers", nargs="+", default=list(PAPER_USED))
    parser.add_argument("--makers", nargs="+", default=list(MAKERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--images", type=int, default=200, help="of the curves")
    parser.add_argument("--disturbed", type=int, default=100, help="photographs with noise and attacked")
    parser.add_argument("--attack-steps", type=int, default=100)
    parser.add_argument("--steps", type=int, default=16, help="of the integral")
    parser.add_argument("--epochs", type=int, default=30, help="of the autoencoder")
    parser.add_argument("--per-image", type=int, default=16, help="vectors of each photograph and layer")
    parser.add_argument("--most-k", type=int, default=8192)
    parser.add_argument("--limit", type=int, default=10**9, help="photographs of each set")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=1e9)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    given.work.mkdir(parents=True, exist_ok=True)
    lab = Lab(given)
    lab.say(f"{len(lab.learn)} photographs to learn from, {len(lab.judge)} to judge on")
    if "samples" in given.sections:
        lab.samples()
    for seed in given.seeds:  # what decides first; a run may be stopped at any time
        for section in given.sections:
            for layer in given.layers if section in ("errors", "curves", "disturbed") else ():
                for maker in given.makers if section != "disturbed" else MAKERS[:1]:
                    known = lab.file(layer, maker, seed).exists()
                    if section == "errors":
                        lab.row(f"errors/{layer}/{maker}/{seed}", lambda a=(layer, maker, seed): lab.errors(*a))
                    elif section == "curves" and known and maker != MAKERS[1]:
                        lab.row(f"curves/{layer}/{maker}/{seed}", lambda a=(layer, maker, seed): lab.curves(*a))
                    elif section == "disturbed" and known:
                        lab.row(f"disturbed/{layer}/{seed}", lambda a=(layer, seed): lab.disturbed(*a))
            for pair in pairwise(lab.network.layers) if section == "between" else ():
                if all(lab.file(layer, MAKERS[0], seed).exists() for layer in pair):
                    lab.row(f"between/{'/'.join(pair)}/{seed}", lambda a=(*pair, seed): lab.between(*a))


if __name__ == "__main__":
    main()
