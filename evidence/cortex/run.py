"""Tables 1 to 5 and Figure 4 of the CORTEX paper for our generator, an edit, and biases of known size.

    python evidence/cortex/run.py --model work/generator/model --blood data/blood --twins work/twins --out work/cortex
    python evidence/cortex/tables.py work/cortex

Each result is a file of its own in OUT/rows, written when it is there: what is there already is not made again, so a
stopped run goes on, and sections may run beside each other (`--section`, `--only`). `--small` is a trial of every
section in a minute or two on a CPU; its numbers mean nothing.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from judges import EPOCHS, open_judge, train_judge
from safetensors.torch import save as serialize
from torch import Tensor

from conceptlens.core.files import read_json, write_bytes, write_json
from conceptlens.cortex.bias.bias import measure_bias
from conceptlens.cortex.bias.study import bias_result, draw, judged_shares, value_images, value_sets
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.extractors.importance import PAPER
from conceptlens.cortex.extractors.training import ExtractorTraining
from conceptlens.cortex.generators.builtin.generator import SmallGenerator, load_generator
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.masking import Judge
from conceptlens.cortex.results import (
    edit_result,
    first_of_each,
    mask_result,
    pairs_result,
    score_samples,
    search_result,
    tokens_result,
)
from conceptlens.cortex.study import Study, new_study, open_study
from conceptlens.cortex.token_sets import WAYS
from conceptlens.encoders.weights_file import read_weights
from pretraining.command import command
from pretraining.generator.data import Labeled, from_blood, from_source
from pretraining.generator.measure import asked_and_seen, picture, reconstruction, token_loss

NETWORKS = ("CE", "RE", "TE")
ATTRIBUTES = ("cell size", "cytoplasm texture", "granularity")
TOP = (5, 10, 20)


@dataclass(frozen=True)
class Sizes:
    """How much of everything; the paper's numbers in brackets."""

    samples: int = 1350  # of each class [1,350]
    fine: int = 300  # of each of the finer concepts
    values: int = 1250  # of each value of an attribute [10,000]
    neutral: int = 2000  # [2,000]
    epochs: int = 80  # [80]
    limit: int = 200  # training samples of a concept whose importance is computed [all]
    test: int = 50  # test samples of a concept that judges see [50]
    steps: int = 500  # of a search
    permutations: int = 100
    judge_epochs: int | None = None


SMALL = Sizes(24, 12, 24, 24, 2, 6, 2, 4, 5, 1)


