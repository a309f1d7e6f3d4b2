"""A command's words from its function: names, types, defaults and help come from the signature and the docstring.

| parameter | on the command line |
| --- | --- |
| without a default, before `*` | a positional word; of a `Sequence` any number of them |
| with a default | `--name`; a `Literal` has choices, a `Sequence` may be given again |
| `flag: bool = False` | `--flag`; one that is True by default has `--no-flag` |
| `overrides` | settings of a recipe, as `--training.epochs 5` |
| `data` | `--data SOURCE`, and settings of the data, as `--data.class_column dx` |
"""

import argparse
import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, NoReturn, Union, cast, get_args, get_origin

from conceptlens.core.errors import UserError, did_you_mean, suggestions
from conceptlens.recipes.parse import parse_overrides, recipe_keys

Words = list[str]
LARGEST = 10**15  # of any whole number
SETTINGS = {"overrides": "--", "data": "--data."}  # parameters that take dotted settings, and how these begin

PYTHON_ONLY = ("callbacks", "transform")  # parameters that take objects
# Options of every command: name, placeholder of a value, help.
COMMON: tuple[tuple[str, str | None, str], ...] = (
    ("--json", None, "Print the result as JSON."),
    ("--fail-on-findings", None, "Exit with code 3 if something was found."),
    ("--device", "NAME", "Where to compute: cpu, cuda or cuda:N; the GPU where there is one by default."),
    ("--allow-code", "PATH", "A Python file or module that a run folder names and that may run, because you trust it."),
    ("--online", None, "Let a command on an existing run fetch from a hub what is not on this machine."),
    ("--verify", None, "Compare every file of the run with its hash first; without it, those that seem changed."),
    ("--debug", None, "Show the traceback of an error."),
)


