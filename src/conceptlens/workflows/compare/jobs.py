"""What a comparison consists of: one job a training, each with a name that follows from its resolved recipe."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError
from conceptlens.core.files import dump_yaml, fingerprint
from conceptlens.core.plugins import check_code
from conceptlens.core.registry import METHODS
from conceptlens.encoders import MINI
from conceptlens.recipes import Recipe
from conceptlens.recipes.parse import load_recipe, read_recipe, recipe_code, recipe_tree, with_code_paths
from conceptlens.training.paths import with_absolute_paths
from conceptlens.workflows.compare.file import ComparisonFile, EntryFile, read_comparison, slug
from conceptlens.workflows.compare.layers import Tree, lay, nested
from conceptlens.workflows.compare.trials import Settings, trials_of

RUNS = "runs"
TOKENS = "tokens"  # shared by the jobs, gone when all are done
CONTROL = " (random text)"


@dataclass(frozen=True)
class Entry:
    """One row of a table: a recipe under a name."""

    name: str
    tree: Tree  # without data
    supervision: str | None  # as the file says it; None: as the method says
    trials: list[Settings]
    control_of: str | None = None  # the row that this one repeats with random text vectors


@dataclass(frozen=True)
class Cell:
    """One entry on one division of one data set: what trials tune and seeds repeat."""

    data: str
    entry: Entry
    repeat: int | None = None  # of a cross-validation
    fold: int | None = None


@dataclass(frozen=True)
class Assignment:
    """One training, all that a process must know to do it."""

    id: str
    text: str  # what makes the result: the resolved recipe without what changes only where and how fast it runs
    recipe: Recipe
    trial: int | None  # its number among the cell's trials; None: a training that counts

    def to_line(self) -> str:
        """As JSON in one line, for another process."""
        tree = recipe_tree(self.recipe)
        return json.dumps({"id": self.id, "text": self.text, "recipe": tree, "trial": self.trial})

    @classmethod
    def from_line(cls, line: str) -> "Assignment":
        given = json.loads(line)
        return cls(given["id"], given["text"], load_recipe(given["recipe"], trusted=True), given["trial"])


@dataclass(frozen=True)
class Job(Assignment):
    """A training and its place in a comparison."""

    cell: Cell
    settings: Settings  # what the trial sets, or what the trials chose


def job_id(cell: Cell, seed: int, trial: int | None, text: str) -> str:
    """A name that says whose training it is and changes with its recipe."""
    fold = "" if cell.fold is None else f"-r{cell.repeat}f{cell.fold}"
    tried = "" if trial is None else f"-t{trial}"
    return f"{slug(cell.data)}-{slug(cell.entry.name)}-s{seed}{fold}{tried}-{fingerprint(text)[:10]}"


def signature(tree: Tree) -> str:
    """A recipe's tree as text, less what does not change the result."""
    idle = {
        "data": ("cache_mb", "workers", "resident"),
        "training": ("threads", "compile", "tensorboard", "checkpoint_every"),
        "encoder": ("checkpointing",),
    }
    encoder = tree.get("encoder")
    if isinstance(encoder, dict):  # stored tokens change the result (nothing is augmented); where they are does not
        # Off, it is not part of the text: names of jobs stay what they were before there were adapters.
        encoder = {key: value for key, value in encoder.items() if key != "lora" or value}
        tree = {**tree, "encoder": {**encoder, "store": encoder.get("store") is not None}}
    kept = {
        key: {inner: each for inner, each in value.items() if inner not in idle.get(key, ())}
        if isinstance(value, dict)
        else value
        for key, value in tree.items()
        if key not in ("out", "schema")
    }
    return "".join(_section_yaml(key, value) for key, value in kept.items())


def _section_yaml(section: str, value: Any) -> str:
    """A section as YAML, from lines that are kept: the recipes of a comparison share nearly all of them."""
    if not isinstance(value, dict) or not value:
        return dump_yaml({section: value})
    return f"{section}:\n" + "".join(_lines(section, key, repr(inner), inner) for key, inner in value.items())


def _lines(section: str, key: str, text: str, value: Any) -> str:
    known = (section, key, text)
    if known not in _LINES:
        _LINES[known] = dump_yaml({section: {key: value}}).partition("\n")[2]
    return _LINES[known]


_LINES: dict[tuple[str, str, str], str] = {}  # section, key and value → its lines


