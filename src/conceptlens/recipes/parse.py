"""From a YAML file and command-line overrides to a checked recipe. jsonargparse does the types, this the words.

A recipe is laid over the preset of its method (`presets/NAME.yaml`): a method's name brings its paper's settings.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from conceptlens.core.errors import UserError, closest, did_you_mean, suggestions, unknown_name
from conceptlens.core.files import dump_yaml, parse_yaml, read_yaml, writer_of
from conceptlens.core.plugins import check_code, is_code, parse_code, trust
from conceptlens.core.registry import METHOD_PRESETS, METHODS, PRESETS, REGULARIZERS, RETIRED
from conceptlens.core.upgrades import RENAMED_KEYS, RENAMED_VALUES, SCHEMA, upgrade
from conceptlens.recipes.check import check_recipe
from conceptlens.recipes.paths import beside_recipe
from conceptlens.recipes.schema import (
    DataConfig,
    EncoderConfig,
    MetricsConfig,
    Recipe,
    RegionsConfig,
    RenameConfig,
    ShapesConfig,
    SplitConfig,
    StageConfig,
    TrainingConfig,
)
from conceptlens.recipes.typed import default_values, typed_values

DEFAULT_METHOD = "evidence-cbm"
SHORT = {"data": "source", "method": "name", "regularizer": "name"}  # a section that is just a word means this key
# Names of files and columns are taken to the letter: YAML would cut `scans #2` at its comment and read `1` as a number.
LITERAL = {
    "out",
    "concepts",
    "encoder.name",
    "encoder.text",
    "encoder.weights",
    "encoder.store",
    "data.source",
    "data.images",
    "data.corrections",
    "method.name",
    "regularizer.name",
    *(f"data.regions.{name}" for name in ("boxes", "points", "masks", "mask_column", "sizes")),
} | {f"data.{name}" for name in DataConfig.__dataclass_fields__ if name.endswith("_column")}
Tree = dict[str, Any]


def recipe_names() -> list[str]:
    """Recipes that come with the package, as `blood-cells/ivq-cbm`."""
    root = resources.files("conceptlens.recipes").joinpath("ready")
    return sorted(
        f"{folder.name}/{file.name.removesuffix('.yaml')}"
        for folder in root.iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".yaml")
    )


def read_recipe(recipe: str | Path | Mapping[str, Any]) -> tuple[Tree, str]:
    """The raw recipe and where it came from: a mapping, a file, or the name of a ready one.

    Paths of own code start from the recipe's folder, those of data are looked for there first. The recipe of a run
    folder may not name code that the user has not allowed.
    """
    if isinstance(recipe, Mapping):
        return _nested(recipe, "recipe"), "recipe"
    if str(recipe) in recipe_names():
        file = resources.files("conceptlens.recipes").joinpath("ready", *f"{recipe}.yaml".split("/"))
        raw, where = parse_yaml(file.read_text("utf-8"), where=f"recipe {recipe}"), f"recipe {recipe}"
    elif wrong := _no_recipe(Path(recipe)):
        raise wrong
    else:
        raw, where = read_yaml(Path(recipe)), str(recipe)
    if not isinstance(raw, dict):
        raise UserError(
            f"{where}: expected a mapping with keys such as `data` and `method`, found {type(raw).__name__}."
        )
    # What version 0.1 kept in a run folder says nothing of its schema; what a person writes is of today's.
    unmarked = 1 if (Path(str(recipe)).parent / "run.json").exists() else SCHEMA
    raw = upgrade(raw, where=where, schema=raw.get("schema", unmarked), writer=lambda: writer_of(Path(recipe)))
    raw = _nested(raw, where)
    if not where.startswith("recipe "):
        folder = Path(recipe).parent
        raw = beside_recipe(with_code_paths(raw, folder), folder)
        if (folder / "run.json").exists():
            check_code(recipe_code(raw), folder)
    return raw, where


def _no_recipe(path: Path) -> UserError | None:
    """What to say where a recipe is not: a folder was named, a file beside it was meant, or a ready recipe."""
    if (path / "recipe.yaml").is_file():
        return UserError(f"{path}: expected a recipe, found a folder. Did you mean {str(path / 'recipe.yaml')!r}?")
    if path.is_dir():
        hint = f"`conceptlens init {path}` looks at a folder of images and writes a recipe for it."
        return UserError(f"{path}: expected a recipe, found a folder. {hint}")
    if path.suffix.lower() in (".csv", ".tsv", ".xlsx", ".xls", ".parquet"):
        hint = f"`conceptlens init {path.parent}` looks at the folder of a table and writes a recipe for it."
        return UserError(f"{path}: expected a recipe, found a table. {hint}")
    if path.exists():
        return None
    if path.parent != Path() or path.suffix:
        beside = [file.name for file in path.parent.glob("*.y*ml")]
        if match := closest(path.name, beside):
            return UserError(f"{path}: no such file. Did you mean {str(path.with_name(match))!r}?")
    return None if path.suffix in (".yaml", ".yml") else unknown_name("recipe", str(path), recipe_names())


def _nested(raw: Mapping[str, Any], where: str) -> Tree:
    """`method.name: cbm` as `method: {name: cbm}`, at any depth: no name is overlooked, and none is given twice."""
    tree: Tree = {}
    for path, value in _paths(_expand(raw)):
        *sections, last = path
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
            if not isinstance(node, dict):
                raise UserError(f"{where}: {section!r} is given a value, and keys of a section.")
        if last in node:
            raise UserError(f"{where}: {'.'.join(map(str, path))} is given twice.")
        node[last] = dict(value) if isinstance(value, Mapping) else value
    return tree


def _paths(tree: Mapping[str, Any], path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value with the keys that lead to it."""
    for key, value in tree.items():
        here = (*path, *(key.split(".") if isinstance(key, str) else (key,)))
        if isinstance(value, Mapping) and value and ".".join(map(str, here)) not in _FREE:
            yield from _paths(value, here)
        else:
            yield here, value


