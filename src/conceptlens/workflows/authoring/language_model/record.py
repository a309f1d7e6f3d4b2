"""The record of questions and answers: one file that people can read, paste answers into, and go on from.

    ## ask: class Neutrophil
    > the prompt, quoted
    ## answer: class Neutrophil [model gpt-x, prompt 1f2e…]
    the answer, as it came

An answer with a model in brackets came from an endpoint and counts only for the prompt it was given to; one without was
pasted, and counts for its name.
"""

import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint, write_text
from conceptlens.workflows.authoring.language_model.prompts import Ask

FILE = "answers.md"
LARGEST = 50_000_000  # bytes
RENAMED = {"axes": "groups"}  # a question as version 0.1 called it
_HEADING = re.compile(r"^## (ask|answer): (.+?)(?: \[model (.*), prompt ([0-9a-f]{16})\])?\s*$")
_ESCAPED = re.compile(r"^\\(\\*## )")
_ABOUT = (
    "# Questions and answers\n\n"
    "Give each question below to a model and paste its answer under the heading that follows it, then call the same "
    "command again.\n"
)


@dataclass(frozen=True)
class Answer:
    """What was answered, and by whom; no model: someone pasted it."""

    text: str
    model: str | None = None
    prompt: str | None = None  # fingerprint


@dataclass
class Record:
    """Answers by the name of their question."""

    path: Path
    answers: dict[str, Answer] = field(default_factory=dict)
    asked: dict[str, Ask] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def open(cls, path: Path) -> "Record":
        """What is there; a file that does not exist is an empty record."""
        if not path.exists():
            return cls(path)
        if path.is_dir() or path.stat().st_size > LARGEST:
            raise UserError(f"{path}: expected a file of questions and answers, of at most {LARGEST:,} bytes.")
        try:
            return cls(path, _read(path.read_text("utf-8")))
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: expected UTF-8 text, but {error.reason} at byte {error.start}.") from None

    def find(self, ask: Ask) -> Answer | None:
        """The answer to a question, if there is one."""
        self.asked[ask.name] = ask
        found = self.answers.get(ask.name)
        if found is None or not found.text.strip():
            return None
        return found if found.model is None or found.prompt == fingerprint(ask.prompt) else None

    def keep(self, ask: Ask, text: str, model: str) -> None:
        """Write an endpoint's answer down at once: one that was paid for is not asked for again."""
        with self._lock:
            self.answers[ask.name] = Answer(text, model, fingerprint(ask.prompt))
            self.asked[ask.name] = ask
            self.write()

    def write(self) -> None:
        """All questions that were asked, each with its answer or room for one."""
        pieces = [_ABOUT]
        for name, ask in self.asked.items():
            found = self.answers.get(name, Answer(""))
            quoted = "\n".join(f"> {line}".rstrip() for line in ask.prompt.splitlines())
            pieces.append(f"## ask: {name}\n{quoted}\n\n{_answered(name, found)}")
        # Of a question not reached yet, or no longer asked: it was paid for, or pasted by hand.
        pieces += [_answered(name, found) for name, found in self.answers.items() if name not in self.asked]
        write_text(self.path, "\n".join(pieces))


def _answered(name: str, found: Answer) -> str:
    by = f" [model {found.model}, prompt {found.prompt}]" if found.model else ""
    return f"## answer: {name}{by}\n{_escaped(found.text).strip()}\n"


def _read(text: str) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    name: str | None = None
    lines: list[str] = []
    head = Answer("")

    def close() -> None:
        if name is not None:
            found[name] = Answer("\n".join(lines).strip(), head.model, head.prompt)

    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading:
            close()
            name, lines = (RENAMED.get(heading[2], heading[2]), []) if heading[1] == "answer" else (None, [])
            head = Answer("", heading[3], heading[4])
        elif name is not None:
            lines.append(_ESCAPED.sub(r"\1", line))
    close()
    return found


def _escaped(text: str) -> str:
    """An answer that holds a heading of ours must not become one."""
    return "\n".join(re.sub(r"^(\\*## )", r"\\\1", line) for line in text.splitlines())
