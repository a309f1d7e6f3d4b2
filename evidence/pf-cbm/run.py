"""Train everything in plan.yaml on tokens that are encoded once; a line of rows.jsonl for each training, as it ends.

    python evidence/pf-cbm/prepare.py --cub CUB_200_2011 --out cub
    python evidence/pf-cbm/run.py --cub cub --out OUT [--workers 6] [--blood blood.csv] [--teachers DIR] [--seconds 480]
                                  [--tokens DIR] [--sections table2 sweep …] [--seeds 0 1 2] [--epochs 1.0]
    python evidence/pf-cbm/tables.py --rows OUT

`--workers`: processes that share the device. `--blood`: a table of all blood cells; without it the ones that come with
the package. `--teachers`: the folder with resnet50.safetensors, without which its sections are left out. `--seconds`:
no training begins later. `--tokens`: where encoded images are kept, for this run and the next; without it, for this.
`--epochs`: a share of the plan's, for a try. What stands in rows.jsonl is not trained again, trials of the choice
included: a run that was killed goes on where it was.
"""

import argparse
import gc
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bank import RESNET, Bank, Known, Labels, make_bank, open_labels, open_places
from choice import Task, family_of, place_of, settle, together, trials, winners, worth
from crew import Crew
from lab import Trained, make_model, train
from score import Said, blind, evaluate

from conceptlens.core.files import read_yaml, write_json
from conceptlens.data.dataset import DataSource
from conceptlens.data.splits.splits import Splits
from conceptlens.recipes import Recipe
from conceptlens.recipes.parse import load_recipe, merge
from conceptlens.recipes.schema import RegionsConfig
from conceptlens.training.epochs import number_of

HERE = Path(__file__).parent
JOIN = {"bill": ["beak"], **{part: [f"left {part}", f"right {part}"] for part in ("eye", "leg", "wing")}}
FINE, FINE_BANK = 256, "256"  # pixels: a grid of 32, as the paper's
BANKS = 2  # whose tokens a process holds at once
PANEL = 8  # images whose maps are kept
ENCODE, BLIND = "encode", "blind"
Tree = dict[str, Any]


