"""Tables 1 and 2 and Figure 4 of the CORTEX paper with several seeds, and token sets from all training samples.

    python evidence/cortex/seeds.py judges     --blood data/blood --work WORK --out OUT
    python evidence/cortex/seeds.py extractors --work WORK --out OUT [--seeds 0 1 2] [--networks CE RE TE]
    python evidence/cortex/seeds.py masking    --work WORK --out OUT [--wait 600]

judges      four networks trained on real images, as in `run.py`; once
extractors  samples of `builtin/cells` and an extractor of the best validation loss for each network and seed; Table 1
masking     with each extractor: token sets from 50 samples of a class and from all, of 100 tokens and of 6 (the paper's
            share of the codebook), hidden from the judges with black and with blur; beside them the most frequent
            tokens and random positions, and 20 positions by importance and at random (Figure 4)

A row of seeds.jsonl holds a number for every test sample, so that intervals are over samples and seeds. What has a row
is not made again. `masking` waits for judges and extractors that another process still makes.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from judges import EPOCHS, open_judge, train_judge
from torch import Tensor

from conceptlens.cortex.extractors.importance import PAPER
from conceptlens.cortex.extractors.training import ExtractorTraining, mean_loss
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.masking import cover, equal_positions, random_positions, set_positions
from conceptlens.cortex.results import first_of_each, first_rows, sample_sets, score_samples
from conceptlens.cortex.study import Study, new_study, open_study
from conceptlens.cortex.token_sets import frequency_set, top_positions
from pretraining.generator.data import from_blood, from_source

MODEL = "builtin/cells"
NETWORKS = ("CE", "RE", "TE")
K, SHARE = 100, 6  # tokens of a set; as many as are the paper's share (100 of 16,384) of 1,024 codes
N = 20  # most important tokens of an image
FILLS = ("blur", "black")
Row = dict[str, Any]


class Rows:
    """Lines of a file; a key that has one is not made again, and one that fails does not stop the others."""

    def __init__(self, file: Path) -> None:
        self.file, self.begin = file, time.perf_counter()
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        self.done = {json.loads(line)["key"] for line in lines}

    def add(self, key: str, make: Callable[[], Row]) -> None:
        if key in self.done:
            return
        begin = time.perf_counter()
        try:
            line = {"key": key, **make()}
        except Exception as error:
            print(f"{key} failed: {type(error).__name__}: {error}", flush=True)
            return
        line["seconds"] = round(time.perf_counter() - begin, 1)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.done.add(key)
        print(f"{time.perf_counter() - self.begin:6.0f} s  {key}: {line['seconds']} s", flush=True)


def make_judges(given: argparse.Namespace) -> None:
    rows = Rows(given.out / "judges.jsonl")
    size = open_model(MODEL).image_size
    train = from_blood(given.blood, size) if given.blood else from_source("blood-cells", size)
    test = from_source("blood-cells", size, split="test")
    for name in given.judges:
        folder = given.work / "judges" / name

        def make(name: str = name, folder: Path = folder) -> Row:
            train_judge(name, folder, train, test, given.device, epochs=given.judge_epochs)
            return dict(json.loads((folder / "judge.json").read_text("utf-8")))

        rows.add(f"judge/{name}", make)


def make_extractors(given: argparse.Namespace) -> None:
    rows = Rows(given.out / "extractors.jsonl")
    for network in given.networks:
        for seed in given.seeds:

            def make(network: str = network, seed: int = seed) -> Row:
                study = new_study(
                    MODEL,
                    given.work / "studies" / f"{network}-{seed}",
                    network=network,
                    per_concept=given.samples,
                    training=ExtractorTraining(epochs=given.epochs),
                    seed=seed,
                    overwrite=True,
                    chunk=128,
                    device=given.device,
                    options=given.small if network != "TE" else None,
                )
                lines = study.run.history.read_text("utf-8").splitlines()
                left = [row["loss"] for row in map(json.loads, lines) if row["split"] == "val"]
                kept = mean_loss(study.extractor, study.codebook, study.samples["val"])
                accuracy = dict(study.extractor.card.accuracy)
                best = left.index(min(left))
                return {
                    "network": network, "seed": seed, "samples": given.samples, "epochs": given.epochs,
                    "accuracy": accuracy, "best_epoch": best, "kept_loss": kept, "last_loss": left[-1],
                }  # fmt: skip

            rows.add(f"extractor/{network}/{seed}", make)


def ready(given: argparse.Namespace, network: str, seed: int) -> bool:
    """Whether judges and extractor are there; waits for them a while."""
    study = given.work / "studies" / f"{network}-{seed}" / "run.json"
    while time.perf_counter() - given.begin < given.wait:
        judges = all((given.work / "judges" / name / "judge.json").exists() for name in given.judges)
        if judges and study.exists() and json.loads(study.read_text("utf-8"))["status"] == "done":
            return True
        time.sleep(3)
    return False


def positions_of(study: Study, tokens: Tensor, labels: Tensor, scores: Tensor, seed: int) -> dict[str, Tensor]:
    """Which positions of test samples (B, h, w) are hidden, by what chose them."""
    train, codes, grid = study.samples["train"], len(study.codebook), study.extractor.card.grid
    train = first_of_each(train, len(train))  # by class, in one order
    of_all = score_samples(study, train, PAPER, seed=seed)
    few = first_rows(train, 50)
    found = {}
    for words, some, k in (
        ("concept sets", torch.arange(len(train)), K),
        ("concept sets from 50 samples", few, K),
        (f"concept sets, k = {SHARE}", torch.arange(len(train)), SHARE),
    ):
        sets = sample_sets(study, train.take(some), of_all[some], N, k)
        found[words] = set_positions(tokens, labels, sets, codes)
    for k, suffix in ((K, ""), (SHARE, f", k = {SHARE}")):
        frequent = [frequency_set(train.of(place), name, codes=codes, k=k) for place, name in enumerate(train.concepts)]
        equal = found[f"concept sets{suffix}"].flatten(1).sum(1)
        found[f"frequency{suffix}"] = set_positions(tokens, labels, frequent, codes)
        found[f"frequency{suffix}, equally many"] = equal_positions(tokens, labels, frequent, codes, equal, seed)
        found[f"random{suffix}, equally many"] = random_positions(equal, grid, seed)
    found["random, as many as frequency"] = random_positions(found["frequency"].flatten(1).sum(1), grid, seed + 1)
    twenty = torch.full((len(tokens),), N)
    marked = torch.zeros(len(tokens), grid[0] * grid[1], dtype=torch.bool)
    found[f"{N} most important"] = marked.scatter(1, top_positions(scores, N), True).view(-1, *grid)
    found[f"{N} random"] = random_positions(twenty, grid, seed + 2)
    return found


@torch.no_grad()
def seen(judge: Any, images: Tensor, labels: Tensor, hidden: Tensor | None, fill: str) -> tuple[list[float], str]:
    """P of the own class of each image, and whether it is the judge's first."""
    parts = []
    for start in range(0, len(images), 64):
        some = images[start : start + 64]
        parts.append(judge(some if hidden is None else cover(some, hidden[start : start + 64], fill)))
    values = torch.cat(parts)
    right = "".join("1" if hit else "0" for hit in values.argmax(1) == labels)
    return [round(value, 4) for value in values.gather(1, labels[:, None])[:, 0].tolist()], right


