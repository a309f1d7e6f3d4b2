"""Tables 1, 2, 3 and Figures 4, 5 of the GIG paper, and the same for a ViT; a line of rows.jsonl for each result.

    python evidence/gig/pack.py --out PACK --samples DIR --imagenette DIR --tiny DIR
    python evidence/gig/run.py --out OUT --work WORK --weights resnet50.safetensors --pack PACK [--device cuda]
                               [--subject resnet50 | vit] [--sections …] [--seconds 480] [--limit N] [--most-k 8192]
    python evidence/gig/gig_tables.py --rows OUT

Sections, in this order (each begins with what the one before it left under WORK):

    accuracy      what the network knows of held-out images
    samples       vectors of all layers, chosen by contribution, on disk
    dictionaries  clusters, dictionary learning and a sparse autoencoder of each layer; Table 1 and curves of rel-l2
    curves        C-Insertion and C-Deletion of each dictionary: Table 2 and Figure 4; agreement of reconstructions
    orders        to the class, in the order of GIG, chance, gradient × input and captum's layer attributions
    between       the same between layers: Figure 5
    sizes         Table 3
    sheets        the nearest samples of some concepts, to be looked at

What is in rows.jsonl is not done again, and nothing begins after `--seconds`: call it again to go on. Several processes
may do one section, each with its `--share` of the images (samples) or layers (dictionaries, curves).
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from dictionaries import MAKERS, Coder, fitted, matched_penalty
from masks import kept
from subjects import RESNET_LAYERS, Subject, resnet_subject, vit_subject
from torch import Tensor

from conceptlens.gig.attribution.integrated_gradients import contributions
from conceptlens.gig.attribution.targets import between, to_classes
from conceptlens.gig.dictionaries.coded import Coded
from conceptlens.gig.dictionaries.compare import SHARES, compare_sizes
from conceptlens.gig.dictionaries.lasso import decompose, lambda_for
from conceptlens.gig.graph import Seen
from conceptlens.gig.samples import Samples, collect
from conceptlens.gig.validation.curves import area
from conceptlens.gig.validation.validation import agreement, class_curves, layer_curves, reconstruction_curve, trade_off

SECTIONS = ("accuracy", "samples", "dictionaries", "curves", "orders", "between", "sizes", "sheets")
ORDERS = ["gig", "random", "gradient x input", "captum gradient shap", "captum internal influence"]
PAIRS = ["layer1.2", "layer2.3", "layer3.0", "layer3.2", "layer3.5", "layer4.2"]  # of the paper's Figure 5
SIZES = ["layer1.2", "layer2.2", "layer3.0", "layer3.5", "layer4.2"]  # of Table 3
HELD_OUT = 2048  # vectors that dictionaries are judged on
USED_SHARE = 0.05  # λ of the clusters whose sparsity the others are held to
POINTS = 21


@dataclass
class Lab:
    given: argparse.Namespace
    subject: Subject
    start: float
    done: set[str] = field(default_factory=set)
    samples: dict[str, Samples] = field(default_factory=dict)
    coders: dict[tuple[str, str], Coder] = field(default_factory=dict)
    judged_on: dict[str, Tensor] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return Path(self.given.work) / self.subject.name

    @property
    def late(self) -> bool:
        return time.perf_counter() - self.start > self.given.seconds

    def row(self, key: str, make: Callable[[], dict[str, Any]]) -> None:
        """Do one thing, unless it is done or too late."""
        key = f"{self.subject.name}/{key}"
        if key in self.done or self.late:
            return
        begin = time.perf_counter()
        values = make()
        if self.given.device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        line = {"key": key, "seconds": round(seconds, 2), **values}
        with (self.given.out / "rows.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.done.add(key)
        print(f"{time.perf_counter() - self.start:6.0f} s  {key}: {seconds:.1f} s", flush=True)

    @property
    def layers(self) -> list[str]:
        return list(self.subject.network.layers)

    def vectors(self, layer: str) -> Tensor:
        return self.samples[layer].features().to(self.given.device)

    def bias_shift(self, layer: str) -> Tensor:
        return self.subject.network.bias_shift(layer)

    def k(self, layer: str) -> int:
        channels = self.subject.network.hook_point(layer).channels
        return max(2, min(8 * channels, self.given.most_k, len(self.samples[layer]) // 6))

    def held_out(self, layer: str) -> Tensor:
        """(n, C) vectors at random positions of images that no concept was learned from."""
        if layer in self.judged_on:
            return self.judged_on[layer]
        images = self.subject.judge
        point = self.subject.network.hook_point(layer)
        each = max(1, min(HELD_OUT // len(images), point.positions - point.prefix))
        generator = torch.Generator().manual_seed(1)
        found = []
        for some, pixels in images.batches(32, range(len(images))):
            features = self.subject.network.features(pixels.to(self.given.device), layer)
            where = torch.rand(len(some), point.positions - point.prefix, generator=generator).argsort(1)[:, :each]
            rows = torch.arange(len(some), device=features.device)[:, None]
            found.append(features[rows, where.to(features.device) + point.prefix].flatten(0, 1))
        self.judged_on = {layer: torch.cat(found)}  # of one layer: its three dictionaries come one after the other
        return self.judged_on[layer]

    def judged(self, number: int) -> list[tuple[Seen, int]]:
        """Held-out images that the network gets right, with their class."""
        images, found = self.subject.judge, []
        for some, pixels in images.batches(16, range(len(images))):
            pixels = pixels.to(self.given.device)
            right = self.subject.network.logits(pixels).argmax(1).cpu() == images.classes[some]
            for place in torch.nonzero(right).flatten().tolist():
                found.append((Seen(images.names[some[place]], pixels[place]), int(images.classes[some[place]])))
            if len(found) >= number:
                break
        return found[:number]

    def coder(self, layer: str, maker: str) -> Coder | None:
        """A layer's dictionary, if it was made."""
        path = self.dictionary_file(layer, maker)
        if (layer, maker) not in self.coders and path.exists():
            self.coders[layer, maker] = Coder.read(path, self.given.device)
        return self.coders.get((layer, maker))

    def dictionary_file(self, layer: str, maker: str) -> Path:
        return self.work / "dictionaries" / f"{layer}-{maker.replace(' ', '-')}.safetensors"


