"""What documents and notebooks name: command lines, keys of recipes, Python."""

import ast
import inspect
import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import conceptlens as cl
from conceptlens.cli.arguments import SETTINGS, make_parser
from conceptlens.cli.commands import COMMANDS, load_function
from conceptlens.core.errors import UserError
from conceptlens.core.files import parse_yaml
from conceptlens.core.registry import DATA_SOURCES, ENCODERS, METHODS, REGULARIZERS
from conceptlens.core.upgrades import RENAMED_KEYS
from conceptlens.recipes import parse
from conceptlens.recipes.settings import settings_tree
from tests import ROOT

GROUPS = {registry.group for registry in (METHODS, REGULARIZERS, ENCODERS, DATA_SOURCES)}
KEY = re.compile(r"(data|encoder|training|metrics|method|regularizer)(\.[a-z_]+)+")
SECTIONS = {"data", "concepts", "encoder", "method", "regularizer", "training", "metrics", "seed", "out"}
COMMAND = re.compile(r"(?:.*(?:&& |docker run .* |accelerate launch (?:--\S+ \S+ )*-m ))?conceptlens ([a-z].*)")
# Files of these names end like keys.
SUFFIXES = (".yaml", ".csv", ".json", ".jsonl", ".py", ".safetensors", ".npy", ".txt", ".md", ".html", ".png")


def texts(path: Path) -> tuple[str, list[str]]:
    """The prose of a document with its fences, and its Python."""
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text("utf-8"))["cells"]
        joined = {kind: ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind] for kind in
                  ("markdown", "code")}  # fmt: skip
        return "\n".join(joined["markdown"]), joined["code"]
    page = path.read_text("utf-8")
    return page, re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def spans(page: str) -> Iterator[str]:
    """What stands between backticks, and the lines of listings that are no program."""
    for listing in re.findall(r"```(?:bash|sh|console)?\n(.*?)```", page, re.DOTALL):
        yield from re.sub(r"\\\n\s*", " ", listing).splitlines()
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))


def command_lines(page: str) -> Iterator[str]:
    """Everything after the word `conceptlens`."""
    for span in spans(page):
        found = COMMAND.match(span.strip())
        if found:
            yield found[1]


def wrong_in_command(line: str) -> str | None:
    """What is wrong with a command line, if anything."""
    try:
        words = shlex.split(re.sub(r"[…\[\]]", " ", line.replace("'", '"')), comments=True)
    except ValueError:
        words = line.split("#")[0].split()
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0].rstrip(".,:;")
    if name not in COMMANDS:
        families = {each.split()[0] for each in COMMANDS if " " in each}
        return None if name in families and len(words) < 2 else f"no command {' '.join(words[:2])!r}"
    function = load_function(name)
    options = {word for action in make_parser(name, function)._actions for word in action.option_strings}
    parameters = inspect.signature(function).parameters
    notes = {key: str(getattr(parameters.get(key), "annotation", "")) for key in SETTINGS}
    takes = {prefix for key, prefix in SETTINGS.items() if "Mapping" in notes[key]}
    for word in words:
        option = word.partition("=")[0].rstrip(".,;:")
        if not option.startswith("--") or option in options:
            continue
        if not any(option.startswith(prefix) for prefix in takes) or not is_key(option[2:]):
            return f"no option {option}"
    return None


@cache
def keys() -> frozenset[str]:
    """Every key of a recipe, with the options of all methods and regularizers."""
    known = set(parse.recipe_keys())
    for section, registry in (("method", METHODS), ("regularizer", REGULARIZERS)):
        for name in registry.names():
            parser = parse.make_parser(name) if section == "method" else parse.make_parser(None, name)
            known |= {key for key in parse._known_keys(parser) if key.startswith(f"{section}.")}
    stage = {f"training.stages.{name}" for name in parse.StageConfig.__dataclass_fields__}
    return frozenset(known | stage)


def is_key(name: str) -> bool:
    return name in keys() or any(name.startswith(f"{free}.") for free in parse._FREE)


def wrong_keys(page: str) -> set[str]:
    """Keys between backticks that no recipe has; old names may be told as such."""
    found = set()
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL)):
        match = re.match(r"(?:--)?(" + KEY.pattern + r")(?=[:= ]|$)", span)
        if not match or match[1].endswith(SUFFIXES) or match[1].rpartition(".")[2] in RENAMED_KEYS:
            continue
        if not is_key(match[1]):
            found.add(match[1])
    return found


