"""PF-CBM: an epoch over stored tokens against copying them, its attention against torch's own, pointing on drawings.

    python bench/pf_cbm.py [epoch] [attention] [shapes] [--device cuda] [--images 6000] [--batch 256] [--patches 1024]
                           [--width 768] [--repeats 5] [--threads 2] [--json FILE]

`epoch` trains one epoch from tokens in bfloat16 in pinned host memory, as a token store is read ahead, and copies
the same tokens in the same run without using them. `attention` takes part attention with gate and prior, forward and
backward, against torch's scaled_dot_product_attention with a ready bias: on ready keys and values (`sdpa`), and with
their projections, which ours does not need (`projected`). `shapes` trains the recipe shapes/pf-cbm and asks whether its
maps point at the parts. Times are the smallest over the repeats.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.bottleneck.foreground_gate import log_gate
from conceptlens.bottleneck.gaussian_prior import GaussianPrior, patch_centres
from conceptlens.bottleneck.part_attention import PartAttention
from conceptlens.bottleneck.setup import Setup
from conceptlens.concepts import ConceptSet
from conceptlens.encoders.contract import Tokens
from conceptlens.files import write_json
from conceptlens.models.pf_cbm import PFCBM
from conceptlens.models.places import PlaceTargets
from conceptlens.recipe import LossConfig
from conceptlens.training.losses import SupervisedLoss, Targets
from rank import machine

PARTS, CONCEPTS, CLASSES = 12, "cub-312", 200


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def smallest(work: Callable[[], object], repeats: int, device: str) -> float:
    """Wall time in seconds, after one run to warm up."""
    times = []
    for _ in range(repeats + 1):
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def stream(tokens: Tensor, batch: int, device: str) -> Iterator[Tensor]:
    """Batches on the device, the next one copied while this one is in use."""
    if device != "cuda":
        yield from tokens.split(batch)
        return
    copies = torch.cuda.Stream()
    held = [torch.empty(batch, *tokens.shape[1:], dtype=tokens.dtype, device=device) for _ in range(2)]
    pieces = [piece for piece in tokens.split(batch) if len(piece) == batch]
    copied = [torch.cuda.Event() for _ in held]
    used = [torch.cuda.Event() for _ in held]

    def copy(number: int) -> None:
        slot = number % 2
        with torch.cuda.stream(copies):
            if number >= 2:
                copies.wait_event(used[slot])
            held[slot].copy_(pieces[number], non_blocking=True)
            copied[slot].record(copies)

    copy(0)
    for number in range(len(pieces)):
        if number + 1 < len(pieces):
            copy(number + 1)
        slot = number % 2
        torch.cuda.current_stream().wait_event(copied[slot])
        yield held[slot]
        used[slot].record()


def epoch(args: argparse.Namespace) -> dict[str, Any]:
    """One epoch of the joint stage, with gate, prior, alignment and entropy, beside copying alone."""
    side = round(args.patches**0.5)
    grid = (side, args.patches // side)
    concepts = ConceptSet.load(CONCEPTS)
    torch.manual_seed(0)
    model = PFCBM(Setup(concepts, torch.zeros(len(concepts), 0), args.width, CLASSES), keypoints="image").to(
        args.device
    )
    assert model.grounding.prior is not None
    model.grounding.prior.start(torch.rand(PARTS, 2, device=args.device) * side)
    tokens = torch.empty(args.images, args.patches, args.width, dtype=torch.bfloat16, pin_memory=args.device == "cuda")
    for piece in tokens.split(512):
        piece.copy_(torch.randn(piece.shape))
    b, k = args.batch, len(concepts)
    made = {"device": args.device}
    targets = Targets(torch.randint(CLASSES, (b,), **made), torch.randint(2, (b, k), **made), torch.ones(b, k, **made))
    places = PlaceTargets(
        torch.rand(b, args.patches, **made),
        torch.ones(b, dtype=torch.bool, **made),
        torch.rand(b, PARTS, 2, **made) * side,
        torch.rand(b, PARTS, **made) > 0.2,
    )
    loss = SupervisedLoss(LossConfig(), concepts, "single", torch.ones(CLASSES, **made))
    counts = loss.count(targets)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-5, fused=True)

    def step(patches: Tensor) -> Tensor:
        with torch.autocast(args.device, torch.bfloat16):
            output = model.teach_places(model(Tokens(patches, grid)), places)
        return torch.stack(list(loss(output, targets, counts).values())).sum()

    run = torch.compile(step) if args.device == "cuda" else step

    def train() -> None:
        for patches in stream(tokens, b, args.device):
            if len(patches) < b:
                break
            run(patches).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    def copy() -> None:
        for patches in stream(tokens, b, args.device):
            patches[:1].float()

    train()
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    training, copying = smallest(train, args.repeats, args.device), smallest(copy, args.repeats, args.device)
    peak = torch.cuda.max_memory_allocated() / 2**30 if args.device == "cuda" else None
    gigabytes = tokens.nbytes / 2**30
    return {
        "seconds": training,
        "copy_seconds": copying,
        "ratio": training / copying,
        "peak_gb": peak,
        "tokens_gb": gigabytes,
    }


def attention(args: argparse.Namespace) -> dict[str, Any]:
    """Forward and backward of one batch."""
    side = round(args.patches**0.5)
    kind = torch.bfloat16 if args.device == "cuda" else torch.float32
    torch.manual_seed(0)
    part, prior = PartAttention(PARTS, args.width).to(args.device), GaussianPrior(PARTS).to(args.device)
    prior.start(torch.rand(PARTS, 2, device=args.device) * side)
    patches = torch.randn(args.batch, args.patches, args.width, device=args.device, dtype=kind)
    gate = torch.randn(args.batch, args.patches, device=args.device, requires_grad=True)
    places = patch_centres((side, args.patches // side), patches)
    inner = part.key.out_features
    shape = (args.batch, 1, args.patches, inner)
    keys, values = (torch.randn(shape, device=args.device, dtype=kind, requires_grad=True) for _ in range(2))
    queries = torch.randn(args.batch, 1, PARTS, inner, device=args.device, dtype=kind, requires_grad=True)
    ready = torch.randn(args.batch, 1, PARTS, args.patches, device=args.device, dtype=kind)
    towards = torch.randn(args.batch, PARTS, inner, device=args.device)

    def ours() -> Tensor:
        slots, _ = part(patches, log_gate(gate)[:, None] + prior(places))
        return (slots * towards).sum()

    def sdpa() -> Tensor:
        return (F.scaled_dot_product_attention(queries, keys, values, attn_mask=ready)[:, 0] * towards).sum()

    def projected() -> Tensor:
        asked = part.query(part.queries).expand(args.batch, -1, -1)
        found = F.scaled_dot_product_attention(asked, part.key(patches), part.value(patches), attn_mask=ready[:, 0])
        return (part.norm(found) * towards).sum()

    found = {}
    for name, forward in (("ours", ours), ("sdpa", sdpa), ("projected", projected)):
        run = torch.compile(forward) if args.device == "cuda" and name == "ours" else forward

        def work(run: Callable[[], Tensor] = run) -> None:
            with torch.autocast(args.device, torch.bfloat16, enabled=args.device == "cuda"):
                total = run()
            total.backward()

        found[name] = smallest(work, args.repeats, args.device)
    return {**found, "ratio_sdpa": found["ours"] / found["sdpa"], "ratio_projected": found["ours"] / found["projected"]}


def shapes(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of encoding and training, and whether maps point at parts of test images."""
    import conceptlens as cl
    from conceptlens.api import localise
    from conceptlens.recipe.parse import load_recipe, recipe_tree

    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        words = ["--out", f"{folder}/run", "--data.shapes.n", "800", "--metrics.bootstrap", "0"]
        words += ["--metrics.rank_images", "0", "--training.threads", str(args.threads)]
        recipe = load_recipe("shapes/pf-cbm", words)
        start, work = time.perf_counter(), time.process_time()
        run = cl.train(recipe_tree(recipe), quiet=True)
        taken, work = time.perf_counter() - start, time.process_time() - work
        part = localise(run.path).result["targets"]["part"]["maps"]
    kept = ("pointing_cells", "pointing_patch", "pointing_tenth", "distance_patches", "energy")
    return {
        "seconds": taken,
        "cpu_seconds": work,  # of all threads together
        **{name: {key: part[name][key]["value"] for key in kept} for name in ("own", "blind", "blob", "uniform")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=["epoch", "attention", "shapes"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, value in (
        ("images", 6000),
        ("batch", 256),
        ("patches", 1024),
        ("width", 768),
        ("repeats", 5),
        ("threads", 2),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(args.device)}
    for name in args.what:
        found[name] = {"epoch": epoch, "attention": attention, "shapes": shapes}[name](args)
        print(name, found[name], flush=True)
    if args.json:
        write_json(args.json, found)


if __name__ == "__main__":
    main()
