"""Trains and examines: which bottleneck takes corrections best, and what every method is worth with it.

    python evidence/corrections/examine.py choose WORK --blood FOLDER    settings, compared on validation images
    python evidence/corrections/examine.py rates WORK --blood FOLDER     learning rates of presets, on validation images
    python evidence/corrections/examine.py headrates WORK --blood FOLDER rates of the class head, on validation images
    python evidence/corrections/examine.py test WORK --blood FOLDER      every method, as published and as ours, once
    python evidence/corrections/examine.py epsilon WORK --blood FOLDER   evidence-cbm with a larger ε, test images
    python evidence/corrections/examine.py few WORK --blood FOLDER       few labels, and drawn shapes: test images, once
    python evidence/corrections/examine.py learn WORK --blood FOLDER     the whole encoder learns: test images, once

FOLDER holds the images and tables of WBCAtt. Rows go to WORK/choose.jsonl, WORK/test.jsonl and so on; what is there
already is not made again. But for `learn`, trainings read stored tokens of the frozen built-in encoder, several at a
time (`--jobs`); with one job at a time, blurred images are encoded once for all runs, since all have the same encoder.
"""

import argparse
import csv
import hashlib
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from conceptlens.core.files import dump_yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from jobs import Job, run_jobs  # a neighbor

Tree = dict[str, Any]
GROUPS = [
    "cell size",
    "cell shape",
    "nucleus shape",
    "nuclear cytoplasmic ratio",
    "chromatin density",
    "cytoplasm vacuole",
    "cytoplasm texture",
    "cytoplasm colour",
    "granularity",
    "granule colour",
    "granule type",
]
FEW, SEVEN = 90, 7
BLUR = (20, 10)
COUNTS = (1, 3, 6)
ORDERS = ("chance", "uncertainty", "influence", "expected gain")
KEYS = ("data", "method", "setting", "seed", "split")


def bottleneck(space: str, randint: float | str = 0.0, class_gradient: float = 1.0, calibrate: bool = True) -> Tree:
    return {"space": space, "randint": randint, "class_gradient": class_gradient, "calibrate": calibrate}


EPSILON = 0.003
SETTINGS: dict[str, Tree] = {
    "logits, joint": bottleneck("logit", calibrate=False),
    "logits, joint, uniform": bottleneck("logit", "uniform", calibrate=False),
    "probabilities, joint, 0.25": bottleneck("probability", 0.25),
    "probabilities, independent": bottleneck("probability", 1.0, 0.0),
    "probabilities, sequential": bottleneck("probability", 0.0, 0.0),
    "probabilities, sequential, uniform": bottleneck("probability", "uniform", 0.0),
    "probabilities, a tenth, uniform": bottleneck("probability", "uniform", 0.1),
    "log-probabilities, sequential": bottleneck("log-probability", 0.0, 0.0),
    "log-probabilities, sequential, uniform": bottleneck("log-probability", "uniform", 0.0),
    "log-probabilities, a tenth, uniform": bottleneck("log-probability", "uniform", 0.1),
    "log-probabilities, joint, uniform": bottleneck("log-probability", "uniform", 1.0),
}
FROZEN: Tree = {"encoder": {"name": "builtin/vit", "train": "none"}, "regularizer": "none"}
QUICK: Tree = {
    "rank_every": 0,
    "compile": False,
    "learning_rate": 1e-3,
    "batch_size": 64,
    "loss": {"concept_weight": 3.0},
}


def write_table(blood: Path, out: Path, *, few: int = 0, seed: int = 0) -> Path:
    """WBCAtt as one table; with `few`, that many training and validation images, drawn at random."""
    rows = []
    for split in ("train", "val", "test"):
        with (blood / f"pbc_attr_v1_{split}.csv").open(newline="") as file:
            part = list(csv.DictReader(file))
        if few and split != "test":
            part = random.Random(seed).sample(part, few)
        for row in part:
            labels = {group: row[group.replace(" ", "_")] for group in GROUPS}
            image = str((blood / row["label"].lower() / row["img_name"]).resolve())
            rows.append({"image": image, "class": row["label"], "split": split, **labels})
    with out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return out


def seven_groups(seed: int) -> Tree:
    """The concept set with seven groups, drawn at random."""
    from conceptlens.concepts import ConceptSet

    tree: Tree = dict(ConceptSet.load("blood-cells").source)
    kept = set(random.Random(seed).sample(GROUPS, SEVEN))
    groups = {name: dict(group) for name, group in tree["groups"].items() if name in kept}
    for group in groups.values():  # a group whose coarser one is gone stands alone
        if group.get("under") and not kept & set(group["under"]):
            group.pop("under"), group.pop("otherwise", None)
    return {"schema": tree.get("schema", 1), "name": "seven", "classes": tree["classes"], "groups": groups}


