"""Two questions of the IVQ-CBM paper with encoders that learn: rank, and Table 1. One line of ROWS a finished training.

    PYTHONPATH=src:. python evidence/ivq-rank/learning.py WORK ROWS [--experiment rank|table1] [--seconds 290]
        [--processes 6] [--sets …]

WORK holds what `conceptlens data prepare` wrote for blood-cells, ham10000, idrid and cub; a set that is not there is
left out. Every training is the package's own (`start_run`, which `conceptlens train` calls, without the page); images
are decoded once for all trainings, to the same bytes. It goes on from the rows of an earlier call.

rank: patch rank of up to 128 validation images by epoch while the whole encoder learns: EfficientNet-Lite0 (ImageNet,
no loss on patches), and the built-in ViT's network from three starts that `distil.py` makes, one of them with the
variance-covariance term and two without, and from scratch. Eq. 9's losses joint as printed (logits, the class's
gradient reaches everything), regularizer IVQ, plain L2 or none. The weights 0.01, 0.1 and 1 are tried for both with
seed 0; validation (mean of balanced accuracy and concept AUC) chooses for further seeds. `published`: the published
code at its weight of 1 with its own 150 epochs, batch, rate, schedule and crops; its class weights are those of ISIC,
here they are balanced.
table1: the last two blocks of builtin/vit learn, or the whole encoder at a third of the rate; IVQ on for ivq-cbm;
gradient-trained methods of the paper's Table 1 as their papers say (not the package's own bottleneck), evidence-cbm
and a black box. The rate is what validation chose in earlier trials with seed 0 (`../ivq-table1`), where there were
any, and 0.001 otherwise; seeds 1, 2 and 3. On IDRiD three published codes, too, with their own epochs, batch and rate.
"""

import argparse
import gzip
import heapq
import json
import multiprocessing as mp
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

Tree = dict[str, Any]
RANKS = ("published", "effective")
WEIGHTS, SEEDS = (0.01, 0.1, 1.0), (1, 2, 3)
JOINT: Tree = {"space": "logit", "randint": 0.0, "class_gradient": 1.0, "calibrate": False, "head_rate": 1.0}
PROBABILITY: Tree = {**JOINT, "space": "probability"}
WHOLE: Tree = {"train": "all", "learning_rate": 3.0e-4}
DISTILLED = {f"vit, {start}": start for start in ("patches", "class token", "decorrelated")}
ENCODERS: Tree = {
    **{name: {"name": "builtin/vit", **WHOLE} for name in DISTILLED},
    "efficientnet-lite0": {"name": "builtin/efficientnet-lite0", **WHOLE},
    "vit from scratch": {"name": "builtin/vit", "pretrained": False, **WHOLE},
    "builtin/vit": {"name": "builtin/vit", **WHOLE},
}
EPOCHS = {"blood cells": 6, "HAM10000": 6, "IDRiD": 150, "CUB": 20}  # of the rank experiment
TABLE1_EPOCHS = {"blood cells": 6, "HAM10000": 6, "IDRiD": 40, "CUB": 20}
TABLE1: Tree = {
    "ivq-cbm": {"method": {"name": "ivq-cbm", **JOINT}},
    "ivq-cbm, no IVQ": {"method": {"name": "ivq-cbm", **JOINT}, "regularizer": "none"},
    "class token, same head": {"method": {"name": "ivq-cbm", "aggregate": "cls", **JOINT}, "regularizer": "none"},
    "black-box": {"method": {"name": "black-box"}},
    "cbm": {"method": {"name": "cbm", **JOINT}},
    "mvp-cbm": {"method": {"name": "mvp-cbm", **JOINT}},
    "evidence-cbm": {"method": {"name": "evidence-cbm"}},
    "explicd": {"method": {"name": "explicd", **PROBABILITY}},
    "coop-cbm": {"method": {"name": "coop-cbm", **JOINT}},
    "dot-cbm": {"method": {"name": "dot-cbm", **JOINT}},
}
SETS: Tree = {
    "blood cells": {"data": {"source": "blood.csv", "images": "blood"}, "concepts": "blood-cells"},
    "HAM10000": {"data": {"source": "ham10000.csv", "images": "ham10000"}, "concepts": "dermoscopy"},
    "IDRiD": {"data": {"source": "idrid.csv", "images": "idrid"}, "concepts": "fundus"},
    "CUB": {"data": {"source": "cub/images.csv"}, "concepts": "cub-112"},
}
SCORES = (
    ("class", "accuracy"),
    ("class", "balanced_accuracy"),
    ("concept", "auc"),
    ("concept", "auc_within_class"),
    ("concept", "balanced_accuracy"),
)
RANK_IMAGES = 128  # of validation, in every epoch; the package's own runs take 32
CELL = ("experiment", "code", "data", "encoder", "regularizer", "weight", "method", "rate", "train", "pixels", "start")
SHOWN = (*(name for name in CELL if name not in ("experiment", "pixels")), "seed", "seconds", "failed")