@cache
def options() -> frozenset[str]:
    """Every option of every command, and those of the scripts that documents name."""
    found = set()
    for name in COMMANDS:
        found |= {word for action in make_parser(name, load_function(name))._actions for word in action.option_strings}
    for folder in ("assault", "bench"):
        for script in (ROOT / folder).glob("*.py"):
            found |= set(re.findall(r'add_argument\("(--[\w-]+)"', script.read_text("utf-8")))
    return frozenset(found)


def wrong_options(page: str) -> set[str]:
    """Options that stand alone between backticks and that nothing takes."""
    alone = re.findall(r"`(--[^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    words = {word.partition("=")[0].rstrip(".,;:") for span in alone for word in span.split() if word.startswith("--")}
    return {word for word in words if word not in options() and not is_key(word[2:])}


def wrong_names(page: str) -> set[str]:
    """Dotted names of the package between backticks that cannot be imported; groups of entry points are none."""
    return {name for name in re.findall(r"`(conceptlens(?:\.\w+)+)", page) if name not in GROUPS and not exists(name)}


def exists(name: str) -> bool:
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def wrong_in_recipes(page: str) -> set[str]:
    """Keys in listings of whole recipes that no recipe has."""
    found = set()
    for listing in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL):
        try:
            trees = [parse_yaml(listing, where="a listing")]
        except UserError:  # alternatives, a line each
            trees = [parse_yaml(line, where="a line") for line in listing.splitlines()]
        for tree in trees:
            found |= _unknown(tree)
    return found


def _unknown(tree: Any) -> set[str]:
    """Keys that no recipe has, if the mapping looks like one."""
    if isinstance(tree, dict) and set(tree) <= SECTIONS and any(isinstance(part, dict) for part in tree.values()):
        own = isinstance(tree.get("method"), dict) and ":" in str(tree["method"].get("name"))  # its options are its own
        return {key for key in parse._leaves(tree) if not (is_key(key) or (own and key.startswith("method.")))}
    return set()


def wrong_in_python(code: str) -> list[str]:
    """Names of the package that do not exist, and keywords that a function does not take."""
    wrong: list[str] = []
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a sketch of an interface, with annotations in place of bodies
        return wrong
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "conceptlens":
            module = import_module(str(node.module))
            wrong += [f"{node.module}.{each.name}" for each in node.names if not has(module, each.name)]
        elif isinstance(node, ast.Attribute) and dotted(node).startswith("cl."):
            if resolve(dotted(node)) is None:
                wrong.append(dotted(node))
        elif isinstance(node, ast.Call):
            function = resolve(dotted(node.func))
            if function is None or not callable(function):
                continue
            wrong += [f"{dotted(node.func)}({word}=)" for word in unknown_keywords(function, node)]
    return wrong


def has(module: Any, name: str) -> bool:
    return hasattr(module, name) or (hasattr(module, "__path__") and find_spec(f"{module.__name__}.{name}") is not None)


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def resolve(name: str) -> Any:
    """What `cl.train`, `conceptlens.gig.decompose` or `model.trust` is; None for anything else."""
    first, *rest = name.split(".")
    value: Any = {"cl": cl, "conceptlens": cl, "model": cl.TrainedModel}.get(first)
    for part in rest:
        value = getattr(value, part, None)
    return value if rest else None


def unknown_keywords(function: Any, call: ast.Call) -> list[str]:
    """Keywords that neither the function nor what it hands its `settings` to knows."""
    parameters = inspect.signature(function).parameters
    named = [word.arg for word in call.keywords if word.arg is not None and word.arg not in parameters]
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return named
    if function is cl.train:
        return [word for word in named if not is_setting(word)]
    handed_to = re.search(r"settings: See `(conceptlens[\w.]+)\.(\w+)`", inspect.getdoc(function) or "")
    if handed_to is None:
        return []
    others = inspect.signature(getattr(import_module(handed_to[1]), handed_to[2])).parameters
    return [word for word in named if word not in others]


def is_setting(word: str) -> bool:
    """Whether `train` takes it, as `epochs` or `encoder__train`."""
    try:
        return all(is_key(key) for key in parse._leaves(settings_tree({word: None})))
    except UserError:
        return False