class Parser(argparse.ArgumentParser):
    """argparse whose errors are ours."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. See `{self.prog} --help`.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = action.option_strings[-1] if action.option_strings else action.dest
            choices = list(map(str, action.choices))
            hint = did_you_mean(str(value), choices)
            raise UserError(f"{name}: expected one of {', '.join(choices)}, found {value!r}. {hint}")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            value = super()._get_value(action, arg_string)
            if isinstance(value, int) and abs(value) > LARGEST:
                raise UserError(f"{action.option_strings[-1]}: {arg_string} is no number that can be meant.")
            return value
        except argparse.ArgumentError:
            name = action.option_strings[-1] if action.option_strings else action.dest
            kind = "a whole number" if action.type is int else "a number"
            raise UserError(f"{name}: expected {kind}, found {arg_string!r}.") from None


@dataclass(frozen=True)
class Docstring:
    """A Google-style docstring: its first paragraph, and the help of each parameter."""

    about: str
    more: str
    args: Mapping[str, str]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "Docstring":
        text = re.split(r"\n+>>> ", inspect.getdoc(function) or "")[0]  # examples are for who reads the code
        body, _, rest = text.partition("\nArgs:\n")
        about, _, more = body.partition("\n\n")
        entries: dict[str, str] = {}
        for entry in re.split(r"\n(?= {4}\w)", "\n" + re.split(r"\n(?=\S)", rest)[0]):
            name, _, words = entry.strip().partition(":")
            entries[name] = " ".join(words.split())
        return cls(" ".join(about.split()), " ".join(more.split()), entries)


def plain(annotation: Any) -> Any:
    """The type without None, and the first of what else a union offers; paths and objects are words."""
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        preferred = [part for part in parts if part in (int, float) or get_origin(part) in (Literal, Sequence, list)]
        return plain((preferred or parts)[0])
    return annotation


def _kind(annotation: Any) -> dict[str, Any]:
    """What argparse needs to know of a type."""
    kind = plain(annotation)
    origin = get_origin(kind)
    if origin is Literal:
        return {"choices": get_args(kind)}
    if origin in (list, Sequence) or origin is getattr(types, "GenericAlias", None):
        return _kind(get_args(kind)[0])
    return {"type": kind} if kind in (int, float) else {}


def _several(annotation: Any) -> bool:
    return get_origin(plain(annotation)) in (list, tuple, Sequence) or (
        inspect.isclass(get_origin(plain(annotation))) and issubclass(get_origin(plain(annotation)), Sequence)
    )


def make_parser(name: str, function: Callable[..., Any]) -> Parser:
    """The parser of a command.

    Args:
        name: Of the command.
        function: What it calls.
    """
    doc = Docstring.of(function)
    parser = Parser(prog=f"conceptlens {name}", description=f"{doc.about} {doc.more}".strip(), allow_abbrev=False)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD or parameter.name in ("overrides", *PYTHON_ONLY):
            continue
        if is_dataclass(parameter.annotation):
            help_of = Docstring.of(cast(type[Any], parameter.annotation)).args
            for option in fields(parameter.annotation):
                keyword = inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default)
                _add(parser, keyword.replace(annotation=option.type), help_of.get(option.name, ""))
            continue
        _add(parser, parameter, doc.args.get(parameter.name, ""))
    common = parser.add_argument_group("options of every command")
    for word, metavar, text in COMMON:
        if metavar is None:
            common.add_argument(word, action="store_true", help=text)
        else:
            common.add_argument(word, metavar=metavar, help=text)
    return parser


def _add(parser: Parser, parameter: inspect.Parameter, text: str) -> None:
    required = parameter.default is inspect.Parameter.empty
    option = f"--{parameter.name.rstrip('_').replace('_', '-')}"
    text = text.replace("%", "%%")
    kind = _kind(parameter.annotation)
    if required and parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        many: dict[str, Any] = {"nargs": "+"} if _several(parameter.annotation) else {}
        parser.add_argument(parameter.name, help=text, **many, **kind)
    elif parameter.kind is not inspect.Parameter.KEYWORD_ONLY and parameter.name not in SETTINGS:
        many = {"nargs": "*"} if _several(parameter.annotation) else {"nargs": "?"}
        parser.add_argument(parameter.name, help=text, default=parameter.default, **many, **kind)
    elif parameter.name == "quiet":  # in Python some functions are quiet by default, a command never is
        parser.add_argument("--quiet", action="store_true", help=text)
    elif parameter.annotation is bool:
        words = f"--no{option[1:]}" if parameter.default else option
        parser.add_argument(words, dest=parameter.name, action=f"store_{str(not parameter.default).lower()}", help=text)
    elif _several(parameter.annotation):
        default = "" if required else ", ".join(map(str, parameter.default or ()))
        text += " May be given again." + (f" (default: {default})" if default else "")
        parser.add_argument(option, dest=parameter.name, action="append", required=required, help=text, **kind)
    else:
        shown = "" if required or parameter.default in (None, "") else f" (default: {parameter.default})"
        value = None if required else parameter.default
        parser.add_argument(option, dest=parameter.name, default=value, required=required, help=text + shown, **kind)


def arguments(
    parser: Parser, function: Callable[..., Any], words: Words, renamed: Mapping[str, str]
) -> tuple[argparse.Namespace, dict[str, Any]]:
    """What was typed: all of it, and the function's own arguments; options in `renamed` are called otherwise now."""
    own, settings = split_settings(words, parser)
    parameters = inspect.signature(function).parameters
    takes = next((name for name in SETTINGS if "Mapping" in str(getattr(parameters.get(name), "annotation", ""))), None)
    for word in (word for word in settings if word.startswith("--")):
        if (old := word.partition("=")[0]) in renamed:
            raise UserError(f"{old} has a new name: {renamed[old]}.")
        if takes is None or not word.startswith(SETTINGS[takes]):
            raise _unknown(word, parser, takes)
        if takes == "overrides":
            _check_setting(old, parser)
    args = parser.parse_args(own)
    values = {
        name: getattr(args, name) for name in parameters if hasattr(args, name) and getattr(args, name) is not None
    }
    for name, parameter in parameters.items():
        if is_dataclass(parameter.annotation):
            chosen = {option.name: getattr(args, option.name) for option in fields(parameter.annotation)}
            values[name] = cast(type[Any], parameter.annotation)(**chosen)
    if takes == "overrides":
        values["overrides"] = parse_overrides(settings)
    elif settings:
        section = parse_overrides(settings)["data"]
        source = {"source": values["data"]} if values.get("data") else {}
        values["data"] = {**source, **section}
    return args, values


def split_settings(words: Words, parser: Parser) -> tuple[Words, Words]:
    """The command's own words, and settings such as `--training.epochs 5`, wherever they stand."""
    options = {word: action for action in parser._actions for word in action.option_strings}
    own: Words = []
    settings: Words = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.partition("=")
        if not word.startswith("--") or name in options:
            own.append(word)
            if name in options and not equals and options[name].nargs != 0 and rest:
                own.append(rest.pop(0))
            continue
        settings.append(word)
        if not equals and rest and not rest[0].startswith("--"):
            settings.append(rest.pop(0))
    return own, settings


def _check_setting(option: str, parser: Parser) -> None:
    """Refuse a setting without its section (`--epochs`), with hyphens, or by another word (`--lr`), and name the key.

    Keys in a section are checked with the recipe, which knows the method's own ones.
    """
    keys = recipe_keys()
    if option[2:] in keys or ("." in option and "-" not in option[2:]):
        return
    known = [*_options(parser), *(f"--{key}" for key in sorted(keys))]
    if suggestions(option, known):
        raise UserError(f"{option} is not an option of `{parser.prog}`. {did_you_mean(option, known)}")


def _options(parser: Parser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings if option.startswith("--")]


def _unknown(word: str, parser: Parser, takes: str | None) -> UserError:
    option = word.partition("=")[0]
    hint = " Settings of the data are --data.KEY, as --data.class_column dx." if takes == "data" else ""
    known = _options(parser)
    return UserError(f"{option} is not an option of `{parser.prog}`. {did_you_mean(option, known)}{hint}")