def data_of(name: str, work: Path, blood: Path, seed: int) -> Tree:
    """The recipe's data section of a data set."""
    if name == "built-in blood cells":
        return {"data": "blood-cells"}
    if name == "shapes":
        return {"data": {"source": "shapes", "shapes": {"n": 3000, "size": 96}}, "encoder": {"image_size": 96}}
    if name == "shapes, few":
        shapes = {"n": 3000, "size": 96, "seed": seed}
        return {"data": {"source": "shapes", "shapes": shapes, "limit": FEW}, "encoder": {"image_size": 96}}
    few = FEW if name == "blood cells, few" else 0
    table = work / f"{name.replace(', ', '-').replace(' ', '-')}-{seed if few else 0}.csv"
    if not table.exists():
        write_table(blood, table, few=few, seed=seed)
    if not few:
        return {"data": str(table), "concepts": "blood-cells"}
    concepts = table.with_suffix(".yaml")
    concepts.write_text(dump_yaml(seven_groups(seed)))
    return {"data": str(table), "concepts": str(concepts)}


ENCODED: dict[str, Any] = {}  # what the frozen encoder said of a batch, by the batch's hash


def encode_once(encoder: Any) -> None:
    """Let a frozen encoder look up batches that the same encoder has read for another run."""
    forward, of = encoder.forward, f"{encoder.name} {encoder.layers} {encoder.final_norm}"

    def lookup(images: Any) -> Any:
        key = of + hashlib.blake2b(images.cpu().numpy().tobytes()).hexdigest()
        if key not in ENCODED:
            ENCODED[key] = forward(images)
        return ENCODED[key]

    encoder.forward = lookup


def examine(path: Path, split: str, *, leakage: bool, once: bool, orders: Sequence[str]) -> Tree:
    """What a finished run says of its own corrections, leakage and accuracy."""
    from conceptlens.core.files import read_json
    from conceptlens.evaluation.trust import intervene_run, leakage_run
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.training.without_class import trained_without_class

    run = OpenedRun.open(path)
    if once:
        encode_once(run.pipeline.encoder)
    concept = read_json(path / "metrics.json")["splits"][split]["concept"]
    found = intervene_run(run, split=split, orders=orders, blur=BLUR, resamples=500)
    row: Tree = {"concept_auc": concept["auc"], "verdict": found.verdict.model_dump(), **found.numbers}
    curves = {0: found.curve("chance"), **{each.pixels: each.curve for each in found.blurred}}
    row["curves"] = {str(pixels): [point.value for point in curve.points] for pixels, curve in curves.items()}
    row["orders"] = {order: [point.value for point in found.curve(order).points] for order in orders}
    row["sham_curve"] = [point.value for point in curves[0].sham]
    row["ways"] = [each.model_dump() for each in found.ways]
    most = len(row["curves"]["0"]) - 1
    told = [row["curves"][str(pixels)][count] for pixels in curves for count in COUNTS if count <= most]
    row["area"] = sum(told) / len(told)
    if leakage:
        measured = leakage_run(run, split=split, permutations=0, resamples=500, retrain=trained_without_class)
        row |= {"leakage": measured.verdict.model_dump() if measured.verdict else None, "leak": measured.numbers}
    return row


def work_on(job: Tree) -> Tree:
    """Train one model and examine it."""
    import conceptlens as cl
    from conceptlens.recipes.parse import merge

    started = time.monotonic()
    set_epsilon(job.get("epsilon", EPSILON))  # a worker goes on to other jobs
    out = Path(job["out"])
    if not (out / "model" / "model.json").exists():
        recipe = merge(job["recipe"], {"out": str(out), "seed": job["seed"]})
        cl.train(recipe, overwrite=True, quiet=True)
    trained = time.monotonic() - started
    row = examine(out, job["split"], leakage=job["leakage"], once=job["once"], orders=job.get("orders", ORDERS[:1]))
    names = ("data", "method", "setting", "seed", "split")
    return {
        **{name: job[name] for name in names},
        **row,
        "seconds": [round(trained), round(time.monotonic() - started)],
    }


def job_of(name: str, method: str, setting: str, seed: int, recipe: Tree, work: Path, split: str) -> Tree:
    folder = "-".join((name, method, setting, str(seed))).replace(", ", "-").replace(" ", "-")
    keys = {"data": name, "method": method, "setting": setting, "seed": seed, "split": split}
    return {**keys, "recipe": recipe, "out": str(work / split / folder)}