_CODE_KEYS = {"method": "name", "regularizer": "name", "encoder": "name", "data": "source"}


def _code_word(section: str, value: Any) -> str | None:
    """A name that stands for own code; data may also be a file with a colon in its name, or on a hub."""
    if not isinstance(value, str) or not is_code(value):
        return None
    is_path = section == "data" and (value.startswith("hf:") or Path(value).expanduser().exists())
    return None if is_path else value


def recipe_code(tree: Mapping[str, Any]) -> list[str]:
    """The own code that a recipe names, as `file.py:Class` each."""
    values = [
        _code_word(section, value.get(key) if isinstance(value, Mapping) else value)
        for section, key in _CODE_KEYS.items()
        if (value := tree.get(section)) is not None
    ]
    return [word for word in values if word is not None]


def with_code_paths(tree: Mapping[str, Any], folder: str | Path = ".") -> Tree:
    """The same recipe with the absolute paths of files with own code."""
    resolved = dict(tree)
    for section, key in _CODE_KEYS.items():
        value = tree.get(section)
        word = _code_word(section, value.get(key) if isinstance(value, Mapping) else value)
        if word is not None:
            full = str(parse_code(word, folder))
            resolved[section] = {**value, key: full} if isinstance(value, Mapping) else full
    return resolved


