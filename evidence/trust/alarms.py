"""How often clean bottlenecks are accused, and how large a planted leak must be to be found.

Labels and classes are those of drawn creatures (`shapes`); scores are made: ±2 for a label, noise of deviation 1, and,
if asked for, doubt that all concepts of an image share, errors of labels, or a leak. A logistic regression on 400 other
creatures is the head. *Settled*: the five groups that decide the species are all concepts. *Open*: two of them are not,
so that creatures with equal labels are of different species.

A leak in all scores adds a pattern of the class to them, of the given size in deviations of their noise; a leak in one
gives a concept that decides nothing the size, up or down, by whether the species is the first.
"""

from dataclasses import dataclass

import numpy as np
from results import Results
from sklearn.linear_model import LogisticRegression

from conceptlens.concepts import ConceptSet
from conceptlens.data.sources.shapes import Shapes
from conceptlens.evaluation.leakage.signs import find_signs
from conceptlens.methods.linear_head import LinearHead
from conceptlens.recipes.schema import ShapesConfig
from conceptlens.runs.readout import Readout
from conceptlens.stats.estimates import Bootstrap
from conceptlens.stats.folds import assign_folds

JUDGED, TAUGHT = 200, 400
PERMUTATIONS = 99
CLEAN, POWER = 200, 20  # draws
SETTLED = ("head colour", "body shape", "body pattern", "tail shape", "leg colour", "antennae")
OPEN = ("head colour", "body shape", "leg colour", "antennae")
SIZES = (0.1, 0.2, 0.4, 0.7, 1.0)


@dataclass(frozen=True)
class World:
    """How scores are made."""

    name: str
    groups: tuple[str, ...]
    shared: float = 0.0  # deviation of doubt that all concepts share
    errors: float = 0.0  # share of labels that are wrong
    everywhere: float = 0.0  # size of a leak in all scores
    one: float = 0.0  # size of a leak in `antennae`

    def draw(self, seed: int) -> Readout:
        config = ShapesConfig(n=JUDGED + TAUGHT, seed=seed, classes=4, label_noise=self.errors)
        whole = Shapes.concept_set(config)
        keep = [place for place, concept in enumerate(whole.concepts) if concept.group in self.groups]
        source = Shapes(config, concepts=whole.subset(keep))
        concepts: ConceptSet = source.concepts
        truth, seen, labels = source.true_concepts, source.examples.concepts, source.examples.labels
        chance = np.random.default_rng([seed, 5])
        scores = 2.0 * (2 * truth - 1) + chance.normal(size=truth.shape)
        scores += self.shared * chance.normal(size=(len(truth), 1))
        scores += self.everywhere * chance.normal(size=(len(concepts.classes), truth.shape[1]))[labels]
        scores[:, concepts.group("antennae").concepts.start] += self.one * np.where(labels == 0, 1, -1)
        model = LogisticRegression(max_iter=500).fit(scores[:TAUGHT], labels[:TAUGHT])
        head = LinearHead(model.coef_, model.intercept_, bypass=False)
        names = source.examples.ids[TAUGHT:]
        rows = slice(TAUGHT, None)
        rest = np.zeros((JUDGED, len(concepts.classes)))
        return Readout(
            concepts, concepts.classes, "single", (0.5,) * len(concepts.classes), names, names, "logit", None,
            scores[rows], scores[rows], seen[rows], labels[rows], rest, head.logits, head,
        )  # fmt: skip


def worlds() -> list[tuple[World, int]]:
    clean = [
        World("settled", SETTLED),
        World("settled, shared doubt", SETTLED, shared=1.5),
        World("open", OPEN),
        World("open, shared doubt", OPEN, shared=1.5),
    ]
    wrong = [World("settled, 2 % of labels wrong", SETTLED, errors=0.02)]
    leaks = [
        *(World(f"settled, leak in all scores {size:g}", SETTLED, everywhere=size) for size in SIZES),
        *(World(f"settled, leak in one score {size:g}", SETTLED, one=size) for size in SIZES),
        *(World(f"open, leak in all scores {size:g}", OPEN, everywhere=size) for size in SIZES),
    ]
    return [*((world, CLEAN) for world in clean), *((world, POWER) for world in [*leaks, *wrong])]


def judge(made: Readout) -> dict[str, float | bool | None]:
    """The verdict, and the p-values and sizes behind it; two folds, for time: exactness does not hang on them."""
    fold = assign_folds(made.units, folds=2)
    found = find_signs(made, fold, Bootstrap(made.units, 0), permutations=PERMUTATIONS, note=lambda text: None)
    assert found.own is not None
    row: dict[str, float | bool | None] = {
        "leaks": found.leaks,
        "head": round(found.own.head.adjusted, 4),
        "concepts": round(found.own.mean.adjusted, 4),
        "gained": round(found.own.head.excess.value or 0.0, 4),
        "nats": round(found.own.mean.excess.value or 0.0, 4),
    }
    if found.everything is not None:
        row |= {
            "accuracy": round(found.everything.accuracy.adjusted, 4),
            "beyond": round(found.everything.nats.adjusted, 4),
        }
    return row


def run(seconds: float) -> None:
    results = Results("alarms.json.gz", seconds)
    by_name = {world.name: (world, draws) for world, draws in worlds()}
    # Ten draws a row, so that little is lost; the first rows of every world first.
    names = [
        f"{name} #{start}" for start in range(0, CLEAN, 10) for name, (_, draws) in by_name.items() if start < draws
    ]
    for name in results.missing(names):
        world, start = by_name[name.rpartition(" #")[0]][0], int(name.rpartition("#")[2])
        results.put(name, [judge(world.draw(seed)) for seed in range(start, start + 10)])
