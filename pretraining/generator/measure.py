"""What a trained generator is: codebook use, reconstruction, classes of its samples by a judge, and a sheet to look at.

    python -m pretraining.generator.measure --model work/generator/model --data blood-cells --judge runs/judge --out DIR

The judge is a run folder of any method, trained on real images, best a `black-box`; its own accuracy on the test images
stands beside its agreement with what samples were asked for.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.files import write_bytes, write_json
from conceptlens.cortex.generators.builtin.generator import SmallGenerator, load_generator
from conceptlens.cortex.generators.builtin.losses import masked_token_loss
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.judges import run_judge
from conceptlens.cortex.masking import Judge
from conceptlens.cortex.pictures import sheet
from conceptlens.cortex.samples import draw_seed
from conceptlens.nn.quantization.usage import CodebookUse
from pretraining.command import command
from pretraining.generator.data import Labeled, from_source


@torch.no_grad()
def reconstruction(model: SmallGenerator, data: Labeled, batch: int = 64) -> dict[str, Any]:
    """Codebook use and errors of pixels in [0, 1] over images; `use` is the share of codes seen at least once."""
    use = CodebookUse(len(model.codebook))
    absolute = squared = 0.0
    device = model.codebook.device
    for part in torch.split(data.images, batch):
        images = part.to(device).float().div_(255)
        tokens = model.encode(images)
        use.update(tokens)
        gap = model.decode(tokens) - images
        absolute += float(gap.abs().mean()) * len(images)
        squared += float(gap.square().mean()) * len(images)
    mean = squared / len(data)
    psnr = -10 * float(torch.tensor(mean).clamp(min=1e-12).log10())
    return {"images": len(data), "mean_absolute": absolute / len(data), "psnr": psnr, "codebook": use.summary()}


@torch.no_grad()
def asked_and_seen(
    model: SmallGenerator, judge: Judge, conditions: Sequence[Condition], n: int, seed: int = 0
) -> dict[str, Any]:
    """How often a judge sees in samples what they were asked for; the judge's columns are the conditions."""
    rows = []
    for place, condition in enumerate(conditions):
        tokens = model.generate(condition, n, seed=draw_seed(seed, place))
        seen = judge(model.decode(tokens)).argmax(1)
        rows.append(torch.bincount(seen, minlength=len(conditions)).tolist())
    table = torch.tensor(rows)
    names = [condition.text() for condition in conditions]
    return {"conditions": names, "seen": rows, "accuracy": float(table.diagonal().sum() / table.sum())}


@torch.no_grad()
def token_loss(model: SmallGenerator, data: Labeled, seed: int = 0, batch: int = 64) -> float:
    """Cross-entropy of half of an image's tokens given the rest, its class and attributes.

    Much lower for images it was trained on than for others, it would say that these are known by heart.
    """
    device = model.codebook.device
    generator = torch.Generator().manual_seed(seed)
    total = 0.0
    for images, conditions in zip(torch.split(data.images, batch), torch.split(data.conditions, batch), strict=True):
        tokens = model.encode(images.to(device).float().div_(255)).flatten(1)
        masked = (torch.rand(tokens.shape, generator=generator) < 0.5).to(device)
        logits = model.transformer(tokens, masked, conditions.to(device), model.codebook)
        total += float(masked_token_loss(logits, tokens, masked, smoothing=0.0)) * len(images)
    return total / len(data)


@torch.no_grad()
def judged_images(judge: Judge, data: Labeled) -> float:
    """The judge's own accuracy on real images."""
    seen = [judge(part.float() / 255).argmax(1) for part in torch.split(data.images, 64)]
    return float((torch.cat(seen) == data.conditions[:, 0]).double().mean())


@torch.no_grad()
def picture(model: SmallGenerator, data: Labeled, n: int = 8) -> bytes:
    """Images, their reconstructions, and samples of nothing and of every class."""
    device = model.codebook.device
    images = data.images[torch.linspace(0, len(data) - 1, n).long()].to(device).float() / 255
    rows: list[tuple[str, Tensor]] = [
        ("images", images.cpu()),
        ("the same, from tokens", model.decode(model.encode(images)).cpu()),
    ]
    for place, condition in enumerate([Condition(), *map(Condition, model.classes)]):
        tokens = model.generate(condition, n, seed=draw_seed(1, place))
        rows.append((f"samples: {condition.text()}", model.decode(tokens).cpu()))
    return sheet(rows)


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", default="blood-cells", help="images of its test split")
    parser.add_argument("--concepts", help="the concept file of --data")
    parser.add_argument("--judge", help="a run folder")
    parser.add_argument("--samples", type=int, default=100, help="of each condition")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    model = load_generator(options.model)
    model = model.to(options.device)
    data = from_source(options.data, model.image_size, concepts=options.concepts, split="test")
    found: dict[str, Any] = {"reconstruction": reconstruction(model, data)}
    seen = from_source(options.data, model.image_size, concepts=options.concepts, split="train")
    found["token_loss"] = {"training images": token_loss(model, seen), "test images": token_loss(model, data)}
    if options.judge:
        classes = [Condition(name) for name in model.classes]
        judge = run_judge(options.judge, model.classes, device=torch.device(options.device))
        found["judge"] = {"run": options.judge, "accuracy": judged_images(judge, data)}
        found["classes"] = asked_and_seen(model, judge, classes, options.samples)
    write_json(options.out / "generator.json", found)
    write_bytes(options.out / "generator.png", picture(model, data))
    use = found["reconstruction"]["codebook"]["use"]
    print(f"codebook use {use:.3f}, mean absolute error {found['reconstruction']['mean_absolute']:.4f}", end="")
    print(f", classes {found['classes']['accuracy']:.3f}" if options.judge else "")


if __name__ == "__main__":
    sys.exit(main())
