"""Copies of `builtin/cells` with a bias of known size, measured with token sets that are the same for all of them.

    python evidence/cortex/fixed_sets.py twins  --blood data/blood --work WORK --out OUT [--judges WORK/judges]
    python evidence/cortex/fixed_sets.py sets   --work WORK --out OUT [--counts 10000 1250 5000 2500] [--seeds 0 1 2]
    python evidence/cortex/fixed_sets.py shares --work WORK --out OUT
    python evidence/cortex/fixed_sets_tables.py OUT

twins   nine copies, each trained on for 800 steps with big cells drawn 1 to 8 times as often as small ones, as in
        `all.sh`; 2,000 neutral samples of each, as ids in OUT/neutral-NAME.npz
sets    of `builtin/cells` itself: samples asked for by value (10,000 of each as in the paper, and fewer), an extractor
        for each number and seed, importance as in the paper and as in its released code, and the token sets
shares  what judges see in the neutral samples; waits for judges (`seeds.py judges`) and copies

What is there is not made again.
"""

import argparse
import io
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from judges import EPOCHS, open_judge
from seeds import Rows
from torch import Tensor

from conceptlens.core.files import write_bytes
from conceptlens.cortex.bias.study import draw, value_images, value_sets
from conceptlens.cortex.extractors.importance import VARIANTS, token_importance
from conceptlens.cortex.extractors.training import ExtractorTraining, train_extractor
from conceptlens.cortex.generators.builtin.generator import SmallGenerator, load_generator, save_generator
from conceptlens.cortex.generators.condition import Condition, parse_condition
from conceptlens.cortex.generators.open import open_model
from conceptlens.cortex.samples import Generated, Samples, split_samples
from conceptlens.cortex.study import new_extractor
from conceptlens.cortex.token_sets import WAYS
from pretraining.generator.data import from_blood, from_source
from pretraining.generator.settings import RECIPE, read_settings
from pretraining.generator.train import train

MODEL = "builtin/cells"
VALUES = ("cell size=big", "cell size=small")
TWINS = ("1-s0", "8-s0", "2-s0", "4-s0", "1-s1", "1.5-s0", "1.25-s0", "1-s2", "1-s3")
TOP, K = (5, 10, 20), 10
Row = dict[str, Any]


def neutral_file(given: argparse.Namespace, name: str) -> Path:
    return Path(given.out) / f"neutral-{name}.npz"


def keep_neutral(given: argparse.Namespace, name: str, model: SmallGenerator, seed: int) -> None:
    """2,000 samples for which nothing was asked."""
    if not neutral_file(given, name).exists():
        tokens = draw(model.to(given.device), Condition(), given.neutral, seed=seed, chunk=250)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, tokens=tokens.to(torch.int16).numpy())
        write_bytes(neutral_file(given, name), buffer.getvalue())


def make_twins(given: argparse.Namespace) -> None:
    start = given.work / "start"
    base = open_model(MODEL)
    assert isinstance(base, SmallGenerator)
    if not (start / "generator.json").exists():
        save_generator(base, start)
    keep_neutral(given, "builtin", base, 7)
    settings = read_settings(RECIPE)
    size = settings.image_size
    data = from_blood(given.blood, size) if given.blood else from_source("blood-cells", size)
    for place, name in enumerate(TWINS):
        ratio, seed = name.split("-s")
        folder, begin = given.work / "twins" / name, time.perf_counter()
        own = replace(settings, seed=int(seed), transformer=replace(settings.transformer, steps=given.steps))
        if not (folder / "model" / "generator.json").exists():
            train(data, folder, own, given.device, skew=f"cell size=big:{ratio}", start=start)
        keep_neutral(given, name, load_generator(folder / "model"), 8 + place)
        print(f"twin {name}: {time.perf_counter() - begin:.0f} s", flush=True)