def parse_overrides(words: Sequence[str]) -> Tree:
    """`--training.epochs 5 --seed=1` as a tree; values but names are read as YAML, as in the file."""
    tree: Tree = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not re.fullmatch(r"--[A-Za-z_][\w.]*(=.*)?", word, re.DOTALL):
            raise UserError(f"Expected an override such as --training.epochs 5, found {word!r}.")
        key, equals, value = word[2:].partition("=")
        if not equals:
            value = rest.pop(0) if rest and not rest[0].startswith("--") else "true"
        node = tree
        full = f"{key}.{SHORT[key]}" if key in SHORT and not value.lstrip().startswith("{") else key
        *path, last = full.split(".")
        for step in path:
            node = node.setdefault(step, {})
            if not isinstance(node, dict):
                raise UserError(f"--{key}: {step!r} was already given a value of its own.")
        literal = full in LITERAL and value != "null"
        node[last] = value if literal else parse_yaml(value, where=f"--{key}")
    return tree


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """`over` laid on `base`, mapping by mapping."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def _preset(method: str) -> Tree:
    """What a recipe of this method starts from."""
    cls = METHODS.get(method)  # a clear error for an unknown name
    if method in PRESETS:
        preset = deepcopy(dict(PRESETS[method]))
    elif method in METHODS.entries or method in METHODS.retired:
        preset = deepcopy(_packaged_preset(method))
    else:
        preset = deepcopy(dict(getattr(cls, "preset", {})))
    preset = merge({"method": {}, "regularizer": {"name": "none"}}, _expand(preset))
    preset["method"]["name"] = method  # whatever it was registered as
    return preset


@cache
def _packaged_preset(method: str) -> Tree:
    folder = METHOD_PRESETS if method in METHODS.entries else METHOD_PRESETS / RETIRED
    preset: Tree = read_yaml(folder / f"{method}.yaml")
    return {key: value for key, value in preset.items() if key not in ("class", "retired")}


def retired(method: str) -> str | None:
    """What to say of a method that no list has anymore; None of all others."""
    if method in METHODS.entries or method not in METHODS.retired:
        return None
    instead = read_yaml(METHOD_PRESETS / RETIRED / f"{method}.yaml")["retired"]
    return f"{method} is retired: {instead}"


def _expand(tree: Mapping[str, Any]) -> Tree:
    """Sections that are just a word, spelled out."""
    return {
        key: {SHORT[key]: value} if key in SHORT and isinstance(value, str) else value for key, value in tree.items()
    }


def _name(tree: Tree, key: str, default: str) -> str:
    section = tree.get(key) or {}
    if not isinstance(section, dict):
        raise UserError(f"{key}: expected a name or a mapping with `name`, found {section!r}.")
    name = section.get("name")
    return default if name is None else str(name)


def make_parser(method: str | None = None, regularizer: str | None = None) -> ArgumentParser:
    """All keys of a recipe. Without names, `method` and `regularizer` show only their `name`, and torch stays out."""
    classes = METHODS.get(method) if method else None, REGULARIZERS.get(regularizer) if regularizer else None
    return _make_parser(method, classes[0], regularizer, classes[1])


@cache
def _make_parser(
    method: str | None, method_class: Any, regularizer: str | None, regularizer_class: Any
) -> ArgumentParser:
    parser = ArgumentParser(prog="conceptlens train RECIPE", exit_on_error=False, add_help=False)
    parser.add_argument("--data", type=DataConfig, help="Where images and labels come from.")
    parser.add_argument("--concepts", type=str | None, default=None, help="A concept file, or the name of a ready one.")
    parser.add_argument(
        "--encoder", type=EncoderConfig, default=EncoderConfig(), help="Images → tokens, texts → vectors."
    )
    for key, name, cls, registry in (
        ("method", method, method_class, METHODS),
        ("regularizer", regularizer, regularizer_class, REGULARIZERS),
    ):
        names = ", ".join(registry.names())
        parser.add_argument(f"--{key}.name", type=str, default=name, help=f"One of: {names}.")
        if name is not None:
            parser.add_class_arguments(cls, key, skip={"setup"}, instantiate=False)
    parser.add_argument("--training", type=TrainingConfig, default=TrainingConfig(), help="The loop.")
    parser.add_argument("--metrics", type=MetricsConfig, default=MetricsConfig(), help="What is measured at the end.")
    parser.add_argument("--seed", type=int, default=0, help="Of initialization, order and augmentation.")
    parser.add_argument(
        "--out", type=str | None, default=None, help="The run folder; runs/<data>-<method>-<seed> if not given."
    )
    return parser


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for key, value in tree.items():
        here = f"{path}{key}"
        if isinstance(value, Mapping) and here not in _FREE:
            yield here
            yield from _leaves(value, f"{here}.")
        else:
            yield here


_FREE = {
    "encoder.options",
    "data.rename.classes",
    "training.loss.own",
    "data.rename.columns",
    "data.rename.values",
    "data.regions.mask_files",
    "data.regions.mask_columns",
    "data.regions.join",
    "data.regions.concepts",
}  # mappings whose keys are checked by what reads them


@cache
def _known_keys(parser: ArgumentParser) -> frozenset[str]:
    """Every dotted key, and every section above one."""
    keys = set(_leaves(default_values(parser).as_dict())) | {f"data.{name}" for name in DataConfig.__dataclass_fields__}
    for section, fields in (
        ("split", SplitConfig),
        ("shapes", ShapesConfig),
        ("rename", RenameConfig),
        ("regions", RegionsConfig),
    ):
        keys |= {f"data.{section}.{name}" for name in fields.__dataclass_fields__}
    sections = {".".join(key.split(".")[:depth]) for key in keys for depth in range(1, key.count(".") + 1)}
    return frozenset(keys | sections)


def recipe_keys() -> frozenset[str]:
    """Every dotted key of a recipe and every section, without the options of methods and regularizers."""
    return _known_keys(make_parser())


def _check_keys(tree: Tree, known: frozenset[str], where: str) -> None:
    for key in _leaves(tree):
        if key in known or any(key.startswith(f"{free}.") for free in _FREE):
            continue
        section, _, name = key.rpartition(".")
        if section and section not in known:
            continue  # its section is reported
        if section and not any(other.startswith(f"{section}.") for other in known):
            raise UserError(
                f"{where}: {section}: expected one value, found a section with the key {name!r}. Write "
                f"`{section}: VALUE`."
            )
        if name in RENAMED_KEYS:
            raise UserError(f"{where}: the key {name!r} is called {RENAMED_KEYS[name]!r} since version 0.2.")
        elsewhere = sorted(other for other in known if other.rpartition(".")[2] == name)
        if elsewhere:  # the right name in the wrong place, such as `epochs` at the top
            raise UserError(f"{where}: the key {name!r} belongs elsewhere: did you mean {' or '.join(elsewhere[:3])}?")
        siblings = [other.rpartition(".")[2] for other in known if other.rpartition(".")[0] == section]
        inside = f"in `{section}`" if section else "at the top of a recipe"
        options = siblings if suggestions(name, siblings) or not suggestions(name, known) else known
        raise UserError(f"{where}: the key {name!r} is not known {inside}. {did_you_mean(name, options, listing=40)}")


def _check_values(tree: Mapping[str, Any], where: str, path: str = "") -> None:
    """Values that version 0.1 called otherwise."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            _check_values(value, where, f"{path}{key}.")
        elif isinstance(value, str) and (new := RENAMED_VALUES.get((key, value))) and f"{path}{key}" not in LITERAL:
            raise UserError(f"{where}: {path}{key}: the value {value!r} is called {new!r} since version 0.2.")


