"""Train the student, stage after stage; stopped at any moment, the same command goes on from the last checkpoint.

python -m pretraining.student.train --stage trunk --shards DIR --teachers DIR --wordings FILE --out DIR
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.encoders.contract import TextEncoder
from conceptlens.encoders.text.builtin import BuiltinText
from conceptlens.stats.rank import patch_ranks
from pretraining.command import command
from pretraining.imagenet import WNIDS
from pretraining.images.unseen import read_unseen
from pretraining.student import checkpoint
from pretraining.student.export import export
from pretraining.student.heads import Student, total
from pretraining.student.pool import Pool, Source, split_off, whole_images
from pretraining.student.ring import Ring, mirror
from pretraining.student.settings import RECIPE, Settings, Stage, read_settings
from pretraining.student.sources import load_sources
from pretraining.student.teach import Panel
from pretraining.student.views import jitter, mix
from pretraining.student.wordings import cell_axes, embed_wordings, load_wordings
from pretraining.teachers import Teacher, load_teacher

STATISTICS = 4096  # views from which the teachers' statistics are learned


class Run:
    """Everything a stage needs, on one device."""

    def __init__(
        self,
        settings: Settings,
        stage: str,
        sources: dict[str, Source],
        teachers: list[Teacher],
        wordings: list[list[str]],
        text: TextEncoder,
        out: Path,
        device: torch.device,
        encoder: BuiltinViT | None = None,
    ) -> None:
        self.settings, self.stage_name, self.stage = settings, stage, settings.stages[stage]
        self.out, self.device = out, device
        self.encoder = encoder or BuiltinViT(final_norm=True, pretrained=False, drop_path=0.05)
        watched = "imagenette" if "imagenette" in sources else next(iter(sources))
        sources = dict(sources)
        sources[watched], self.watch = split_off(sources[watched], settings.watch)
        self.sources = {name: source.to(device) for name, source in sources.items()}
        self.watch = self.watch.to(device)
        self.pool = Pool(self.sources, self.stage.shares, settings.fresh)
        self.panel = Panel([teacher.to(device) for teacher in teachers], settings.grids)
        self.size = max(settings.teachers.values())
        _, values, cell_texts = cell_axes()
        self.texts = embed_wordings(wordings, text).to(device)
        self.cell_texts = text.embed(cell_texts).to(device)
        unseen = read_unseen()
        self.seen = torch.tensor([i for i, wnid in enumerate(WNIDS) if wnid not in unseen], device=device)
        self.axes = tuple(len(each) for each in values)
        self.ring = Ring(settings.ring)
        self.step = 0

    def generator(self, step: int, purpose: int) -> torch.Generator:
        """Every step's draws follow from its number alone, so that a resumed run draws the same."""
        place = list(self.settings.stages).index(self.stage_name)
        seed = ((self.settings.seed * 101 + place) * 7 + purpose) * 10_000_000 + step + 1_000_000
        return torch.Generator(self.device).manual_seed(seed)

    def start(self) -> None:
        """A new network, the end of an earlier stage, or this stage's own last checkpoint."""
        torch.manual_seed(self.settings.seed)
        self.encoder.to(self.device)
        own = self.out / self.stage_name / "checkpoint"
        resumed = (own / "note.json").exists()
        folder = own if resumed else self.out / self.stage.start / "checkpoint" if self.stage.start else None
        if folder is None:
            steps = range(-math.ceil(STATISTICS / self.settings.fresh), 0)
            with self.autocast():
                views = torch.cat([self.draw_views(step)[0][1] for step in steps])
                self.panel.fit(views, self.settings.fresh)  # as many as in a step: teachers are compiled once
        elif folder.exists():
            statistics = checkpoint.read(folder, "extra.")
            self.panel.statistics = {name: value.to(self.device) for name, value in statistics.items()}
        else:
            raise UserError(f"{folder}: stage {self.stage_name} starts from it. Train stage {self.stage.start} first.")
        alike = {name: self.panel.statistics[f"{name}.grid.scale"] for name in self.settings.alike}
        self.student = Student(self.encoder, *self.panel.widths(), self.axes, alike).to(self.device)
        self.optimizer = make_optimizer(self.student, self.settings)
        if folder is not None:
            note = checkpoint.load(folder, self.student, self.optimizer)
            self.step = int(note["step"]) if resumed else 0
        self._compiled = torch.compile(self.student) if self.device.type == "cuda" else self.student

    def draw_views(self, step: int) -> tuple[list[Tensor], dict[str, Tensor]]:
        return self.pool.draw(self.generator(step, 0), (self.encoder.image_size, self.size))

    @torch.no_grad()
    def teach(self, step: int) -> None:
        """Put the views of one step, with their labels and the teachers' answers, into the ring."""
        views, labels = self.draw_views(step)
        (small, large), labels = mix(views, labels, self.settings.blended, self.generator(step, 2))
        with self.autocast():
            said = self.panel(large, labels["label"], labels["trust"])
        names = said.classes.float()[:, self.seen] * (labels["label"] >= 0).unsqueeze(1)
        names = names / names.sum(1, keepdim=True).clamp(min=1e-6)
        rows = {
            "pixels": (small * 255).round().byte(),
            "classes": said.classes,
            "place": said.place,
            "names": names.half(),
            "attributes": labels["attributes"],
            "colour": labels["colour"],
            "gray": labels["gray"],
        }
        rows |= {f"pooled.{name}": value for name, value in said.pooled.items()}
        rows |= {f"grid.{name}": value for name, value in said.grids.items()}
        self.ring.put(rows, step)

    def fill(self) -> None:
        """Judge again the views that the ring held at this step."""
        for step in range(self.step - self.settings.ring // self.settings.fresh, self.step):
            self.teach(step)

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    def learn(self) -> dict[str, Tensor]:
        """One step."""
        self.teach(self.step)
        generator = self.generator(self.step, 1)
        batch = self.ring.draw(self.settings.batch, generator)
        batch = mirror(batch, generator)
        images = batch.pop("pixels").float().div_(255)
        images = jitter(images, batch.pop("colour"), batch.pop("gray"), generator)
        wording = int(torch.randint(len(self.texts), (1,), generator=torch.Generator().manual_seed(self.step)))
        for group in self.optimizer.param_groups:
            group["lr"] = rate_at(self.step, self.stage, self.settings)
        self.student.train()
        with self.autocast():
            terms = self._compiled(images, batch, self.texts[wording][self.seen], self.cell_texts)
        loss = total(terms)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.student.parameters(), 3.0)
        self.optimizer.step()
        self.step += 1
        return {name: value.detach() for name, value in terms.items()} | {"loss": loss.detach()}

    @torch.no_grad()
    def observe(self) -> dict[str, float]:
        """How the student does on images it does not train on (a part of the training folder, no test image)."""
        self.student.eval()
        with self.autocast():
            tokens = self.encoder(whole_images(self.watch, self.encoder.image_size))
            vectors = self.encoder.embed(tokens).float()
        present = torch.unique(self.watch.classes)
        texts = F.normalize(self.texts[:, present].mean(0), dim=-1)
        right = present[(vectors @ texts.T).argmax(1)] == self.watch.classes
        lengths = tokens.patches.float().norm(dim=-1)
        return {
            "prompt_accuracy": float(right.float().mean()),
            "effective_rank": float(patch_ranks(tokens.patches.float()[:100], ("effective",))["effective"].mean()),
            "longest_patch": float((lengths.amax(1) / lengths.median(1).values).mean()),
        }

    def save(self, seconds: float) -> None:
        note = {"stage": self.stage_name, "step": self.step, "steps": self.stage.steps, "seconds": seconds}
        folder = self.out / self.stage_name
        checkpoint.save(folder / "checkpoint", self.student, self.optimizer, self.panel.statistics, note)


