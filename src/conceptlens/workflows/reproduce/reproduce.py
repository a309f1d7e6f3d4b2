"""`conceptlens reproduce`: the list of tables and figures, and the runs that make one again."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from conceptlens.core.documents import ResultMixin, TableRow
from conceptlens.core.engines.environment import python
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_text
from conceptlens.workflows.reproduce.catalog import Item, find, papers

COMPARE = "conceptlens compare "


@dataclass(frozen=True, repr=False)
class Catalog(ResultMixin):
    """Every table and figure of the papers."""

    rows: list[TableRow]

    def table(self) -> list[TableRow]:
        return self.rows

    def text(self) -> str:
        lines: list[str] = []
        for name, paper in papers().items():
            lines += ["", f"{name}: {paper.title}"]
            for key, item in paper.items.items():
                lines.append(f"  {name}/{key}: {item.shows}")
                if item.commands:
                    lines.append(f"    here: {item.here}; {item.cost}; `conceptlens reproduce {name}/{key}`")
                if item.full:
                    lines.append(
                        f"    in full: `conceptlens reproduce {name}/{key} --full --data DIR`, {item.full_cost}"
                    )
                if item.by_hand:
                    lines.append(f"    in full: {item.by_hand}")
                if item.missing:
                    lines.append(f"    missing: {item.missing}")
                if item.evidence:
                    lines.append(f"    measured: evidence/{item.evidence}")
        return "\n".join(lines).strip()


@dataclass(frozen=True, repr=False)
class Reproduced(ResultMixin):
    """What was run for a table or figure, and where its files are."""

    name: str
    commands: list[str]
    out: Path

    def text(self) -> str:
        return "\n".join([f"{self.name}: written to {self.out}", *(f"  {line}" for line in self.commands)])


def catalog() -> Catalog:
    """Every table and figure, with what can be run here."""
    return Catalog(
        [
            {
                "name": f"{name}/{key}",
                "shows": item.shows,
                "here": item.here or None,
                "cost": item.cost or None,
                "command": f"conceptlens reproduce {name}/{key}" if item.commands else None,
                "full": "; ".join(item.full) or None,
                "full_cost": item.full_cost or item.by_hand or None,
                "missing": item.missing or None,
                "evidence": f"evidence/{item.evidence}" if item.evidence else None,
            }
            for name, paper in papers().items()
            for key, item in paper.items.items()
        ]
    )


def command_lines(name: str, item: Item, out: Path, *, full: bool, data: Path | None) -> list[str]:
    """The command lines that make it, with their folders filled in."""
    lines = item.full if full else item.commands
    if not lines:
        version = "full" if full else "small"
        known = f"`conceptlens reproduce {name}` runs a small one. " if full and item.commands else ""
        raise UserError(f"{name} has no {version} version here. {known}{_why(item)}")
    if full and data is None:
        raise UserError(f"{name} in full needs prepared data: --data DIR, made by `conceptlens data prepare`.")
    evidence = Path("evidence").resolve()
    if full and not evidence.is_dir():
        raise UserError(f"{name} in full runs scripts of the repository: call it in the folder of a clone.")
    places = {"out": out.resolve() if full else out, "data": data and data.resolve(), "evidence": evidence}
    return [line.format(**{name: shlex.quote(str(place)) for name, place in places.items()}) for line in lines]


def _why(item: Item) -> str:
    missing = f"Missing: {item.missing}." if item.missing else ""
    measured = f" What was measured: evidence/{item.evidence}." if item.evidence else ""
    return f"{missing}{measured}".strip()


def compare_words(jobs: int, engine: str, engine_option: Sequence[str]) -> str:
    """What a command line of `conceptlens compare` gets besides; nothing by default."""
    words = [] if jobs == 1 and engine == "local" else ["--jobs", str(jobs), "--engine", engine]
    return shlex.join([*words, *(word for option in engine_option for word in ("--engine-option", option))])


def run(
    name: str, *, full: bool = False, data: Path | None = None, out: Path | None = None, compare_words: str = ""
) -> Reproduced:
    """Run the commands of a table or figure one after the other; those of comparisons get further words."""
    item = find(name)
    folder = out or Path("runs") / "reproduce" / name.replace("/", "-")
    lines = command_lines(name, item, folder, full=full, data=data)
    if compare_words:
        if not any(line.startswith(COMPARE) for line in lines):
            raise UserError(
                f"{name} is not made by a comparison, so no engine can share its work: leave {compare_words} out."
            )
        lines = [f"{line} {compare_words}" if line.startswith(COMPARE) else line for line in lines]
    folder.mkdir(parents=True, exist_ok=True)
    if item.compare and not full:
        write_text(folder / "compare.yaml", yaml.safe_dump(item.compare, sort_keys=False, allow_unicode=True))
    for line in lines:
        _call(line, where=data if full else None)
    return Reproduced(name, lines, folder)


def _call(line: str, where: Path | None) -> None:
    program, *rest = shlex.split(line)
    words = [*python(), "-m", "conceptlens", *rest] if program == "conceptlens" else [sys.executable, *rest]
    code = subprocess.run(words, check=False, cwd=where).returncode
    if code:
        raise UserError(f"`{line}` ended with exit code {code}; its message stands above. Call it again to go on.")
