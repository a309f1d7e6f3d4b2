"""The list of tables and figures is complete and true, and what it names can be run."""

import shlex
from pathlib import Path

import pytest
import yaml

from conceptlens.api import reproduce
from conceptlens.cli.commands import COMMANDS
from conceptlens.core.errors import UserError
from conceptlens.workflows.compare.compare import plan
from conceptlens.workflows.reproduce import reproduce as reproduction
from conceptlens.workflows.reproduce.catalog import Item, papers
from conceptlens.workflows.reproduce.reproduce import command_lines, find
from tests import ROOT

ITEMS = {f"{name}/{key}": item for name, paper in papers().items() for key, item in paper.items.items()}
NUMBERS = {"ivq-cbm": (10, 12), "pf-cbm": (4, 2), "cortex": (5, 7), "gig": (3, 13)}  # tables, figures that show results


@pytest.mark.parametrize("paper", NUMBERS)
def test_every_table_and_figure_is_listed(paper: str) -> None:
    names = [name.split("/")[1] for name in ITEMS if name.startswith(f"{paper}/")]
    found = [sum(name.startswith(kind) for name in names) for kind in ("table-", "figure-")]
    assert found == list(NUMBERS[paper])
    assert names.count("table-1") == 1


@pytest.mark.parametrize("name", ITEMS)
def test_an_item_says_how_it_is_made_or_what_is_missing(name: str) -> None:
    item = ITEMS[name]
    assert bool(item.commands) == bool(item.here) == bool(item.cost)
    assert item.commands or item.full or item.missing
    assert not item.evidence or (ROOT / "evidence" / item.evidence).is_dir()
    for line in (*item.commands, *item.full):
        program, *words = shlex.split(line)
        if program == "conceptlens":
            assert words[0] in COMMANDS or " ".join(words[:2]) in COMMANDS
        else:
            assert program == "python"
            assert (ROOT / words[0].format(evidence="evidence")).is_file()


@pytest.mark.slow  # a step of each row is timed
@pytest.mark.parametrize("name", [name for name, item in ITEMS.items() if item.compare])
def test_a_comparison_can_be_planned(name: str, tmp_path: Path) -> None:
    (tmp_path / "compare.yaml").write_text(yaml.safe_dump(ITEMS[name].compare), "utf-8")
    assert plan(tmp_path / "compare.yaml", out=tmp_path / "out")


def test_the_list_has_a_row_for_each() -> None:
    listed = reproduce()
    assert [row["name"] for row in listed.table()] == list(ITEMS)
    assert all(name in listed.text() for name in ITEMS)


def test_what_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="ivq-cbm/table-3"):
        find("ivq-cbm/table-33")
    with pytest.raises(UserError, match="Missing: a drawing"):
        reproduce("cortex/figure-2")
    with pytest.raises(UserError, match="--data DIR"):
        reproduce("ivq-cbm/table-3", full=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="clone"):
        reproduce("ivq-cbm/table-3", full=True, data=tmp_path)


def test_full_commands_have_whole_paths(tmp_path: Path) -> None:
    lines = command_lines("pf-cbm/table-2", find("pf-cbm/table-2"), tmp_path / "a b", full=True, data=tmp_path)
    assert shlex.split(lines[0])[1:5] == [str(ROOT / "evidence/pf-cbm/run.py"), "--cub", f"{tmp_path}/cub", "--out"]
    assert shlex.split(lines[1])[-1] == str(tmp_path / "a b")


@pytest.mark.slow
def test_commands_run_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two real commands; the second fails, and the message names it."""
    lines = ("conceptlens list", "conceptlens train nothing/at-all")
    item = Item(shows="a try", here="here", cost="seconds", compare={"schema": 1}, small=lines)
    monkeypatch.setattr(Item, "commands", property(lambda self: self.small))
    monkeypatch.setattr(reproduction, "find", lambda name: item)
    with pytest.raises(UserError, match="`conceptlens train nothing/at-all` ended with exit code 2"):
        reproduction.run("a/try", out=tmp_path)
    assert yaml.safe_load((tmp_path / "compare.yaml").read_text("utf-8")) == {"schema": 1}
