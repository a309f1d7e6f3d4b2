"""How long the audit of a codebook takes on 10,000 images with stored tokens: 196 patches, 31 concepts and codes.

python bench/audit.py [--images 10000] [--width 384] [--threads 2] [--folder /tmp] [--json FILE]

Writes a token store of random clusters (1.5 GB at width 384) to a temporary folder, reads it once, and measures seconds
of each part and the process's own memory (without pages of the store that the system keeps) after a quarter and at the
end. On another machine than Linux memory is not measured.
"""

import argparse
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import write_json
from conceptlens.data.dataset import DataSource, Examples
from conceptlens.data.loading.loader import PixelReader
from conceptlens.encoders.contract import Cut, Encoder, Tokens
from conceptlens.encoders.store.reader import StoredReader
from conceptlens.encoders.store.store import Key, TokenStore
from conceptlens.evaluation.codebook.codebook import audit_codebook
from conceptlens.evaluation.codebook.collect import Collected, Plan, collect_chunk, merge
from conceptlens.evaluation.codebook.stream import TokenStream
from conceptlens.evaluation.ood.codebook_distance import fit_distribution
from conceptlens.evaluation.subgroups.failures import measure_failures
from conceptlens.methods.contract import Pipeline
from conceptlens.methods.ivq_cbm import IVQCBM
from conceptlens.nn.quantization.quantization import ImplicitVQ
from conceptlens.nn.setup import Setup
from conceptlens.runs.predictions import StoredPredictions

WANTED = 60.0  # seconds, on two cores
SIDE = 14
SIZES = (4, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2)  # values of eleven groups, 31 in all
CLASSES = 5


class Stored(Encoder):
    """Tokens as they are stored, and nothing before them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.name, self.width, self.image_size = "stored", width, 224
        self.mean = self.std = (0.5, 0.5, 0.5)
        self.cut = Cut(0, (SIDE, SIDE))
        self.anchor = nn.Parameter(torch.zeros(1))

    def tokens(self, images: Tensor) -> Tokens:
        raise AssertionError("only stored tokens are read")

    def blocks(self) -> list[nn.Module]:
        return []

    def grid(self, height: int, width: int) -> tuple[int, int]:
        return SIDE, SIDE

    def after(self, entering: Tensor, cut: Cut) -> Tokens:
        return Tokens(entering, cut.grid)


class Labels(DataSource):
    """Labels without images."""

    def __init__(self, n: int, concepts: ConceptSet) -> None:
        draw = np.random.default_rng(0)
        truth = np.concatenate([np.eye(size)[draw.integers(size, size=n)] for size in SIZES], axis=1)
        self.name, self.task, self.classes = "bench", "single", concepts.classes
        self.examples = Examples(
            tuple(f"{place}.png" for place in range(n)), draw.integers(CLASSES, size=n), truth.astype(np.int8)
        )

    def read(self, index: int) -> Image.Image:
        return Image.new("RGB", (224, 224))


def vocabulary() -> ConceptSet:
    groups = {f"group {g}": {"values": [f"value {v}" for v in range(size)]} for g, size in enumerate(SIZES)}
    classes = [f"class {c}" for c in range(CLASSES)]
    return ConceptSet._build({"classes": classes, "groups": groups}, where="bench", name="bench")


def own_memory() -> float | None:
    """Megabytes that belong to this process alone."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = [line for line in status.read_text("utf-8").splitlines() if line.startswith("RssAnon")]
    return int(lines[0].split()[1]) / 1024 if lines else None


def fill(store: TokenStore, width: int) -> None:
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(40, width, generator=generator)
    store.begin()
    for shard in range(store.shards):
        rows = len(store.rows_of(shard))
        chosen = torch.randint(40, (rows, SIDE**2), generator=generator)
        store.write(shard, centers[chosen] + 0.5 * torch.randn(rows, SIDE**2, width, generator=generator))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    concepts = vocabulary()
    source = Labels(args.images, concepts)
    text = torch.nn.functional.normalize(torch.randn(len(concepts), 64), dim=-1)
    setup = Setup(concepts, text, args.width, CLASSES)
    pipeline = Pipeline(Stored(args.width), ImplicitVQ(setup), IVQCBM(setup)).eval()
    seconds: dict[str, float] = {}
    memory: list[float | None] = []
    with tempfile.TemporaryDirectory(dir=args.folder) as place:
        key = Key("stored", "", 0, 224, "", "", "", args.images, "fp32", "float16")
        store = TokenStore(Path(place) / "store", key, SIDE**2, args.width, (SIDE, SIDE))
        fill(store, args.width)
        stream = TokenStream(pipeline, StoredReader(store), PixelReader(source, 224, cache_mb=0), "a store")
        few = np.arange(256)
        sample = torch.cat([tokens.patches for _, tokens in stream.tokens(few)]).flatten(0, 1)
        with torch.no_grad():
            pipeline.regularizer.prepare([Tokens(sample[None], (1, len(sample)))])
        codebook: Any = pipeline.regularizer.codebook
        usual = fit_distribution(lambda: (tokens.patches for _, tokens in stream.tokens(few)), codebook, len(concepts))

        def timed(name: str, images: int) -> Collected:
            started = time.perf_counter()
            order, none = np.arange(images), few[:0]
            plan = Plan.of(order, usual, source, shown=few[:9], calibration=none, codebook=True)
            chunks = (collect_chunk(stream, plan, chunk, codebook) for chunk in range(plan.all_chunks))
            found, _ = merge(stream, plan, chunks, source)
            seconds[name] = time.perf_counter() - started
            memory.append(own_memory())
            return found

        timed("pass over a quarter", args.images // 4)
        found = timed("pass", args.images)
        started = time.perf_counter()
        audit_codebook(found, pipeline, concepts, source, [])
        seconds["prototypes"] = time.perf_counter() - started
    seconds["subgroups"] = groups(source, concepts)
    total = sum(value for name, value in seconds.items() if name != "pass over a quarter")
    for name, value in seconds.items():
        print(f"{name}: {value:.1f} s")
    print(f"together: {total:.1f} s; wanted: at most {WANTED:.0f} s")
    print(f"own memory after a quarter and at the end: {memory} MB")
    if args.json:
        machine = {"system": platform.platform(), "torch": torch.__version__, "threads": args.threads}
        shape = {"images": args.images, "patches": SIDE**2, "width": args.width, "concepts": len(concepts)}
        write_json(
            args.json,
            {"machine": machine, **shape, "wanted": WANTED, "seconds": seconds, "total": total, "memory_mb": memory},
        )


def groups(source: DataSource, concepts: ConceptSet) -> float:
    """Seconds that three columns of metadata take."""
    draw, n = np.random.default_rng(1), len(source)
    scores = (4.0 * source.examples.concepts - 2 + draw.normal(0, 2, source.examples.concepts.shape)).astype(np.float32)
    logits = (3 * np.eye(CLASSES)[source.examples.labels] + draw.normal(0, 1, (n, CLASSES))).astype(np.float32)
    ids = source.examples.ids
    stored = StoredPredictions(
        ids, ids, source.classes, "single", logits, scores, source.examples.labels, source.examples.concepts, (0.5,) * 5
    )
    metadata = {
        "age": [str(age) for age in draw.integers(20, 90, n)],
        "sex": draw.choice(["f", "m"], n).tolist(),
        "site": draw.choice(list("abcdefgh"), n).tolist(),
    }
    started = time.perf_counter()
    measure_failures(stored, stored, concepts, metadata)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
