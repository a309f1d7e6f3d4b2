"""The command line, made from the public functions. Nothing that `--help` reaches imports torch.

Exit codes: 0 done, 1 failed, 2 bad input, 3 findings (only with --fail-on-findings), 130 interrupted.
"""

import inspect
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from conceptlens.cli.arguments import COMMON, Words, arguments, make_parser
from conceptlens.cli.commands import COMMANDS, GROUPS, load_function, renamed_names, renamed_options
from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.manifest import verify_everything
from conceptlens.core.network import allow_online
from conceptlens.core.plugins import allow_code
from conceptlens.core.signatures import Docstring
from conceptlens.core.system_errors import reason, unfit
from conceptlens.core.version import __version__

EXIT_CODES = {
    0: "The command did its work.",
    1: "The command failed: a bug in conceptlens.",
    2: "The input is bad: an option, a recipe, data, a run folder, or what the system allows.",
    3: "Something was found, and `--fail-on-findings` was given.",
    130: "The command was interrupted; `conceptlens resume RUN` goes on with a training.",
}
GLOBAL = (
    f"Every command takes {', '.join(option for option, _, _ in COMMON)}.\nExit codes: 0 done, 1 failed, 2 bad input, "
    "3 findings, 130 interrupted."
)


def usage() -> str:
    """All commands by task."""
    width = max(map(len, COMMANDS)) + 2
    lines = []
    for group, commands in GROUPS.items():
        lines.append(f"\n{group}:")
        lines += [f"  {name:{width}}{Docstring.of(load_function(name)).about}" for name in commands]
    head = (
        "conceptlens: vision models that explain themselves in concepts people can name\n\nusage: conceptlens COMMAND …"
    )
    return "\n".join([head, *lines, "", "`conceptlens COMMAND --help` shows its options.", GLOBAL])


def _global_options(words: Words) -> Words:
    """The words without `--allow-code PATH` and `--device NAME`, which any command takes."""
    rest: Words = []
    ahead = iter(words)
    for word in ahead:
        name, equals, value = word.partition("=")
        if name not in ("--allow-code", "--device"):
            rest.append(word)
            continue
        value = value if equals else next(ahead, "")
        if not value or value.startswith("--"):
            wanted = "the Python file or the module that may run" if name == "--allow-code" else "cpu, cuda or cuda:N"
            raise UserError(f"{name}: expected {wanted}.")
        if name == "--allow-code":
            allow_code(value)
        else:
            os.environ["CONCEPTLENS_DEVICE"] = value
    return rest


def _command(words: Words) -> str:
    """The command that the words begin with."""
    two = " ".join(words[:2])
    name = two if two in COMMANDS else words[0]
    if name in COMMANDS:
        return name
    for old in (two, words[0]):
        if new := renamed_names()["commands"].get(old):
            raise UserError(f"`conceptlens {old}` has a new name: {new}.")
    if seconds := [command.split()[1] for command in COMMANDS if command.startswith(f"{name} ")]:
        second = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
        hint = did_you_mean(second, seconds) if second else f"Choose one of: {', '.join(seconds)}."
        raise UserError(f"`conceptlens {name}` needs a second word. {hint}")
    raise UserError(f"Unknown command {words[0]!r}. {did_you_mean(name, COMMANDS)}")


def _run(words: Words) -> int:
    words = _global_options(words)
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage(), flush=True)
        return 0
    if words[0] == "--version":
        print(f"conceptlens {__version__}", flush=True)
        return 0
    if words[1:] in (["-h"], ["--help"]) and (names := [name for name in COMMANDS if name.startswith(f"{words[0]} ")]):
        lines = (f"  {name:{max(map(len, names)) + 2}}{Docstring.of(load_function(name)).about}" for name in names)
        print("\n".join([*lines, f"`conceptlens {words[0]} COMMAND --help` shows the options of one."]), flush=True)
        return 0
    name = _command(words)
    function = load_function(name)
    parser = make_parser(name, function)
    args, values = arguments(parser, function, words[len(name.split()) :], renamed_options(name))
    if "quiet" in inspect.signature(function).parameters:
        values["quiet"] = args.quiet  # people who type a command see how far it is
    return show(function(**values), as_json=args.json, fail_on_findings=args.fail_on_findings)


def show(result: Any, *, as_json: bool = False, fail_on_findings: bool = False) -> int:
    """Print a result; returns the exit code."""
    if "torch" in sys.modules:
        from conceptlens.core.processes import is_main

        if not is_main():
            return 0
    results = result if isinstance(result, list) else [] if result is None else [result]
    if as_json:
        tree = list(map(_tree, results)) if isinstance(result, list) else _tree(result)
        print(json.dumps(tree, indent=1, ensure_ascii=False, default=str), flush=True)
    else:
        print("\n\n".join(filter(None, map(_text, results))), flush=True) if results else None
    failed = [str(getattr(item, "error", item)) for one in results for item in getattr(one, "failed", ())]
    for line in failed:
        print(f"error: {line}", file=sys.stderr)
    codes = [int(getattr(one, "exit_code", 0)) for one in results]
    if fail_on_findings and not failed and any(getattr(one, "has_findings", False) for one in results):
        return 3
    return max([*codes, 2 if failed else 0])


def _tree(result: Any) -> Any:
    """A result's values for JSON."""
    if result is None or isinstance(result, Path):
        return {"path": str(result)} if result else None
    if hasattr(result, "to_dict"):
        return result.printed() if hasattr(result, "printed") else result.to_dict()
    if is_dataclass(result):
        return {field.name: getattr(result, field.name) for field in fields(result)}
    return {"text": _text(result)}


def _text(result: Any) -> str:
    if isinstance(result, Path):
        return f"written: {result}"
    written = result.written_text() if hasattr(result, "written_text") else ""
    return "\n".join(filter(None, (str(result.text()), str(written))))


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our letters still shows the rest
    debug = "--debug" in words
    verify_everything("--verify" in words)
    before = _end_like_ctrl_c()
    try:
        with allow_online("--online" in words):
            return _run([word for word in words if word not in ("--debug", "--online", "--verify")])
    except KeyboardInterrupt:
        print("interrupted; `conceptlens resume RUN` goes on from the last state", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:
        told = reason(error) or unfit(error, words)
        if debug or told is None:
            import traceback

            traceback.print_exc()
        if told is None:
            print("error: this is a bug in conceptlens; please report it with the lines above", file=sys.stderr)
            return 1
        print(f"error: {told}", file=sys.stderr)
        return 2
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _end_like_ctrl_c() -> Any:
    """Let SIGTERM, as schedulers and `kill` send it, save the status and leave as Ctrl-C does; returns what it did."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt("ended by SIGTERM")

    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, interrupt)