@dataclass
class Lab:
    """The command's options, the plan, and what is in the memory of a process."""

    given: argparse.Namespace
    plan: Tree
    tokens: Path
    places: dict[tuple[str, bool, int], tuple[DataSource, Splits, Known]] = field(default_factory=dict)
    banks: dict[str, Bank] = field(default_factory=dict)
    labels: dict[tuple[str, ...], Labels] = field(default_factory=dict)
    start: float = field(default_factory=time.perf_counter)

    def late(self) -> bool:
        return bool(time.perf_counter() - self.start > self.given.seconds)

    def recipe(self, bank: str, options: Tree, seed: int, share: float = 1.0) -> Recipe:
        """The recipe of a row on a bank: preset, the data's base, the row's options; a share of the schedule."""
        family = bank.split("-")[0]
        base = deepcopy(self.plan["base"][family])
        rates_of_stages = base.pop("rates", {})
        base.setdefault("method", {})["name"] = options.get("name", "pf-cbm")
        own = {key: value for key, value in options.items() if key not in ("name", "concepts", "places_rate")}
        if family == "cub":
            regions = {name: str(self.given.cub / f"{name}.csv") for name in ("boxes", "points", "sizes")}
            base["data"] = {
                "source": str(self.given.cub / "images.csv"),
                "regions": {**regions, "join": JOIN, "crop": "box" in bank},
            }
            base["concepts"] = options.get("concepts", base["concepts"])
            if FINE_BANK in bank:
                base["encoder"]["image_size"] = FINE
        elif family == "blood":
            base["data"] = {"source": str(self.given.blood or "blood-cells")}
            if self.given.blood:
                base["data"]["images"] = str(self.given.blood.with_suffix(""))
        else:
            base["data"] = {"source": "shapes"}
        if self.given.limit:
            base["data"]["limit"] = self.given.limit
        base["method"] |= own
        made = load_recipe(merge(base, {"seed": seed, "out": "runs/unused"}))
        if RESNET in bank:
            made.encoder.name = RESNET  # unknown to the package
        rates: dict[str, float] = dict(rates_of_stages)
        if "places_rate" in options:
            rates["places"] = options["places_rate"]
        share *= self.given.epochs
        for stage in made.training.stages:
            stage.learning_rate = rates.get(stage.name, stage.learning_rate)
            if stage.epochs:
                stage.epochs = max(1, round(number_of(stage.epochs) * share))
        made.training.epochs = max(1, round(number_of(made.training.epochs) * share))
        return made

    def known(self, bank: str, recipe: Recipe) -> tuple[DataSource, Splits, Known]:
        key = (bank.split("-")[0], "box" in bank, recipe.encoder.image_size or 0)
        if key not in self.places:
            begun = time.perf_counter()
            self.places[key] = open_places(recipe)
            print(f"{bank}: annotations read in {time.perf_counter() - begun:.1f} s", flush=True)
        return self.places[key]

    def bank(self, name: str) -> Bank:
        """Encoded at its first use by any process, unless its tokens are on disk."""
        if name not in self.banks:
            while len(self.banks) >= BANKS:
                del self.banks[next(iter(self.banks))]
            recipe = self.recipe(name, {}, 0)
            source, splits, known = self.known(name, recipe)
            encoder, begun = recipe.encoder, time.perf_counter()
            file = f"{name}-{encoder.image_size}-{'normed' if encoder.final_norm else 'raw'}-{len(source)}"
            file += f"-{self.given.limit}.npy" if self.given.limit else ".npy"
            store = folder(self.tokens) / file
            made = make_bank(name, source, splits, recipe, known, self.given.device, self.given.teachers, store)
            self.banks[name] = made
            gc.collect()
            gc.freeze()  # making a graph collects garbage first: let it not look at everything that stays
            print(f"{name}: {tuple(made.tokens.shape)} in {time.perf_counter() - begun:.1f} s", flush=True)
        return self.banks[name]

    def labels_of(self, bank: str, recipe: Recipe, groups: list[str] | None) -> Labels:
        key = (bank.split("-")[0], recipe.concepts or "", *(groups or ()))
        if key not in self.labels:
            bare = replace(recipe, data=replace(recipe.data, regions=RegionsConfig()))  # places are known already
            self.labels[key] = open_labels(bare, groups)[1]
        return self.labels[key]


def keep(
    lab: Lab, row: Tree, trained: Trained, bank: Bank, labels: Labels, images: dict[str, torch.Tensor], said: Said
) -> None:
    """What tables and figures need besides the row: single images, the Gaussians, a few maps, what the head read."""
    out, model = lab.given.out, trained.model
    name = "-".join(str(row[key]).replace(" ", "_") for key in ("section", "condition", "bank", "seed"))
    small: dict[str, Any] = {key: value.cpu().numpy().astype(np.float16) for key, value in images.items()}
    np.savez_compressed(folder(out / "images") / f"{name}.npz", **small)
    prior = model.grounding.prior
    if prior is not None:
        means, spread = prior.ellipses()
        row["prior"] = {
            "parts": list(model.part_names),
            "start_means": prior.start_means.tolist(),
            "start_scale": prior.start_scale.tolist(),
            "means": means.tolist(),
            "covariances": spread.tolist(),
        }
    row["temperature"] = float(model.temperature.value.mean())
    if row["section"] == "table3":
        rows = bank.splits.test
        np.savez_compressed(
            folder(out / "readouts") / f"{name}.npz",
            logits=said.logits.cpu().numpy(),
            concept_logits=said.concept_logits.cpu().numpy(),
            probabilities=said.probabilities.cpu().numpy(),
            truth=labels.examples.concepts[rows],
            labels=labels.examples.labels[rows],
            weight=model.head.weight.cpu().numpy(),
            bias=model.head.bias.cpu().numpy(),
            ids=np.array([labels.examples.ids[index] for index in rows]),
            groups=np.array([group.name for group in labels.concepts.groups]),
        )
    if row["seed"] == 0:
        few = np.linspace(0, len(said.attention) - 1, PANEL).astype(int)
        np.savez_compressed(
            folder(out / "maps") / f"{name}.npz",
            mean_attention=said.attention.float().mean(0).cpu().numpy().astype(np.float16),
            attention=said.attention[few].cpu().numpy(),
            gate=said.gate[few].sigmoid().cpu().numpy().astype(np.float16),
            rows=bank.splits.test[few],
            ids=np.array([labels.examples.ids[index] for index in bank.splits.test[few]]),
            parts=np.array(model.part_names),
            grid=np.array(bank.grid),
        )


def folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def perform(lab: Lab, task: Task) -> Tree:
    """What a worker does: encode a bank, measure those who see no image, or train and judge one row."""
    if task.section == ENCODE:
        lab.bank(task.bank)
        return {}
    if task.section == BLIND:
        bank, recipe = lab.bank(task.bank), lab.recipe(task.bank, {}, 0)
        if bank.known.judged is None:
            return {}
        model = make_model(bank, lab.labels_of(task.bank, recipe, None), recipe)
        return blind(bank, model.part_names, float(str(recipe.method["sigma"])))
    row: Tree = {key: getattr(task, key) for key in ("section", "condition", "bank", "seed", "options", "epochs")}
    try:
        bank = lab.bank(task.bank)
        recipe = lab.recipe(task.bank, task.options, task.seed, task.epochs)
        labels = lab.labels_of(task.bank, recipe, task.groups)
        begun = time.perf_counter()
        trained = train(bank, labels, recipe)
        row |= {"seconds": time.perf_counter() - begun, "graph": trained.graph, "loss": trained.loss}
        row["val"] = evaluate(trained.model, bank, labels, "val")[0]
        row["test"], images, said = evaluate(trained.model, bank, labels, "test")
        keep(lab, row, trained, bank, labels, images, said)
    except Exception as error:  # one row that fails must not cost the others
        row["failed"] = f"{type(error).__name__}: {error}"[:500]
    return row


class Book:
    """What is known: rows of earlier runs and of this one; the only writer of the files."""

    def __init__(self, lab: Lab, crew: Crew) -> None:
        self.lab, self.crew, self.rows = lab, crew, dict[str, Tree]()
        self.file = lab.given.out / "rows.jsonl"
        for line in self.file.read_text("utf-8").splitlines() if self.file.exists() else ():
            row = json.loads(line)
            if "failed" not in row:
                self.rows["|".join(str(row[key]) for key in ("section", "condition", "bank", "seed"))] = row

    def train(self, tasks: Sequence[Task]) -> None:
        """What is not known yet."""
        missing = [task for task in tasks if task.key not in self.rows]
        for task, row in self.crew.each(missing, late=self.lab.late):
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            if "failed" not in row:
                self.rows[task.key] = row
            test = row.get("test", {})
            near = test.get("places", {}).get("pairs", {}).get("pointing_patch", float("nan"))
            words = row.get("failed") or f"{row['seconds']:.1f} s  top-1 {test['top1']:.4f}  pointing {near:.4f}"
            print(f"{time.perf_counter() - self.lab.start:6.1f} s  {task.key}  {words}", flush=True)

    def measure_blind(self, banks: Sequence[str]) -> None:
        """Once for each bank: what maps reach that see no image."""
        file = self.lab.given.out / "blind.json"
        found = json.loads(file.read_text("utf-8")) if file.exists() else {}
        found.pop("schema", None)
        tasks = [Task(BLIND, "", bank) for bank in banks if bank not in found]
        for task, answer in self.crew.each(tasks, late=self.lab.late):
            if answer:
                found[task.bank] = answer
                write_json(file, found)

    def choose(self) -> Tree:
        """What the paper leaves open, by bank and family."""
        plan, margin = self.lab.plan, self.lab.given.margin
        first = list(trials(plan))
        self.train(first)
        if self.lab.late():
            return {}  # nothing else will be trained; the next run goes on here
        self.train(together(plan, winners(plan, self.rows, margin)))
        chosen = settle(plan, self.rows, margin)
        tried = {key: worth(row) for key, row in self.rows.items() if key.startswith("choice|")}
        write_json(self.lab.given.out / "chosen.json", {"chosen": chosen, "margin": margin, "worth": tried})
        print(f"chosen on validation: {chosen}", flush=True)
        return chosen


