"""Is the recipe that `conceptlens init` writes good enough? Against the best of 20 trials that validation chose.

    python evidence/own-data/run.py init DATA WORK                    folders with a sheet, and `init`'s recipes
    python evidence/own-data/run.py search DATA WORK OUT.jsonl        default and trials, seed by seed
    python evidence/own-data/run.py check DATA WORK OUT.jsonl         defaults by `conceptlens train`, to compare

DATA holds the packs `wbcatt_128`, `idrid_384`, `ham10000_200x150` (with `ham10000_split.csv`) and `cub_144` as they are
published. For every set, size and seed there is a folder with a sheet: 100 or 300 training images, half as many for
validation, at most 500 for the test. `init` writes its recipe. That recipe, the default, is trained, and so are 20
trials drawn from `SPACE` with the same seed. The trial that is best on validation is tested, and so is the default. The
encoder stays as it is in all of them, so that all trials that read the same tokens are trained side by side
(`together.py`). A block's rows are written when they are known; what is there is not done again.
"""

import argparse
import json
import multiprocessing
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from folders import SEEDS, SETS, SIZES, make_folder

TRIALS = 20
ENCODERS = ("builtin/vit", "builtin/efficientnet-lite0")
# What a person who tunes would try. `layers` and the weight of the concepts say nothing to a black box.
SPACE: dict[str, list[Any]] = {
    "learning_rate": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2],
    "weight_decay": [0.01, 0.1],
    "epochs": ["auto", 50, 200],
    "class_balance": ["none", "balanced"],
    "concept_weight": [0.3, 1.0, 3.0],
    "encoder": list(ENCODERS),
    "layers": ["several", "last"],
}
VALIDATIONS = 25  # of a trial with a number of epochs
MOST_STORED = 1000  # images of a set that an encoder remembers from block to block
Row = dict[str, Any]
Block = tuple[str, int, int]
STORED: dict[tuple[str, str], dict[str, Any]] = {}  # set and encoder → image → what a store would keep of it


def blocks(given: argparse.Namespace) -> list[Block]:
    return [(name, size, seed) for seed in given.seeds for name in given.sets for size in given.sizes]


def setup(block: Block, data: Path, work: Path) -> Path:
    """The recipe that `init` writes for a block's folder."""
    import conceptlens as cl

    name, size, seed = block
    folder = make_folder(name, data, size, seed, work / "folders")
    place = work / "setups" / folder.name
    if not (place / "recipe.yaml").exists():
        made = cl.init(folder, out=place, class_column="species" if name == "birds" else "")
        if not made.check.ok:
            raise SystemExit(made.text())
    return place / "recipe.yaml"


def settings_of(number: int, seed: int) -> list[Row]:
    draw = random.Random(1000 + seed)
    return [{key: draw.choice(values) for key, values in SPACE.items()} for _ in range(number)]