def _check_sections(tree: Tree, known: frozenset[str], where: str) -> Tree:
    """Sections are mappings; a key without a value, as `training:` alone on its line, leaves the default."""
    sections = {key.rpartition(".")[0] for key in known} - {""}

    def tidy(node: Tree, path: str) -> Tree:
        kept: Tree = {}
        for key, value in node.items():
            here = f"{path}{key}"
            if value is None:
                continue
            if here in sections and not isinstance(value, Mapping):
                inside = sorted(name.rpartition(".")[2] for name in known if name.rpartition(".")[0] == here)
                some = ", ".join(f"`{name}`" for name in inside[:4])
                raise UserError(f"{where}: {here}: expected a mapping with keys such as {some}, found {value!r}.")
            kept[key] = tidy(dict(value), f"{here}.") if here in sections else value
        return kept

    return tidy(tree, "")


def _as_words(value: Any) -> Any:
    """Names that YAML took for numbers or truth values, as words: classes are often called 0 and 1."""
    if isinstance(value, Mapping):
        return {_as_words(key): _as_words(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_words(inner) for inner in value]
    return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, (int, float)) else value


def _check_stages(stages: object, where: str) -> None:
    """A list of plain mappings: jsonargparse would import whatever module a `class_path` in one of them names."""
    if not isinstance(stages, list) or not all(isinstance(stage, Mapping) for stage in stages):
        raise UserError(f"{where}: training.stages: expected a list as [{{name: all, epochs: 5}}], found {stages!r}.")
    known = list(StageConfig.__dataclass_fields__)
    for key in (str(key) for stage in stages for key in stage):
        if key not in known:
            raise UserError(
                f"{where}: the key {key!r} is not known in `training.stages`. {did_you_mean(key, known, listing=40)}"
            )


def _explain(message: str, where: str) -> str:
    """jsonargparse's message in our words."""
    message = re.sub(r"\x1b\[[0-9;]*m", "", str(message)).strip()
    required = re.search(r"required: (.+)$", message)
    if required:
        return (
            f"{where}: `{required[1].replace(', ', '`, `')}` is missing. Name the images in the recipe, as "
            "`data: {source: my-images}`, or with --data.source."
        )
    key = re.search(r'[Kk]ey "([^"]+)"', message)
    expected = re.findall(r"Expected an? (.+?)(?:\. Got value.*)?$", message, re.MULTILINE)
    came = re.search(r"(?:Got|Given) value: (.*)", message)
    if key and expected and came:
        kinds = " or ".join(dict.fromkeys(_plain_type(kind) for kind in expected))
        return f"{where}: {key[1]}: expected {kinds}, found {came[1].strip()!r}."
    return f"{where}: " + " ".join(line.strip() for line in message.splitlines())


