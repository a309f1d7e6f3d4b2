"""What `bench/gpu.py` lets take turns: our training as the loop drives it, a bare classifier, the published step."""

import statistics
from pathlib import Path
from typing import Any, cast

import numpy as np
import timm
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import AdamW

from conceptlens.core.processes import Launched
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.splits.splits import Splits
from conceptlens.methods.build import Blueprint, build_pipeline, rest_idle_parameters, sample_tokens
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.folder import RunFolder
from conceptlens.training.loop import Session, TrainStage, stages_of
from conceptlens.training.optimization import compiled
from conceptlens.training.records.checkpoint import Position, StateFolder
from conceptlens.training.records.history import History
from conceptlens.training.records.progress import Progress
from gpu_bench import Bench, Variant, encoder_flops, vit_flops
from published import Published


class Ours:
    """Our training, driven as the loop drives it."""

    def __init__(self, bench: Bench, name: str, encoder: str, pixels: int, batch: int, *, compile: bool) -> None:
        sizes, (source, reader) = bench.sizes, bench.images(pixels)
        steps = sizes.steps if batch == sizes.large else 2 * sizes.steps
        recipe = load_recipe(
            {
                "data": {"source": "shapes", "resident": True},
                "concepts": "blood-cells",
                "encoder": {"name": encoder, "pretrained": False, "image_size": pixels, "text": "builtin/hashed-text"},
                "training": {
                    "batch_size": batch,
                    "precision": "bf16",
                    "compile": compile,
                    "rank_every": sizes.rank_every,
                    "epochs": 1000,
                },
                "out": str(bench.folder / name.replace(" ", "-").replace("/", "-")),
            }
        )
        torch.manual_seed(0)
        blueprint = Blueprint(recipe, bench.concepts, source.classes)
        pipeline = build_pipeline(blueprint)
        train = np.arange(steps * batch)
        splits = Splits(train, train[:batch], train[:batch], 0, "given", source.examples.ids)
        run, processes = RunFolder(Path(recipe.out)), Launched("bf16")
        run.path.mkdir(parents=True, exist_ok=True)
        plain = PixelReader(source, pixels, cache_mb=0)
        self.session = Session(
            blueprint, pipeline, source, splits, plain, run, processes, Progress(quiet=True), resident=reader
        )
        sample = reader.batch(train[:16])
        pipeline.to(bench.device)
        pieces = sample_tokens(pipeline, sample)
        pipeline.regularizer.prepare(pieces)
        pipeline.model.prepare(pieces, bench.concepts)
        rest_idle_parameters(pipeline, sample)
        learning = {key for key, each in pipeline.named_parameters() if each.requires_grad}
        state = (Position(), StateFolder(run.path), History(run.history), sample)
        self.stage = TrainStage(self.session, stages_of(self.session.recipe)[0], learning, *state)
        flops = encoder_flops(pipeline.encoder, pixels)
        self.variant = Variant(name, batch, 2 * steps, self.round, flops)

    def round(self) -> None:
        """Two epochs, without what is between them."""
        for _ in range(2):
            self.stage.train_epoch()
            self.stage.position.step = 0
            self.stage.position.total_epochs += 1
        self.stage.ranks.settle()


class Bare:
    """A timm classifier and nothing else."""

    def __init__(self, bench: Bench, name: str, *, graphs: bool) -> None:
        sizes, (source, self.reader) = bench.sizes, bench.images(bench.sizes.pixels)
        self.bench, self.graphs = bench, graphs
        torch.manual_seed(0)
        network = timm.create_model(
            sizes.encoder, pretrained=False, num_classes=len(source.classes), img_size=sizes.pixels
        )
        self.model = cast(Any, network.to(bench.device))
        self.optimizer = AdamW(self.model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
        self.labels = torch.from_numpy(source.examples.labels).to(bench.device)
        mode: dict[str, Any] = {"mode": "reduce-overhead"} if graphs and compiled.BACKEND == "inductor" else {}
        self.loss = torch.compile(self.plain, dynamic=False, backend=compiled.BACKEND, **mode)
        patches = self.model.patch_embed.num_patches
        self.flops = vit_flops(
            patches + self.model.num_prefix_tokens,
            patches,
            self.model.embed_dim,
            len(self.model.blocks),
            self.model.blocks[0].mlp.fc1.out_features,
            3 * self.model.patch_embed.patch_size[0] ** 2,
        )
        self.order = torch.arange(sizes.steps * sizes.large, device=bench.device).view(sizes.steps, -1)
        self.variant = Variant(name, sizes.large, sizes.steps, self.round, self.flops)

    def plain(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(self.bench.device.type, torch.bfloat16):
            logits = self.model((images.float() / 255 - 0.5) / 0.5)
        return F.cross_entropy(logits.float(), labels)

    def gradients(self, index: Tensor) -> None:
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()
        self.loss(self.reader.pixels[index], self.labels[index]).backward()

    def round(self) -> None:
        for index in self.order:
            self.gradients(index)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)


def published(bench: Bench) -> dict[str, Any]:
    """Images per second of the published step, at the large batch or the largest that fits."""
    sizes, (source, reader) = bench.sizes, bench.images(bench.sizes.pixels)
    torch.manual_seed(0)
    model = Published(sizes.encoder, sizes.pixels, bench.concepts, len(source.classes)).to(bench.device)
    optimizer = AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-4)
    labels = torch.from_numpy(source.examples.labels).to(bench.device)
    chosen = [source.examples.concepts[:, group.concepts].argmax(1) for group in bench.concepts.groups]
    values = torch.from_numpy(np.stack(chosen, 1)).to(bench.device)
    batch = sizes.large

    def step() -> None:
        images = (reader.pixels[:batch].float() / 255 - 0.5) / 0.5
        model(images, labels[:batch], values[:batch]).backward()
        optimizer.step()
        optimizer.zero_grad()

    while True:
        try:
            step()
            break
        except torch.OutOfMemoryError:
            batch //= 2
            optimizer.zero_grad()
            bench.free()
    times = [bench.time(step) for _ in range(max(2, bench.rounds))]
    return {
        "batch": batch,
        "images_per_second": batch / statistics.median(times),
        "ms_per_step": 1000 * statistics.median(times),
    }
