"""The loop that teaches the text tower, on vectors computed beforehand. It can be stopped and taken up again."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor
from torch.optim import AdamW

from conceptlens.core.files import read_json, write_bytes, write_json
from conceptlens.encoders.text.tower import TextTower
from pretraining.text.batches import Rows, embed_rows
from pretraining.text.losses import distillation_loss

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to learn.

    Args:
        steps: The end, in steps; with `seconds`, whichever is reached first.
        seconds: The end, in seconds of training; none: steps alone decide, and a run can be repeated bit by bit.
        batch: Phrases a step.
        rate: The highest learning rate.
        warm_up: Share of the run in which the rate rises; it falls as a cosine to zero after that.
        weight_decay: Of matrices in the blocks; the table, norms and biases have none.
        relational: Weight of the relational loss.
        chunk: Phrases of like length that are embedded at once.
        log_every: Steps between two lines of the history.
        save_every: Steps between two states to resume from.
        seed: Of the order of phrases.
    """

    steps: int = 20_000
    seconds: float | None = None
    batch: int = 4096
    rate: float = 2e-3
    warm_up: float = 0.03
    weight_decay: float = 0.02
    relational: float = 5.0
    chunk: int = 1024
    log_every: int = 50
    save_every: int = 2000
    seed: int = 0

    def progress(self, step: int, elapsed: float) -> float:
        """From 0 to 1: the larger share of steps or of time."""
        return min(1.0, max(step / self.steps, elapsed / self.seconds if self.seconds else 0.0))

    def rate_at(self, progress: float) -> float:
        if progress < self.warm_up:
            return self.rate * progress / self.warm_up
        return self.rate * 0.5 * (1 + math.cos(math.pi * (progress - self.warm_up) / (1 - self.warm_up)))


def make_optimizer(tower: TextTower, schedule: Schedule) -> AdamW:
    decayed = [value for name, value in tower.named_parameters() if value.ndim == 2 and name.startswith("blocks.")]
    chosen = {id(value) for value in decayed}
    others = [value for value in tower.parameters() if id(value) not in chosen]
    groups = [{"params": decayed, "weight_decay": schedule.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return AdamW(groups, lr=schedule.rate, betas=(0.9, 0.98))


@lru_cache(maxsize=1)
def _order(count: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed * 100_003 + epoch))


def places_of(step: int, count: int, schedule: Schedule) -> Tensor:
    """The phrases of a step (B,): each epoch in an order of its own, which depends on the seed alone."""
    batch = min(schedule.batch, count)
    epoch, place = divmod(step, count // batch)
    return _order(count, schedule.seed, epoch)[place * batch : (place + 1) * batch]


def save_state(folder: Path, tower: TextTower, optimizer: AdamW, step: int, elapsed: float) -> None:
    tensors = {f"tower.{name}": value for name, value in tower.state_dict().items()}
    for name, parameter in tower.named_parameters():
        for moment in MOMENTS:
            tensors[f"{moment}.{name}"] = optimizer.state[parameter][moment]
    data = save({name: value.detach().cpu().contiguous() for name, value in tensors.items()})
    write_bytes(folder / f"state-{step}.safetensors", data)
    write_json(folder / "state.json", {"step": step, "elapsed": elapsed})  # names the file only once it is there
    for old in folder.glob("state-*.safetensors"):
        if old.name != f"state-{step}.safetensors":
            old.unlink()


def load_state(folder: Path, tower: TextTower, optimizer: AdamW) -> tuple[int, float]:
    """Steps done and seconds spent; (0, 0) where no state was saved."""
    if not (folder / "state.json").exists():
        return 0, 0.0
    state = read_json(folder / "state.json")
    tensors = load_file(folder / f"state-{state['step']}.safetensors")
    tower.load_state_dict({name.removeprefix("tower."): v for name, v in tensors.items() if name.startswith("tower.")})
    for name, parameter in tower.named_parameters():
        optimizer.state[parameter] = {"step": torch.tensor(float(state["step"]))} | {
            moment: tensors[f"{moment}.{name}"].to(parameter.device) for moment in MOMENTS
        }
    return int(state["step"]), float(state["elapsed"])


def train(
    tower: TextTower,
    rows: Rows,
    targets: Tensor,
    schedule: Schedule,
    folder: Path,
    *,
    say: Callable[[str], None] = print,
    stop_after: int | None = None,
) -> int:
    """Teach `tower` the `targets` (n, D) of `rows`, all on one device; takes up what `folder` holds.

    Args:
        tower: Learns in place.
        rows: The phrases.
        targets: The teacher's unit vectors.
        schedule: How long and how fast.
        folder: For the state and `history.jsonl`.
        say: Takes a line on how it goes.
        stop_after: Stop after so many steps of this call and save the state, as a lost machine would leave it.

    Returns:
        Steps done in all.
    """
    device = targets.device
    optimizer = make_optimizer(tower, schedule)
    step, before = load_state(folder, tower, optimizer)
    history: list[str] = []
    first, start = step, time.monotonic()
    tower.train()
    while True:
        elapsed = before + time.monotonic() - start
        progress = schedule.progress(step, elapsed)
        if progress >= 1 or (stop_after is not None and step - first >= stop_after):
            break
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate_at(progress)
        places = places_of(step, len(rows), schedule)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            student = embed_rows(tower, rows, places, chunk=schedule.chunk)
        loss, alone, together = distillation_loss(student, targets[places.to(device)].float(), schedule.relational)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(tower.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % schedule.log_every == 0:
            line = {"step": step, "cosine": 1 - alone.item(), "relational": together.item()}
            line |= {"rate": schedule.rate_at(progress), "time": round(elapsed, 2)}
            history.append(json.dumps(line))
            say(f"step {step}  {progress:4.0%}  cosine {line['cosine']:.4f}  relational {line['relational']:.5f}")
        if step % schedule.save_every == 0:
            save_state(folder, tower, optimizer, step, elapsed)
            _append(folder / "history.jsonl", history)
    if stop_after is not None:
        save_state(folder, tower, optimizer, step, elapsed)
    _append(folder / "history.jsonl", history)
    tower.eval()
    return step


def _append(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)
    lines.clear()
