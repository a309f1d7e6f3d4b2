"""Train the generator: first the autoencoder, then the transformer on its tokens.

    python -m pretraining.generator.train --blood FOLDER --out work/generator [--minutes 9]

Called again, it goes on where it was stopped. `--skew 'cell size=big:8'` draws the images so that one value is eight
times as frequent; `--autoencoder FOLDER` takes another training's first stage, so that copies share their codebook, and
`--start FOLDER` its transformer too, which then goes on learning: a copy for a fraction of the steps.
Writes `log.jsonl`, checkpoints of at most 15 MB a file, and `model/` for `conceptlens codebook`.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.builtin.generator import SmallGenerator, load_generator, save_generator
from conceptlens.cortex.generators.builtin.losses import Perceptual
from conceptlens.cortex.generators.builtin.settings import GeneratorSettings
from conceptlens.encoders import make_encoder
from conceptlens.recipes.schema import EncoderConfig
from pretraining.command import command
from pretraining.generator.data import Labeled, draw_weights, from_blood, from_source
from pretraining.generator.settings import RECIPE, Settings, read_settings
from pretraining.generator.stages import AutoencoderStage, TransformerStage
from pretraining.student import checkpoint

Stage = AutoencoderStage | TransformerStage


def rate_at(step: int, steps: int, rate: float, warmup: int) -> float:
    """Warm up, then fall along a cosine to a hundredth."""
    warm = min(1.0, (step + 1) / max(1, warmup))
    return rate * warm * (0.01 + 0.99 * (1 + math.cos(math.pi * step / steps)) / 2)


def finished(folder: Path, stage: Stage) -> bool:
    note = folder / "checkpoint" / "note.json"
    return note.exists() and int(json.loads(note.read_text("utf-8"))["step"]) >= stage.stage.last


def train_stage(stage: Stage, folder: Path, settings: Settings, deadline: float) -> bool:
    """Train until done (True) or until the time is up (False); writes a checkpoint either way."""
    place, step = folder / "checkpoint", 0
    if place.exists():
        step = int(checkpoint.load(place, stage.learner, stage.optimizer)["step"])
        for name, value in checkpoint.read(place, "extra.").items():
            stage.average.values[name].copy_(value)
    folder.mkdir(parents=True, exist_ok=True)
    began, steps, last = time.monotonic(), stage.stage.steps, stage.stage.last
    with (
        (folder / "log.jsonl").open("a", encoding="utf-8") as log,
        tqdm(total=last, initial=step, desc=stage.name, disable=None) as bar,
    ):
        while step < last and time.monotonic() < deadline:
            for group in stage.optimizer.param_groups:
                group["lr"] = rate_at(step, steps, stage.stage.rate, settings.warmup)
            terms = stage.learn(step)
            step += 1
            bar.update()
            if step % 100 == 0 or step == last:
                seconds = round(time.monotonic() - began, 1)
                rounded = {name: round(float(value), 5) for name, value in terms.items()}
                log.write(json.dumps({"step": step, "seconds": seconds, **rounded}) + "\n")
                log.flush()
            if step % settings.save_every == 0 and step < last:
                checkpoint.save(place, stage.learner, stage.optimizer, stage.average.values, {"step": step})
    checkpoint.save(place, stage.learner, stage.optimizer, stage.average.values, {"step": step})
    return step >= last


def train(
    data: Labeled,
    out: Path,
    settings: Settings,
    device: torch.device,
    *,
    skew: str | None = None,
    autoencoder: Path | None = None,
    start: Path | None = None,
    seconds: float = math.inf,
    about: str = "",
) -> bool:
    """Both stages and the export; False if the time was up before."""
    deadline = time.monotonic() + seconds
    torch.manual_seed(settings.seed)
    own: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings.sizes.items()
    }
    sizes = GeneratorSettings(data.classes, dict(data.attributes), **{"image_size": settings.image_size, **own})
    model = SmallGenerator(sizes, "generator").to(device)
    weights = draw_weights(data, skew)
    if start is not None:
        taken = load_generator(start)
        if taken.settings != sizes:
            raise UserError(f"{start}: this generator has other sizes, classes or attributes than the one to be made.")
        model.load_state_dict(taken.state_dict())
    elif autoencoder is not None:
        model.autoencoder.load_state_dict(load_generator(autoencoder).autoencoder.state_dict())
    else:
        eyes = make_encoder(EncoderConfig(settings.encoder, layers=list(settings.layers)))
        first = AutoencoderStage(model, Perceptual(eyes).to(device), data, weights, settings)
        if not finished(out / first.name, first) and not train_stage(first, out / first.name, settings, deadline):
            return False
        restore_average(model.autoencoder, out / first.name / "checkpoint", "painter.")
    model.eval().requires_grad_(False)
    model.transformer.requires_grad_(True)
    second = TransformerStage(model, data, weights, settings)
    if not finished(out / second.name, second) and not train_stage(second, out / second.name, settings, deadline):
        return False
    restore_average(model.transformer, out / second.name / "checkpoint", "")
    recipe = asdict(settings) | {"start": start is not None}
    save_generator(model, out / "model", data=about, images=len(data), skew=skew, recipe=recipe)
    return True


def restore_average(module: torch.nn.Module, folder: Path, prefix: str) -> None:
    """Buffers as they were last (the codebook), parameters as their running means."""
    state: dict[str, Tensor] = checkpoint.read(folder, f"weight.{prefix}")
    module.load_state_dict({name: value for name, value in state.items() if name in module.state_dict()})
    averaged = checkpoint.read(folder, "extra.")
    with torch.no_grad():
        for name, value in module.named_parameters():
            value.copy_(averaged[name])


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", type=Path, default=RECIPE)
    parser.add_argument("--data", help="anything conceptlens reads; its training split is used")
    parser.add_argument("--concepts", help="the concept file of --data")
    parser.add_argument("--blood", type=Path, help="instead: WBCAtt's tables beside PBC's images")
    parser.add_argument("--skew", help="as 'cell size=big:8'")
    parser.add_argument("--autoencoder", type=Path, help="model/ of another training, whose first stage is taken")
    parser.add_argument("--start", type=Path, help="model/ of another training, both of whose stages are taken")
    parser.add_argument("--steps", type=int, help="of the transformer, instead of the recipe's")
    parser.add_argument("--seed", type=int, help="instead of the recipe's")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; call again to go on")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    if (options.data is None) == (options.blood is None):
        raise UserError("Say where images come from with one of --data and --blood.")
    began = time.monotonic()
    if options.autoencoder and options.start:
        raise UserError("--start takes both stages of another training, --autoencoder the first: name one of them.")
    settings = read_settings(options.recipe)
    if options.steps is not None:
        settings = replace(settings, transformer=replace(settings.transformer, steps=options.steps))
    if options.seed is not None:
        settings = replace(settings, seed=options.seed)
    size = settings.image_size
    data = (
        from_blood(options.blood, size) if options.blood else from_source(options.data, size, concepts=options.concepts)
    )
    device = torch.device(options.device)
    torch.set_float32_matmul_precision("high")
    done = train(
        data,
        options.out,
        settings,
        device,
        skew=options.skew,
        autoencoder=options.autoencoder,
        start=options.start,
        seconds=options.minutes * 60 - (time.monotonic() - began),
        about="WBCAtt, training split" if options.blood else options.data,
    )
    print("done" if done else "stopped in time: call again to go on")


if __name__ == "__main__":
    sys.exit(main())
