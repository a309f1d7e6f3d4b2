"""What every command has in common."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from conceptlens.core.errors import UserError

if TYPE_CHECKING:
    from conceptlens.core.documents import Document

Words = list[str]


class Parser(argparse.ArgumentParser):
    """argparse whose errors are ours."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. See `{self.prog} --help`.")


@dataclass(frozen=True)
class Command:
    """A name on the command line: what it says of itself, the words it takes, what it does with them."""

    about: str
    arguments: Callable[[Parser], Any]
    run: Callable[[argparse.Namespace, Words], int]
    settings: str = (
        ""  # what settings that it passes on begin with: `--` any, `--data` those of the data; none if empty
    )


def say(text: object) -> None:
    print(text, flush=True)


def say_result(result: "Document") -> None:
    """What a result says, and where it is written."""
    say("\n".join(part for part in (result.text(), result.written_text()) if part))


def quiet(parser: Parser) -> None:
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def data_section(words: Words, source: str | None) -> dict[str, Any]:
    """`--data.key value` words as a recipe's data section."""
    from conceptlens.recipes.parse import parse_overrides

    tree = parse_overrides(words)
    strangers = [key for key in tree if key != "data"]
    if strangers:
        raise UserError(
            f"--{strangers[0]} is not known here; settings of the data are --data.KEY, as --data.class_column dx."
        )
    section = tree.get("data", {})
    return {"source": source, **section} if source else section