def _plain_type(kind: str) -> str:
    kind = re.sub(r"<class '(\w+)'>", r"\1", kind).replace("typing.", "").replace("NoneType", "null")
    for python, plain in (
        ("float", "a number"),
        ("int", "a whole number"),
        ("str", "text"),
        ("bool", "true or false"),
        ("dict", "a mapping"),
        ("list", "a list"),
    ):
        kind = re.sub(rf"\b{python}\b", plain, kind)
    kind = re.sub(r"Literal\[([^,\]]*)\]", r"\1", kind)  # of one word: the word
    return re.sub(r"Literal\[(.*?)\]", r"one of \1", kind)


def _home(path: str | None) -> str | None:
    """The path with `~` spelled out, which a shell does not do inside a file or behind an equals sign."""
    return str(Path(path).expanduser()) if path and path.startswith("~") else path


def _short(name: str) -> str:
    """A name for a folder: of own code the class or function, of a path its last part."""
    return parse_code(name).name if _code_word("data", name) else Path(name).stem


def load_recipe(
    recipe: str | Path | Mapping[str, Any] | None = None,
    overrides: Sequence[str] | Mapping[str, Any] = (),
    *,
    trusted: bool = False,
) -> Recipe:
    """A complete, checked recipe.

    Args:
        recipe: A file, the name of a ready recipe, a mapping, or None for defaults.
        overrides: Words of a command line, or a tree, laid over it.
        trusted: The user passed it: own code that it names may run. A run folder's recipe is never trusted by this.
    """
    raw, where = read_recipe(recipe) if recipe is not None else ({}, "recipe")
    given = parse_overrides(overrides) if not isinstance(overrides, Mapping) else overrides
    tree = with_code_paths(merge(raw, _nested(given, where)))
    tree = deepcopy(tree)  # jsonargparse writes into what it parses
    for word in recipe_code(tree):
        if trusted:
            trust(word)
        else:
            check_code([word], Path(where).parent if Path(where).name == "recipe.yaml" else where)
    tree.pop("schema", None)
    method = _name(tree, "method", DEFAULT_METHOD)
    preset = _preset(method)
    own = preset["regularizer"]["name"]
    regularizer = _name(tree, "regularizer", own)
    if regularizer != own:
        preset["regularizer"] = {"name": regularizer}  # another regularizer's options would not fit
    parser = make_parser(method, regularizer)
    known = _known_keys(parser)
    _check_keys(tree, known, where)
    tree = _check_sections(tree, known, where)
    _check_values(merge(preset, tree), where)
    _check_stages(tree.get("training", {}).get("stages", []), where)
    for key, value in tree.get("data", {}).items():
        if key in ("classes", "rename") or f"data.{key}" in LITERAL - {"data.source"}:
            tree["data"][key] = _as_words(value)
    try:
        values = typed_values(parser, merge(preset, tree), _FREE)
    except UserError:
        raise
    except Exception as error:  # jsonargparse raises ArgumentError, TypeError and ValueError for wrong values
        raise UserError(_explain(str(error), where)) from error
    made = Recipe(
        data=values.data,
        concepts=_home(values.concepts),
        encoder=replace(values.encoder, weights=_home(values.encoder.weights), store=_home(values.encoder.store)),
        method={"name": method, **{key: value for key, value in values.method.as_dict().items() if key != "name"}},
        regularizer={"name": regularizer, **{k: v for k, v in values.regularizer.as_dict().items() if k != "name"}},
        training=values.training,
        metrics=values.metrics,
        seed=values.seed,
        out=_home(values.out) or f"runs/{_short(values.data.source)}-{_short(method)}-{values.seed}",
    )
    check_recipe(made, where)
    return made


def recipe_tree(recipe: Recipe) -> Tree:
    """Plain values, ready for YAML."""
    from dataclasses import asdict

    tree = asdict(recipe)
    tree["training"]["betas"] = list(tree["training"]["betas"])
    return tree


def recipe_yaml(recipe: Recipe) -> str:
    return dump_yaml({"schema": SCHEMA, **recipe_tree(recipe)})
