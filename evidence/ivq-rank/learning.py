"""Two questions of the IVQ-CBM paper with encoders that learn: rank, and Table 1. One line of ROWS a finished training.

    python evidence/ivq-rank/learning.py WORK ROWS [--experiment rank|table1] [--seconds 290] [--processes 6] [--sets …]

WORK holds what `conceptlens data prepare` wrote for blood-cells, ham10000, idrid and cub, or small copies of it
(`travel.py`); a set that is not there is left out. Every training is the package's own (`start_run`, which
`conceptlens train` calls, without the page); images are decoded once for all trainings, to the same bytes.

rank: patch rank of validation images by epoch while the whole encoder learns: EfficientNet-Lite0 (ImageNet, no loss on
patches) and the built-in ViT's network from scratch. Eq. 9's losses joint as printed (logits, the class's gradient
reaches everything), regularizer IVQ, plain L2 or none. The weights 0.01, 0.1 and 1 are tried for both with seed 0;
validation (mean of balanced accuracy and concept AUC) chooses for further seeds. `released`: the published code at its
weight of 1.
table1: the last two blocks of builtin/vit learn (of blood cells and HAM10000 then the whole encoder, at a third of the
rate), IVQ on for ivq-cbm; gradient-trained methods of the paper's Table 1 as their papers say (not the package's own
bottleneck), evidence-cbm and a black box; two rates, chosen likewise.
"""

import argparse
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
RANKS = ("published", "effective", "effective_centered")
WEIGHTS, RATES, SEEDS = (0.01, 0.1, 1.0), (3.0e-4, 1.0e-3), (0, 1, 2)
JOINT: Tree = {"space": "logit", "randint": 0.0, "class_gradient": 1.0, "calibrate": False, "head_rate": 1.0}
PROBABILITY: Tree = {**JOINT, "space": "probability"}
ENCODERS: Tree = {
    "efficientnet-lite0": {"name": "builtin/efficientnet-lite0", "train": "all", "learning_rate": 3.0e-4},
    "vit from scratch": {"name": "builtin/vit", "pretrained": False, "train": "all", "learning_rate": 3.0e-4},
}
EPOCHS = {"efficientnet-lite0": 6, "vit from scratch": 12}
TABLE1_EPOCHS = {"blood cells": 6, "HAM10000": 6, "IDRiD": 40, "CUB": 20}
TABLE1: Tree = {
    "ivq-cbm": {"method": {"name": "ivq-cbm", **JOINT}},
    "black-box": {"method": {"name": "black-box"}},
    "explicd": {"method": {"name": "explicd", **PROBABILITY}},
    "coop-cbm": {"method": {"name": "coop-cbm", **JOINT}},
    "evidence-cbm": {"method": {"name": "evidence-cbm"}},
    "mvp-cbm": {"method": {"name": "mvp-cbm", **JOINT}},
    "cbm": {"method": {"name": "cbm", **JOINT}},
    "ivq-cbm, no IVQ": {"method": {"name": "ivq-cbm", **JOINT}, "regularizer": "none"},
    "class token, same head": {"method": {"name": "ivq-cbm", "aggregate": "cls", **JOINT}, "regularizer": "none"},
    "dot-cbm": {"method": {"name": "dot-cbm", **JOINT}},
}
SETS: Tree = {
    "blood cells": {"data": {"source": "blood.csv", "images": "blood"}, "concepts": "blood-cells"},
    "HAM10000": {"data": {"source": "ham10000.csv", "images": "ham10000"}, "concepts": "dermoscopy"},
    "IDRiD": {"data": {"source": "idrid.csv", "images": "idrid"}, "concepts": "fundus"},
    "CUB": {"data": {"source": "cub/images.csv"}, "concepts": "cub-112"},
}
RANK_SETS = ("blood cells", "HAM10000")  # of the rank experiment, and of whole encoders
SCORES = (
    ("class", "accuracy"),
    ("class", "balanced_accuracy"),
    ("concept", "auc"),
    ("concept", "auc_within_class"),
    ("concept", "balanced_accuracy"),
)
CELL = ("experiment", "code", "data", "encoder", "regularizer", "weight", "method", "rate", "train", "cell")
SHOWN = ("data", "encoder", "regularizer", "weight", "method", "rate", "train", "seed", "code", "seconds", "failed")


