"""What a public function takes, by its signature and its docstring: the command line and the page's forms read it."""

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, Union, cast, get_args, get_origin

SETTINGS = {"overrides": "--", "data": "--data."}  # parameters that take dotted settings, and how these begin
PYTHON_ONLY = ("callbacks", "transform")  # parameters that take objects


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


@dataclass(frozen=True)
class Option:
    """A parameter as a command line or a form shows it.

    Attributes:
        name: Of the parameter.
        word: What is typed, as `--n`; of a flag that is on by default `--no-name`.
        positional: Whether it is a word without a name.
        required: Whether it has no default.
        several: Whether it may be given again.
        flag: Whether it is on or off.
        type: `int` or `float`; None: words.
        choices: What it may be; empty: anything.
        default: Its value if it is not given.
        help: A sentence.
    """

    name: str
    word: str
    positional: bool
    required: bool
    several: bool
    flag: bool
    type: type | None
    choices: tuple[Any, ...]
    default: Any
    help: str


def options_of(function: Callable[..., Any]) -> Iterator[Option]:
    """The parameters of a function, those of a dataclass among them one by one."""
    help_of = Docstring.of(function).args
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD or parameter.name in ("overrides", *PYTHON_ONLY):
            continue
        if is_dataclass(parameter.annotation):
            texts = Docstring.of(cast(type[Any], parameter.annotation)).args
            for field in fields(parameter.annotation):
                keyword = inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default)
                yield _option(keyword.replace(annotation=field.type), texts.get(field.name, ""))
        else:
            yield _option(parameter, help_of.get(parameter.name, ""))


def settings_of(section: type[Any], prefix: str) -> Iterator[Option]:
    """The fields of a section of a recipe that are one number or one word. None as default: as the recipe has it."""
    texts = Docstring.of(section).args
    for field in fields(section):
        kinds = _kinds(field.type)
        if kinds:
            choices = sum((get_args(kind) for kind in kinds), ()) or (("true", "false") if kinds == [bool] else ())
            number = kinds[0] if len(kinds) == 1 and kinds[0] in (int, float) else None
            name = f"{prefix}{field.name}"
            yield Option(
                name, f"--{name}", False, False, False, False, number,
                choices if len(kinds) == 1 else (), None, texts.get(field.name, ""),
            )  # fmt: skip


def _kinds(annotation: Any) -> list[Any]:
    """The types that a setting may have; none if one of them is more than a word."""
    union = get_origin(annotation) in (Union, types.UnionType)
    parts = [part for part in (get_args(annotation) if union else [annotation]) if part is not type(None)]
    return parts if all(part in (int, float, bool, str) or get_origin(part) is Literal for part in parts) else []


def _option(parameter: inspect.Parameter, text: str) -> Option:
    required = parameter.default is inspect.Parameter.empty
    keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
    flag = parameter.annotation is bool
    word = f"--{parameter.name.rstrip('_').replace('_', '-')}"
    kind, choices = _kind(parameter.annotation)
    return Option(
        name=parameter.name,
        word=f"--no{word[1:]}" if flag and parameter.default is True else word,
        positional=not keyword and (required or parameter.name not in SETTINGS),
        required=required,
        several=_several(parameter.annotation),
        flag=flag,
        type=kind,
        choices=choices,
        default=None if required else parameter.default,
        help=text,
    )


def plain(annotation: Any) -> Any:
    """The type without None, and the first of what else a union offers; paths and objects are words."""
    if get_origin(annotation) in (Union, types.UnionType):
        parts = [part for part in get_args(annotation) if part is not type(None)]
        preferred = [part for part in parts if part in (int, float) or get_origin(part) in (Literal, Sequence, list)]
        return plain((preferred or parts)[0])
    return annotation


def _kind(annotation: Any) -> tuple[type | None, tuple[Any, ...]]:
    """The type of numbers, and the choices of a `Literal`."""
    kind = plain(annotation)
    origin = get_origin(kind)
    if origin is Literal:
        return None, get_args(kind)
    if origin in (list, Sequence) or origin is getattr(types, "GenericAlias", None):
        return _kind(get_args(kind)[0])
    return (kind if kind in (int, float) else None), ()


def _several(annotation: Any) -> bool:
    return get_origin(plain(annotation)) in (list, tuple, Sequence) or (
        inspect.isclass(get_origin(plain(annotation))) and issubclass(get_origin(plain(annotation)), Sequence)
    )