def spread(lab: Lab) -> list[str]:
    """This process's layers: those of Figure 5, the last first, then every fourth; a run may be stopped at any time."""
    this, of = lab.given.share
    first = [layer for layer in reversed(PAIRS) if layer in lab.layers]
    rest = [layer for start in (3, 1, 0, 2) for layer in lab.layers[start::4] if layer not in first]
    return [*first, *rest][this::of]


def accuracy(lab: Lab) -> None:
    for name, images in (("known", lab.subject.known), ("held out", lab.subject.judge)):

        def make(images: Any = images) -> dict[str, Any]:
            logits = torch.cat(
                [
                    lab.subject.network.logits(x.to(lab.given.device)).cpu()
                    for _, x in images.batches(64, range(len(images)))
                ]
            )
            hits = logits.topk(min(5, logits.shape[1])).indices == images.classes[:, None]
            present = torch.unique(images.classes)
            among = present[logits[:, present].argmax(1)] == images.classes
            return {
                "images": len(images),
                "classes": len(present),
                "top1": float(hits[:, 0].float().mean()),
                "top5": float(hits.any(1).float().mean()),
                "top1_among_these_classes": float(among.float().mean()),
                "first": images.names[0].split("/")[0],
            }

        lab.row(f"accuracy/{name}", make)


def take_samples(lab: Lab) -> None:
    begin = time.perf_counter()
    batch = 64 if lab.given.device == "cuda" else 8
    lab.samples = collect(
        lab.subject.network,
        lab.subject.learn,
        lab.work / "samples",
        lab.subject.per_image,
        note=lambda text: (
            print(f"        {text}", flush=True) if text.split()[1].endswith(("00", "60", "32")) else None
        ),
        batch=batch,
        share=tuple(lab.given.share),
    )
    if not lab.samples:
        raise SystemExit("Another process still takes samples: call again once it is done.")
    taken = time.perf_counter() - begin
    lab.row(
        "samples",
        lambda: {
            "images": len(lab.subject.learn),
            "per_image": lab.subject.per_image,
            "taken_seconds": round(taken, 1),
            "k": {layer: lab.k(layer) for layer in lab.layers},
        },
    )


