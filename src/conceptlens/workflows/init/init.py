"""Look at a folder, propose what to make of it, write it down, and check it."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conceptlens.concepts import ConceptSet
from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.data.checks.check import DataReport, check_data
from conceptlens.data.labels.words import fold, yes_no
from conceptlens.recipes.parse import load_recipe
from conceptlens.workflows.init.contents import look
from conceptlens.workflows.init.proposal import Ask, propose
from conceptlens.workflows.init.write import CONCEPTS, RECIPE, TABLE, write_setup


@dataclass(frozen=True, repr=False)
class Setup(ResultMixin):
    """What was written and assumed, and what `data check` says of it."""

    recipe: Path
    assumed: tuple[str, ...]
    check: DataReport
    concepts: bool

    @property
    def exit_code(self) -> int:
        return self.check.exit_code

    @property
    def has_findings(self) -> bool:
        return self.check.has_findings

    def to_dict(self) -> dict[str, Any]:
        return {"recipe": str(self.recipe), "assumed": list(self.assumed), "check": self.check.to_dict()}

    def text(self) -> str:
        files = [TABLE, *([CONCEPTS] if self.concepts else []), RECIPE]
        lines = ["What was assumed:", *(f"  - {line}" for line in self.assumed), "", self.check.text(), ""]
        lines.append(f"written to {self.recipe.parent}: {', '.join(files)}. The recipe repeats what was assumed.")
        if self.check.ok:
            lines += ["", f"Next: conceptlens train {_typed(self.recipe)}"]
        else:
            lines += ["", f"Next: mend what is listed under Errors, then conceptlens data check {_typed(self.recipe)}"]
        if not self.concepts:
            lines.append("There are no concepts yet; docs/own-data.md leads from here to a model with concepts.")
        return "\n".join(lines)


def _typed(path: Path) -> str:
    """A path as it is typed on a command line of any system."""
    return f'"{path}"' if " " in str(path) else str(path)


def default_answers(given: dict[str, str]) -> Ask:
    """Answers without a person: what was given on the command line, else what is proposed."""

    def ask(question: str, default: str, others: Sequence[str]) -> str:
        return next((answer for key, answer in given.items() if key in question and answer), default)

    return ask


def ask_person(given: dict[str, str]) -> Ask:
    """Questions on the terminal; an empty answer takes what is proposed, and one that fits nothing is asked again."""

    def ask(question: str, default: str, others: Sequence[str]) -> str:
        if answer := next((answer for key, answer in given.items() if key in question and answer), ""):
            return answer
        options = f" ({', '.join(others)})" if 0 < len(others) <= 12 else ""
        while True:
            answer = input(f"{question}?{options} [{default}] ").strip() or default
            if wrong := _unfit(answer, [*others, default]):
                print(f"{wrong!r}: {did_you_mean(wrong, others)}")
            else:
                return answer

    return ask


def _unfit(answer: str, options: Sequence[str]) -> str:
    """What of an answer is none of the options; commas may separate several."""
    known = {fold(option) for option in options}
    if fold(answer) in known or (known == {"yes", "no"} and yes_no(answer) is not None):
        return ""
    return next((part.strip() for part in answer.split(",") if fold(part) not in known), "")


def init_folder(
    path: str | Path,
    *,
    out: str | Path | None = None,
    class_column: str = "",
    group_column: str = "",
    ask: Ask | None = None,
    yes: bool = False,
    overwrite: bool = False,
    quiet: bool = True,
) -> Setup:
    """Prepare a folder for training; see `conceptlens.api.init`."""
    contents = look(Path(path))
    folder = Path(out) if out else Path(f"{contents.root.resolve().name}-setup")
    if (folder / RECIPE).exists() and not overwrite:
        raise UserError(
            f"{folder / RECIPE}: is already there. --overwrite writes it again; --out names another folder."
        )
    given = {"the class": class_column, "belongs together": group_column}
    if ask is None:
        ask = ask_person(given) if not yes and sys.stdin.isatty() else default_answers(given)
    proposal = propose(contents, ask, quiet=quiet)
    write_setup(proposal, folder)
    recipe = load_recipe(folder / RECIPE, trusted=True)
    concepts = ConceptSet.load(recipe.concepts) if recipe.concepts else None
    report = check_data(recipe.data, concepts, quiet=quiet)
    return Setup(folder / RECIPE, tuple(proposal.assumed), report, proposal.has_concepts)
