"""Is the recipe that `conceptlens init` writes good enough? Against the best of 20 trials that validation chose.

    python evidence/own-data/run.py init DATA WORK                    folders with a sheet, and `init`'s recipes
    python evidence/own-data/run.py search DATA WORK OUT.jsonl        default and trials, seed by seed
    python evidence/own-data/run.py check DATA WORK OUT.jsonl         defaults by `conceptlens train`, to compare
    python evidence/own-data/run.py pack DATA SMALL                   only the files of DATA that the blocks read

DATA holds the packs `wbcatt_128`, `idrid_384`, `ham10000_200x150` (with `ham10000_split.csv`) and `cub_144` as they are
published. For every set, size and seed there is a folder with a sheet: 100 or 300 training images, half as many for
validation, at most 500 for the test. `init` writes its recipe. That recipe, the default, is trained, and so are 20
trials drawn from `SPACE` with the same seed. The trial that is best on validation is tested, and so is the default. The
encoder stays as it is in all of them, so that all trials that read the same tokens are trained side by side
(`together.py`): the default is a part of a block, and so are the trials of an encoder and its layers.

It can be stopped at any time. Each part is added to `OUT.parts.jsonl` as it ends, a block's rows to OUT when its last
part is known, and what is there is not done again. Each part tests the trial that validation found best in it; of these
tests, a block's rows hold only that of its best trial.
"""

import argparse
import json
import multiprocessing
import os
import platform
import random
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from folders import ENCODERS, SEEDS, SETS, SIZES, Block, drawn, setup

sys.path.insert(0, str(Path(__file__).parents[1]))

import raw_rows  # a neighbor

TRIALS = 20
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
Part = str  # "default", or the encoder and layers that some trials share
PARTS = ("default", *(f"{encoder} {layers}" for encoder in ENCODERS for layers in ("several", "last")))
COSTLY = ("blood-cells", "birds", "idrid", "skin")  # first, so that the processes end together
STORED: dict[tuple[str, str], dict[str, Any]] = {}  # set and encoder → image → what a store would keep of it


def blocks(given: argparse.Namespace) -> list[Block]:
    return [(name, size, seed) for seed in given.seeds for name in given.sets for size in given.sizes]


def settings_of(number: int, seed: int) -> list[Row]:
    draw = random.Random(1000 + seed)
    return [{key: draw.choice(values) for key, values in SPACE.items()} for _ in range(number)]


def search(block: Block, part: Part, given: argparse.Namespace) -> list[Row]:
    """The trainings of a part of a block."""
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
    layers = part.split()[-1] if has_concepts else ""
    probes: dict[str, float] = {}
    if part == "default":
        probes = {name: probe(*encode(recipe_with(name))) for name in ENCODERS}
        auto = max(ENCODERS, key=lambda name: probes[name])
        chosen: list[tuple[Trial, Row]] = [(trial("default", {}, auto), {"encoder": auto})]
    else:
        chosen = []
        for number, setting in enumerate(settings_of(given.trials, block[2])):
            if part == f"{setting['encoder']} {setting['layers'] if has_concepts else 'several'}":
                chosen.append((trial(f"trial {number}", setting, setting["encoder"]), setting))
    if not chosen:
        return []
    recipe = recipe_with(chosen[0][1]["encoder"], layers)
    pipeline, packed = encode(recipe)
    judge = train_together(session, pipeline, packed, rows.numpy(), [found for found, _ in chosen])
    best = max((found for found, _ in chosen), key=lambda found: (found.value, found.tie))
    tested = judge.test(best, splits.test, encode(recipe, test=True)[1])
    lines: list[Row] = []
    for found, setting in chosen:
        kept = {key: value for key, value in setting.items() if has_concepts or key not in ("layers", "concept_weight")}
        if found.name == "default":
            kept["learning_rate"] = found.recipe.training.learning_rate
        line: Row = {"what": found.name, "settings": kept, "val": found.value, "val_concept_auc": found.tie}
        lines.append(line | {"epoch": found.epoch, "epochs": found.epochs, **(tested if found is best else {})})
    if part == "default":
        sides = {side: len(splits[side]) for side in ("train", "val", "test")}
        lines[0] |= {"images": sides, "probes": probes, "device": device.type, "machine": machine()}
    lines[0]["seconds"] = time.perf_counter() - started
    return lines