def dictionaries(lab: Lab) -> None:
    """Table 1: each by its own means and by the same lasso at the same penalties."""
    for layer in spread(lab):
        for maker in MAKERS:

            def make(layer: str = layer, maker: str = maker) -> dict[str, Any]:
                features, shift, judged = lab.vectors(layer), lab.bias_shift(layer), lab.held_out(layer)
                begin = time.perf_counter()
                coder = fitted(
                    maker, features, shift, lab.k(layer), epochs=lab.given.epochs, batch=lab.given.dictionary_batch
                )
                learned = time.perf_counter() - begin
                u = coder.encode(judged)
                own = trade_off(judged, u, coder.made(u), coder.penalty)
                unit = coder.unit
                first = lab.coder(layer, MAKERS[0]) or coder
                penalties = [lambda_for(judged - shift, first.unit, share) for share in SHARES]
                curve = reconstruction_curve(
                    layer, maker, judged, lambda x, p: decompose(x, unit, p).dense(), unit, shift, penalties
                )
                wanted = curve.points[SHARES.index(USED_SHARE)].used if maker == MAKERS[0] else first.used
                coder.used = float(wanted)
                coder.matched = matched_penalty(judged[:512] - shift, unit, coder.used)
                coder.write(lab.dictionary_file(layer, maker))
                lab.coders[layer, maker] = coder
                return {
                    "layer": layer,
                    "maker": maker,
                    "concepts": len(unit),
                    "channels": unit.shape[1],
                    "samples": len(features),
                    "held_out": len(judged),
                    "learned_seconds": round(learned, 2),
                    "own": own.model_dump(),
                    "lasso": [point.model_dump() for point in curve.points],
                    "matched_to": coder.used,
                }

            lab.row(f"dictionaries/{layer}/{maker}", make)


def _insertion(lab: Lab, layer: str, code: Coded, seen: Seen, output: int) -> tuple[Tensor, Tensor, float]:
    """Insertion and deletion in the order of GIG: (2, M, 2) of probability and of the class being right."""
    onward = between(lab.subject.network, layer, None, seen.pixels)
    found = contributions(to_classes(onward, [output]), code)
    order = torch.sort(found.total[0], descending=True, stable=True).indices
    rows = []
    with torch.no_grad():
        for deletion in (False, True):
            masks = kept(order, POINTS, deletion=deletion)
            outputs = torch.cat(
                [
                    onward(code.u * some[:, None].to(code.u) @ code.vectors + code.shift)
                    for some in masks.split(lab.given.at_once)
                ]
            )
            right = (outputs.argmax(1) == output).to(outputs)
            rows.append(torch.stack([outputs.softmax(1)[:, output], right], 1))
    return torch.stack(rows), found.residual_share, float(found.completeness_error.max())


