"""Train everything in plan.yaml on tokens that are encoded once; a line of rows.jsonl for each training, as it ends.

    python evidence/pf-cbm/prepare.py --cub CUB_200_2011 --out cub
    python evidence/pf-cbm/run.py --cub cub --out OUT [--blood blood.csv] [--teachers DIR] [--seconds 480]
                                  [--sections table2 sweep …] [--seeds 0 1 2] [--epochs 1.0] [--device cuda]
    python evidence/pf-cbm/tables.py --rows OUT

`--blood`: a table of all blood cells; without it the ones that come with the package. `--teachers`: the folder with
resnet50.safetensors, without which its sections are left out. `--seconds`: no training begins later. `--epochs`: a
share of the plan's, for a try. What stands in rows.jsonl is not trained again.
"""

import argparse
import gc
import json
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bank import RESNET, Bank, Known, Labels, make_bank, open_labels, open_places
from lab import Trained, make_model, train
from score import Said, blind, evaluate

from conceptlens.data.dataset import DataSource
from conceptlens.data.splits import Splits
from conceptlens.files import read_yaml, write_json
from conceptlens.recipe import Recipe
from conceptlens.recipe.parse import load_recipe, merge
from conceptlens.recipe.schema import RegionsConfig

HERE = Path(__file__).parent
JOIN = {"bill": ["beak"], **{part: [f"left {part}", f"right {part}"] for part in ("eye", "leg", "wing")}}
FINE = 256  # pixels: a grid of 32, as the paper's
PANEL = 8  # images whose maps are kept
Tree = dict[str, Any]


@dataclass
class Lab:
    """The command's options, the plan, and what is in memory."""

    given: argparse.Namespace
    plan: Tree
    chosen: Tree = field(default_factory=dict)
    places: dict[tuple[str, bool, int], tuple[DataSource, Splits, Known]] = field(default_factory=dict)
    banks: dict[str, Bank] = field(default_factory=dict)
    labels: dict[tuple[str, ...], Labels] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    start: float = field(default_factory=time.perf_counter)

    @property
    def late(self) -> bool:
        return bool(time.perf_counter() - self.start > self.given.seconds)

    def recipe(self, bank: str, options: Tree, seed: int) -> Recipe:
        """The recipe of a row on a bank: preset, the data's base, what was chosen, the row's options."""
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
            base["method"] |= {key: value for key, value in self.chosen.items() if key != "places_rate"}
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
        if family == "cub" and "places_rate" in (self.chosen | options):
            rates["places"] = (self.chosen | options)["places_rate"]
        for stage in made.training.stages:
            stage.learning_rate = rates.get(stage.name, stage.learning_rate)
            if stage.epochs:
                stage.epochs = max(1, round(stage.epochs * self.given.epochs))
        made.training.epochs = max(1, round(made.training.epochs * self.given.epochs))
        return made

    def known(self, bank: str, recipe: Recipe) -> tuple[DataSource, Splits, Known]:
        key = (bank.split("-")[0], "box" in bank, recipe.encoder.image_size or 0)
        if key not in self.places:
            begun = time.perf_counter()
            self.places[key] = open_places(recipe)
            print(f"{bank}: annotations read in {time.perf_counter() - begun:.1f} s", flush=True)
        return self.places[key]

    def bank(self, name: str) -> Bank:
        """Encoded at its first use."""
        if name not in self.banks:
            recipe = self.recipe(name, {}, 0)
            source, splits, known = self.known(name, recipe)
            begun = time.perf_counter()
            made = make_bank(name, source, splits, recipe, known, self.given.device, self.given.teachers)
            self.banks[name] = made
            gc.collect()
            gc.freeze()  # making a graph collects garbage first: let it not look at everything that stays
            print(f"{name}: {tuple(made.tokens.shape)} encoded in {time.perf_counter() - begun:.1f} s", flush=True)
        return self.banks[name]

    def labels_of(self, bank: str, recipe: Recipe, groups: list[str] | None) -> Labels:
        key = (bank.split("-")[0], recipe.concepts or "", *(groups or ()))
        if key not in self.labels:
            bare = replace(recipe, data=replace(recipe.data, regions=RegionsConfig()))  # places are known already
            self.labels[key] = open_labels(bare, groups)[1]
        return self.labels[key]


FINE_BANK = "256"