def search(block: Block, given: argparse.Namespace) -> None:
    """All trainings of a block; its rows are written together, when the last is known."""
    import numpy as np
    import torch
    from together import Trial, train_together

    from conceptlens.core.devices import best_device
    from conceptlens.core.processes import Launched
    from conceptlens.data.loading.loader import PixelReader
    from conceptlens.encoders.contract import Cut
    from conceptlens.methods.build import Blueprint, build_pipeline
    from conceptlens.recipes.parse import load_recipe
    from conceptlens.runs.predictions import units_of
    from conceptlens.stats.folds import assign_folds
    from conceptlens.training.encoder_choice import probe_accuracy
    from conceptlens.training.epochs import with_epochs
    from conceptlens.training.records.progress import Progress
    from conceptlens.training.train import open_session

    torch.set_num_threads(1)
    started, device = time.perf_counter(), best_device()
    recipe_file = setup(block, given.data, given.work)
    tree: Row = {"seed": block[2], "metrics": {"rank_images": 0}, "training": {"threads": 1, "rank_every": 0}}
    if given.limit_epochs:
        tree["training"]["epochs"] = given.limit_epochs

    def recipe_with(encoder: str, layers: str = "") -> Any:
        change: Row = {"name": encoder}
        if layers == "last":
            change["layers"] = []
        return load_recipe(recipe_file, {**tree, "encoder": change}, trusted=True)

    session = open_session(recipe_with(ENCODERS[0]), None, Launched(), Progress(quiet=True))
    splits, labels = session.splits, session.source.examples.labels
    concepts = session.blueprint.concepts
    used = torch.cat([torch.from_numpy(splits[side]) for side in ("train", "val")]).numpy()
    rows = torch.full((len(labels),), -1, dtype=torch.int64)
    rows[torch.from_numpy(used)] = torch.arange(len(used))

    readers: dict[int, PixelReader] = {}
    names = session.source.examples.ids

    def encode(recipe: Any, *, test: bool = False) -> tuple[Any, Any]:
        """A fresh pipeline, cut, and what a store would keep of the images: with all layers first, then of the last."""
        torch.manual_seed(block[2])
        pipeline = build_pipeline(Blueprint(recipe, concepts, session.blueprint.classes))
        encoder = pipeline.encoder.to(device).eval()
        size = recipe.encoder.image_size or encoder.image_size
        reader = readers.setdefault(size, PixelReader(session.source, size, recipe.data.fit))  # keeps what it decoded
        stored = STORED.setdefault((block[0], recipe.encoder.name), {})
        wanted = splits.test if test else used

        def packed(indices: Any) -> Any:
            with torch.inference_mode():
                return encoder.before(encoder.normalize(reader.batch(indices).to(device)), 0).half()

        _, length, width = packed(wanted[:1]).shape
        missing = [i for i in wanted.tolist() if names[i] not in stored or stored[names[i]].numel() < length * width]
        if len(stored) + len(missing) > MOST_STORED:
            stored.clear()
            missing = wanted.tolist()
        for start in range(0, len(missing), 64):
            some = missing[start : start + 64]
            stored |= zip((names[index] for index in some), packed(np.array(some)), strict=True)
        # what leaves the last block comes first
        found = torch.stack([stored[names[index]][:length, :width] for index in wanted.tolist()])
        encoder.cut = Cut(0, encoder.grid(size, size))
        return pipeline, found

    def probe(pipeline: Any, packed: Any) -> float:
        """`encoder.name: auto`: how well a linear model of the vectors recognizes classes, cross-validated."""
        both, found = np.concatenate([splits.train, splits.val]), []
        for part in packed[rows[both]].split(64):
            t = pipeline.encoder.from_stored(part)
            mean = t.patches.mean(1)
            found.append(mean if t.cls is None else torch.cat([t.cls, mean], 1))
        fold = assign_folds(units_of(session.source, both))
        return probe_accuracy(torch.cat(found).double().cpu().numpy(), labels[both], fold)

    def trial(name: str, setting: Row, encoder: str) -> Trial:
        recipe = recipe_with(encoder, setting.get("layers", ""))
        training = recipe.training
        loss = replace(
            training.loss,
            class_balance=setting.get("class_balance", training.loss.class_balance),
            concept_weight=setting.get("concept_weight", 1.0) if has_concepts else 0.0,
        )
        epochs = given.limit_epochs or setting.get("epochs", "auto")
        every = None if epochs == "auto" else max(epochs // VALIDATIONS, 1)
        keys = {key: setting[key] for key in ("learning_rate", "weight_decay") if key in setting}
        training = replace(training, loss=loss, epochs=epochs, validate_every=every, **keys)
        return Trial(name, with_epochs(replace(recipe, training=training), len(splits.train)))

    has_concepts = str(session.recipe.method["name"]) != "black-box"
    layers = ("several", "last") if has_concepts else ("",)
    drawn = settings_of(given.trials, block[2])
    tokens: dict[tuple[str, str], Any] = {(name, layers[0]): encode(recipe_with(name, layers[0])) for name in ENCODERS}
    probes = {name: probe(*tokens[name, layers[0]]) for name in ENCODERS}
    auto = max(ENCODERS, key=lambda name: probes[name])
    judged: list[tuple[Trial, Any, Row]] = []
    for name in ENCODERS:
        for layer in layers:
            chosen = [
                (trial(f"trial {place}", setting, name), setting)
                for place, setting in enumerate(drawn)
                if setting["encoder"] == name and (not has_concepts or setting["layers"] == layer)
            ]
            if name == auto and layer == layers[0]:
                chosen.append((trial("default", {}, name), {"encoder": name}))
            if chosen:
                pipeline, packed = tokens.pop((name, layer), None) or encode(recipe_with(name, layer))
                judge = train_together(session, pipeline, packed, rows.numpy(), [found for found, _ in chosen])
                judged += [(found, judge, setting) for found, setting in chosen]
    default = next(part for part in judged if part[0].name == "default")
    trials = [part for part in judged if part[0].name != "default"]
    best = max(trials, key=lambda part: (part[0].value, part[0].tie)) if trials else None
    tested = {}
    for found, judge, _ in (default, best) if best is not None else (default,):
        tested[id(found)] = judge.test(found, splits.test, encode(found.recipe, test=True)[1])
    about: Row = {"set": block[0], "size": block[1], "seed": block[2]}
    sides = {side: len(splits[side]) for side in ("train", "val", "test")}
    lines = []
    for found, _, setting in judged:
        kept = {key: value for key, value in setting.items() if has_concepts or key not in ("layers", "concept_weight")}
        if found.name == "default":
            kept["learning_rate"] = found.recipe.training.learning_rate
        line = {**about, "what": found.name, "settings": kept, "val": found.value, "val_concept_auc": found.tie}
        line |= {"epoch": found.epoch, "epochs": found.epochs, **tested.get(id(found), {})}
        if best is not None and found is best[0]:
            line["chosen"] = True
        if found.name == "default":
            line |= {"images": sides, "probes": probes, "seconds": time.perf_counter() - started, "device": device.type}
        lines.append(line)
    write(given.out, lines)


def check(block: Block, given: argparse.Namespace) -> None:
    """The default as a user trains it."""
    import conceptlens as cl
    from conceptlens.core.files import read_json

    started, recipe = time.perf_counter(), setup(block, given.data, given.work)
    tree: Row = {
        "seed": block[2],
        "metrics": {"bootstrap": 0, "rank_images": 0},
        "training": {"rank_every": 0, "threads": 1},
    }
    if given.limit_epochs:
        tree["training"]["epochs"] = given.limit_epochs
    out = given.work / f"run-{'-'.join(map(str, block))}"
    splits = read_json(cl.train(recipe, tree, out=out, overwrite=True, quiet=True).path / "metrics.json")["splits"]
    line: Row = {"set": block[0], "size": block[1], "seed": block[2], "what": "default by conceptlens train"}
    line |= {key: splits[side]["class"]["balanced_accuracy"] for key, side in (("val", "val"), ("test", "test"))}
    write(given.out, [{**line, "seconds": time.perf_counter() - started}])


def write(path: Path, lines: list[Row]) -> None:
    """Added in one piece: several processes write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))


def one(task: tuple[str, Block, argparse.Namespace]) -> None:
    what, block, given = task
    try:
        if what == "init":
            setup(block, given.data, given.work)
        else:
            from conceptlens.core.allocation import kept_memory

            with kept_memory(what == "search"):
                (search if what == "search" else check)(block, given)
    except Exception as error:  # one block must not end the others
        import traceback

        print(f"{block}: {error!r}\n{traceback.format_exc()}", flush=True)
    else:
        print(f"{block}: done", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("init", "search", "check"))
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--limit-epochs", type=int, default=0, help="to try the script")
    given = parser.parse_args()
    done = set()
    if given.out is not None and given.out.exists():
        rows = [json.loads(line) for line in given.out.read_text().splitlines()]
        name = "default" if given.what == "search" else "default by conceptlens train"
        done = {(row["set"], row["size"], row["seed"]) for row in rows if row["what"] == name}
    tasks = [(given.what, block, given) for block in blocks(given) if block not in done]
    if given.processes > 1:
        with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
            for _ in pool.imap_unordered(one, tasks, chunksize=1):
                pass
    else:
        for task in tasks:
            one(task)


if __name__ == "__main__":
    main()
