"""The command line that is made from the public functions: every option explained, every default shown."""

import inspect
import json
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from conceptlens.cli.arguments import COMMON, arguments, make_parser
from conceptlens.cli.commands import COMMANDS, load_function, renamed_names, renamed_options
from conceptlens.cli.entry import EXIT_CODES, main, usage
from conceptlens.core.errors import UserError
from conceptlens.core.signatures import PYTHON_ONLY
from scripts.command_line_docs import FILE, page


def parameters(name: str) -> dict[str, Any]:
    """Name and default of each of a command's options, those of its groups of settings included."""
    options: dict[str, Any] = {}
    for parameter in inspect.signature(load_function(name)).parameters.values():
        if is_dataclass(parameter.annotation):
            options |= {field.name: field.default for field in fields(parameter.annotation)}
        elif parameter.name != "overrides" and parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            options[parameter.name] = parameter.default
    return options


def error_of(*words: str) -> str:
    """What a command complains of."""
    name = next(name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS)
    function = load_function(name)
    rest = list(words[len(name.split()) :])
    with pytest.raises(UserError) as error:
        arguments(make_parser(name, function), function, rest, renamed_options(name))
    return str(error.value)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help_and_shows_its_default(name: str) -> None:
    actions = {action.dest: action for action in make_parser(name, load_function(name))._actions}
    for option, default in parameters(name).items():
        if option in PYTHON_ONLY:
            assert option not in actions
            continue
        action = actions.pop(option)
        assert action.help, option
        assert action.help.endswith((".", ")")), option
        if not action.option_strings or isinstance(default, bool) or default in (inspect.Parameter.empty, None, "", ()):
            continue
        shown = ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)
        assert f"(default: {shown})" in action.help
    assert set(actions) == {"help"} | {option[2:].replace("-", "_") for option, _, _ in COMMON}
    assert all(action.help for action in actions.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_as_promised(name: str) -> None:
    """JSON, a device and findings everywhere; --quiet wherever a function shows progress."""
    options = {word for action in make_parser(name, load_function(name))._actions for word in action.option_strings}
    assert {"--json", "--device", "--fail-on-findings", "--allow-code", "--debug"} <= options
    assert ("--quiet" in options) is ("quiet" in parameters(name))


def test_help_of_every_command_imports_nothing_heavy() -> None:
    """In one process, since starting one for each would take longer than the help itself; seconds of its own work."""
    script = f"""
import sys, time
from conceptlens.cli import main
slowest = 0.0
for name in {list(COMMANDS)!r}:
    started = time.process_time()
    try:
        main([*name.split(), "--help"])
    except SystemExit:
        pass
    slowest = max(slowest, time.process_time() - started)
heavy = sorted({{"torch", "timm", "sklearn", "scipy", "PIL", "accelerate", "fastapi"}} & set(sys.modules))
print("heavy:", heavy, "slowest:", slowest)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    result = re.search(r"heavy: (\[.*\]) slowest: ([\d.]+)", done.stdout)
    assert result is not None
    assert result[1] == "[]"
    assert float(result[2]) < 0.5


def test_the_page_is_up_to_date() -> None:
    assert FILE.read_text("utf-8") == page(), "run `python scripts/command_line_docs.py`"


def test_exit_codes_are_documented() -> None:
    for code, text in EXIT_CODES.items():
        assert f"| {code} | {text} |" in FILE.read_text("utf-8")
        assert f" {code} " in usage()


@pytest.mark.parametrize("old", renamed_names()["commands"])
def test_an_old_command_names_the_new_one(old: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*old.split(), "somewhere"]) == 2
    assert renamed_names()["commands"][old] in capsys.readouterr().err
    for name in re.findall(r"`conceptlens ([a-z -]+?)(?: [A-Z-].*?)?`", renamed_names()["commands"][old]):
        assert name in COMMANDS


@pytest.mark.parametrize(("name", "old"), [(name, old) for name in COMMANDS for old in renamed_options(name)])
def test_an_old_option_names_the_new_one(name: str, old: str) -> None:
    parser = make_parser(name, load_function(name))
    options = {word for action in parser._actions for word in action.option_strings}
    if old not in options:  # another command of the same name may have kept it
        assert renamed_options(name)[old] in error_of(*name.split(), old, "3")


def test_new_options_exist() -> None:
    for group, renamed in renamed_names()["options"].items():
        names = [name for name in COMMANDS if name == group or name.split()[0] == group]
        options = {
            w for name in names for a in make_parser(name, load_function(name))._actions for w in a.option_strings
        }
        for old, new in renamed.items():
            if new.startswith("--"):
                assert {old, new} & options, f"{group}: {old} is neither an option nor renamed to one"
            elif command := re.search(r"conceptlens ([a-z-]+)", new):
                assert command[1] in COMMANDS


@pytest.mark.parametrize("command", ["train", "encode", "estimate", "recipe"])
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--epochs", "--training.epochs"),
        ("--lr", "--training.learning_rate"),
        ("--batch", "--training.batch_size"),
        ("--batch-size", "--training.batch_size"),
        ("--training.batch-size", "--training.batch_size"),
        ("--gpu", "--device"),
        ("--model", "--method"),
        ("--dataset", "--data"),
        ("--class-column", "--data.class_column"),
        ("--sed", "--seed"),
        ("--encodr", "--encoder"),
    ],
)
def test_a_setting_by_another_name(command: str, typed: str, meant: str) -> None:
    message = error_of(command, "recipe.yaml", typed, "5")
    assert message.startswith(f"{typed} is not an option of `conceptlens {command}`. Did you mean ")
    assert f"'{meant}'" in message


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("interventon", "interventions"),
        ("localize-maps", "localize"),
        ("trian", "train"),
        ("fit", "train"),
        ("eval", "evaluate"),
        ("infer", "predict"),
        ("draft", "concepts draft"),
        ("web", "serve"),
    ],
)
def test_a_command_by_another_name(typed: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([typed]) == 2
    assert capsys.readouterr().err == f"error: Unknown command {typed!r}. Did you mean {meant!r}?\n"


def test_options_of_commands_without_a_recipe() -> None:
    assert "Did you mean '--device'?" in error_of("predict", "run", "image.png", "--gpu", "0")
    assert "Did you mean '--overwrite'?" in error_of("demo", "--force")
    assert "Did you mean '--resamples'?" in error_of("leakage", "run", "--bootstrap", "9")
    assert "Did you mean '--data'? Settings of the data are --data.KEY" in error_of("evaluate", "run", "--dataset", "x")


def test_json_of_a_command_is_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("data: shapes\n")
    assert main(["recipe", str(recipe), "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)
    assert main(["list", "--json"]) == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)