def recipe_of(task: Tree, work: Path, tiny: bool) -> Tree:
    """The recipe of one training, complete but for the preset beneath it."""
    base = SETS[task["data"]]
    data: Tree = {name: str(work / value) for name, value in base["data"].items()}
    training: Tree = {"rank_every": 0, "compile": False, "precision": "bf16", "batch_size": 64, "warmup": 0.5}
    recipe: Tree = {"data": data, "concepts": base["concepts"], "seed": task["seed"]}
    recipe["metrics"] = {"bootstrap": 0, "rank_images": 256}
    if tiny:
        data["limit"] = 64
        training["precision"] = "fp32"
    if task["experiment"] == "rank":
        released = task["code"] == "released"
        recipe["encoder"] = dict(ENCODERS[task["encoder"]])
        recipe["method"] = {"name": "ivq-cbm-released"} if released else {"name": "ivq-cbm", **JOINT}
        name = task["regularizer"]
        recipe["regularizer"] = {"name": name} if name == "none" else {"name": name, "weight": task["weight"]}
        if name == "ivq" and released:
            published = {"init": "uniform", "learn": False, "rate": 1.0, "revive": False}
            recipe["regularizer"] |= {"beta": 1.0, "per": "group"} | published
        training |= {"epochs": EPOCHS[task["encoder"]], "learning_rate": 3.0e-4 if released else 1.0e-3}
        if released:
            training |= {"warmup": 0.5, "schedule_by": "step"}
    else:
        recipe["encoder"] = {"name": "builtin/vit", "train": task["train"]}
        if task["train"] == "all":
            recipe["encoder"]["learning_rate"] = task["rate"] / 3
        recipe |= TABLE1[task["method"]]
        if task["method"] in ("mvp-cbm", "evidence-cbm"):
            recipe["encoder"]["layers"] = "all" if task["method"] == "mvp-cbm" else "several"
        training |= {"epochs": TABLE1_EPOCHS[task["data"]], "learning_rate": task["rate"]}
        if task["data"] == "CUB":
            training["batch_size"] = 128
    recipe["training"] = training | ({"epochs": 1} if tiny else {})
    return recipe


def share_pixels(work: Path) -> None:
    """Readers of whole data sets find their images decoded."""
    import numpy as np

    from conceptlens.data.loading import loader

    plain = loader.PixelReader.__init__

    def begin(self: Any, source: Any, size: int, fit: Any = "squash", cache_mb: int = 512, workers: int = 0) -> None:
        file = work / f"pixels-{source.examples.fingerprint[:16]}-{size}.npy"
        plain(self, source, size, fit, 0 if file.exists() else cache_mb, workers)
        if file.exists():
            self._cache = np.load(file, mmap_mode="r")
            self._cached = np.ones(len(source), dtype=bool)

    loader.PixelReader.__init__ = begin  # type: ignore[method-assign]


def decode(job: tuple[Any, ...]) -> None:
    """Some images of a data set at one size, into the file of all."""
    import numpy as np

    from conceptlens.concepts import ConceptSet
    from conceptlens.data.loading.loader import PixelReader
    from conceptlens.data.sources.open import open_source
    from conceptlens.recipes.parse import load_recipe

    work, name, size, part, parts = job
    places = {key: str(work / value) for key, value in SETS[name]["data"].items()}
    recipe = load_recipe({"data": places, "concepts": SETS[name]["concepts"], "out": "unused"})
    source, _ = open_source(recipe.data, ConceptSet.load(str(recipe.concepts)))
    file = work / f"pixels-{source.examples.fingerprint[:16]}-{size}.part.npy"
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
    import conceptlens.encoders.builtin.vit
    import conceptlens.training.train  # noqa: F401

    share_pixels(work)
    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")


