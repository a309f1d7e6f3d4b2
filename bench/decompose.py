"""What taking a network apart costs: clusters, lasso, sharing ratios and GIG, each beside its usual way.

    python bench/decompose.py [--parts clusters lasso srd gig] [--device cuda] [--threads 2] [--repeats 3] [--json FILE]
                              [--vectors 50000] [--channels 1024] [--clusters 8192] [--lasso-rows 10000]
                              [--sklearn-rows 100] [--no-sklearn] [--model resnet50] [--weights FILE.safetensors]

- `clusters`: spherical bisecting k-means, beside scikit-learn's BisectingKMeans on the same unit vectors, with its
  default (the cluster with most inertia is split) and with the largest cluster split. The mean cosine of vectors with
  their cluster's direction is that of both, computed alike.
- `lasso`: all rows, beside scikit-learn on `--sklearn-rows` of them, its time then scaled: `sparse_encode` as it is
  (tolerance 1e-8), and `Lasso` at its default tolerance of 1e-4, both with a Gram matrix whose time is not counted.
  They run on one core; what they would do at best on all of them is said besides.
- `srd`: one relevance pass of an image, pixels and all blocks, beside one plain backward pass, and beside forward and
  backward together.
- `gig`: contributions of all active concepts of a layer to 5 concepts of a later one, 32 steps, beside captum's
  integrated gradients with as many: one call for each concept and target, of which a few are timed and the rest scaled.

Vectors are synthetic: sums of four of many sparse, non-negative directions, with noise. Times are the smallest over the
repeats. They mean something only on an idle machine.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clock import best
from conceptlens.core.files import write_json
from conceptlens.gig.dictionaries.clusters import cluster, segment_sums
from conceptlens.gig.dictionaries.lasso import decompose, lambda_for

PROMISE = {
    "clusters": {"speed_up": 5.0, "seconds_on_gpu": 5.0, "mean_cosine_minus_sklearn": 0.0},
    "lasso": {"speed_up": 5.0, "seconds_on_gpu": 10.0, "objective": 1e-3},
    "srd": {"backward_passes": 10.0},
    "gig": {"speed_up": 10.0, "difference": 1e-4, "completeness_error": 0.01},
}


def vectors(n: int, channels: int, seed: int = 0, of: int = 0) -> Tensor:
    """(n, C): sums of four of 4 C directions. The same `of` means the same directions."""
    fixed = torch.Generator().manual_seed(of)
    directions = torch.randn(4 * channels, channels, generator=fixed).relu().pow(1.5)
    directions /= directions.norm(dim=1, keepdim=True)
    generator = torch.Generator().manual_seed(seed)
    found = torch.empty(n, channels)
    for rows in torch.split(torch.arange(n), 4096):
        chosen = torch.randint(0, len(directions), (len(rows), 4), generator=generator)
        weight = torch.rand(len(rows), 4, 1, generator=generator).square()
        noise = 0.02 * torch.randn(len(rows), channels, generator=generator)
        found[rows] = (directions[chosen] * weight).sum(1) + noise
    return found


def bench_clusters(a: argparse.Namespace) -> dict[str, Any]:
    x = vectors(a.vectors, a.channels).to(a.device)
    seconds, found = best(lambda: cluster(x, a.clusters), a.repeats, a.device)
    result: dict[str, Any] = {
        "vectors": a.vectors,
        "channels": a.channels,
        "clusters": a.clusters,
        "seconds": seconds,
        "mean_cosine": found.mean_cosine,
        "largest": int(found.sizes.max()),
    }
    if not a.no_sklearn:
        from sklearn.cluster import BisectingKMeans

        unit = torch.nn.functional.normalize(x.cpu(), dim=1)
        for strategy in ("biggest_inertia", "largest_cluster"):
            model = BisectingKMeans(a.clusters, random_state=0, bisecting_strategy=strategy)
            theirs, _ = best(lambda model=model: model.fit(unit.numpy()), 1, "cpu")  # type: ignore[misc]
            sums = segment_sums(unit, torch.from_numpy(model.labels_).long(), a.clusters)
            cosine = float(sums.norm(dim=1).double().sum() / len(unit))
            result[strategy] = {
                "seconds": theirs,
                "mean_cosine": cosine,
                "speed_up": theirs / seconds,
                "mean_cosine_minus_sklearn": found.mean_cosine - cosine,
            }
    return result


def bench_lasso(a: argparse.Namespace) -> dict[str, Any]:
    concepts = cluster(vectors(6 * a.clusters, a.channels, seed=1), a.clusters).concepts.to(a.device)
    x = vectors(a.lasso_rows, a.channels, seed=2).to(a.device)
    results = {}
    for share in a.shares:
        lam = lambda_for(x, concepts, share)
        seconds, found = best(lambda lam=lam: decompose(x, concepts, lam), a.repeats, a.device)  # type: ignore[misc]
        error = (x - found.reconstruct(concepts)).norm(dim=1) / x.norm(dim=1)
        entry: dict[str, Any] = {
            "lambda": lam,
            "seconds": seconds,
            "largest_gap": float(found.gap.max()),
            "active": float(found.number.float().mean()),
            "relative_l2": float(error.mean()),
        }
        if not a.no_sklearn:
            entry |= _sklearn_lasso(a, x.cpu(), concepts.cpu(), lam, found.dense()[: a.sklearn_rows].cpu(), seconds)
        results[f"{share} of the largest λ"] = entry
    return {"rows": a.lasso_rows, "concepts": a.clusters, "channels": a.channels, "by_lambda": results}


def _sklearn_lasso(
    a: argparse.Namespace, x: Tensor, concepts: Tensor, lam: float, ours: Tensor, seconds: float
) -> dict[str, Any]:
    from sklearn.decomposition import sparse_encode
    from sklearn.linear_model import Lasso

    rows, atoms = x[: a.sklearn_rows].numpy(), concepts.numpy()
    gram = atoms @ atoms.T

    def objective(u: Tensor) -> Tensor:
        away = x[: a.sklearn_rows].double() - u.double() @ concepts.double()
        return 0.5 * away.square().sum(1) + lam * u.double().abs().sum(1)

    def default() -> Tensor:
        model = Lasso(alpha=lam / x.shape[1], fit_intercept=False, precompute=gram, tol=1e-4, copy_X=False)
        return torch.stack([torch.from_numpy(model.fit(atoms.T, row).coef_.copy()) for row in rows])

    def encode() -> Tensor:
        return torch.from_numpy(sparse_encode(rows, atoms, gram=gram, algorithm="lasso_cd", alpha=lam))

    entry = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it did not converge to 1e-8
        for name, work in (("sparse_encode", encode), ("lasso_tol_1e-4", default)):
            theirs, u = best(work, 1, "cpu")
            scaled = theirs * len(x) / len(rows)
            relative = (objective(ours) - objective(u)) / objective(u)
            entry[name] = {
                "rows": len(rows),
                "seconds_scaled": scaled,
                "speed_up": scaled / seconds,
                "speed_up_if_it_used_all_cores": scaled / seconds / a.threads,
                "objective_above": float(relative.max()),
                "objective_below": float(relative.min()),
            }
    return entry


def _resnet(a: argparse.Namespace) -> torch.nn.Module:
    import timm

    torch.manual_seed(0)
    model = timm.create_model(a.model, pretrained=False)
    if a.weights is not None:
        from safetensors.torch import load_file

        model.load_state_dict(load_file(a.weights))
    return model.to(a.device)


def bench_srd(a: argparse.Namespace) -> dict[str, Any]:
    from conceptlens.gig.attribution.srd import relevance
    from conceptlens.gig.network import open_network

    network = open_network(_resnet(a), image_size=a.image_size)
    image = torch.randn(1, 3, a.image_size, a.image_size, device=a.device)

    def both() -> float:
        given = image.clone().requires_grad_()
        top = network.model(given).amax()
        if a.device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        torch.autograd.grad(top, given)
        if a.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    both()
    relevance(network, image)
    backward = min(both() for _ in range(a.repeats))
    plain, _ = best(both, a.repeats, a.device)
    seconds, found = best(lambda: relevance(network, image), a.repeats, a.device)
    logit = found.logits.amax(1)
    lost = max(float(((part.sum(1) - logit) / logit).abs().max()) for part in found.layers.values())
    return {
        "model": a.model,
        "image_size": a.image_size,
        "seconds": seconds,
        "backward_seconds": backward,
        "forward_and_backward_seconds": plain,
        "backward_passes": seconds / backward,
        "layers": len(found.layers),
        "relevance_lost": lost,
    }


def bench_gig(a: argparse.Namespace) -> dict[str, Any]:
    from captum.attr import IntegratedGradients

    from conceptlens.gig.attribution.integrated_gradients import contributions
    from conceptlens.gig.attribution.targets import between, to_concepts
    from conceptlens.gig.dictionaries.coded import coded
    from conceptlens.gig.network import open_network

    first, last = a.gig_layers
    network = open_network(_resnet(a), [first, last], image_size=a.image_size)
    images = torch.randn(16, 3, a.image_size, a.image_size, device=a.device)
    features = {layer: network.features(images, layer) for layer in (first, last)}
    words = {}
    for layer, found in features.items():
        flat = found.flatten(0, 1)
        words[layer] = cluster(flat, min(512, len(flat) // 6), network.bias_shift(layer))
    clusters = words[first]
    x = features[first][0]
    lam = lambda_for(x - clusters.shift, clusters.concepts, 0.1)
    layer = coded(x, decompose(x - clusters.shift, clusters.concepts, lam).dense(), clusters.concepts, clusters.shift)
    active = len(layer.concepts)
    read = to_concepts(between(network, first, last, images[0]), words[last].concepts[:5])
    seconds, ours = best(lambda: contributions(read, layer, steps=32, at_once=16), a.repeats, a.device)

    def call(target: int) -> Tensor:
        explain = IntegratedGradients(lambda u: read(layer.shift + u @ layer.vectors)[:, target])
        found = explain.attribute(
            layer.u[None], baselines=0, n_steps=32, method="gausslegendre", internal_batch_size=16
        )
        return found[0]  # type: ignore[no-any-return]

    one, _ = best(lambda: call(0), min(a.repeats, 2), a.device)
    theirs = torch.stack([call(target) for target in range(5)])
    difference = (ours.at - theirs).abs().max() / theirs.abs().max()
    return {
        "model": a.model,
        "layers": [first, last],
        "active_concepts": active,
        "targets": 5,
        "steps": 32,
        "seconds": seconds,
        "captum_call_seconds": one,
        "captum_calls": active * 5,
        "speed_up": one * active * 5 / seconds,
        "difference": float(difference),
        "completeness_error": float(ours.completeness_error.max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["clusters", "lasso", "srd", "gig"], choices=list(PROMISE))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--vectors", type=int, default=50_000)
    parser.add_argument("--channels", type=int, default=1024)
    parser.add_argument("--clusters", type=int, default=8192)
    parser.add_argument("--lasso-rows", type=int, default=10_000)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.3], help="λ, as shares of the largest")
    parser.add_argument("--sklearn-rows", type=int, default=100)
    parser.add_argument("--no-sklearn", action="store_true", help="on a GPU machine: time ours alone")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--weights", type=Path, default=None)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--gig-layers", nargs=2, default=["layer3.5", "layer4.2"])
    parser.add_argument("--json", type=Path, default=None)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    work = {"clusters": bench_clusters, "lasso": bench_lasso, "srd": bench_srd, "gig": bench_gig}
    device = torch.cuda.get_device_name() if a.device == "cuda" else f"cpu, {a.threads} threads"
    results: dict[str, Any] = {"device": device, "torch": torch.__version__, "promise": PROMISE}
    for part in a.parts:
        results[part] = work[part](a)
        print(part, results[part], flush=True)
        if a.json is not None:  # part by part: a long run that is stopped keeps what it has
            write_json(a.json, results)


if __name__ == "__main__":
    main()
