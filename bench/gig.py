"""GIG of all active concepts of a layer to several targets, beside one integrated-gradients call of captum per concept.

    python bench/gig.py --json FILE [--device cuda] [--layer layer3.5] [--model resnet50] [--measured 4]

A ResNet-50 of timm at 224 pixels with fresh weights, whose batch norms have seen some noise: speed and equality do not
depend on what it has learned. Concepts are made up; each position uses a few. captum is timed for a few concepts
and all targets, then multiplied by the number of active concepts (`captum_calls_timed` says how many were run). Beside
it, the one call of captum that gives all concepts at once for each target: what an expert would write.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import timm
import torch
from captum.attr import IntegratedGradients
from torch import Tensor

from conceptlens.core.files import write_json
from conceptlens.gig.attribution.integrated_gradients import contributions
from conceptlens.gig.attribution.targets import between, to_classes
from conceptlens.gig.dictionaries.coded import Coded, coded
from conceptlens.gig.network import open_network
from rank import machine


def seconds(work: Callable[[], object], device: str, repeats: int = 1) -> float:
    """Smallest wall time, after one run to warm up where it is repeated."""
    best = float("inf")
    for repeat in range(repeats + (repeats > 1)):
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start) if repeat or repeats == 1 else best
    return best


def coded_layer(features: Tensor, shift: Tensor, k: int, active: int, seed: int = 0) -> Coded:
    """A layer in made-up concepts: each position takes the two that are nearest of `active` used ones."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(k, features.shape[1], generator=generator).to(features)
    used = torch.randperm(k, generator=generator)[:active].to(features.device)
    centered = features - shift
    scores = centered @ torch.nn.functional.normalize(vectors[used], dim=1).T
    best = scores.topk(2, dim=1)
    u = torch.zeros(len(features), k, device=features.device, dtype=features.dtype)
    u.scatter_(1, used[best.indices], best.values / vectors.norm(dim=1)[used[best.indices]])
    return coded(features, u, vectors, shift)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--layer", default="layer3.5")
    parser.add_argument("--targets", type=int, default=5)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--active", type=int, default=64, help="concepts that the image may use")
    parser.add_argument("--measured", type=int, default=4, help="concepts for which captum is timed and compared")
    args = parser.parse_args()

    torch.manual_seed(0)
    model = timm.create_model(args.model, pretrained=False).to(args.device)
    image = torch.randn(3, args.size, args.size, device=args.device)
    with torch.no_grad():  # running means and variances of this network, so that logits do not explode
        model.train()
        for _ in range(3):
            model(torch.randn(8, 3, args.size, args.size, device=args.device))
    network = open_network(model, [args.layer], image_size=args.size)
    features = network.features(image[None], args.layer)[0]
    layer = coded_layer(features, network.bias_shift(args.layer), 8 * features.shape[1], args.active)
    read = to_classes(between(network, args.layer, None, image), list(range(args.targets)))
    n = len(layer.concepts)

    ours = contributions(read, layer, steps=args.steps)
    ours_s = seconds(lambda: contributions(read, layer, steps=args.steps), args.device, repeats=2)

    worst, calls, captum_s = 0.0, 0, 0.0
    scale = float(ours.at.abs().max())
    for place in range(0, n, max(1, n // args.measured)):
        rest = [other for other in range(n) if other != place]

        def forward(one: Tensor, others: Tensor, place: int = place, rest: list[int] = rest) -> Tensor:
            return read(layer.shift + one[..., None] * layer.vectors[place] + others @ layer.vectors[rest])

        explainer = IntegratedGradients(forward)
        inputs = (layer.u[None, :, place], layer.u[None][..., rest])
        for target in range(args.targets):

            def one_call(inputs: Any = inputs, target: int = target, explainer: Any = explainer) -> Tensor:
                options = {"n_steps": args.steps, "internal_batch_size": 16}
                found: Tensor = explainer.attribute(inputs, target=target, **options)[0]
                return found

            start = time.perf_counter()
            alone = one_call()
            if args.device == "cuda":
                torch.cuda.synchronize()
            captum_s += time.perf_counter() - start
            calls += 1
            worst = max(worst, float((ours.at[target, :, place] - alone[0]).abs().max()) / scale)

    together = IntegratedGradients(lambda u: read(u @ layer.vectors + layer.shift))

    def all_at_once() -> None:
        for target in range(args.targets):
            together.attribute(layer.u[None], target=target, n_steps=args.steps, internal_batch_size=16)

    together_s = seconds(all_at_once, args.device)
    every = captum_s / calls * n * args.targets
    adaptive = contributions(read, layer)
    result = {
        "machine": machine(args.device),
        "device": args.device,
        "model": args.model,
        "layer": args.layer,
        "positions": len(features),
        "channels": features.shape[1],
        "concepts": 8 * features.shape[1],
        "active": n,
        "targets": args.targets,
        "steps": args.steps,
        "ours_s": ours_s,
        "captum_per_concept_s": every,
        "captum_calls_timed": calls,
        "captum_all_concepts_s": together_s,
        "speed_up": every / ours_s,
        "speed_up_over_all_concepts_at_once": together_s / ours_s,
        "largest_difference": worst,
        "difference_is": "largest absolute difference over the largest absolute contribution",
        "completeness_error": ours.completeness_error.tolist(),
        "completeness_error_adaptive": adaptive.completeness_error.tolist(),
        "steps_adaptive": adaptive.steps.tolist(),
    }
    for name, value in result.items():
        print(f"{name}: {value}")
    if args.json:
        write_json(args.json, result)


if __name__ == "__main__":
    main()