def share_device(work: Path) -> None:
    """Kernels of several processes side by side (MPS), where the machine can; nothing changes where it cannot."""
    import subprocess

    places = {"CUDA_MPS_PIPE_DIRECTORY": str(work / "mps"), "CUDA_MPS_LOG_DIRECTORY": str(work / "mps-log")}
    tried = "import torch; torch.ones(8, device='cuda').sum().item()"
    if "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        return  # who called has it in use
    try:
        for place in places.values():
            Path(place).mkdir(exist_ok=True)
        inside = os.environ | places
        subprocess.run(["nvidia-cuda-mps-control", "-d"], env=inside, check=True, timeout=10, capture_output=True)
        words = [sys.executable, "-c", tried]
        pair = [subprocess.Popen(words, env=inside, stderr=subprocess.DEVNULL) for _ in range(2)]
        codes = []
        for one in pair:
            try:
                codes.append(one.wait(timeout=40))
            except subprocess.TimeoutExpired:
                one.kill()
                codes.append(-1)
        if any(codes):
            stop_sharing(inside)
            print(f"no MPS: a trial ended with {codes}", flush=True)
            return
        os.environ.update(places)
        print("MPS in use", flush=True)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"no MPS: {error}", flush=True)


def stop_sharing(inside: Tree) -> None:
    import subprocess

    if inside.get("CUDA_MPS_PIPE_DIRECTORY"):
        words = ["nvidia-cuda-mps-control"]
        subprocess.run(words, input=b"quit\n", env=inside, timeout=10, check=False, capture_output=True)


def perform(job: tuple[Any, ...]) -> Tree:
    from conceptlens.core.files import read_json
    from conceptlens.recipes.parse import load_recipe
    from conceptlens.training.train import start_run

    task, work, tiny = job
    row, began = dict(task), time.time()
    out = work / "runs" / f"{os.getpid()}-{time.time_ns()}"
    try:
        recipe = load_recipe(recipe_of(task, work, tiny) | {"out": str(out)}, trusted=True)
        folder = start_run(recipe, lambda *anything: None, quiet=True)
        splits = read_json(folder.path / "metrics.json")["splits"]
        for side in ("val", "test"):
            found = {f"{group}.{name}": splits[side].get(group, {}).get(name) for group, name in SCORES}
            row[side] = found | {f"rank.{kind}": splits[side].get("rank", {}).get(kind) for kind in RANKS}
        history = [json.loads(line) for line in (folder.path / "history.jsonl").read_text("utf-8").splitlines()]
        lines = [line for line in history if line.get("split") == "val" and "rank.published" in line]
        row["rank_by_epoch"] = {kind: [round(line[f"rank.{kind}"], 3) for line in lines] for kind in RANKS}
        names = ("epoch", "class.balanced_accuracy", "concept.auc")
        row["epoch_scores"] = [[line.get(name) for name in names] for line in lines]
    except Exception as error:  # one that fails must not cost the others
        import traceback

        row["failed"] = f"{type(error).__name__}: {error}"[:400] + " | " + traceback.format_exc()[-600:]
    shutil.rmtree(out, ignore_errors=True)
    row["seconds"] = round(time.time() - began, 1)
    return row


def worth(row: Tree) -> float:
    parts = [row["val"]["class.balanced_accuracy"], row["val"].get("concept.auc")]
    return sum(part for part in parts if part is not None) / sum(part is not None for part in parts)