def curves(lab: Lab) -> None:
    """Figure 4 and Table 2, each dictionary at the same sparsity and by its own means."""
    images = lab.judged(lab.given.images)
    for coding in ("matched", "own"):
        for layer in spread(lab):
            for maker in MAKERS:
                coder = lab.coder(layer, maker)
                if coder is None:
                    continue

                def make(layer: str = layer, coder: Coder = coder, coding: str = coding) -> dict[str, Any]:
                    way = coder.by(coding)
                    total, errors, active, residual = torch.zeros(2, POINTS, 2, dtype=torch.float64), [], 0.0, 0.0
                    for seen, output in images:
                        code = way.code(lab.subject.network.features(seen.pixels[None], layer)[0])
                        found, share, error = _insertion(lab, layer, code, seen, output)
                        total += found.double().cpu() / len(images)
                        errors.append(error)
                        active += len(code.concepts) / len(images)
                        residual += float(share[0]) / len(images)
                    agree = agreement(lab.subject.network, layer, way, [seen for seen, _ in images])
                    return {
                        "layer": layer,
                        "maker": coder.maker,
                        "coding": coding,
                        "images": len(images),
                        "active": active,
                        "residual_share": residual,
                        "probability": {
                            name: {"curve": total[i, :, 0].tolist(), "area": float(area(total[i, :, 0]))}
                            for i, name in enumerate(("insertion", "deletion"))
                        },
                        "accuracy": {
                            name: {"curve": total[i, :, 1].tolist(), "area": float(area(total[i, :, 1]))}
                            for i, name in enumerate(("insertion", "deletion"))
                        },
                        "completeness_error_median": sorted(errors)[len(errors) // 2],
                        "agreement": agree.model_dump(),
                    }

                lab.row(f"curves/{coding}/{layer}/{maker}", make)


def _named(lab: Lab, wanted: Sequence[str]) -> list[str]:
    """Those of the paper, or all where a network has other names."""
    return [layer for layer in wanted if layer in lab.layers] or lab.layers


def orders(lab: Lab) -> None:
    images = lab.judged(lab.given.images)
    for layer in _named(lab, PAIRS):
        coder = lab.coder(layer, MAKERS[0])
        if coder is not None:

            def make(layer: str = layer, coder: Coder = coder) -> dict[str, Any]:
                way = coder.by("matched")
                return class_curves(lab.subject.network, layer, way, images, orders=ORDERS).model_dump()

            lab.row(f"orders/{layer}", make)


def layers_between(lab: Lab) -> None:
    images = lab.judged(lab.given.images)
    for below, above in pairwise(_named(lab, PAIRS)):
        low, high = lab.coder(below, MAKERS[0]), lab.coder(above, MAKERS[0])
        if low is not None and high is not None:
            pair = ((below, low.by("matched")), (above, high.by("matched")))

            def make(pair: Any = pair) -> dict[str, Any]:
                lower, upper = pair
                return layer_curves(lab.subject.network, lower, upper, images, orders=ORDERS[:4]).model_dump()

            lab.row(f"between/{below}/{above}", make)


def sizes(lab: Lab) -> None:
    for layer in _named(lab, SIZES):

        def make(layer: str = layer) -> dict[str, Any]:
            features = lab.vectors(layer)
            most = min(lab.given.most_k, len(features) // 2) / features.shape[1]
            wanted = [size for size in (0.5, 1, 2, 4, 8) if size <= most] or [most / 2, most]  # the latter in a try
            found = compare_sizes(
                layer, features, lab.held_out(layer), lab.bias_shift(layer), sizes=wanted, shares=(0.1, 0.05)
            )
            return {
                "layer": layer,
                "channels": features.shape[1],
                "samples": len(features),
                "sizes": [{"concepts": row.concepts, "points": [p.model_dump() for p in row.points]} for row in found],
            }

        lab.row(f"sizes/{layer}", make)


def sheets(lab: Lab) -> None:
    from sheets import draw_sheets

    for layer in _named(lab, PAIRS):
        for maker in (MAKERS[0], MAKERS[2]):
            coder = lab.coder(layer, maker)
            if coder is not None:
                out = lab.given.out / f"sheet-{lab.subject.name}-{layer}-{maker.replace(' ', '-')}.webp"

                def make(layer: str = layer, coder: Coder = coder, out: Path = out) -> dict[str, Any]:
                    return draw_sheets(lab.subject, layer, lab.samples[layer], coder, out)

                lab.row(f"sheets/{layer}/{maker}", make)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="samples and dictionaries, some GB")
    parser.add_argument("--subject", choices=("resnet50", "vit"), default="resnet50")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--layers", nargs="+")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--limit", type=int, default=10**9, help="images of each set")
    parser.add_argument("--per-image", type=int, help="vectors of each image and layer; 2, or 8 of the ViT")
    parser.add_argument("--most-k", type=int, default=8192)
    parser.add_argument("--images", type=int, default=20, help="held-out images of the curves")
    parser.add_argument("--epochs", type=int, default=30, help="of the autoencoder")
    parser.add_argument("--dictionary-batch", type=int, default=4096)
    parser.add_argument("--at-once", type=int, default=21, help="reconstructions in one pass")
    parser.add_argument("--threads", type=int, default=8, help="that decode images")
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument(
        "--share",
        type=int,
        nargs=2,
        default=(0, 1),
        metavar=("THIS", "OF"),
        help="of the layers, for one of several processes",
    )
    given = parser.parse_args()
    start = time.perf_counter()
    given.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    if given.subject == "resnet50":
        if given.weights is None or given.pack is None:
            parser.error("resnet50 needs --weights FILE.safetensors and --pack DIR (see pack.py)")
        layers = given.layers or RESNET_LAYERS
        each = given.per_image or 2
        subject = resnet_subject(
            given.weights,
            given.pack,
            layers,
            limit=given.limit,
            per_image=each,
            threads=given.threads,
            device=given.device,
        )
    else:
        head = given.work / "vit" / "head.safetensors"
        subject = vit_subject(
            given.layers, head, limit=given.limit, per_image=given.per_image or 8, device=given.device
        )
    lab = Lab(given, subject, start)
    rows = given.out / "rows.jsonl"
    if rows.exists():
        lab.done = {json.loads(line)["key"] for line in rows.read_text("utf-8").splitlines() if line}
    print(
        f"{time.perf_counter() - start:6.0f} s  {subject.name}: {len(subject.learn)} images to learn from, "
        f"{len(subject.judge)} to judge on, {len(subject.network.layers)} layers, {given.device}",
        flush=True,
    )
    work = {
        "accuracy": accuracy, "samples": take_samples, "dictionaries": dictionaries, "curves": curves,
        "orders": orders, "between": layers_between, "sizes": sizes, "sheets": sheets,
    }  # fmt: skip
    if set(given.sections) - {"accuracy", "samples"} and "samples" not in given.sections:
        take_samples(lab)  # reads what is there
    for section in SECTIONS:
        if section in given.sections:
            work[section](lab)
    print(
        f"{time.perf_counter() - start:6.0f} s  {'out of time: call again to go on' if lab.late else 'done'}",
        flush=True,
    )


if __name__ == "__main__":
    main()