def one(
    lab: Lab, section: str, condition: str, bank_name: str, options: Tree, seed: int, groups: list[str] | None = None
) -> Tree | None:
    """Train and judge one row; None where it was done before or there is no time left."""
    key = f"{section}|{condition}|{bank_name}|{seed}"
    if key in lab.done or lab.late:
        return None
    row: Tree = {"section": section, "condition": condition, "bank": bank_name, "seed": seed, "options": options}
    try:
        bank = lab.bank(bank_name)
        recipe = lab.recipe(bank_name, options, seed)
        labels = lab.labels_of(bank_name, recipe, groups)
        begun = time.perf_counter()
        trained = train(bank, labels, recipe)
        row |= {"seconds": time.perf_counter() - begun, "graph": trained.graph, "loss": trained.loss}
        row["val"] = evaluate(trained.model, bank, labels, "val")[0]
        row["test"], images, said = evaluate(trained.model, bank, labels, "test")
        keep(lab, row, trained, bank, labels, images, said)
    except Exception as error:  # one row that fails must not cost the others
        row["failed"] = f"{type(error).__name__}: {error}"[:500]
    with (lab.given.out / "rows.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    lab.done.add(key)
    test = row.get("test", {})
    near = test.get("places", {}).get("pairs", {}).get("pointing_patch")
    print(
        f"{time.perf_counter() - lab.start:6.1f} s  {key}  "
        + (row["failed"] if "failed" in row else f"{row['seconds']:.1f} s  top-1 {test['top1']:.4f}  pointing {near}"),
        flush=True,
    )
    return row


def keep(
    lab: Lab,
    row: Tree,
    trained: Trained,
    bank: Bank,
    labels: Labels,
    images: dict[str, torch.Tensor],
    said: Said,
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


def worth(row: Tree) -> float:
    """By what settings are chosen: the mean of accuracy and pointing on validation images."""
    return 0.5 * (float(row["val"]["top1"]) + float(row["val"]["places"]["pairs"]["pointing_patch"]))


def choose(lab: Lab) -> None:
    """What the paper leaves open: the better of a few values on validation; together only if that is better still."""
    file, plan = lab.given.out / "chosen.json", lab.plan["choice"]
    if file.exists():
        lab.chosen = json.loads(file.read_text("utf-8"))["chosen"]
        return
    tried: list[Tree] = []
    best: Tree = {}
    for condition, options in plan["rows"].items():
        default = one(lab, "choice", f"{condition}: default", plan["bank"], options, 0)
        if default is None or "val" not in default:
            continue
        tried.append({"condition": condition, "change": {}, "worth": worth(default)})
        for name, values in plan[condition].items():
            rows = [
                (value, one(lab, "choice", f"{condition}: {name} {value}", plan["bank"], {**options, name: value}, 0))
                for value in values
            ]
            scored = [(worth(row), value) for value, row in rows if row is not None and "val" in row]
            tried += [{"condition": condition, "change": {name: value}, "worth": each} for each, value in scored]
            top = max(scored, default=(0.0, None))
            if top[0] > worth(default) + lab.given.margin:
                best[name] = top[1]
    together_worth: dict[str, float] = {}
    for condition, options in plan["rows"].items():
        together = one(lab, "choice", f"{condition}: together", plan["bank"], {**options, **best}, 0) if best else None
        if together is not None and "val" in together:
            together_worth[condition] = worth(together)
            tried.append({"condition": condition, "change": best, "worth": together_worth[condition]})
    defaults = {each["condition"]: each["worth"] for each in tried if not each["change"]}
    helps = bool(together_worth) and all(value >= defaults[name] for name, value in together_worth.items())
    lab.chosen = best if helps else {}
    write_json(file, {"chosen": lab.chosen, "margin": lab.given.margin, "tried": tried})
    print(f"chosen on validation: {lab.chosen or 'the defaults'}", flush=True)


def rows_of(lab: Lab, section: Tree) -> Iterator[tuple[str, str, Tree, list[str] | None]]:
    """Bank, condition, options and groups of each training of a section but for the seed."""
    rows = lab.plan["rows"] if section["rows"] == "all" else section["rows"]
    for bank in section["banks"]:
        for condition, options in rows.items():
            for name, values in section.get("each", {"": [None]}).items():
                for value in values:
                    yield (
                        bank,
                        f"{condition} {value:g}" if name else condition,
                        options | ({name: value} if name else {}),
                        None,
                    )
            if "subsets" in section:
                yield bank, f"{condition}, fewer concepts", options, section["subsets"][bank]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cub", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("blood", "teachers"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--plan", type=Path, default=HERE / "plan.yaml")
    parser.add_argument("--sections", nargs="*")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--no-choice", dest="choice", action="store_false", help="keep the preset's settings")
    parser.add_argument("--limit", type=int, help="images of each split at most")
    parser.add_argument("--margin", type=float, default=0.005, help="a setting must be better by so much to be chosen")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    plan = read_yaml(given.plan)
    assert isinstance(plan, dict)
    lab = Lab(given, plan)
    folder(given.out)
    file = given.out / "rows.jsonl"
    if file.exists():
        for line in file.read_text("utf-8").splitlines():
            row = json.loads(line)
            if "failed" not in row:
                lab.done.add("|".join(str(row[key]) for key in ("section", "condition", "bank", "seed")))
    sections = [each for each in plan["sections"] if not given.sections or each["name"] in given.sections]
    if given.teachers is None:
        sections = [each for each in sections if not any(RESNET in bank for bank in each["banks"])]
    for bank in dict.fromkeys(bank for each in sections for bank in each["banks"]):
        if FINE_BANK not in bank:  # before the GPU is touched: readers are forked
            lab.known(bank, lab.recipe(bank, {}, 0))
    if given.choice and any(bank.startswith("cub") for each in sections for bank in each["banks"]):
        choose(lab)
    for section in sections:
        for seed in given.seeds:  # a whole table of one seed is worth more than three seeds of half of it
            for bank, condition, options, groups in rows_of(lab, section):
                one(lab, section["name"], condition, bank, options, seed, groups)
        for bank in section["banks"]:
            write_blind(lab, bank)
        later = {bank for each in sections[sections.index(section) + 1 :] for bank in each["banks"]}
        for bank in [name for name in lab.banks if name not in later]:
            del lab.banks[bank]
    gc.unfreeze()
    print(f"{time.perf_counter() - lab.start:.0f} s{', out of time' if lab.late else ''}", flush=True)


def write_blind(lab: Lab, name: str) -> None:
    """Once for each bank: what maps reach that see no image."""
    file = lab.given.out / "blind.json"
    found = json.loads(file.read_text("utf-8")) if file.exists() else {}
    found.pop("schema", None)
    if name in found or name not in lab.banks or lab.banks[name].known.judged is None:
        return
    bank, recipe = lab.banks[name], lab.recipe(name, {}, 0)
    model = make_model(bank, lab.labels_of(name, recipe, None), recipe)
    found[name] = blind(bank, model.part_names, float(str(recipe.method["sigma"])))
    write_json(file, found)


if __name__ == "__main__":
    main()
