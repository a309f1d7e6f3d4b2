"""Where the time of a graph goes: steps of the integrals between two layers, target by target, and processor seconds.

RESNET50=resnet50.safetensors python evidence/real-models/steps.py RUN OUT.jsonl FROM TO [--images 2] [--targets 13]

RUN is a folder of `conceptlens decompose` that has its concepts. Targets are concepts of the later layer drawn at
random; images are those that the model is surest of. One thread.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from conceptlens.core.plugins import trust
from conceptlens.gig.attribution import integrated_gradients
from conceptlens.gig.attribution.targets import between, to_concepts
from conceptlens.gig.dictionaries.layer_concepts import LayerConcepts
from conceptlens.gig.held_out import main_outputs, surest
from conceptlens.gig.settings import Settings
from conceptlens.gig.work import Work, layer_file, read_predictions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("run", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("layers", nargs=2)
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--targets", type=int, default=13)
    args = parser.parse_args()
    torch.set_num_threads(1)
    settings = Settings.read(args.run / "settings.json")
    trust(settings.model)
    work = Work.open(settings, lambda text: None, True, None, None, 8, 1)
    scores = read_predictions(args.run / "outputs.safetensors", work, len(work.gallery))
    lower, upper = args.layers
    below, above = (LayerConcepts.read(layer_file(args.run, layer)) for layer in args.layers)
    torch.manual_seed(0)
    targets = above.vectors[torch.randperm(len(above.vectors))[: args.targets]]
    plain = integrated_gradients._mean_gradients
    for number in surest(work, scores, main_outputs(work, scores)[0])[: args.images]:
        seen = work.seen(number)
        code = below.code(work.network.features(seen.pixels[None], lower)[0])
        stages: list[tuple[int, int, float]] = []  # steps, targets that still need some, processor seconds

        def timed(read, part, base, points, open_, at_once, stages=stages):  # type: ignore[no-untyped-def]
            began = time.process_time()
            found = plain(read, part, base, points, open_, at_once)
            stages.append((len(points[0]), len(open_), round(time.process_time() - began, 2)))
            return found

        integrated_gradients._mean_gradients = timed
        began = time.process_time()
        found = integrated_gradients.contributions(
            to_concepts(between(work.network, lower, upper, seen.pixels), targets), code, most=settings.most_steps
        )
        row = {"layers": args.layers, "image": seen.name, "processor seconds": round(time.process_time() - began, 2)}
        row |= {"steps": found.steps.tolist(), "stages": stages}
        integrated_gradients._mean_gradients = plain
        with args.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


if __name__ == "__main__":
    main()