def weights_of(start: str, work: Path) -> Path:
    return work / f"start-{start.replace(' ', '-')}.safetensors"


def recipe_of(task: Tree, work: Path, tiny: bool) -> Tree:
    """The recipe of one training, complete but for the preset beneath it."""
    base = SETS[task["data"]]
    data: Tree = {name: str(work / value) for name, value in base["data"].items()}
    training: Tree = {"rank_every": 0, "compile": False, "precision": "fp32" if tiny else "bf16"}
    recipe: Tree = {"data": data, "concepts": base["concepts"], "seed": task["seed"]}
    recipe["metrics"] = {"bootstrap": 0, "rank_images": 0}
    if task["experiment"] == "rank":
        name = task["regularizer"]
        recipe["encoder"] = dict(ENCODERS[task["encoder"]])
        if task["encoder"] in DISTILLED:
            recipe["encoder"]["weights"] = str(weights_of(DISTILLED[task["encoder"]], work))
        training["validate_every"] = 10 if task["data"] == "IDRiD" else 1
        if task["code"] == "published":
            recipe["encoder"].pop("learning_rate")
            recipe["method"] = {"name": "ivq-cbm-released"}
            training["loss"] = {"class_balance": "balanced"}
        else:
            recipe["method"] = {"name": "ivq-cbm", **JOINT}
            training |= {"batch_size": 64, "warmup": 0.5, "epochs": EPOCHS[task["data"]], "learning_rate": 1.0e-3}
        if name != "ivq" or task["code"] != "published":  # else as its preset says
            recipe["regularizer"] = {"name": name} if name == "none" else {"name": name, "weight": task["weight"]}
    elif task.get("code") == "published":
        recipe |= {"encoder": {"name": "builtin/vit", "train": "all"}, "method": {"name": task["method"]}}
        training |= {"loss": {"class_balance": "balanced"}, "validate_every": 5}
    else:
        recipe["encoder"] = {"name": "builtin/vit", "train": task["train"]}
        if task["train"] == "all":
            recipe["encoder"]["learning_rate"] = task["rate"] / 3
        recipe |= TABLE1[task["method"]]
        if task["method"] in ("mvp-cbm", "evidence-cbm"):
            recipe["encoder"]["layers"] = "all" if task["method"] == "mvp-cbm" else "several"
        training |= {"batch_size": 64, "warmup": 0.5, "epochs": TABLE1_EPOCHS[task["data"]]}
        training["learning_rate"] = task["rate"]
        if task["data"] == "CUB":
            training |= {"batch_size": 128, "validate_every": 4}
    if tiny:
        data["limit"] = 64
        training["epochs"] = 1
    recipe["training"] = training
    return recipe


def pixel_file(work: Path, source: Any, size: int) -> Path:
    return work / f"pixels-{source.examples.fingerprint[:16]}-{size}.npy"


def share_pixels(work: Path) -> None:
    """Readers of whole data sets find their images decoded."""
    import numpy as np

    from conceptlens.data.loading import loader

    plain = loader.PixelReader.__init__

    def begin(self: Any, source: Any, size: int, fit: Any = "squash", cache_mb: int = 512, workers: int = 0) -> None:
        file = pixel_file(work, source, size)
        plain(self, source, size, fit, 0 if file.exists() else cache_mb, workers)
        if file.exists():
            self._cache = np.load(file, mmap_mode="r")
            self._cached = np.ones(len(source), dtype=bool)

    loader.PixelReader.__init__ = begin  # type: ignore[method-assign]


def opened(work: Path, name: str) -> Any:
    """A data set's source."""
    from conceptlens.concepts import ConceptSet
    from conceptlens.data.sources.open import open_source
    from conceptlens.recipes.parse import load_recipe

    places = {key: str(work / value) for key, value in SETS[name]["data"].items()}
    recipe = load_recipe({"data": places, "concepts": SETS[name]["concepts"], "out": "unused"})
    return open_source(recipe.data, ConceptSet.load(str(recipe.concepts)))[0]