def choices(work: Path, blood: Path, seeds: int) -> Iterator[Tree]:
    """Every setting, of methods that read their concepts in different ways, on four data sets; no test image."""
    from conceptlens.recipes.parse import merge

    for name in ("blood cells", "blood cells, few", "shapes", "shapes, few"):
        for seed in range(seeds):
            for method in ("cbm", "ivq-cbm", "explicd", "evidence-cbm"):
                layers = "-layers" if method == "evidence-cbm" else ""
                for setting, options in SETTINGS.items():
                    base = merge(data_of(name, work, blood, seed), FROZEN)
                    own = {"method": {"name": method, **options}, "training": QUICK, "metrics": {"test": False}}
                    draw = seed if "few" in name else 0
                    folder = f"tokens-{name}{layers}-{draw}".replace(", ", "-").replace(" ", "-")
                    store = {"encoder": {"store": str(work / folder)}}
                    yield {
                        **job_of(name, method, setting, seed, merge(merge(base, own), store), work, "val"),
                        "leakage": True,
                    }


RATES = (1e-4, 3e-4, 1e-3)


def rates(work: Path, blood: Path, seeds: int) -> Iterator[Tree]:
    """Presets whose published rate and number of epochs belong to a whole CLIP that learns; no test image."""
    from conceptlens.recipes.parse import merge

    for seed in range(seeds):
        for method in ("explicd", "mvp-cbm"):
            for rate in RATES:
                base = merge(data_of("blood cells", work, blood, 0), FROZEN)
                training = {"epochs": "auto", "learning_rate": rate, "batch_size": 64, "rank_every": 0}
                own: Tree = {"method": method, "training": training, "metrics": {"test": False}}
                own["encoder"] = {"store": str(work / store_of(method))}
                job = job_of("blood cells", method, f"rate {rate:g}", seed, merge(base, own), work, "val")
                yield {**job, "leakage": False}


# A head's rate, relative to that of the concepts, by preset; the second makes it that of `cbm`'s head, 0.005.
HEAD_RATES = {
    "explicd": (5, 15),
    "mvp-cbm": (5, 50),
    "pf-cbm": (5, 15),
    "cbm-sequential": (1, 5),
    "cbm-independent": (1, 5),
}


def head_rates(work: Path, blood: Path, seeds: int) -> Iterator[Tree]:
    """How fast the class head learns, on little and on much data; no test image."""
    from conceptlens.recipes.parse import merge

    for name in ("built-in blood cells", "blood cells"):
        for seed in range(seeds):
            for method, settings in HEAD_RATES.items():
                for rate in settings:
                    base = merge(data_of(name, work, blood, 0), FROZEN)
                    own: Tree = {"method": {"name": method, "head_rate": float(rate)}, "metrics": {"test": False}}
                    own["training"] = {"rank_every": 0, "compile": False}
                    store = f"built-in-{store_of(method)}" if name.startswith("built-in") else store_of(method)
                    own["encoder"] = {"store": str(work / store)}
                    job = job_of(name, method, f"head rate {rate}", seed, merge(base, own), work, "val")
                    yield {**job, "leakage": False}


def store_of(method: str) -> str:
    """Methods that read the same layers share a token store."""
    layers = {"evidence-cbm": "-layers", "mvp-cbm": "-all"}.get(method, "")
    return f"tokens-blood-cells{layers}-0"


# The two released presets that read other tokens than the stores' are not among them, nor is what retired.
PRESETS = [
    "cbm",
    "evidence-cbm",
    "cbm-released",
    "ivq-cbm",
    "ivq-cbm-as-printed",
    "explicd",
    "mvp-cbm",
    "coop-cbm",
    "coop-cbm-released",
    "cem",
    "dot-cbm",
    "cbm-sequential",
    "cbm-independent",
    "pf-cbm",
    "pf-cbm-sequential",
    "pf-cbm-as-printed",
    "pcbm",
    "pcbm-h",
    "pcbm-text",
    "lf-cbm",
    "labo",
    "clear",
]
NAMED: dict[str, Tree] = {  # what the defaults are compared with
    "sequential log-probabilities": {"name": "cbm", **SETTINGS["log-probabilities, sequential"]},
    "ivq-cbm, sequential probabilities": {"name": "ivq-cbm", **SETTINGS["probabilities, sequential"]},
    "ivq-cbm, sequential log-probabilities": {"name": "ivq-cbm", **SETTINGS["log-probabilities, sequential"]},
    "ivq-cbm, independent": {"name": "ivq-cbm", **SETTINGS["probabilities, independent"]},
    "ivq-cbm, joint logits": {"name": "ivq-cbm", **SETTINGS["logits, joint"]},
}


