"""Write docs/command-line.md from the functions that the command line is made from.

Run `python scripts/command_line_docs.py` after a change of a public function. A test checks that the page is current.
"""

import argparse
from pathlib import Path

from conceptlens.cli.arguments import COMMON, Parser, make_parser
from conceptlens.cli.commands import COMMANDS, GROUPS, load_function, renamed_names
from conceptlens.cli.entry import EXIT_CODES
from conceptlens.core.signatures import Docstring
from conceptlens.core.upgrades import RENAMED_KEYS, RENAMED_VALUES

FILE = Path(__file__).parent.parent / "docs" / "command-line.md"
HEAD = """# The command line

This page is written by `scripts/command_line_docs.py` from the public functions, as the command line is.
`conceptlens COMMAND --help` shows the same.

Commands with RECIPE take any key of a recipe as an option, as `--training.epochs 5` or `--data.source my.csv`
([recipes](recipes.md)). Commands with `--data` also take settings of the data, as `--data.class_column dx`.
Progress goes to standard error, results to standard output.
"""


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def _table(*header: str) -> list[str]:
    return [_row(*header), _row(*("---" for _ in header))]


def _name(action: argparse.Action) -> str:
    """The option as it is typed, with a word for its value."""
    if not action.option_strings:
        return f"`{str(action.metavar or action.dest).upper()}`"
    value = "" if action.nargs == 0 else " " + str(action.metavar or action.dest.rstrip("_").upper())
    if action.choices is not None:
        value = " " + "|".join(map(str, action.choices))
    return f"`{action.option_strings[-1]}{value}`"


def _usage(name: str, parser: Parser) -> str:
    words = []
    for action in parser._actions:
        if not action.option_strings:
            word = action.dest.upper() + ("…" if action.nargs in ("*", "+") else "")
            words.append(f"[{word}]" if action.nargs in ("*", "?") else word)
        elif action.required:
            words.append(f"{action.option_strings[-1]} {action.dest.upper()}")
    return " ".join(["conceptlens", name, *words, "[OPTIONS]"])


def _command(name: str) -> list[str]:
    function = load_function(name)
    parser = make_parser(name, function)
    doc = Docstring.of(function)
    common = {option for option, _, _ in COMMON} | {"-h"}
    lines = [f"### {name}", "", f"    {_usage(name, parser)}", "", f"{doc.about} {doc.more}".strip(), ""]
    rows = [
        _row(_name(action), (action.help or "").replace("%%", "%"))
        for action in parser._actions
        if not common & set(action.option_strings)
    ]
    return [*lines, *_table("argument", "meaning"), *rows, ""] if rows else lines


def page() -> str:
    """The whole page."""
    lines = [HEAD, "## Options of every command", "", *_table("option", "meaning")]
    lines += [_row(f"`{option}{f' {value}' if value else ''}`", text) for option, value, text in COMMON]
    lines += ["", "## Exit codes", "", *_table("code", "meaning")]
    lines += [_row(str(code), text) for code, text in EXIT_CODES.items()]
    lines += ["", "## Commands", ""]
    for group, names in GROUPS.items():
        links = ", ".join(f"[{name}](#{name.replace(' ', '-')})" for name in names)
        lines.append(f"- {group}: {links}")
    lines.append("")
    for name in COMMANDS:
        lines += _command(name)
    lines += ["## Names of version 0.1", "", "An old name gives an error that says the new one.", ""]
    lines += _table("command", "old", "new")
    lines += [_row(f"`{old}`", "", new) for old, new in renamed_names()["commands"].items()]
    lines += [
        _row(f"`{name}`", f"`{old}`", new if "`" in new else f"`{new}`")
        for name, options in renamed_names()["options"].items()
        for old, new in options.items()
    ]
    lines += [
        "",
        "Options that took several values separated by commas are given again for each value, as in",
        "`--maps attention --maps gradcam`.",
        "",
        *_table("key of a recipe or a file", "new"),
        *(_row(f"`{old}`", f"`{new}`") for old, new in RENAMED_KEYS.items()),
        *(_row(f"`{key}: {old}`", f"`{key}: {new}`") for (key, old), new in RENAMED_VALUES.items()),
        "",
        "Run folders of version 0.1 are read as they are: their keys are upgraded in memory.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
    print(f"written: {FILE}")