def make_optimizer(student: Student, settings: Settings) -> torch.optim.Optimizer:
    """AdamW; what has one dimension is not decayed."""
    decayed = [parameter for parameter in student.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in student.parameters() if parameter.ndim <= 1]
    groups: list[dict[str, Any]] = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.rate, betas=(0.9, 0.98))


def rate_at(step: int, stage: Stage, settings: Settings) -> float:
    """Warm up where a network is new, stay, or fall to zero on a straight line."""
    warm = min(1.0, (step + 1) / settings.warmup) if stage.start is None else 1.0
    return settings.rate * warm * (1 - step / stage.steps if stage.falling else 1.0)


def train(run: Run, seconds: float = math.inf) -> bool:
    """Train until the stage is done (True) or the time is up (False), and write a checkpoint either way."""
    began, settings = time.monotonic(), run.settings
    run.start()
    run.fill()
    log = run.out / run.stage_name / "log.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("a", encoding="utf-8") as file,
        tqdm(total=run.stage.steps, initial=run.step, desc=run.stage_name, disable=None) as bar,
    ):
        for _ in _until(run, began + seconds):
            terms = run.learn()
            bar.update()
            if run.step % 100 == 0 or run.step == run.stage.steps:
                line: dict[str, Any] = {name: round(float(value), 4) for name, value in terms.items()}
                line = {"step": run.step, "seconds": round(time.monotonic() - began, 1), **line}
                if run.step % settings.save_every == 0 or run.step == run.stage.steps:
                    line |= run.observe()
                    run.save(time.monotonic() - began)
                file.write(json.dumps(line) + "\n")
                file.flush()
    run.save(time.monotonic() - began)
    export(run.encoder, run.out / run.stage_name / "vit.safetensors")
    return run.step >= run.stage.steps