def tests(work: Path, blood: Path, seeds: int) -> Iterator[Tree]:
    """Every preset as it comes, behind the frozen encoder, and what the defaults are compared with."""
    from conceptlens.recipes.parse import merge

    chosen: dict[str, str | Tree] = {**{name: name for name in PRESETS}, **NAMED}
    for seed in range(seeds):
        for name, method in chosen.items():
            base = merge(data_of("blood cells", work, blood, 0), FROZEN)
            own: Tree = {"method": method, "training": {"rank_every": 0, "compile": False}}
            own["encoder"] = {"store": str(work / store_of(name))}
            yield {**job_of("blood cells", name, "preset", seed, merge(base, own), work, "test"), "leakage": True}


EPSILONS = (0.03, 0.1)  # instead of EPSILON


def epsilons(work: Path, blood: Path, seeds: int) -> Iterator[Tree]:
    """What a larger ε brings to blurred images, and what it costs on clean ones."""
    for job in tests(work, blood, seeds):
        if job["method"] == "evidence-cbm":
            for epsilon in EPSILONS:
                named = job_of(job["data"], job["method"], f"ε {epsilon:g}", job["seed"], job["recipe"], work, "test")
                yield {**named, "leakage": False, "epsilon": epsilon}


def set_epsilon(epsilon: float) -> None:
    """In this process: the bottleneck's ε is a constant of the product."""
    from conceptlens.evaluation.interventions import edits
    from conceptlens.nn.heads import bottleneck

    for module in (bottleneck, edits):
        vars(module)["EPSILON"] = epsilon


def few_labels(work: Path, blood: Path, seeds: int) -> Iterator[Tree]:
    """Where corrections have room: 90 training images and seven groups, and shapes whose classes are hard to see."""
    from conceptlens.recipes.parse import merge

    for seed in range(seeds):
        for name in ("blood cells, few", "shapes", "shapes, few"):
            for method in ("evidence-cbm", "cbm", "explicd", "ivq-cbm", "cbm-released"):
                base = merge(data_of(name, work, blood, seed), FROZEN)
                layers = "-layers" if method == "evidence-cbm" else ""
                folder = f"tokens-{name}-{seed if 'few' in name else 0}{layers}".replace(", ", "-").replace(" ", "-")
                own: Tree = {"method": method, "training": {"rank_every": 0, "compile": False}}
                own["encoder"] = {"store": str(work / folder)}
                job = job_of(name, method, "preset", seed, merge(base, own), work, "test")
                yield {**job, "leakage": True, "orders": ORDERS}


def learning(work: Path, blood: Path, seeds: int) -> Iterator[Tree]:
    """The whole encoder learns with the concepts: presets as they come, their regularizers on."""
    from conceptlens.recipes.parse import merge

    for seed in range(seeds):
        for method in ("ivq-cbm", "evidence-cbm", "cbm", "explicd", "cbm-released", "ivq-cbm-as-printed"):
            own: Tree = {"method": method, "training": {"rank_every": 0}}
            own["encoder"] = {"name": "builtin/vit", "train": "all"}
            recipe = merge(data_of("blood cells", work, blood, 0), own)
            yield {**job_of("blood cells", method, "whole encoder", seed, recipe, work, "test"), "leakage": True}


def key(row: Tree) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEYS)


def line(row: Tree) -> str:
    leak = (row.get("leak") or {}).get("excess")
    return f"{row['seconds']} {row['untouched']} area {row['area']:.3f} leak {leak}"


KINDS = {
    "choose": choices,
    "rates": rates,
    "headrates": head_rates,
    "test": tests,
    "epsilon": epsilons,
    "few": few_labels,
    "learn": learning,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=tuple(KINDS))
    parser.add_argument("work", type=Path)
    parser.add_argument("--blood", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", default="", help="data sets, methods or settings that contain this; several by |")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    jobs_of = KINDS[options.what]
    made = list(jobs_of(options.work, options.blood, options.seeds))
    made = [job for job in made if any(word in " / ".join(map(str, key(job))) for word in options.only.split("|"))]
    once = options.jobs == 1 and options.what != "learn"
    run_jobs(
        [Job(key(job), work_on, ({**job, "once": once},), job["recipe"]["encoder"].get("store", "")) for job in made],
        options.work / f"{options.what}.jsonl",
        key,
        count=options.jobs,
        threads=options.threads,
        seconds=options.seconds,
        told=line,
    )