def tasks_of(plan: Tree, section: Tree, seed: int, chosen: Tree) -> Iterator[Task]:
    """The trainings of a section with one seed; a row's own options go before what was chosen."""
    if section["rows"] == "trials":
        yield from trials(plan, section["name"]) if seed == 0 else ()
        return
    rows = plan["rows"] if section["rows"] == "all" else section["rows"]
    for bank in section["banks"]:
        for condition, options in rows.items():
            own = {**chosen.get(place_of(bank), {}).get(family_of(options), {})} if bank.startswith("cub") else {}
            for name, values in section.get("each", {"": [None]}).items():
                for value in values:
                    words, more = (f"{condition} {value:g}", {name: value}) if name else (condition, {})
                    yield Task(section["name"], words, bank, own | options | more, seed)
            if "subsets" in section:
                words = f"{condition}, fewer concepts"
                yield Task(section["name"], words, bank, own | options, seed, section["subsets"][bank])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cub", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("blood", "teachers", "tokens"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.yaml")
    parser.add_argument("--sections", nargs="*")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--no-choice", dest="choice", action="store_false", help="keep the preset's settings")
    parser.add_argument("--limit", type=int, help="images of each split at most")
    parser.add_argument("--margin", type=float, default=0.005, help="a setting must be better by so much to be chosen")
    parser.add_argument("--device", default="auto")
    given = parser.parse_args()
    plan = read_yaml(given.plan)
    assert isinstance(plan, dict)
    sections = [each for each in plan["sections"] if not given.sections or each["name"] in given.sections]
    if given.teachers is None:
        sections = [each for each in sections if not any(RESNET in bank for bank in each["banks"])]
    banks = list(dict.fromkeys(bank for each in sections for bank in each["banks"]))
    choosing = given.choice and any(bank.startswith("cub") for bank in banks)
    if choosing:
        banks = list(dict.fromkeys((*plan["choice"]["banks"], *banks)))
    folder(given.out)
    with tempfile.TemporaryDirectory(prefix="pf-cbm-") as scratch:
        lab = Lab(given, plan, given.tokens or Path(scratch))
        for bank in banks:  # here, so that every process has them, and before the GPU is touched: readers are forked
            if FINE_BANK not in bank:
                lab.known(bank, lab.recipe(bank, {}, 0))

        def work(task: Task) -> Tree:
            if given.device == "auto":
                given.device = "cuda" if torch.cuda.is_available() else "cpu"
            if given.device == "cpu" and given.workers > 1:
                torch.set_num_threads(1)
            return perform(lab, task)

        crew = Crew(given.workers, work)
        book = Book(lab, crew)
        first = list(dict.fromkeys((*(plan["choice"]["banks"] if choosing else ()), *sections[0]["banks"])))
        for _ in crew.each([Task(ENCODE, "", bank) for bank in first], late=lab.late):
            pass
        chosen = book.choose() if choosing else {}
        for section in sections:
            late_banks = [bank for bank in section["banks"] if bank not in first]
            for _ in crew.each([Task(ENCODE, "", bank) for bank in late_banks], late=lab.late):
                pass
            # A whole table of one seed is worth more than three seeds of half of it.
            book.train([task for seed in given.seeds for task in tasks_of(plan, section, seed, chosen)])
            book.measure_blind(section["banks"])
        crew.dismiss()
        print(f"{time.perf_counter() - lab.start:.0f} s{', out of time' if lab.late() else ''}", flush=True)


if __name__ == "__main__":
    main()
