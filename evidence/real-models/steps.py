"""How exact contributions are after so many steps of the integral, and what two rules to stop make of it.

RESNET50=resnet50.safetensors python evidence/real-models/steps.py RUN OUT.jsonl FROM TO [--images 2] [--targets 6]

RUN is a folder of `conceptlens decompose` that has its concepts. TO is a layer, whose concepts are drawn at random, or
`class`: the class that an image is given. Images are those that the model is surest of, of its two main classes in
turn. `true` is Σ|c − c*| / Σ|c*| over concepts, where c* are contributions after `--reference` steps; `of change` and
`of all` are by how much their sum misses what it must add up to, as a share of this and of Σ|c|. One thread.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from conceptlens.core.plugins import trust
from conceptlens.gig.attribution.integrated_gradients import (
    AT_ONCE,
    Contributions,
    _gauss_legendre,
    _look,
    _mean_gradients,
    _where_it_changes,
    contributions,
)
from conceptlens.gig.attribution.targets import between, to_classes, to_concepts
from conceptlens.gig.dictionaries.layer_concepts import LayerConcepts
from conceptlens.gig.held_out import main_outputs, surest
from conceptlens.gig.settings import Settings
from conceptlens.gig.work import Work, layer_file, read_predictions

EVEN, PLACED = 8, (16, 32, 64, 128)  # steps of Gauss-Legendre on the whole path; steps put where targets change


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("run", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("layers", nargs=2)
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="of the images, as numbered here")
    parser.add_argument("--targets", type=int, default=6)
    parser.add_argument("--reference", type=int, default=256)
    args = parser.parse_args()
    torch.set_num_threads(1)
    settings = Settings.read(args.run / "settings.json")
    trust(settings.model)
    work = Work.open(settings, lambda text: None, True, None, None, 8, 1)
    scores = read_predictions(args.run / "outputs.safetensors", work, len(work.gallery))
    lower, upper = args.layers
    below = LayerConcepts.read(layer_file(args.run, lower))
    outputs = main_outputs(work, scores)
    ranked = {output: surest(work, scores, output) for output in outputs}
    torch.manual_seed(0)
    for number in range(args.first, args.first + args.images):
        output = outputs[number % len(outputs)]
        seen = work.seen(ranked[output][number // len(outputs)])
        code = below.code(work.network.features(seen.pixels[None], lower)[0])
        if upper == "class":
            read = to_classes(between(work.network, lower, None, seen.pixels), [output], work.model.target)
        else:
            vectors = LayerConcepts.read(layer_file(args.run, upper)).vectors
            chosen = torch.randperm(len(vectors))[: args.targets]
            read = to_concepts(between(work.network, lower, upper, seen.pixels), vectors[chosen])
        part, base = code.part, code.shift
        with torch.no_grad():
            start, end, whole = read(torch.stack([base.expand_as(part), base + part, code.features])).unbind(0)
        targets = list(range(len(start)))
        began = time.process_time()
        looked = _look(read, part, base, (start, end), AT_ONCE)
        seconds = {"look": round(time.process_time() - began, 2)}
        found: dict[int, Contributions] = {}
        for steps in (EVEN, *PLACED, args.reference):
            began = time.process_time()
            points = _gauss_legendre(steps) if steps == EVEN else _where_it_changes(*looked, targets, steps)
            at = code.u * (_mean_gradients(read, part, base, points, targets, AT_ONCE) @ code.vectors.T)
            found[steps] = Contributions(code.concepts, at, start, end, whole, torch.full((len(start),), steps))
            seconds[str(steps)] = round(time.process_time() - began, 2)
        exact = found[args.reference].total
        began = time.process_time()
        itself = contributions(read, code, most=settings.most_steps)
        seconds["itself"] = round(time.process_time() - began, 2)
        for target in targets:
            row = {"layers": args.layers, "image": seen.name, "target": target, "reference": args.reference}
            row |= {"looks": len(looked[0]) - 2, "seconds": seconds, "targets": len(targets)}
            for steps in (EVEN, *PLACED):
                one = found[steps]
                size, change = one.total[target].abs().sum(), (end - start)[target].abs()
                row[str(steps)] = {
                    "true": float((one.total - exact)[target].abs().sum() / exact[target].abs().sum()),
                    "of change": float(one.missed[target] / change),
                    "of all": float(one.missed[target] / size),
                }
            row["stops"] = {
                "steps": int(itself.steps[target]),
                "true": float((itself.total - exact)[target].abs().sum() / exact[target].abs().sum()),
                "error": float(itself.completeness_error[target]),
            }
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(row, flush=True)


if __name__ == "__main__":
    main()