def decode(job: tuple[Any, ...]) -> None:
    """Some images of a data set at one size, into the file of all."""
    import numpy as np

    from conceptlens.data.loading.loader import PixelReader

    work, name, size, part, parts = job
    source = opened(work, name)
    file = pixel_file(work, source, size)
    if file.exists():
        return
    file = file.with_suffix(".part.npy")
    if part < 0:
        np.lib.format.open_memmap(file, "w+", np.uint8, (len(source), 3, size, size)).flush()
        return
    pixels = np.lib.format.open_memmap(file, "r+")
    rows = np.array_split(np.arange(len(source)), parts)[part]
    reader = PixelReader(source, size, cache_mb=0)
    for chunk in np.array_split(rows, max(1, len(rows) // 128)):
        pixels[chunk] = reader.batch(chunk).numpy()
    pixels.flush()


def begin_worker(work: Path, threads: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    import torch

    torch.set_num_threads(threads)
    import conceptlens.evaluation.summary as summary
    import conceptlens.runs.predict as predicting
    import conceptlens.training.stage as stage
    import conceptlens.training.train as train
    from conceptlens.stats.rank import patch_ranks

    def validated(*given: Any, rank_images: int, **options: Any) -> Any:
        return predicting.predict(*given, rank_images=RANK_IMAGES, **options)

    for module, name, value in (
        (stage, "predict", validated),
        (predicting, "rank_columns", lambda patches: patch_ranks(patches, RANKS)),  # the two that pages show
        (train, "_training_vectors", lambda session: None),  # this and the next: bars that no page here shows
        (summary, "label_to_class_ceiling", lambda *labels: None),
    ):
        setattr(module, name, value)
    share_pixels(work)
    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")


def run_folder(work: Path) -> Path:
    """Where a training keeps its files until its row is written: in memory, where there is enough."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > 8 * 2**30
    return (memory if roomy else work) / "conceptlens-learning" / f"{os.getpid()}-{time.time_ns()}"


def begin_start(task: Tree, work: Path, tiny: bool) -> Tree:
    """Make the weights of a start, from the training images of every set."""
    import numpy as np
    from distil import SIDE, STEPS, distil

    files, chosen = [], []
    for name in SETS:
        if not (work / SETS[name]["data"]["source"]).exists():
            continue
        source = opened(work, name)
        file = pixel_file(work, source, SIDE)
        if file.exists():
            files.append(file)
            chosen.append(np.flatnonzero(np.asarray(source.examples.split) == "train").tolist()[: 4 if tiny else None])
    return distil(task["start"], files, chosen, weights_of(task["start"], work), 3 if tiny else STEPS, 420.0)


def perform(job: tuple[Any, ...]) -> Tree:
    task, work, tiny = job
    row, began = dict(task), time.time()
    out = run_folder(work)
    try:
        if task["experiment"] == "start":
            row |= begin_start(task, work, tiny)
        else:
            row |= trained(recipe_of(task, work, tiny) | {"out": str(out)})
    except Exception as error:  # one that fails must not cost the others
        import traceback

        row["failed"] = f"{type(error).__name__}: {error}"[:400] + " | " + traceback.format_exc()[-600:]
    shutil.rmtree(out, ignore_errors=True)
    row["seconds"] = round(time.time() - began, 1)
    return row


def trained(recipe: Tree) -> Tree:
    """Scores of the epoch that validation chose, and ranks by epoch."""
    from conceptlens.core.files import read_json
    from conceptlens.recipes.parse import load_recipe
    from conceptlens.training.train import start_run

    folder = start_run(load_recipe(recipe, trusted=True), lambda *anything: None, quiet=True)
    splits = read_json(folder.path / "metrics.json")["splits"]
    row: Tree = {}
    for side in ("val", "test"):
        row[side] = {f"{group}.{name}": splits[side].get(group, {}).get(name) for group, name in SCORES}
    history = [json.loads(line) for line in (folder.path / "history.jsonl").read_text("utf-8").splitlines()]
    lines = [line for line in history if line.get("split") == "val" and "rank.published" in line]
    row["rank_by_epoch"] = {kind: [round(line[f"rank.{kind}"], 3) for line in lines] for kind in RANKS}
    names = ("epoch", "class.balanced_accuracy", "concept.auc")
    row["epoch_scores"] = [[line.get(name) for name in names] for line in lines]
    return row


def worth(row: Tree) -> float:
    parts = [row["val"]["class.balanced_accuracy"], row["val"].get("concept.auc")]
    return sum(part for part in parts if part is not None) / sum(part is not None for part in parts)


class Line:
    """What is still to train, by importance; a cell's further seeds join when its trials are done."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Tree]] = []
        self.cells: dict[int, Tree] = {}
        self.starts: dict[str, list[tuple[list[Tree], int]]] = {}  # cells that wait for their encoder
        self.count = 0

    def add(self, priority: int, task: Tree) -> None:
        heapq.heappush(self.heap, (priority, self.count, task))
        self.count += 1

    def cell(self, trials: list[Tree], priority: int) -> None:
        """Trials with seed 0; the best goes on with two more seeds."""
        key = len(self.cells)
        self.cells[key] = {"missing": len(trials), "rows": [], "priority": priority}
        for trial in trials:
            self.add(priority, trial | {"cell": key, "seed": 0})

    def done(self, row: Tree) -> None:
        if row["experiment"] == "start":
            for trials, priority in self.starts.pop(row["start"], []) if "failed" not in row else []:
                self.cell(trials, priority)
        if row["seed"] != 0 or "cell" not in row:
            return
        cell = self.cells[row["cell"]]
        cell["missing"] -= 1
        if "failed" not in row:
            cell["rows"].append(row)
        if cell["missing"] == 0 and cell["rows"]:
            best = max(cell["rows"], key=worth)
            keep = {name: best[name] for name in CELL if name in best}
            for seed in SEEDS[:2]:
                self.add(cell["priority"], keep | {"seed": seed, "chosen": True})


# What decides verdicts comes first: (encoder, code, data set) and how early; `order` of Table 1 likewise.
RANK_ORDER: list[tuple[str, str, str, int]] = [
    ("vit, patches", "printed", "IDRiD", 1),
    ("vit, patches", "printed", "HAM10000", 1),
    ("vit, class token", "printed", "HAM10000", 1),
    ("vit, patches", "published", "IDRiD", 2),
    ("efficientnet-lite0", "printed", "IDRiD", 3),
    ("vit, class token", "printed", "IDRiD", 3),
    ("builtin/vit", "published", "IDRiD", 3),
    ("vit, decorrelated", "printed", "HAM10000", 4),
    ("efficientnet-lite0", "printed", "HAM10000", 5),
    ("vit, patches", "printed", "blood cells", 6),
    ("vit, decorrelated", "printed", "IDRiD", 6),
    ("vit, class token", "published", "IDRiD", 7),
    ("vit from scratch", "printed", "HAM10000", 8),
    ("vit from scratch", "printed", "IDRiD", 9),
]
PUBLISHED = ("explicd-released", "mvp-cbm-released", "coop-cbm-released")  # `ivq-cbm-released` is in RANK_ORDER
DECISIVE = ("ivq-cbm", "ivq-cbm, no IVQ", "black-box", "cbm")
TABLE1_ORDER: list[tuple[str, int | str, tuple[int, int, int]]] = [  # priorities of seeds 1, 2 and 3
    ("HAM10000", 2, (2, 2, 5)),
    ("IDRiD", 2, (2, 2, 5)),
    ("HAM10000", "all", (4, 4, 6)),
    ("CUB", 2, (5, 6, 8)),
    ("blood cells", 2, (6, 7, 8)),
    ("blood cells", "all", (7, 8, 9)),
]


def plan(experiment: str, sets: list[str], rates: dict[tuple[str, str], float]) -> Line:
    line = Line()
    if experiment != "table1":
        for start in DISTILLED.values():
            line.add(0, {"experiment": "start", "start": start, "seed": 0})
    for encoder, code, data, priority in RANK_ORDER if experiment != "table1" else ():
        if data not in sets:
            continue
        for name in ("none", "ivq", "l2"):
            same = {"experiment": "rank", "code": code, "data": data, "encoder": encoder, "regularizer": name}
            weights: tuple[float, ...] = (0.0,) if name == "none" else (1.0,) if code == "published" else WEIGHTS
            trials: list[Tree] = [same | {"weight": weight, "pixels": "original"} for weight in weights]
            if encoder in DISTILLED:
                line.starts.setdefault(DISTILLED[encoder], []).append((trials, priority))
            else:
                line.cell(trials, priority)
    for data, train, priorities in TABLE1_ORDER if experiment != "rank" else ():
        for method in TABLE1 if data in sets else ():
            late = 2 * (method not in DECISIVE and (train == "all" or data == "CUB")) + 2 * (method == "dot-cbm")
            rate = rates.get((data, method), 1.0e-3) if train == 2 else 1.0e-3
            for seed, priority in zip(SEEDS, priorities, strict=True):
                shared = {"experiment": "table1", "data": data, "method": method, "train": train, "rate": rate}
                line.add(priority + late, shared | {"pixels": "original", "seed": seed})
    for method in PUBLISHED if experiment != "rank" and "IDRiD" in sets else ():
        shared = {"experiment": "table1", "code": "published", "data": "IDRiD", "method": method, "train": "all"}
        for seed in SEEDS:
            line.add(4, shared | {"rate": None, "pixels": "original", "seed": seed})
    return line


def chosen_rates() -> dict[tuple[str, str], float]:
    """The rates that validation chose in the earlier trials of Table 1, last two blocks."""
    file = Path(__file__).parents[1] / "ivq-table1" / "fine-tuned.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()] if file.exists() else []
    best: dict[tuple[str, str], Tree] = {}
    for row in rows:
        key = (row["data"], row.get("method", ""))
        trial = row["experiment"] == "table1" and row["seed"] == 0 and row["train"] == 2 and "failed" not in row
        if trial and "pixels" not in row and (key not in best or worth(row) > worth(best[key])):
            best[key] = row
    return {key: row["rate"] for key, row in best.items()}


def named(task: Tree) -> tuple[Any, ...]:
    """What tells a training from others, so that a second call goes on from the rows of the first."""
    return (*(task.get(name) for name in CELL), task["seed"])


def sizes_of(name: str, experiment: str) -> list[int]:
    """Sides in pixels at which a set is read: by the ViT, by `distil.py`, by EfficientNet-Lite0."""
    read = {data for encoder, _, data, _ in RANK_ORDER if encoder == "efficientnet-lite0"}
    return [112] if experiment == "table1" else [112, 128, *([224] if name in read else [])]


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("work", "rows"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seconds", type=float, default=290)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tiny", action="store_true", help="a try on a CPU")
    parser.add_argument("--most", type=int, default=10**9)
    parser.add_argument("--experiment", choices=("both", "rank", "table1"), default="both")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    given = parser.parse_intermixed_args()
    began = time.time()
    signal.signal(signal.SIGTERM, lambda *anything: sys.exit(1))  # leaves no worker behind
    given.work.mkdir(parents=True, exist_ok=True)
    sets = [name for name in given.sets if (given.work / SETS[name]["data"]["source"]).exists()]
    spawn = mp.get_context("spawn")
    line, finished = plan(given.experiment, sets, chosen_rates()), 0
    earlier = [json.loads(text) for text in given.rows.read_text().splitlines()] if given.rows.exists() else []
    known = {named(row): row for row in earlier if "failed" not in row}
    busy: list[Any] = []
    files = [(given.work, name, size) for name in sets for size in sizes_of(name, given.experiment)]
    with spawn.Pool(2 * given.processes) as decoders:
        decoders.map(decode, [(*file, -1, 0) for file in files])
        parts = [(*file, part, 2 * given.processes) for file in files for part in range(2 * given.processes)]
        decoders.map(decode, parts, chunksize=1)
    for file in given.work.glob("pixels-*.part.npy"):
        file.rename(file.with_name(file.name.replace(".part", "")))
    print(f"{time.time() - began:.1f} s: images decoded", flush=True)
    with spawn.Pool(given.processes, begin_worker, (given.work, given.threads)) as pool, given.rows.open("a") as rows:
        while (line.heap or busy) and time.time() - began < given.seconds and finished < given.most:
            while line.heap and len(busy) < given.processes:
                _, _, task = heapq.heappop(line.heap)
                made = task["experiment"] != "start" or weights_of(task["start"], given.work).exists()
                if named(task) in known and made:
                    line.done(known[named(task)] | ({"cell": task["cell"]} if "cell" in task else {}))
                    continue
                busy.append(pool.apply_async(perform, ((task, given.work, given.tiny),)))
            ready = [result for result in busy if result.ready()]
            busy = [result for result in busy if result not in ready]
            for result in ready:
                row = result.get()
                line.done(row)
                finished += 1
                rows.write(json.dumps(row | {"at": round(time.time() - began, 1)}) + "\n")
                rows.flush()
                words = {key: value for key, value in row.items() if key in SHOWN}
                print(f"{time.time() - began:6.1f} s", words, row.get("val"), flush=True)
            time.sleep(0.05)
        print(f"{time.time() - began:.1f} s: {finished} trainings, {len(line.heap)} left", flush=True)
        pool.terminate()
        pool.join()


if __name__ == "__main__":
    main()
