"""Measure the built-in encoder and its teachers by the same code on the same pixels.

    python -m pretraining.probe.run --weights vit.safetensors --without-blood without-blood.safetensors \
        --teachers TEACHERS --features CACHE --out evidence/builtin-encoder \
        --data imagenette=DIR tiny=DIR blood=DIR idrid=DIR ham=DIR ham-split=CSV cub=DIR cub-sizes=CSV

Features are kept in the folder `--features`, results in `results.json.gz`; what was measured with the same weights and
images is not measured again, so that an interrupted run goes on where it was. `--fresh` measures everything again from
the features. Sets whose folders are not given are left out.
"""

import argparse
import hashlib
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from conceptlens.core.files import read_json, write_json
from conceptlens.encoders import make_text_encoder
from pretraining.command import command
from pretraining.probe.features import FeatureStore, list_key
from pretraining.probe.linear import STRENGTHS, probe
from pretraining.probe.models import Model, random_vit, student, teacher
from pretraining.probe.patches import measure_patches
from pretraining.probe.prompts import measure_prompts
from pretraining.probe.sets import ImageSet, load_sets, parse_places
from pretraining.probe.table import markdown

PROBED = ("imagenette", "blood", "idrid", "ham", "cub")
PROMPTED = ("imagenette", "unseen")


class Results:
    """`results.json.gz`, written after every measurement; an entry is kept as long as its key is the same."""

    def __init__(self, path: Path, about: dict[str, Any], *, fresh: bool) -> None:
        self.path = path
        old = read_json(path) if path.is_file() and not fresh else {}
        self.values: dict[str, Any] = about | {
            part: old.get(part, {}) for part in ("probes", "prompts", "patches", "models")
        }

    def measure(self, part: str, name: str, key: str, work: Callable[[], dict[str, Any]]) -> None:
        """Do the work unless its result is there already."""
        if self.values[part].get(name, {}).get("key") == key:
            return
        started = time.perf_counter()
        found = work()
        self.values[part][name] = {"key": key, **found, "seconds": round(time.perf_counter() - started, 1)}
        write_json(self.path, self.values)
        print(f"{part}: {name} measured in {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    return {
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def probe_sets(results: Results, store: FeatureStore, sets: dict[str, ImageSet], models: dict[str, Sequence[Model]],
               seeds: Sequence[int]) -> None:  # fmt: skip
    """Extract features of every set once for all its networks, then fit the probes."""
    for name, images in sets.items():
        store.extract(images, models[name])
        if name not in PROBED:
            continue
        for model in models[name]:
            results.measure(
                "probes",
                f"{name}/{model.name}",
                f"{model.key} {list_key(images)} {list(seeds)} {STRENGTHS}",
                lambda images=images, model=model: probe(store.load(images, model), images, seeds),  # type: ignore[misc]
            )


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, help="of builtin/vit; the package's own if not given")
    parser.add_argument("--without-blood", type=Path, help="weights of the same network trained without blood cells")
    parser.add_argument("--teachers", type=Path, required=True, help="folder with the teachers' weights")
    parser.add_argument("--data", nargs="+", required=True, metavar="NAME=PATH")
    parser.add_argument("--features", type=Path, required=True, help="where features are kept")
    parser.add_argument("--out", type=Path, default=Path("evidence/builtin-encoder"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--patch-images", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--fresh", action="store_true", help="measure again what results.json.gz has")
    args = parser.parse_args(arguments)
    torch.set_num_threads(args.threads)
    measure_all(args)


def measure_all(args: argparse.Namespace) -> None:
    places = parse_places(args.data)
    sets = load_sets(places)
    ours, random = student("builtin/vit", args.weights), random_vit(seed=0)
    lite, resnet, sam = (teacher(name, args.teachers) for name in ("efficientnet_lite0", "resnet50", "mobile_sam"))
    models: dict[str, Sequence[Model]] = {name: [lite, ours, random] for name in sets}
    models["unseen"] = [ours]
    if args.without_blood:
        models["blood"] = [*models["blood"], student("without blood cells", args.without_blood)]
    results = Results(args.out / "results.json.gz", {"machine": machine(), "seeds": args.seeds}, fresh=args.fresh)
    for model in (ours, random, lite, resnet, sam):
        results.values["models"][model.name] = {"key": model.key, "size": model.size}
    store = FeatureStore(args.features)
    probe_sets(results, store, sets, models, args.seeds)
    text = make_text_encoder("builtin/text")
    words = hashlib.sha256(text.embed(["a photo of a bird"]).numpy().tobytes()).hexdigest()[:16]
    for name in PROMPTED:
        if name in sets:
            results.measure(
                "prompts",
                name,
                f"{ours.key} {words} {list_key(sets[name])}",
                lambda name=name: measure_prompts(store.load(sets[name], ours, "aligned"), sets[name], text),  # type: ignore[misc]
            )
    if "cub" in sets:
        for model in (ours, random, lite, resnet, sam):
            results.measure(
                "patches",
                model.name,
                f"{model.key} {list_key(sets['cub'])} {args.patch_images}",
                lambda model=model: measure_patches(model, sets["cub"], places, count=args.patch_images),  # type: ignore[misc]
            )
    write_json(results.path, results.values)
    print(markdown(args.out))


if __name__ == "__main__":
    sys.exit(main())
