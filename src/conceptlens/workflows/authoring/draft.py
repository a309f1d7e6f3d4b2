"""`conceptlens concepts draft`: class names and a domain → a concept file, with a reason for everything left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_text
from conceptlens.workflows.authoring.arrange import arrange
from conceptlens.workflows.authoring.candidates import Candidate, Gathered, class_names
from conceptlens.workflows.authoring.concept_file import concept_yaml
from conceptlens.workflows.authoring.filters.filters import Judge, Rules
from conceptlens.workflows.authoring.filters.judgement import Judgement, judgement
from conceptlens.workflows.authoring.filters.wording import clean
from conceptlens.workflows.authoring.language_model.asker import Asker
from conceptlens.workflows.authoring.language_model.endpoint import Endpoint
from conceptlens.workflows.authoring.language_model.prompts import Ask, ask_check, ask_class, ask_groups
from conceptlens.workflows.authoring.language_model.record import FILE, Record
from conceptlens.workflows.authoring.language_model.replies import Opinion, read_features, read_groups, read_opinions
from conceptlens.workflows.authoring.language_model.second_opinion import objections
from conceptlens.workflows.authoring.page import page

CONCEPTS, JUDGEMENT, PAGE = "concepts.yaml", "judgement.json", "judgement.html"
PASTED = "pasted answers"


@dataclass(frozen=True, repr=False)
class Drafted(ResultMixin):
    """Where the files are; or which questions wait for an answer."""

    folder: Path
    answers: Path
    judgement: Judgement | None
    waiting: list[str]
    to_mend: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        judgement = None if self.judgement is None else self.judgement.to_dict()
        waiting = {"waiting": self.waiting, "to_mend": self.to_mend}
        return {"folder": str(self.folder), "answers": str(self.answers), **waiting, "judgement": judgement}

    def text(self) -> str:
        if self.judgement is None:
            lines = [f"  {name}: {why}" for name, why in self.to_mend.items()]
            if lines:
                lines = ["Answers that could not be used:", *lines]
            shown = ", ".join(self.waiting[:5]) + (" …" if len(self.waiting) > 5 else "")
            if self.waiting:
                lines.append(f"{len(self.waiting)} questions wait for an answer: {shown}")
            return "\n".join([*lines, f"Write the answers into {self.answers} and call the same command again."])
        files = f"written: {self.folder / CONCEPTS}, {JUDGEMENT} and {PAGE} beside it"
        return f"{self.judgement.text()}\n{files}"


def draft_concepts(
    classes: Sequence[str],
    domain: str,
    out: str | Path,
    *,
    drafter: Endpoint | None = None,
    checker: Endpoint | None = None,
    checker_name: str | None = None,
    answers: str | Path | None = None,
    per_class: int = 10,
    text: str = "builtin/text",
    rules: Rules | None = None,
    at_once: int = 4,
    note: Callable[[str], object] = lambda words: None,
) -> Drafted:
    """Ask, gather, check, filter, arrange, write.

    Args:
        classes: Their names.
        domain: What the images show, in a few words.
        out: Folder for the files.
        drafter: The model that describes the classes; None: answers are pasted into a file.
        checker: The second model, where it has an endpoint.
        checker_name: The second model's name where its answers are pasted; without a name nobody checks.
        answers: The file of questions and answers; `answers.md` in the folder by default.
        per_class: Features asked for of each class.
        text: The text encoder that compares texts.
        rules: Limits of the filters.
        at_once: Requests at once.
        note: Told of progress.
    """
    from conceptlens.encoders import make_text_encoder

    names, domain = class_names(classes), clean(domain)
    if len(names) < 2:
        raise UserError(f"--classes: expected two or more class names, found {len(names)}.")
    if not domain:
        raise UserError("--domain: say in a few words what the images show, as 'white blood cells in stained smears'.")
    if not 1 <= per_class <= 50:
        raise UserError(f"--per-class: expected 1 to 50, found {per_class}.")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: expected a folder for the draft, found a file. Choose another one with --out.")
    text_encoder = make_text_encoder(text)
    record = Record.open(Path(answers) if answers else folder / FILE)
    asker = Asker(record, drafter, at_once, note)

    def waiting() -> Drafted:
        record.write()
        return Drafted(folder, record.path, None, asker.open, asker.to_mend)

    (groups,) = asker.all([ask_groups(domain, names)], [read_groups])
    if groups is None:
        return waiting()
    gathered = Gathered(names)
    for group in groups:
        gathered.note(group)
    features = asker.all(
        [ask_class(domain, names, name, groups, per_class) for name in names], [read_features] * len(names)
    )
    if any(each is None for each in features):
        return waiting()
    for name, found in zip(names, features, strict=True):
        for each in found or []:
            gathered.add(name, each.group, each.value, each.text, each.part)
    candidates = gathered.candidates()
    objected: dict[int, str] = {}
    notes = ["no second model has checked the answers"]
    checked_by = checker.model if checker else checker_name
    if checked_by:
        told = _second_opinion(asker, checker, domain, names, candidates)
        if told is None:
            return waiting()
        candidates, objected, notes = objections(candidates, told)
    judge = Judge(names, text_encoder, rules or Rules(), domain)
    judged = judge.of(candidates, objected)
    if not judged.kept:
        raise UserError(
            "Every concept was removed, so there is nothing to write. Ask another model, or loosen the rules."
        )
    drafted_by = drafter.model if drafter else PASTED
    told_by = judgement(
        judged,
        what=f"{folder.resolve().name}/{CONCEPTS}",
        domain=domain,
        classes=names,
        models={"drafted by": drafted_by, "checked by": checked_by or "nobody"},
        text_encoder=text_encoder.name,
        rules=judge.rules,
        said=gathered.said,
        notes=notes,
    )
    arranged = arrange(judged.kept, gathered.groups)
    about = (
        f"{domain}. Drafted by {drafted_by}, checked by {checked_by or 'nobody'}; labels by class are what is typical."
    )
    write_text(folder / CONCEPTS, concept_yaml(arranged, names, name=folder.resolve().name, about=about))
    told_by.write(folder / JUDGEMENT)
    write_text(folder / PAGE, page(told_by))
    if drafter is None:
        record.write()
    return Drafted(folder, record.path, told_by, [], {})


def _second_opinion(
    asker: Asker, checker: Endpoint | None, domain: str, names: Sequence[str], candidates: Sequence[Candidate]
) -> dict[str, list[tuple[str, Opinion]]] | None:
    """Opinions on the candidates of each class; None while some wait for an answer."""
    own = {name: [each for each in candidates if name in each.classes] for name in names}
    asks: list[Ask] = [ask_check(domain, name, own[name]) for name in names if own[name]]
    readers = [_reader(len(own[name])) for name in names if own[name]]
    if checker is None:
        asker = replace(asker, endpoint=None)
    found = asker.all(asks, readers, checker)
    if any(each is None for each in found):
        return None
    asked = [name for name in names if own[name]]
    return {
        name: [(each.name, opinion) for each, opinion in zip(own[name], opinions or [], strict=True)]
        for name, opinions in zip(asked, found, strict=True)
    }


def _reader(count: int) -> Callable[[str], list[Opinion]]:
    return lambda answer: read_opinions(answer, count)
