"""PF-CBM: an epoch over stored tokens against copying them, its attention against torch's own, pointing on drawings.

    python bench/pf_cbm.py [epoch] [attention] [shapes] [--device cuda] [--images 6000] [--batch 256] [--patches 1024]
                           [--width 768] [--repeats 5] [--threads 2] [--no-compile] [--json FILE]

`epoch` trains one epoch from tokens in bfloat16 in pinned host memory, as a token store is read ahead, and copies
the same tokens in the same run without using them; as it is, and compiled. `attention` takes part attention with gate
and prior, forward and backward, against torch's scaled_dot_product_attention with a ready bias: on ready keys and
values (`sdpa`; `sdpa_learning_bias` if the bias needs a gradient, as gate and prior do), and with their projections,
which ours does not need (`projected`). Each is timed as it is and, on a GPU, as a CUDA graph (`…_graph`), where only
the kernels count. `shapes` trains the recipe shapes/pf-cbm and asks whether its maps point at the parts. Times are the
smallest over the repeats; every number is printed, and written to the file, as soon as it is known.
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

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import write_json
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.pf_cbm.pf_cbm import PFCBM
from conceptlens.nn.grounding.foreground_gate import log_gate
from conceptlens.nn.grounding.gaussian_prior import GaussianPrior, patch_centers
from conceptlens.nn.grounding.part_attention import PartAttention
from conceptlens.nn.grounding.places import PlaceTargets
from conceptlens.nn.setup import Setup
from conceptlens.recipes import LossConfig
from conceptlens.training.optimization.compiled import Compiled
from conceptlens.training.optimization.losses import SupervisedLoss, Targets
from rank import machine

PARTS, CONCEPTS, CLASSES = 12, "cub-312", 200
BLOCK = 256  # images of random tokens that are drawn; the others repeat them
Row = Callable[..., None]  # prints numbers and writes them down


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


def host_tokens(args: argparse.Namespace) -> Tensor:
    """Random tokens (N, L, D) in host memory, pinned where there is a GPU; drawn there, which is faster by far."""
    tokens = torch.empty(args.images, args.patches, args.width, dtype=torch.bfloat16, pin_memory=args.device == "cuda")
    block = torch.randn(min(BLOCK, args.images), args.patches, args.width, device=args.device, dtype=torch.bfloat16)
    for start in range(0, len(tokens), len(block)):
        piece = tokens[start : start + len(block)]
        piece.copy_(block[: len(piece)])
    return tokens


def stream(tokens: Tensor, batch: int, device: str) -> Iterator[Tensor]:
    """Whole batches on the device, the next one copied while this one is in use."""
    pieces = [tokens[start : start + batch] for start in range(0, len(tokens) - batch + 1, batch)]
    if device != "cuda":
        yield from pieces
        return
    copies = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    held = [torch.empty(batch, *tokens.shape[1:], dtype=tokens.dtype, device=device) for _ in range(2)]
    copied = [torch.cuda.Event() for _ in held]  # type: ignore[no-untyped-call]
    used = [torch.cuda.Event() for _ in held]  # type: ignore[no-untyped-call]

    def copy(number: int) -> None:
        slot = number % 2
        with torch.cuda.stream(copies):
            if number >= 2:
                copies.wait_event(used[slot])
            held[slot].copy_(pieces[number], non_blocking=True)
            copied[slot].record(copies)

    copies.wait_stream(torch.cuda.current_stream())  # memory that earlier work may still read
    copy(0)
    for number in range(len(pieces)):
        if number + 1 < len(pieces):
            copy(number + 1)
        slot = number % 2
        torch.cuda.current_stream().wait_event(copied[slot])
        yield held[slot]
        used[slot].record()


def epoch(args: argparse.Namespace, row: Row) -> None:
    """One epoch of the joint stage, with gate, prior, alignment and entropy, beside copying alone."""
    device, b, side = args.device, args.batch, round(args.patches**0.5)
    grid = (side, args.patches // side)
    concepts = ConceptSet.load(CONCEPTS)
    torch.manual_seed(0)
    model = PFCBM(Setup(concepts, torch.zeros(len(concepts), 0), args.width, CLASSES), keypoints="image").to(device)
    assert model.grounding.prior is not None
    model.grounding.prior.start(torch.rand(PARTS, 2, device=device) * side)
    start = time.perf_counter()
    tokens = host_tokens(args)
    wait(device)
    row(tokens_gb=tokens.nbytes / 2**30, fill_seconds=time.perf_counter() - start)
    k = len(concepts)
    targets = Targets(
        torch.randint(CLASSES, (b,), device=device),
        torch.randint(2, (b, k), device=device),
        torch.ones(b, k, device=device),
    )
    places = PlaceTargets(
        torch.rand(b, args.patches, device=device),
        torch.ones(b, dtype=torch.bool, device=device),
        torch.rand(b, PARTS, 2, device=device) * side,
        torch.rand(b, PARTS, device=device) > 0.2,
    )
    loss = SupervisedLoss(LossConfig(), concepts, "single", torch.ones(CLASSES, device=device))
    counts = loss.count(targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5, fused=True)

    def step(patches: Tensor) -> Tensor:
        with torch.autocast(device, torch.bfloat16):
            output = model.teach_places(model(Tokens(patches, grid)), places)
        return torch.stack(list(loss(output, targets, counts).values())).sum()

    def train(run: Callable[[Tensor], Tensor]) -> None:
        for patches in stream(tokens, b, device):
            run(patches).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def copy() -> None:
        for patches in stream(tokens, b, device):
            patches[:1].float()

    copying = smallest(copy, args.repeats, device)
    row(copy_seconds=copying)
    ways: dict[str, Callable[[Tensor], Tensor]] = {"": step}
    if device == "cuda" and args.compile:
        ways["compiled_"] = Compiled(step, graphs=True, must=False, note=print)
    for name, run in ways.items():
        start = time.perf_counter()
        train(run)
        wait(device)
        row(**{f"{name}first_seconds": time.perf_counter() - start})
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        training = smallest(lambda run=run: train(run), args.repeats, device)  # type: ignore[misc]
        peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else None
        row(**{f"{name}seconds": training, f"{name}ratio": training / copying, f"{name}peak_gb": peak})


def graph_of(work: Callable[[], object]) -> Callable[[], object]:
    """The kernels of some work, to be started all at once."""
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def attention(args: argparse.Namespace, row: Row) -> None:
    """Forward and backward of one batch."""
    device, side = args.device, round(args.patches**0.5)
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    torch.manual_seed(0)
    part, prior = PartAttention(PARTS, args.width).to(device), GaussianPrior(PARTS).to(device)
    prior.start(torch.rand(PARTS, 2, device=device) * side)
    patches = torch.randn(args.batch, args.patches, args.width, device=device, dtype=kind)
    gate = torch.randn(args.batch, args.patches, device=device, requires_grad=True)
    places = patch_centers((side, args.patches // side), patches)
    inner = part.key.out_features
    shape = (args.batch, 1, args.patches, inner)
    keys, values = (torch.randn(shape, device=device, dtype=kind, requires_grad=True) for _ in range(2))
    queries = torch.randn(args.batch, 1, PARTS, inner, device=device, dtype=kind, requires_grad=True)
    ready = torch.randn(args.batch, 1, PARTS, args.patches, device=device, dtype=kind)
    learning = ready.clone().requires_grad_()
    towards = torch.randn(args.batch, PARTS, inner, device=device)
    leaves = [gate, keys, values, queries, learning, *part.parameters(), *prior.parameters()]

    def ours() -> Tensor:
        slots, _ = part(patches, log_gate(gate)[:, None] + prior(places))
        return torch.sum(slots * towards)

    def sdpa(bias: Tensor = ready) -> Tensor:
        return (F.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)[:, 0] * towards).sum()

    def projected() -> Tensor:
        asked = part.query(part.queries).expand(args.batch, -1, -1)
        found = F.scaled_dot_product_attention(asked, part.key(patches), part.value(patches), attn_mask=ready[:, 0])
        return torch.sum(part.norm(found) * towards)

    ways: dict[str, Callable[[], Tensor]] = {
        "ours": ours,
        "sdpa": sdpa,
        "sdpa_learning_bias": lambda: sdpa(learning),
        "projected": projected,
    }
    found: dict[str, float] = {}

    def timed(name: str, forward: Callable[[], Tensor], against: str, *, graph: bool = False) -> None:
        def work() -> None:
            for leaf in leaves:
                leaf.grad = None
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                total = forward()
            total.backward()  # type: ignore[no-untyped-call]

        try:
            found[name] = smallest(graph_of(work) if graph else work, 4 * args.repeats, device)
        except RuntimeError as error:
            row(**{name: f"failed: {error}"[:200]})
            return
        row(**{name: found[name]})
        if against in found and against != name:
            row(**{f"{against}_over_{name}": found[against] / found[name]})

    for name, forward in ways.items():
        timed(name, forward, "ours")
    if device == "cuda":
        for name, forward in ways.items():
            timed(f"{name}_graph", forward, "ours_graph", graph=True)
        if args.compile:
            timed("ours_compiled", torch.compile(ours, dynamic=False), "sdpa")
            if "ours_compiled" in found:
                row(ours_compiled_over_sdpa=found["ours_compiled"] / found["sdpa"])


def shapes(args: argparse.Namespace, row: Row) -> None:
    """Seconds of encoding and training, and whether maps point at parts of test images."""
    import conceptlens as cl
    from conceptlens.api import localize
    from conceptlens.recipes.parse import load_recipe, recipe_tree

    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        words = ["--out", f"{folder}/run", "--data.shapes.n", "800", "--metrics.bootstrap", "0"]
        words += ["--metrics.rank_images", "0", "--training.threads", str(args.threads)]
        recipe = load_recipe("shapes/pf-cbm", words)
        start, work = time.perf_counter(), time.process_time()
        run = cl.train(recipe_tree(recipe), quiet=True)
        taken, work = time.perf_counter() - start, time.process_time() - work
        part = localize(run).targets["part"]["maps"]
    kept = ("pointing_cells", "pointing_patch", "pointing_tenth", "distance_patches", "energy")
    row(
        seconds=taken,
        cpu_seconds=work,  # of all threads together
        **{
            name: {key: part[name][key]["value"] for key in kept}
            for name in ("own", "mean_region", "center_prior", "uniform")
        },
    )


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
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave out what takes a minute")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found: dict[str, Any] = {"machine": machine(args.device)}

    def row(**numbers: Any) -> None:
        found.setdefault(what, {}).update(numbers)
        print(
            what,
            *(
                f"{name} {value:.5g}" if isinstance(value, float) else f"{name} {value}"
                for name, value in numbers.items()
            ),
            flush=True,
        )
        if args.json:
            write_json(args.json, found)

    for what in args.what:
        {"epoch": epoch, "attention": attention, "shapes": shapes}[what](args, row)


if __name__ == "__main__":
    main()
