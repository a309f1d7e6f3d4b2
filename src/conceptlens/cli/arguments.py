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
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn, cast

from conceptlens.core.errors import UserError, did_you_mean, suggestions
from conceptlens.core.signatures import SETTINGS, Docstring, Option, options_of
from conceptlens.recipes.parse import parse_overrides, recipe_keys

Words = list[str]
LARGEST = 10**15  # of any whole number
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


def make_parser(name: str, function: Callable[..., Any]) -> Parser:
    """The parser of a command.

    Args:
        name: Of the command.
        function: What it calls.
    """
    doc = Docstring.of(function)
    parser = Parser(prog=f"conceptlens {name}", description=f"{doc.about} {doc.more}".strip(), allow_abbrev=False)
    for option in options_of(function):
        _add(parser, option)
    common = parser.add_argument_group("options of every command")
    for word, metavar, text in COMMON:
        if metavar is None:
            common.add_argument(word, action="store_true", help=text)
        else:
            common.add_argument(word, metavar=metavar, help=text)
    return parser


def _add(parser: Parser, option: Option) -> None:
    text = option.help.replace("%", "%%")
    kind: dict[str, Any] = {"type": option.type} if option.type else {}
    if option.choices:
        kind = {"choices": option.choices}
    if option.positional:
        many = ("+" if option.required else "*") if option.several else (None if option.required else "?")
        default = {} if option.required else {"default": option.default}
        parser.add_argument(option.name, help=text, nargs=many, **default, **kind)
    elif option.name == "quiet":  # in Python some functions are quiet by default, a command never is
        parser.add_argument("--quiet", action="store_true", help=text)
    elif option.flag:
        action = f"store_{str(not option.default).lower()}"
        parser.add_argument(option.word, dest=option.name, action=action, help=text)
    elif option.several:
        default_words = "" if option.required else ", ".join(map(str, option.default or ()))
        text += " May be given again." + (f" (default: {default_words})" if default_words else "")
        parser.add_argument(option.word, dest=option.name, action="append", required=option.required, help=text, **kind)
    else:
        shown = "" if option.required or option.default in (None, "") else f" (default: {option.default})"
        value = None if option.required else option.default
        parser.add_argument(
            option.word, dest=option.name, default=value, required=option.required, help=text + shown, **kind
        )


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