def machine() -> Row:
    import torch

    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    found: Row = {"cpu": next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")}
    found |= {"cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__}
    return found | ({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {})


def joined(block: Block, parts: dict[Part, list[Row]]) -> list[Row]:
    """A block's rows: of the trials, only the best on validation says what the test gave."""
    lines = [line for part in PARTS for line in parts[part]]
    trials = [line for line in lines if line["what"] != "default"]
    best = max(trials, key=lambda line: (line["val"], line["val_concept_auc"])) if trials else None
    seconds = sum(line.pop("seconds", 0.0) for line in lines)
    for line in lines:
        if line is best:
            line["chosen"] = True
        elif line["what"] == "default":
            line["seconds"] = seconds
        else:
            line.pop("test", None), line.pop("test_concept_auc", None)
    return [{**dict(zip(("set", "size", "seed"), block, strict=True)), **line} for line in lines]


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


def pack(given: argparse.Namespace) -> None:
    """What the blocks read of the packs, in the same places: all tables, and the images that were drawn."""
    tables = [file for file in given.data.rglob("*") if file.is_file() and file.suffix in (".csv", ".txt")]
    for file in {*tables, *(image for block in blocks(given) for image, _ in drawn(block[0], given.data, *block[1:]))}:
        place = given.work / file.relative_to(given.data)
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)


def write(path: Path, lines: list[Row]) -> None:
    """Added in one piece."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))


def read(path: Path) -> list[Row]:
    """The rows that are there; a last line that was cut off is none."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def one(task: tuple[str, Block, Part, argparse.Namespace]) -> tuple[Block, Part, list[Row] | None]:
    what, block, part, given = task
    try:
        from conceptlens.core.allocation import kept_memory

        lines: list[Row] = []
        if what == "init":
            setup(block, given.data, given.work)
        elif what == "check":
            check(block, given)
        else:
            with kept_memory():
                lines = search(block, part, given)
    except Exception as error:  # one block must not end the others
        import traceback

        print(f"{block} {part}: {error!r}\n{traceback.format_exc()}", flush=True)
        return block, part, None
    print(f"{block} {part}: done", flush=True)
    return block, part, lines


def search_all(given: argparse.Namespace) -> None:
    """All parts that are missing, the costly first; a block is written with its last part."""
    started, known = time.monotonic(), given.out.with_suffix(".parts.jsonl")
    rows = read(given.out) + (raw_rows.read(given.have) if given.have else [])
    finished = {(row["set"], row["size"], row["seed"]) for row in rows}
    wanted = [block for block in blocks(given) if block not in finished]
    parts: dict[Block, dict[Part, list[Row]]] = {block: {} for block in wanted}
    for row in read(known):
        if tuple(row["block"]) in parts:
            parts[tuple(row["block"])][row["part"]] = row["lines"]
    wanted.sort(key=lambda block: (COSTLY.index(block[0]), -block[1]))
    left = [("search", block, part, given) for block in wanted for part in PARTS if part not in parts[block]]
    print(f"{len(wanted)} blocks, {len(left)} parts", flush=True)

    def finish(block: Block) -> None:
        if len(parts[block]) == len(PARTS):
            write(given.out, joined(block, parts[block]))

    for block in wanted:
        finish(block)
    with multiprocessing.get_context("spawn").Pool(given.processes) as pool:
        pool.map(one, [("init", block, "", given) for block in wanted], chunksize=1)
        found = pool.imap_unordered(one, left, chunksize=1)
        for _ in left:
            try:
                block, part, lines = found.next(max(given.seconds - (time.monotonic() - started), 0.1))
            except multiprocessing.TimeoutError:
                print(f"stopped after {given.seconds:.0f} s: the same command goes on", flush=True)
                return
            if lines is not None:
                write(known, [{"block": block, "part": part, "lines": lines}])
                parts[block][part] = lines
                finish(block)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("init", "search", "check", "pack"))
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--have", type=Path, help="a file like OUT: its blocks are not done again")
    parser.add_argument("--seconds", type=float, default=1e6, help="then it ends, and what runs is given up")
    parser.add_argument("--limit-epochs", type=int, default=0, help="to try the script")
    given = parser.parse_args()
    if given.what == "pack":
        pack(given)
    elif given.what == "search":
        search_all(given)
    else:
        for block in blocks(given):
            one((given.what, block, "", given))


if __name__ == "__main__":
    main()
