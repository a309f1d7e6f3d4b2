"""Damaged files of other programs: shards, detections, annotations, graphs, checkpoints; only `UserError` refuses."""

import io
import json
import random
import tarfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from assault.mutate import MUTATIONS, flip
from assault.watch import Hang, Part, limited
from assault.world import World
from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.generators.settings import CheckpointOptions
from conceptlens.data.sources.shards import Shards
from conceptlens.gig.document import Graph
from conceptlens.recipes.schema import DataConfig
from conceptlens.runs.annotations import annotate, read_annotations
from conceptlens.workflows.regions.detections import read_detections
from tests.cortex.generators import test_llamagen, test_var, test_vqgan
from tests.web.decomposition import draw_graph


@dataclass(frozen=True)
class Kind:
    """A file as it should be, and its reader."""

    file: Path
    read: Callable[[Path], Any]


def assault_readers(part: Part, world: World, seed: int, number: int) -> None:
    kinds = _kinds(world)
    whole = {kind.file: kind.file.read_bytes() for kind in kinds}
    for each in range(number):
        draw = random.Random(f"reader {seed} {each}")
        kind = kinds[each % len(kinds)]
        mutation = draw.choice((*MUTATIONS, flip))
        kind.file.write_bytes(mutation(whole[kind.file], draw))
        what = f"{kind.file.name}: {mutation.__name__}"
        part.attempts += 1
        try:
            with limited():
                kind.read(kind.file)
            part.accepted += 1
        except UserError:
            part.refused += 1
        except Hang:
            part.found(each, what, "hang", "")
        except BaseException:
            part.found(each, what, "traceback", traceback.format_exc())
        kind.file.write_bytes(whole[kind.file])


def _kinds(world: World) -> list[Kind]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    place = world.root / "readers"
    place.mkdir(exist_ok=True)
    images = [world.data.image(number).read_bytes() for number in range(6)]
    with tarfile.open(place / "a.tar", "w") as file:
        for number, image in enumerate(images):
            members = {"png": image, "cls": b"benign", "json": json.dumps({"border": "regular"}).encode()}
            for suffix, content in members.items():
                about = tarfile.TarInfo(f"{number}.{suffix}")
                about.size = len(content)
                file.addfile(about, io.BytesIO(content))
    pq.write_table(pa.table({"image": images, "class": ["a", "b"] * 3}), place / "a.parquet", row_group_size=2)
    boxes = [{"label": "a cat", "logit": 0.5, "box": [1, 2, 3, 4]}, {"label": "dog", "score": 1, "box": [0, 0, 1, 1]}]
    (place / "boxes.json").write_text(json.dumps({"0.png": boxes, "1.png": []}), "utf-8")
    notes = place / "notes"
    notes.mkdir(exist_ok=True)
    for name in ("wing", "tail"):
        annotate(notes, "node", ["layer/1", "layer/2"], author="Ann", name=name, note="seen twice")
    draw_graph().write(place / "graph.json")
    torch.save({"model": test_llamagen.in_its_names(test_vqgan.tiny_state())}, place / "vq.pt")
    torch.save({"model": test_llamagen.model_state()}, place / "c2i.pt")
    torch.save(test_var.tokenizer_state(), place / "vae.pth")
    torch.save(test_var.transformer_state(), place / "var.pth")
    save_file({k: v.contiguous() for k, v in test_vqgan.tiny_state().items()}, place / "vqgan.safetensors")
    return [
        Kind(place / "a.tar", _read_shards),
        Kind(place / "a.parquet", _read_shards),
        Kind(place / "boxes.json", lambda file: read_detections(file, ["0.png", "1.png", "2.png"])),
        Kind(notes / "annotations.jsonl", lambda file: read_annotations(file.parent)),
        Kind(place / "graph.json", Graph.read),
        Kind(place / "vq.pt", lambda file: open_model(file, image_size=16)),
        Kind(place / "c2i.pt", lambda file: _with(place / "vq.pt", file, heads=4)),
        Kind(place / "var.pth", lambda file: _with(place / "vae.pth", file)),
        Kind(place / "vqgan.safetensors", lambda file: open_model(file, image_size=16)),
    ]


def _read_shards(file: Path) -> None:
    shards = Shards(DataConfig(str(file), class_column="class"), None)
    for index in range(len(shards)):
        shards.read(index)


def _with(tokenizer: Path, transformer: Path, heads: int | None = None) -> object:
    return open_model(tokenizer, image_size=16, checkpoint=CheckpointOptions(transformer=str(transformer), heads=heads))
