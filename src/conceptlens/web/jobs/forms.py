"""Forms of commands, from the functions that the command line is made from; and what a filled form is as words."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.signatures import Docstring, Option, options_of, settings_of
from conceptlens.recipes.schema import MetricsConfig, Recipe, TrainingConfig

# Where files go is the server's choice, and other data are paths that a page must not name.
LEFT_OUT = ("out", "quiet", "data", "overwrite")
RUN = "run"  # the parameter that is a served folder
RECIPE = "recipe"
SECTIONS = ("training", "regularizer", "metrics", "seed")  # of a recipe that a page may set: plain numbers and words
_SETTING = re.compile(r"([a-z_]+(?:\.[a-z_]+)*)\s*[=:]\s*([\w.+-]+)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")

Functions = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Form:
    """A command that can be started from the page."""

    command: str
    about: str
    options: tuple[Option, ...]
    needs_run: bool
    settings: tuple[Option, ...] = ()  # of a recipe, by their dotted names

    @classmethod
    def of(cls, command: str, function: Callable[..., Any]) -> "Form":
        options = [option for option in options_of(function) if option.name not in (*LEFT_OUT, RECIPE)]
        asked = tuple(option for option in options if option.name != RUN)
        trains = any(option.name == RECIPE for option in options_of(function))
        return cls(
            command, Docstring.of(function).about, asked, len(asked) < len(options), _settings() if trains else ()
        )

    def words(self, values: Mapping[str, Any]) -> list[str]:
        """Options as words of the command line; a value that does not fit its option is refused."""
        known = {option.name: option for option in self.options}
        words: list[str] = []
        for name, value in values.items():
            if name not in known:
                raise unknown_name(f"option of {self.command}", name, known)
            words += _words(known[name], value)
        return words


def _settings() -> tuple[Option, ...]:
    """Those of a recipe that have a field: the loop, what is measured, the seed."""
    seed = (option for option in settings_of(Recipe, "") if option.name == "seed")
    return (*seed, *settings_of(TrainingConfig, "training."), *settings_of(MetricsConfig, "metrics."))


def _words(option: Option, value: Any) -> list[str]:
    if value in (None, "", []):
        return []
    if option.flag:
        if not isinstance(value, bool):
            raise UserError(f"{option.word}: expected on or off, found {value!r}.")
        return [option.word] if value != option.default else []
    values = value if isinstance(value, list) and option.several else [value]
    return [word for item in values for word in (f"{option.word}={_checked(option, item)}",)]


def _checked(option: Option, value: Any) -> str:
    text = str(value)
    if isinstance(value, (bool, list, dict)) or len(text) > 200 or not text.isprintable():
        raise UserError(f"{option.word}: expected a number or a word, found {text[:80]!r}.")
    if option.choices and text not in map(str, option.choices):
        raise unknown_name(f"value of {option.word}", text, [str(choice) for choice in option.choices])
    if option.type is not None:
        try:
            option.type(text)
        except ValueError:
            kind = "a whole number" if option.type is int else "a number"
            raise UserError(f"{option.word}: expected {kind}, found {text!r}.") from None
    return text


def settings_words(lines: Sequence[str]) -> list[str]:
    """Settings of a recipe, as `training.epochs = 5`, as words; only of sections that hold plain numbers and words."""
    words: list[str] = []
    for line in lines:
        match = _SETTING.fullmatch(line.strip())
        if not match or match[1].split(".")[0] not in SECTIONS:
            raise UserError(f"{line[:80]!r}: expected a setting of {', '.join(SECTIONS)}, as `training.epochs = 5`.")
        words.append(f"--{match[1]}={match[2]}")
    return words


def run_name(name: str) -> str:
    """The name of a new run folder: one plain word."""
    if not _NAME.fullmatch(name):
        raise UserError(f"{name[:80]!r}: expected a name of letters, digits, . _ - for the new run.")
    return name
