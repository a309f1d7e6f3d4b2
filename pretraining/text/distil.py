"""Teach the text tower to place phrases where all-MiniLM-L6-v2 does, and export it.

    python -m pretraining.text.distil --phrases FOLDER --teacher FOLDER --out FOLDER [--minutes 3] [--device cuda]

`--phrases` is what `python -m pretraining.text.phrases` wrote, `--teacher` holds minilm.safetensors and vocab.txt. With
`--minutes` the rate reaches zero in time and the tower is exported before the time is over. A run that was cut short is
taken up by the same command.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.files import write_json
from conceptlens.encoders.text.builtin import BuiltinText
from conceptlens.encoders.text.tower import TextTower
from conceptlens.encoders.text.wordpiece import WordPiece
from pretraining.teachers import MiniLM, load_minilm
from pretraining.text.batches import Rows, embed_rows, encode_rows
from pretraining.text.corpus import Corpus
from pretraining.text.export import export_tower
from pretraining.text.measure import agreement, negation_texts, negations
from pretraining.text.targets import teacher_pieces, teacher_vectors
from pretraining.text.training import Schedule, train


@dataclass(frozen=True)
class Config:
    """One distillation.

    Args:
        phrases: The corpus, a folder that `pretraining.text.phrases` wrote.
        teacher: Folder with minilm.safetensors and vocab.txt.
        out: Folder for text.safetensors, text.json, measures.json, history.jsonl and the state.
        device: Where to work.
        minutes: For everything, the export included; none: `schedule.steps` decide.
        limit: Only so many phrases, for a trial; none: all.
        sizes: The tower's, as `TextTower` takes them.
        schedule: How long and how fast to learn.
    """

    phrases: Path
    teacher: Path
    out: Path
    device: str = "cpu"
    minutes: float | None = None
    limit: int | None = None
    sizes: dict[str, Any] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)


EXPORT_SECONDS = 8.0  # kept back for measuring and writing


@torch.no_grad()
def start_from_teacher(tower: TextTower, teacher: MiniLM, pieces: Sequence[str]) -> None:
    """The table starts as the teacher's own, turned to its principal directions and cut to the tower's width.

    Most pieces are rare: what the teacher knows of them is worth more than what a few phrases can teach.
    """
    places = {piece: place for place, piece in enumerate(teacher_pieces(teacher))}
    rows = teacher.pieces.weight.detach().float().cpu()[[places[piece] for piece in pieces]]
    rows = rows - rows.mean(0)
    width = tower.table.embedding_dim
    main = torch.linalg.eigh(rows.T @ rows).eigenvectors.flip(1)[:, :width]
    projected = rows @ main
    if projected.shape[1] == width:
        tower.table.weight.copy_(projected * (0.1 / projected.std()))


@torch.no_grad()
def embed(tower: TextTower, rows: Rows) -> Tensor:
    parts = torch.split(torch.arange(len(rows)), 8192)
    return torch.cat([embed_rows(tower, rows, places, chunk=512) for places in parts])


def distil(config: Config) -> Path:
    """Run it all; returns the exported weights."""
    begin = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - begin:6.1f} s] {line}", flush=True)

    device = torch.device(config.device)
    corpus = Corpus.read(config.phrases)
    if config.limit is not None:
        order = torch.randperm(len(corpus.phrases), generator=torch.Generator().manual_seed(0))[: config.limit]
        corpus = replace(corpus, phrases=[corpus.phrases[place] for place in order.sort().values.tolist()])
    learned, pieces = corpus.learned, corpus.pieces
    sets = {"held-out phrases": corpus.held_out, **corpus.checks}
    say(f"{len(learned):,} phrases to learn from, {len(sets['held-out phrases']):,} held out")

    teacher = load_minilm(config.teacher)
    targets = teacher_vectors(teacher, learned, device)
    wanted = {name: teacher_vectors(teacher, texts, device) for name, texts in sets.items()}
    opposites = teacher_vectors(teacher, negation_texts(), device)
    say("the teacher's vectors are there")

    torch.manual_seed(config.schedule.seed)
    tower = TextTower(len(pieces), **config.sizes)
    start_from_teacher(tower, teacher, pieces)
    tower.to(device)
    rows = encode_rows(WordPiece(pieces), learned, longest=tower.longest).to(device)
    say(f"{sum(value.numel() for value in tower.parameters()):,} weights in the tower")

    schedule = config.schedule
    if config.minutes is not None:
        left = config.minutes * 60 - (time.monotonic() - begin) - EXPORT_SECONDS
        schedule = replace(schedule, seconds=max(left, 1.0))
    started = time.monotonic()
    steps = train(tower, rows, targets, schedule, config.out / "state", say=say)
    seconds = time.monotonic() - started

    about = {
        "teacher": "all-MiniLM-L6-v2",
        "training": {"phrases": len(learned), "steps": steps, "batch": schedule.batch, "seed": schedule.seed},
    }
    path = export_tower(config.out, tower.cpu(), pieces, about)
    shipped = BuiltinText(path)  # what is measured is what ships: int8 rows, fp32 on the CPU
    tower = shipped.tower.to(device)
    measures: dict[str, Any] = {"seconds": round(seconds, 1), "steps": steps, "bytes": path.stat().st_size, "sets": {}}
    for name, texts in sets.items():
        there = encode_rows(shipped.tokenizer, texts, longest=tower.longest).to(device)
        measures["sets"][name] = agreement(embed(tower, there), wanted[name])
        say(f"{name}: " + "  ".join(f"{key} {value:.4g}" for key, value in measures["sets"][name].items()))
    there = encode_rows(shipped.tokenizer, negation_texts(), longest=tower.longest).to(device)
    measures["opposites"] = negations(embed(tower, there), opposites)
    write_json(config.out / "measures.json", measures)
    say(f"{path}: {path.stat().st_size / 1e6:.2f} MB after {steps:,} steps")
    return path


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("phrases", "teacher", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--limit", type=int, help="only so many phrases, for a trial")
    schedule = Schedule()
    for name in ("steps", "batch", "chunk", "rate", "relational", "seed", "save_every", "log_every"):
        default = getattr(schedule, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    for name in ("piece_width", "width", "depth", "heads", "longest"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int)
    parser.add_argument("--mlp-ratio", type=float)
    given = vars(parser.parse_args(arguments))
    sizes = {name: given.pop(name) for name in ("piece_width", "width", "depth", "heads", "longest", "mlp_ratio")}
    paths = {name: given.pop(name) for name in ("phrases", "teacher", "out", "device", "minutes", "limit")}
    chosen = {name: value for name, value in sizes.items() if value is not None}
    distil(Config(**paths, sizes=chosen, schedule=replace(schedule, **given)))


if __name__ == "__main__":
    main()
