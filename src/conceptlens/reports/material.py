"""What a page is drawn from: the files of a run, read once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from conceptlens.concepts import ConceptSet
from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, read_yaml
from conceptlens.evaluation.examination import Trust
from conceptlens.reports.prior import Prior, read_prior
from conceptlens.reports.stories import Stories
from conceptlens.runs.annotations import Annotations, read_annotations
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.folds import FOLDS
from conceptlens.runs.verdicts import FILE as TRUST
from conceptlens.runs.verdicts import map_captions

SPOKEN = {"train": "training", "val": "validation", "test": "test", FOLDS: "cross-validated"}


def value_of(tree: Any, path: str) -> Any:
    """What stands at a dotted path of nested mappings; None where there is nothing."""
    for step in path.split("."):
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return tree


def shown_split(splits: Mapping[str, Any]) -> str:
    """The split whose images a page shows: the test, or validation where no test image has a class."""
    return "test" if value_of(splits, "test.class.n") else "val"


def measured_split(splits: Mapping[str, Any]) -> str:
    """The split that a page's numbers speak of: all folds of a cross-validated run, else the images that are shown."""
    return FOLDS if value_of(splits, f"{FOLDS}.class.n") else shown_split(splits)


@dataclass(frozen=True)
class Material:
    """Everything the sections read."""

    info: Mapping[str, Any]  # run.json
    split: str  # the split the numbers speak of
    metrics: Mapping[str, Any]  # of that split
    history: list[dict[str, Any]]
    stories: Stories | None
    recipe: Mapping[str, Any]
    concepts: ConceptSet
    card: Mapping[str, Any]  # model/model.json
    splits: Mapping[str, Any]
    environment: Mapping[str, Any]
    slot_names: list[str]  # what each slot serves; empty where there are no slots
    prior: Prior | None = None  # where parts are expected, for a method that has such a prior
    trust: Trust | None = None  # what examinations found; None: it was not examined
    map_captions: Mapping[str, str] = field(default_factory=dict)  # by kind: why its maps are to be doubted
    annotations: Annotations = field(default_factory=dict)  # names that people gave

    @classmethod
    def read(cls, run: RunFolder) -> "Material":
        """Read a run that has been measured.

        Raises:
            UserError: A file is missing or is not what training writes.
        """
        path = run.path
        splits = read_json(path / "metrics.json")["splits"]
        split = measured_split(splits)
        recipe_file = path / "recipe.yaml"
        if not recipe_file.exists():
            raise UserError(f"{recipe_file}: no such file. Copy the whole run folder.")
        concepts, card = ConceptSet.load(path / "concepts.yaml"), read_json(path / "model" / "model.json")
        if len(card["concept_priors"]) != len(concepts):
            raise UserError(
                f"{path / 'concepts.yaml'}: its {len(concepts)} concepts do not fit the model's "
                f"{len(card['concept_priors'])}. Copy the whole run folder."
            )
        return cls(
            info=run.info,
            split=split,
            metrics=splits[split],
            history=run.read_history(),
            stories=Stories.read(path) if (path / "stories.json").exists() else None,
            recipe=read_yaml(recipe_file),
            concepts=concepts,
            card=card,
            splits=read_json(path / "splits.json"),
            environment=read_json(path / "environment.json"),
            slot_names=_slot_names(run, concepts, value_of(splits[split], "slots.slots") or 0),
            prior=read_prior(path / "model" / "weights.safetensors"),
            trust=Trust.read(path / TRUST) if (path / TRUST).exists() else None,
            map_captions=map_captions(path, evidence=True),
            annotations=read_annotations(path),
        )

    def number(self, path: str) -> float | None:
        """A number of `metrics.json`, such as `class.accuracy`."""
        value = value_of(self.metrics, path)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def interval(self, path: str) -> tuple[float, float] | None:
        bounds = self.metrics.get("intervals", {}).get(path)
        return (bounds[0], bounds[1]) if bounds and None not in bounds else None

    @property
    def confidence(self) -> str:
        """Of the intervals, in words."""
        return f"{100 * (value_of(self.recipe, 'metrics.confidence') or 0.95):g}%"

    @property
    def classes(self) -> list[str]:
        return list(self.card["classes"])

    @property
    def task(self) -> str:
        return str(self.card["task"])

    @property
    def images(self) -> str:
        """The images the numbers speak of, in words."""
        return f"{SPOKEN[self.split]} images"

    @cached_property
    def epochs(self) -> list[dict[str, Any]]:
        """The history by epoch: what training and validation say of it in one mapping."""
        found: dict[int, dict[str, Any]] = {}
        for line in self.history:
            if "kind" not in line:
                found.setdefault(line["epoch"], {}).update(line)
        return [found[epoch] for epoch in sorted(found)]

    @property
    def select(self) -> str:
        """What chose the model; with a leading `-` if smaller is better."""
        return str(value_of(self.recipe, "training.select") or "class.balanced_accuracy")

    @cached_property
    def chosen_epoch(self) -> int | None:
        """The epoch whose weights validation chose: the first with the best value, as training chooses."""
        sign, key = (-1, self.select[1:]) if self.select.startswith("-") else (1, self.select)
        measured = [(sign * line[key], -line["epoch"]) for line in self.epochs if line.get(key) is not None]
        return -max(measured)[1] if measured else None


def _slot_names(run: RunFolder, concepts: ConceptSet, slots: int) -> list[str]:
    """What each slot serves, by the model's own table of who reads which slot."""
    weights = run.path / "model" / "weights.safetensors"
    served: list[list[int]] = [[] for _ in range(slots)]
    if slots and weights.exists():
        from safetensors import SafetensorError, safe_open

        manifest.check(weights)
        try:
            with safe_open(weights, "np") as file:
                if "model.concept_slot" in file.keys():  # noqa: SIM118 - the file is no mapping
                    for concept, slot in enumerate(file.get_tensor("model.concept_slot").tolist()):
                        served[slot].append(concept)
        except (SafetensorError, OSError, IndexError) as error:
            raise UserError(f"{weights}: cannot be read ({error}). Copy the run folder again.") from None
    return [_spoken(readers, concepts) or f"slot {slot}" for slot, readers in enumerate(served)]


def _spoken(readers: list[int], concepts: ConceptSet) -> str:
    if len(readers) == 1:
        return concepts.concepts[readers[0]].name
    return ", ".join(dict.fromkeys(concepts.concepts[reader].group for reader in readers))