def make_sets(given: argparse.Namespace) -> None:
    rows = Rows(given.out / "fixed-sets.jsonl")
    model = open_model(MODEL).to(given.device)
    conditions = {word: parse_condition(word, model.classes, model.attributes) for word in VALUES}
    everything = Generated(model, conditions, max(given.counts), seed=0, chunk=250, place=given.work / "pool").all()
    for seed in given.seeds:
        for count in given.counts if seed == 0 else given.counts[:2]:

            def make(count: int = count, seed: int = seed) -> Row:
                chosen = torch.cat([(everything.labels == place).nonzero()[:count, 0] for place in range(len(VALUES))])
                parts = split_samples(everything.take(chosen), seed=seed)
                extractor = new_extractor(model, VALUES, "CE", given.small or {}, seed).to(given.device)
                train_extractor(
                    extractor,
                    model.codebook.detach(),
                    parts["train"],
                    validation=parts["val"],
                    test=parts["test"],
                    settings=ExtractorTraining(epochs=given.epochs),
                    seed=seed,
                )
                return {
                    "count": count, "seed": seed, "accuracy": dict(extractor.card.accuracy),
                    "sets": [each for variant in ("paper", "released") for each in sets_of(extractor, parts, variant)],
                }  # fmt: skip

            def sets_of(extractor: Any, parts: dict[str, Samples], variant: str) -> list[Row]:
                train_part = parts["train"]
                scores = torch.cat([importance(extractor, part, variant) for part in pieces(train_part)])
                found = []
                for n in TOP:
                    images = value_images(train_part, scores, n)
                    for way in WAYS:
                        sets = value_sets(images, n, K, len(model.codebook), way)
                        found.append({"variant": variant, "way": way, "n": n, "ids": [list(s.tokens) for s in sets]})
                return found

            def importance(extractor: Any, part: tuple[int, Samples], variant: str) -> Tensor:
                first, some = part
                embedded = model.embed(some.tokens.long().to(given.device)).detach()
                labels = some.labels.to(given.device)
                return token_importance(extractor, embedded, labels, VARIANTS[variant], batch=1280, first=first).cpu()

            rows.add(f"sets/{count}/{seed}", make)


def pieces(samples: Samples, size: int = 64) -> list[tuple[int, Samples]]:
    return [(int(rows[0]), samples.take(rows)) for rows in torch.split(torch.arange(len(samples)), size)]


def make_shares(given: argparse.Namespace) -> None:
    rows, begin = Rows(given.out / "shares.jsonl"), time.perf_counter()
    model = open_model(MODEL).to(given.device)
    for name in ("builtin", *TWINS):
        for judge_name in given.judges:
            folder = given.work / "judges" / judge_name
            while not (neutral_file(given, name).exists() and (folder / "judge.json").exists()):
                if time.perf_counter() - begin > given.wait:
                    break
                time.sleep(3)

            def make(name: str = name, folder: Path = folder) -> Row:
                with np.load(neutral_file(given, name)) as file:
                    tokens = torch.from_numpy(file["tokens"]).long()
                judge = open_judge(folder, VALUES, given.device)
                with torch.no_grad():
                    seen = [judge(model.decode(some.to(given.device))).argmax(1).cpu() for some in tokens.split(128)]
                big = torch.cat(seen) == 0
                return {"twin": name, "judge": folder.name, "big": "".join("1" if hit else "0" for hit in big.tolist())}

            rows.add(f"shares/{name}/{judge_name}", make)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"twins": make_twins, "sets": make_sets, "shares": make_shares}
    parser.add_argument("part", choices=tuple(parts))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--blood", type=Path, help="WBCAtt with PBC's images; else the package's own")
    parser.add_argument("--judges", nargs="+", default=list(EPOCHS))
    parser.add_argument("--counts", nargs="+", type=int, default=[10000, 1250, 5000, 2500], help="samples of a value")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--steps", type=int, default=800, help="of a copy")
    parser.add_argument("--neutral", type=int, default=2000)
    parser.add_argument("--wait", type=float, default=900)
    parser.add_argument("--try", dest="small", action="store_const", const={"filters": 8, "hidden": 16})
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", type=torch.device)
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    given.out.mkdir(parents=True, exist_ok=True)
    given.work.mkdir(parents=True, exist_ok=True)
    parts[given.part](given)


if __name__ == "__main__":
    main()
