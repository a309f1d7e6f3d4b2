"""What the parts of `bench/gpu.py` share: sizes, images of noise, clocks, and the operations of an encoder."""

import gc
import statistics
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.data.dataset import DataSource, Examples
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.loading.resident import ResidentReader


@dataclass(frozen=True)
class Sizes:
    """What is measured."""

    encoder: str = "vit_base_patch16_224"
    pixels: int = 224
    builtin_pixels: int = 112
    large: int = 256
    small: int = 32
    square: int = 8192
    steps: int = 25  # an epoch at the large batch; a small one has twice as many
    rank_every: int = 50


TINY = Sizes("test_vit", 32, 32, large=8, small=4, square=64, steps=2, rank_every=4)


def vit_flops(tokens: int, patches: int, width: int, depth: int, hidden: int, patch_inputs: int) -> float:
    """Floating-point operations of the matrix products of a ViT's forward pass on one image; a product counts two.

    A block: q, k, v and the output 8 N D², scores and their sums 4 N² D, the MLP 4 N D H.
    """
    block = 8 * tokens * width**2 + 4 * tokens**2 * width + 4 * tokens * width * hidden
    return float(depth * block + 2 * patches * patch_inputs * width)


def encoder_flops(encoder: Any, pixels: int) -> float:
    """Of one of our encoders, forward, for one image."""
    height, width = encoder.grid(pixels, pixels)
    patches = height * width
    if hasattr(encoder, "model"):  # timm
        vit = encoder.model
        side, hidden = vit.patch_embed.patch_size[0], vit.blocks[0].mlp.fc1.out_features
        tokens = patches + vit.num_prefix_tokens
        return vit_flops(tokens, patches, vit.embed_dim, len(vit.blocks), hidden, 3 * side**2)
    hidden, tokens = encoder.trunk[0].mlp[0].out_features, patches + 1 + encoder.registers.shape[1]
    trunk = vit_flops(tokens, 0, encoder.width, len(encoder.trunk), hidden, 0)
    stem, side = 0.0, pixels
    for layer in encoder.stem.layers:
        if isinstance(layer, torch.nn.Conv2d):
            side = -(-side // layer.stride[0])
            stem += 2 * side**2 * layer.weight.numel()
    return trunk + stem


class Noise(DataSource):
    """Images of noise in one size, with labels for every concept."""

    name, task = "noise", "single"

    def __init__(self, images: int, pixels: int, concepts: ConceptSet) -> None:
        rng = np.random.default_rng(0)
        self.classes, self.pixels = concepts.classes, pixels
        values = np.zeros((images, len(concepts)), np.int8)
        for group in concepts.groups:
            values[np.arange(images), rng.integers(group.concepts.start, group.concepts.stop, images)] = 1
        self.examples = Examples(tuple(map(str, range(images))), rng.integers(0, len(self.classes), images), values)

    def read(self, index: int) -> Image.Image:
        raw = np.random.default_rng(index).integers(0, 256, (self.pixels, self.pixels, 3), dtype=np.uint8)
        return Image.fromarray(raw)


class Bench:
    """What all variants share: the device, the vocabulary, resident images, and what was found."""

    def __init__(self, sizes: Sizes, device: torch.device, rounds: int, folder: Path) -> None:
        self.sizes, self.device, self.rounds, self.folder = sizes, device, rounds, folder
        self.started, self.concepts = time.perf_counter(), ConceptSet.load("blood-cells")
        self._images: dict[int, tuple[Noise, ResidentReader]] = {}
        self.found: dict[str, Any] = {"notes": []}

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def time(self, work: Callable[[], object]) -> float:
        """Seconds until the device has done it."""
        self.synchronize()
        started = time.perf_counter()
        work()
        self.synchronize()
        return time.perf_counter() - started

    def median(self, work: Callable[[], object], repeats: int = 10) -> float:
        """Median seconds after two calls to warm up."""
        work(), work()
        return statistics.median(self.time(work) for _ in range(repeats))

    def images(self, pixels: int) -> tuple[Noise, ResidentReader]:
        """Enough images for an epoch at the large batch, on the device."""
        if pixels not in self._images:
            source = Noise(self.sizes.steps * self.sizes.large, pixels, self.concepts)
            with PixelReader(source, pixels, cache_mb=0, workers=8) as reader:
                self._images[pixels] = source, ResidentReader(reader, np.arange(len(source)), self.device)
        return self._images[pixels]

    @contextmanager
    def guarded(self, part: str) -> Iterator[None]:
        """What fails here is noted, with its last lines, and does not stop the rest."""
        try:
            yield
        except Exception:
            self.found["notes"].append(f"{part} failed: {traceback.format_exc()[-1500:]}")
            print(self.found["notes"][-1], flush=True)

    def free(self) -> None:
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    @contextmanager
    def peak(self) -> Iterator[dict[str, float]]:
        """The largest number of megabytes that were allocated meanwhile, above those before."""
        result: dict[str, float] = {}
        if self.device.type == "cuda":
            self.free()
            torch.cuda.reset_peak_memory_stats(self.device)
            before = torch.cuda.memory_allocated(self.device)
        yield result
        if self.device.type == "cuda":
            result["peak_mb"] = (torch.cuda.max_memory_allocated(self.device) - before) / 2**20


@dataclass
class Variant:
    """Something that trains: `work` does a round of `steps` steps."""

    name: str
    batch: int
    steps: int
    work: Callable[[], object]
    flops: float  # forward, an image
    facts: dict[str, Any] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)

    def warm_up(self, bench: Bench) -> None:
        with bench.peak() as memory:
            self.facts["first_round_s"] = bench.time(self.work)  # compiling included
        self.facts |= memory
        print(f"  {self.name}: first round {self.facts['first_round_s']:.1f} s", flush=True)

    def result(self, rate: float) -> dict[str, Any]:
        seconds = statistics.median(self.times)
        speed = self.batch * self.steps / seconds
        return {
            "images_per_second": speed,
            "ms_per_step": 1000 * seconds / self.steps,
            "share_of_matmul_rate": 3 * self.flops * speed / rate,
            "rounds_images_per_second": [self.batch * self.steps / each for each in self.times],
            **self.facts,
        }


def take_turns(bench: Bench, variants: list[Variant]) -> list[Variant]:
    """Let variants take turns; one that fails is noted and left out, so that a run on a lent machine is not lost."""
    running = []
    for variant in variants:
        with bench.guarded(variant.name):
            variant.warm_up(bench)
            running.append(variant)
    for _ in range(bench.rounds):
        for variant in running:
            variant.times.append(bench.time(variant.work))
    return running