def _until(run: Run, moment: float) -> Iterator[None]:
    while run.step < run.stage.steps and time.monotonic() < moment:
        yield


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--stage", required=True, nargs="+", help="one or more, in order")
    parser.add_argument("--steps", type=int, nargs="+", default=[], help="other lengths than the recipe's, one a stage")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; call again to go on")
    parser.add_argument("--shards", type=Path, required=True)
    parser.add_argument("--teachers", type=Path, required=True)
    parser.add_argument("--wordings", type=Path, required=True)
    parser.add_argument("--text", type=Path, help="text tower's .safetensors file; the package's if not given")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=8)
    options = parser.parse_args(arguments)
    done = _main(options)
    print("done" if done else "stopped in time: call again to go on")


def _main(options: argparse.Namespace) -> bool:
    settings = read_settings(options.recipe)
    for name in options.stage:
        if name not in settings.stages:
            raise unknown_name("stage", name, list(settings.stages))
    if options.steps and len(options.steps) != len(options.stage):
        raise UserError(f"--steps: expected one number for each of {len(options.stage)} stages, got {options.steps}.")
    for name, steps in zip(options.stage, options.steps, strict=False):
        settings.stages[name] = Stage(**{**vars(settings.stages[name]), "steps": steps})
    torch.set_float32_matmul_precision("high")
    began = time.monotonic()
    needed = sorted({source for name in options.stage for source in settings.stages[name].shares})
    sources = load_sources(options.shards, needed, options.workers)
    device = torch.device(options.device)
    teachers = [load_teacher(name, options.teachers, size=size) for name, size in settings.teachers.items()]
    if device.type == "cuda":
        teachers = [teacher.to(device).to(memory_format=torch.channels_last).half() for teacher in teachers]
        for teacher in teachers:
            teacher.features = torch.compile(teacher.features)  # type: ignore[method-assign]
    text = BuiltinText(options.text) if options.text else BuiltinText()
    wordings = load_wordings(options.wordings)
    for name in options.stage:
        run = Run(settings, name, sources, teachers, wordings, text, options.out, device)
        if not train(run, options.minutes * 60 - (time.monotonic() - began)):
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