def mask(given: argparse.Namespace, network: str, seed: int, add: Callable[[str, Callable[[], Row]], None]) -> None:
    study = open_study(given.work / "studies" / f"{network}-{seed}", device=given.device)
    shown = first_rows(study.samples["test"], given.test)
    test = study.samples["test"].take(shown)
    tokens, labels = test.tokens.long(), test.labels
    images = study.decode(tokens)
    scores = score_samples(study, test, PAPER, seed=seed)
    hidden = {
        name: study.model.places(some) for name, some in positions_of(study, tokens, labels, scores, seed).items()
    }
    judges: Mapping[str, Any] = {
        name: open_judge(given.work / "judges" / name, study.extractor.card.concepts, given.device)
        for name in given.judges
    }
    images, labels = images.to(given.device), labels.to(given.device)
    for name, judge in judges.items():
        before, right = seen(judge, images, labels, None, "black")
        for fill in FILLS:
            for kind, marked in hidden.items():

                def make(
                    name: str = name, judge: Any = judge, fill: str = fill, kind: str = kind, marked: Tensor = marked,
                    before: list[float] = before, right: str = right,
                ) -> Row:  # fmt: skip
                    after, still = seen(judge, images, labels, marked.to(given.device), fill)
                    return {
                        "network": network, "seed": seed, "judge": name, "fill": fill, "tokens": kind,
                        "hidden": marked.flatten(1).sum(1).tolist(), "before": before, "right_before": right,
                        "after": after, "right_after": still,
                    }  # fmt: skip

                add(f"{network}/{seed}/{name}/{fill}/{kind}", make)


def make_masking(given: argparse.Namespace) -> None:
    rows = Rows(given.out / "seeds.jsonl")
    for network in given.networks:
        for seed in given.seeds:
            if ready(given, network, seed):
                try:
                    mask(given, network, seed, rows.add)
                except Exception as error:
                    print(f"masking {network} {seed} failed: {type(error).__name__}: {error}", flush=True)
            else:
                print(f"masking {network} {seed}: no judges or no extractor after {given.wait} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"judges": make_judges, "extractors": make_extractors, "masking": make_masking}
    parser.add_argument("part", choices=tuple(parts))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--blood", type=Path, help="WBCAtt with PBC's images, for judges; else the package's own")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--judges", nargs="+", default=list(EPOCHS))
    parser.add_argument("--judge-epochs", type=int)
    parser.add_argument("--samples", type=int, default=1350, help="of each class, as in the paper")
    parser.add_argument("--epochs", type=int, default=80, help="of an extractor, as in the paper")
    parser.add_argument("--test", type=int, default=50, help="test samples of a class, as in the paper")
    parser.add_argument("--wait", type=float, default=600, help="seconds for what another process makes")
    parser.add_argument("--try", dest="small", action="store_const", const={"filters": 8, "hidden": 16})
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", type=torch.device)
    given = parser.parse_args()
    given.begin = time.perf_counter()
    torch.set_float32_matmul_precision("high")
    given.out.mkdir(parents=True, exist_ok=True)
    given.work.mkdir(parents=True, exist_ok=True)
    parts[given.part](given)


if __name__ == "__main__":
    main()