class Comparison:
    """A comparison file with its recipes read and checked."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.file: ComparisonFile = read_comparison(self.path)
        self.name = self.file.name or self.path.stem
        self.entries = self._entries(trials_of(self.file, str(self.path)))
        self._resolved: dict[tuple[str, str, str], Recipe] = {}
        for data in self.file.data:
            for entry in self.entries:
                for settings in entry.trials or [{}]:
                    self.recipe(data, entry, settings)  # what cannot be meant is said before anything starts

    def _entries(self, trials: dict[str, list[Settings]]) -> list[Entry]:
        base = self._tree(self.file.base)
        entries: list[Entry] = []
        for name, given in self.file.recipes.items():
            tree = self._known(lay(lay(base, self._tree(given.recipe or {})), nested(given.changes)))
            for key in ("data", "concepts"):
                tree.pop(key, None)  # the comparison's own data are used
            if "concepts" in base:  # for data that name none themselves
                tree["concepts"] = base["concepts"]
            entry = Entry(name, tree, given.supervision, trials[name])
            entries.append(entry)
            if self._wants_control(entry, given):
                text = random_text_for(tree.get("encoder") or {})
                control = lay(tree, {"encoder": {"text": text}})
                entries.append(replace(entry, name=name + CONTROL, tree=control, control_of=name))
        return entries

    def _tree(self, given: str | Tree) -> Tree:
        """A recipe's settings: a mapping as it is, a file beside the comparison, or a name."""
        if isinstance(given, str):
            beside = self.path.parent / given
            given = read_recipe(beside if beside.is_file() else given)[0]
        tree = with_code_paths(nested(given), self.path.parent)
        for key in ("seed", "out", "schema"):
            tree.pop(key, None)
        return tree

    def _known(self, tree: Tree) -> Tree:
        """Settings with the paths of own code; the file that a comparison's folder keeps may name none by itself."""
        full = with_code_paths(tree, self.path.parent)
        if (self.path.parent / "run.json").exists():
            check_code(recipe_code(full), self.path.parent)
        return full

    def _wants_control(self, entry: Entry, given: EntryFile) -> bool:
        if given.random_text is not None:
            return given.random_text
        section = entry.tree.get("method") or {}
        method = load_recipe({"data": "shapes", "method": {"name": section.get("name")}}, trusted=True).method["name"]
        text = str((entry.tree.get("encoder") or {}).get("text", ""))
        return bool(getattr(METHODS.get(str(method)), "uses_text", True)) and "random-text" not in text

    def recipe(self, data: str, entry: Entry, settings: Settings) -> Recipe:
        """The checked recipe of an entry on some data; without its seed and folder."""
        key = (data, entry.name, repr(sorted(settings.items())))
        if key not in self._resolved:
            section: dict[str, Any] = dict(self.file.data[data])
            concepts, changes = section.pop("concepts", None), section.pop("set", {})
            tree = lay(entry.tree, nested(changes))
            tree = lay({**tree, "data": section, "concepts": concepts or tree.get("concepts")}, nested(settings))
            try:
                self._resolved[key] = load_recipe(self._known(tree), trusted=True)
            except UserError as error:
                raise UserError(f"{self.path}: {entry.name!r} on {data!r}: {error}") from None
        return self._resolved[key]

    def cells(self) -> Iterator[Cell]:
        """Data by data, entry by entry, division by division."""
        folds = self.file.folds
        for data in self.file.data:
            for entry in self.entries:
                if folds is None:
                    yield Cell(data, entry)
                    continue
                for repeat in range(folds.repeats):
                    yield from (Cell(data, entry, repeat, fold) for fold in range(folds.k))

    def job(self, cell: Cell, settings: Settings, seed: int, trial: int | None, out: Path) -> Job:
        """A training of a cell; a trial does not look at the test images."""
        recipe = self.recipe(cell.data, cell.entry, settings)
        split = recipe.data.split
        if self.file.folds is not None and cell.repeat is not None and cell.fold is not None:
            split = replace(split, folds=self.file.folds.k, fold=cell.fold, seed=split.seed + cell.repeat)
        recipe = replace(
            recipe,
            data=replace(recipe.data, split=split),
            metrics=replace(recipe.metrics, test=trial is None),
            seed=seed,
        )
        text = signature(recipe_tree(with_absolute_paths(recipe)))
        name = job_id(cell, seed, trial, text)
        recipe.out = str(out / RUNS / name)  # neither this nor where tokens are kept is part of the job's text
        if recipe.encoder.store == "run" and recipe.encoder.pretrained and recipe.encoder.name != MINI:
            # Every job would compute the same tokens; an encoder from scratch has others for each seed.
            about = (replace(recipe.encoder, text=""), recipe.data.source, recipe.data.images, recipe.data.fit)
            recipe.encoder = replace(recipe.encoder, store=str(out / TOKENS / fingerprint(repr(about))))
        return Job(name, text, recipe, trial, cell, settings)


def random_text_for(encoder: Tree) -> str:
    """The random text encoder that fits in the place of the one these settings name."""
    from conceptlens.encoders import AUTO, HASHED_TEXT, OPEN_CLIP, TEXT
    from conceptlens.encoders.text.random import WIDTH, random_text_name

    text = str(encoder.get("text") or TEXT)
    if text == AUTO:
        name = str(encoder.get("name") or "")
        text = name if name.startswith(OPEN_CLIP) else TEXT
    if text.startswith(OPEN_CLIP):
        from conceptlens.encoders.open_clip.files import resolve

        return random_text_name(int(resolve(text).model["embed_dim"]))
    if text == HASHED_TEXT:
        from conceptlens.encoders.text.hashed import WIDTH as HASHED

        return random_text_name(HASHED)
    return random_text_name(WIDTH)