@dataclass(frozen=True)
class Plan:
    """What is studied, with what, and where results go."""

    model: Path
    out: Path
    device: torch.device
    sizes: Sizes
    judges: tuple[str, ...]
    blood: Path | None = None
    data: str = "blood-cells"
    twins: Path | None = None
    attributes: tuple[str, ...] = ATTRIBUTES
    only: tuple[str, ...] = ()  # twins, networks or attributes
    options: dict[str, int] | None = None  # of extractors

    @cached_property
    def generator(self) -> SmallGenerator:
        model = load_generator(self.model)
        return model.to(self.device)

    @cached_property
    def training_images(self) -> Labeled:
        size = self.generator.image_size
        return from_blood(self.blood, size) if self.blood else from_source(self.data, size)

    @cached_property
    def test_images(self) -> Labeled:
        return from_source(self.data, self.generator.image_size, split="test")

    def asked(self, concepts: Sequence[str]) -> dict[str, Judge]:
        """Those judges that are trained, asked for these concepts."""
        return {name: open_judge(self.out / "judges" / name, concepts, self.device) for name in self.judges}

    def wants(self, name: str) -> bool:
        return not self.only or name in self.only

    def row(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A result that is there, or is made now."""
        path = self.out / "rows" / f"{name}.json"
        if not path.exists():
            began = time.perf_counter()
            found = make()
            write_json(path, {**found, "seconds": round(time.perf_counter() - began, 1)})
            print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)
        raw: dict[str, Any] = read_json(path)
        return raw

    def study(self, name: str, model: Path, concepts: Sequence[str], samples: int, network: str = "CE") -> Study:
        """A study that is there, or is made now."""
        place = self.out / "studies" / name
        if (place / "run.json").exists() and read_json(place / "run.json")["status"] == "done":
            return open_study(place, device=self.device)
        options = dict(self.options or {})
        if network == "TE":
            options.pop("filters", None)
        return new_study(
            str(model),
            place,
            concepts=concepts,
            network=network,
            per_concept=samples,
            training=ExtractorTraining(epochs=self.sizes.epochs),
            overwrite=(place / "run.json").exists(),
            options=options,
            chunk=128,
            device=self.device,
        )


def judges(plan: Plan) -> None:
    """Networks that tell classes and attributes of real images."""
    for name in plan.judges:
        if plan.wants(name):
            folder = plan.out / "judges" / name

            def make(name: str = name, folder: Path = folder) -> dict[str, Any]:
                train = plan.training_images
                train_judge(name, folder, train, plan.test_images, plan.device, epochs=plan.sizes.judge_epochs)
                return dict(read_json(folder / "judge.json"))

            plan.row(f"judge-{name}", make)


def generator(plan: Plan) -> None:
    """What the generator is: codebook use, reconstruction, its samples' classes by judges, and a sheet."""

    def make() -> dict[str, Any]:
        model, test = plan.generator, plan.test_images
        known = from_source(plan.data, model.image_size)
        classes = [Condition(name) for name in model.classes]
        write_bytes(plan.out / "pictures" / "generator.png", picture(model, test))
        return {
            "reconstruction": reconstruction(model, test),
            "token_loss": {"training images": token_loss(model, known), "test images": token_loss(model, test)},
            "classes": {
                name: asked_and_seen(model, judge, classes, 2 * plan.sizes.test)
                for name, judge in plan.asked(model.classes).items()
            },
        }

    plan.row("generator", make)


def extractors(plan: Plan) -> None:
    """Table 1: classes, and finer concepts, of which there are enough for top-10."""
    for network in filter(plan.wants, NETWORKS):

        def classes(network: str = network) -> dict[str, Any]:
            study = plan.study(f"classes-{network}", plan.model, plan.generator.classes, plan.sizes.samples, network)
            return {"concepts": len(study.extractor.card.concepts), "accuracy": dict(study.extractor.card.accuracy)}

        def fine(network: str = network) -> dict[str, Any]:
            study = plan.study(f"fine-{network}", plan.model, finer(plan), plan.sizes.fine, network)
            card = study.extractor.card
            return {"concepts": list(card.concepts), "accuracy": dict(card.accuracy)}

        plan.row(f"extractor-classes-{network}", classes)
        plan.row(f"extractor-fine-{network}", fine)


def finer(plan: Plan, least: int = 100, attribute: str = "nucleus shape") -> list[str]:
    """Classes by a value of an attribute, where enough training images show both."""
    data = plan.training_images
    names = list(data.attributes)
    attribute = attribute if attribute in names else names[0]
    values, column = data.attributes[attribute], 1 + names.index(attribute)
    found = []
    for place, name in enumerate(data.classes):
        for index, value in enumerate(values):
            count = int(((data.conditions[:, 0] == place) & (data.conditions[:, column] == index)).sum())
            if count >= least * len(data) / 6169:
                found.append(f"{name}, {attribute}={value}")
    return found


def masking(plan: Plan) -> None:
    """Figure 4 and Table 2, with black pixels as in the paper, and with blurred ones."""
    for network in filter(plan.wants, NETWORKS):

        def make(network: str = network) -> dict[str, Any]:
            study = open_study(plan.out / "studies" / f"classes-{network}", device=plan.device)
            place = plan.out / "results" / f"masking-{network}"
            asked = plan.asked(study.extractor.card.concepts)
            tokens_result(study, limit=plan.sizes.limit, show=1, out=place)
            small = min(20, plan.generator.grid[0] ** 2 // 4)
            counts = [n for n in range(5, 55, 5) if n <= plan.generator.grid[0] ** 2]
            found = {}
            for fill in ("black", "blur"):
                result = mask_result(
                    study,
                    asked,
                    counts=counts,
                    n=small,
                    fill=fill,
                    limit=plan.sizes.test,
                    training_limit=plan.sizes.limit,
                    out=place / fill,
                )
                found[fill] = result.data
            return found

        plan.row(f"masking-{network}", make)


def pairs(plan: Plan) -> None:
    """Table 5: each class towards its neighbor and back, in the middle of the image."""
    names = plan.generator.classes
    chosen = [(name, names[(place + 1) % len(names)]) for place, name in enumerate(names)]
    for network in filter(plan.wants, NETWORKS[:2]):
        for side in (4, 8):

            def make(network: str = network, side: int = side) -> dict[str, Any]:
                study = open_study(plan.out / "studies" / f"classes-{network}", device=plan.device)
                asked = plan.asked(study.extractor.card.concepts)
                settings = SearchSettings(steps=plan.sizes.steps, record_every=max(1, plan.sizes.steps // 10))
                place = plan.out / "results" / f"pairs-{network}-{side}"
                region = f"center {side}x{side}"
                return pairs_result(
                    study, chosen, asked, region=region, images=plan.sizes.test, settings=settings, out=place
                ).data

            if side <= plan.generator.grid[0]:
                plan.row(f"pairs-{network}-{side}", make)


def edit(plan: Plan) -> None:
    """Figure 5: strips of samples of each class edited towards the next; and tokens from nothing."""

    def make() -> dict[str, Any]:
        study = open_study(plan.out / "studies" / "classes-CE", device=plan.device)
        names, test = plan.generator.classes, study.samples["test"]
        asked = plan.asked(study.extractor.card.concepts)
        side = plan.generator.grid[0] // 2
        settings = SearchSettings(steps=plan.sizes.steps, record_every=max(1, plan.sizes.steps // 50), start="image")
        found = []
        for place, name in enumerate(names):
            first = int((test.labels == place).nonzero()[0, 0])
            target = names[(place + 1) % len(names)]
            result = edit_result(
                study,
                target,
                f"center {side}x{side}",
                sample=first,
                settings=settings,
                judges=asked,
                out=plan.out / "results" / f"edit-{place}",
            )
            found.append({"from": name, **{key: result.data[key] for key in ("target", "judges", "path")}})
            found[-1]["changed"] = len(result.data["changed"])
        search = search_result(
            study, names[0], settings=settings_from_nothing(plan), out=plan.out / "results" / "search"
        )
        return {"edits": found, "from_nothing": {"end": search.data["end"], "chosen": search.data["chosen"]}}

    plan.row("edit", make)


def settings_from_nothing(plan: Plan) -> SearchSettings:
    return SearchSettings(steps=plan.sizes.steps, record_every=max(1, plan.sizes.steps // 10))


def bias(plan: Plan) -> None:
    """Tables 3 and 4 for attributes of the generator as it is; what is true is said by judges."""
    for attribute in filter(plan.wants, plan.attributes):

        def make(attribute: str = attribute) -> dict[str, Any]:
            concepts = [f"{attribute}={value}" for value in plan.generator.attributes[attribute]]
            study = plan.study(f"bias-{attribute}".replace(" ", "-"), plan.model, concepts, plan.sizes.values)
            result = bias_result(
                study,
                n=[n for n in TOP if n <= plan.generator.grid[0] ** 2],
                neutral=plan.sizes.neutral,
                limit=plan.sizes.values,
                permutations=plan.sizes.permutations,
                judges=plan.asked(concepts),
                out=plan.out / "results" / f"bias-{attribute}".replace(" ", "-"),
            )
            given = plan.training_images.conditions[:, 1 + list(plan.generator.attributes).index(attribute)]
            counts = torch.bincount(given[given >= 0], minlength=len(concepts)).double()
            shares = (counts / counts.sum()).tolist()
            return {**result.data, "accuracy": dict(study.extractor.card.accuracy), "training_share": shares}

        plan.row(f"bias-{attribute}".replace(" ", "-"), make)


def skew(plan: Plan, attribute: str | None = None) -> None:
    """Generators trained at known skews, each held against all balanced ones but itself.

    Twins lie in folders RATIO-sSEED. Each is studied as a stranger would: an extractor and token sets from its own
    samples, asked for by value; then its neutral samples. No bias looks like the balanced twins' neutral samples.
    """
    if plan.twins is None:
        print("skew: no --twins, left out")
        return
    models = {path.parent.name: path for path in sorted(plan.twins.glob("*/model"))}
    balanced = [name for name in models if name.split("-")[0] == "1"]
    attribute = attribute or plan.attributes[0]
    concepts = [f"{attribute}={value}" for value in plan.generator.attributes[attribute]]

    def neutral(name: str) -> Tensor:
        path = plan.out / "neutral" / f"{name}.safetensors"
        if not path.exists():
            model = load_generator(models[name]).to(plan.device)
            tokens = draw(model, Condition(), plan.sizes.neutral, seed=7 + list(models).index(name), chunk=250)
            write_bytes(path, serialize({"tokens": tokens.to(torch.int16).contiguous()}))
        return read_weights(path)["tokens"].long()

    for name in filter(plan.wants, models):

        def make(name: str = name) -> dict[str, Any]:
            study = plan.study(f"skew-{name}", models[name], concepts, plan.sizes.values)
            train = first_of_each(study.samples["train"], plan.sizes.values)
            scores = score_samples(study, train, PAPER)
            others = {other: neutral(other) for other in balanced if other != name}
            tables = []
            codes = len(study.codebook)
            null = torch.cat(list(others.values())) if others else None
            for way, n in ((way, n) for way in WAYS for n in TOP if n <= scores[0].numel()):
                sets = value_sets(value_images(train, scores, n), n, 10, codes, way)
                found = measure_bias(sets, neutral(name), codes=codes, balanced=null).pairs[0]
                each = {
                    other: measure_bias(sets, tokens, codes=codes).pairs[0].delta.value
                    for other, tokens in others.items()
                }
                row = asdict(found) | {"excess": found.excess, "nulls": each, "n": n, "sets": way}
                tables.append(row)
            shares = {who: judged_shares(study, neutral(name), judge) for who, judge in plan.asked(concepts).items()}
            ratio = float(name.split("-")[0])
            return {
                "twin": name,
                "ratio": ratio,
                "concepts": concepts,
                "accuracy": dict(study.extractor.card.accuracy),
                "tables": tables,
                "shares": shares,
            }

        plan.row(f"skew-{name}", make)


SECTIONS = {part.__name__: part for part in (judges, generator, extractors, masking, pairs, edit, bias, skew)}


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="model/ of a training")
    parser.add_argument("--twins", type=Path, help="folder of RATIO-sSEED/model")
    parser.add_argument("--blood", type=Path, help="WBCAtt with PBC's images, for judges; else the package's own")
    parser.add_argument("--data", default="blood-cells", help="images of its test split, and of its training split")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--section", nargs="+", choices=tuple(SECTIONS), default=list(SECTIONS))
    parser.add_argument("--only", nargs="+", default=[], help="these networks, attributes or twins")
    parser.add_argument("--judges", nargs="+", default=list(EPOCHS), help="networks of timm")
    parser.add_argument("--attributes", nargs="+", default=list(ATTRIBUTES))
    parser.add_argument("--small", action="store_true", help="a trial on a CPU")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    torch.set_float32_matmul_precision("high")
    plan = Plan(
        model=options.model,
        out=options.out,
        device=torch.device(options.device),
        sizes=SMALL if options.small else Sizes(),
        judges=tuple(options.judges),
        blood=options.blood,
        data=options.data,
        twins=options.twins,
        attributes=tuple(options.attributes),
        only=tuple(options.only),
        options={"filters": 8, "hidden": 16} if options.small else None,
    )
    for name in options.section:
        began = time.perf_counter()
        SECTIONS[name](plan)
        print(f"section {name}: {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