class Line:
    """What is still to train, by importance; a cell's further seeds join when its trials are done."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, Tree]] = []
        self.cells: dict[int, Tree] = {}
        self.count = 0

    def add(self, priority: int, task: Tree) -> None:
        heapq.heappush(self.heap, (priority, self.count, task))
        self.count += 1

    def cell(self, trials: list[Tree], priority: int, later: dict[int, int]) -> None:
        """Trials with seed 0 and the priorities of the seeds that follow."""
        key = len(self.cells)
        self.cells[key] = {"missing": len(trials), "rows": [], "later": later}
        for trial in trials:
            self.add(priority, trial | {"cell": key, "seed": 0})

    def done(self, row: Tree) -> None:
        cell = self.cells[row["cell"]]
        if row["seed"] != 0:
            return
        cell["missing"] -= 1
        if "failed" not in row:
            cell["rows"].append(row)
        if cell["missing"] == 0 and cell["rows"]:
            best = max(cell["rows"], key=worth)
            keep = {name: best[name] for name in CELL if name in best}
            for seed, priority in cell["later"].items():
                self.add(priority, keep | {"seed": seed, "chosen": True})


def plan(experiment: str, sets: list[str]) -> Line:
    line = Line()
    for data in (name for name in RANK_SETS if name in sets and experiment != "table1"):
        for encoder in ENCODERS:
            for name in ("none", "ivq", "l2"):
                same = {"experiment": "rank", "code": "printed", "data": data, "encoder": encoder, "regularizer": name}
                trials: list[Tree] = [same | {"weight": weight} for weight in (WEIGHTS if name != "none" else (0.0,))]
                first = 0 if data == "blood cells" else 2
                line.cell(trials, first, {1: first + 1, 2: first + 1})
                line.cell([same | {"code": "released", "weight": float(name != "none")}], 6, {1: 7, 2: 7})
    for data in sets if experiment != "rank" else ():
        for method in TABLE1:
            for train in (2, "all") if data in RANK_SETS else (2,):
                first = (4 if data == "CUB" else 2) + 4 * (train == "all") + 8 * (method == "dot-cbm")
                shared: Tree = {"experiment": "table1", "data": data, "method": method, "train": train}
                line.cell([shared | {"rate": rate} for rate in RATES], first, {1: first + 1, 2: first + 1})
    return line


def named(task: Tree) -> tuple[Any, ...]:
    """What tells a training from others, so that a second call goes on from the rows of the first."""
    return (*(task.get(name) for name in CELL if name != "cell"), task["seed"])


def sizes_of(name: str, experiment: str) -> list[int]:
    """Sides in pixels at which a set is read."""
    return [112] * (experiment != "rank" or name in RANK_SETS) + [224] * (experiment != "table1" and name in RANK_SETS)


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
    line, finished = plan(given.experiment, sets), 0
    earlier = [json.loads(text) for text in given.rows.read_text().splitlines()] if given.rows.exists() else []
    known = {named(row): row for row in earlier if "failed" not in row}
    busy: list[Any] = []
    import threading

    sharing = threading.Thread(target=share_device, args=(given.work.resolve(),))
    if not given.tiny:
        sharing.start()
        files = [(given.work, name, size) for name in sets for size in sizes_of(name, given.experiment)]
        with spawn.Pool(given.processes) as decoders:
            decoders.map(decode, [(*file, -1, 0) for file in files])
            parts = [(*file, part, given.processes) for file in files for part in range(given.processes)]
            decoders.map(decode, parts, chunksize=1)
        for file in given.work.glob("pixels-*.part.npy"):
            file.rename(file.with_name(file.name.replace(".part", "")))
        sharing.join()
    print(f"{time.time() - began:.1f} s: images decoded", flush=True)
    with spawn.Pool(given.processes, begin_worker, (given.work, given.threads)) as pool, given.rows.open("a") as rows:
        while (line.heap or busy) and time.time() - began < given.seconds and finished < given.most:
            while line.heap and len(busy) < given.processes:
                _, _, task = heapq.heappop(line.heap)
                if named(task) in known:
                    line.done(known[named(task)] | {"cell": task["cell"]})
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
    if os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "").startswith(str(given.work.resolve())):
        stop_sharing(dict(os.environ))


if __name__ == "__main__":
    main()
