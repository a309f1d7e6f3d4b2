"""The command line: a thin dictionary of the functions in `api`. Nothing that `--help` reaches imports torch."""

import errno
import io
import os
import re
import sys
from collections.abc import Sequence

from conceptlens.cli.codebook import COMMANDS as CODEBOOK
from conceptlens.cli.commands import authoring, comparing, decomposing, looking, studying, training, trusting
from conceptlens.cli.commands.command import Command, Parser, Words, say
from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.plugins import allow_code
from conceptlens.core.version import __version__

COMMANDS: dict[str, Command] = {
    **training.COMMANDS,
    **looking.COMMANDS,
    **trusting.COMMANDS,
    **comparing.COMMANDS,
    **authoring.COMMANDS,
    **studying.COMMANDS,
    **decomposing.COMMANDS,
    **{f"codebook {name}": Command(*entry) for name, entry in CODEBOOK.items()},
}


def _usage() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:{width}}{command.about}" for name, command in COMMANDS.items()]
    return (
        "conceptlens: vision models that explain themselves in concepts people can name\n\n"
        "usage: conceptlens COMMAND … [--debug] [--allow-code PATH]\n\n"
        + "\n".join(lines)
        + "\n\n`conceptlens COMMAND --help` says more; --debug shows "
        "the traceback of an error; --allow-code lets a run folder have that Python file run, if you trust it."
    )


def _allow_code(words: Words) -> Words:
    """The words without `--allow-code PATH`, which any command takes, as often as needed."""
    rest: Words = []
    given = iter(words)
    for word in given:
        name, equals, value = word.partition("=")
        if name != "--allow-code":
            rest.append(word)
            continue
        place = value if equals else next(given, "")
        if not place or place.startswith("--"):
            raise UserError("--allow-code: name the Python file or the module that may run.")
        allow_code(place)
    return rest


def _run(words: Words) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        say(_usage())
        return 0
    if words[0] == "--version":
        say(f"conceptlens {__version__}")
        return 0
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    if name not in COMMANDS:
        if seconds := [command.split()[1] for command in COMMANDS if command.startswith(f"{name} ")]:
            given = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
            hint = did_you_mean(given, seconds) if given else f"Choose one of: {', '.join(seconds)}."
            raise UserError(f"`conceptlens {name}` needs a second word. {hint}")
        raise UserError(f"Unknown command {words[0]!r}. {did_you_mean(name, COMMANDS)}")
    command = COMMANDS[name]
    parser = Parser(prog=f"conceptlens {name}", description=command.about, allow_abbrev=False)
    command.arguments(parser)
    own, settings = _split_settings(words[len(name.split()) :], parser)
    begin = command.settings
    for stranger in [word for word in settings if word.startswith("--") and not (begin and word.startswith(begin))]:
        known = [word for action in parser._actions for word in action.option_strings]
        hint = " Settings of the data are --data.KEY, as --data.class_column dx." if begin else ""
        raise UserError(f"{stranger} is not known here. {did_you_mean(stranger, known)}{hint}")
    return command.run(parser.parse_args(own), settings)


def _split_settings(words: Words, parser: Parser) -> tuple[Words, Words]:
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


_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EFBIG)
_DEVICE = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ESTALE)


def _system_error(error: BaseException) -> tuple[int | None, str]:
    """The system's number for an error and where it happened; safetensors passes the number on as text."""
    if isinstance(error, OSError):
        return error.errno, str(error.filename or "while reading or writing")
    number = re.search(r"\(os error (\d+)\)", str(error)) if type(error).__name__ == "SafetensorError" else None
    return (int(number[1]) if number else None), "while reading or writing weights"


def _reason(error: BaseException) -> str | None:
    """What a user can mend about an error of the system; None for a bug of ours."""
    if isinstance(error, UserError):
        return str(error)
    number, place = _system_error(error)
    if number in _FULL:
        return f"The disk is full ({place}). Free some space; `conceptlens resume RUN` goes on with a run."
    if number in _FORBIDDEN:
        return f"{place}: {os.strerror(number)}. Choose a place you may write to, or change its permissions."
    if number in (*_PLACE, *_DEVICE):
        return f"{place}: {os.strerror(number)}."
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        around = error.object[max(error.start - 40, 0) : error.end + 20].encode("utf-8", "replace").decode("utf-8")
        return f"A name is not UTF-8, near {around!r}. Rename the file or folder."
    out_of_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if out_of_memory or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error)):
        return "Out of memory. Try a smaller training.batch_size or encoder.image_size, or training.accumulate above 1."
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point: 0 if all is well, 2 for what the user can mend, 1 for a bug of ours, 130 when interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our letters still shows the rest
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        words = _allow_code(words)
        return _run(words)
    except KeyboardInterrupt:
        print("interrupted; `conceptlens resume RUN` goes on from the last state", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:
        reason = _reason(error)
        if debug or reason is None:
            import traceback

            traceback.print_exc()
        if reason is None:
            print("error: this is a bug in conceptlens; please report it with the lines above", file=sys.stderr)
            return 1
        print(f"error: {reason}", file=sys.stderr)
        return 2
