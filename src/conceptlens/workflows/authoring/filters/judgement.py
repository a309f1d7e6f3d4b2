"""`judgement.json`: what was said, what stays, what goes and why; and the same in words."""

from conceptlens.core.documents import Document, Part
from conceptlens.workflows.authoring.candidates import Candidate
from conceptlens.workflows.authoring.filters.filters import Judged, Rules
from conceptlens.workflows.authoring.filters.removal import Removal

SHOWN = 40  # removals in the terminal; the files hold all


class Kept(Part):
    """A concept that stays."""

    concept: str
    text: str
    classes: list[str]
    without: list[str]


class Judgement(Document):
    """The file."""

    remedy = "Make it again with `conceptlens concepts draft` or `check`."

    what: str  # the concept file that was drafted or judged
    domain: str
    classes: list[str]
    models: dict[str, str]  # who drafted, who checked
    text_encoder: str
    rules: Rules
    said: int  # concepts in all answers
    kept: list[Kept]
    removed: list[Removal]
    notes: list[str]
    indistinct: list[tuple[str, str]]

    @property
    def gone(self) -> list[Removal]:
        """Removals that were not overruled."""
        return [each for each in self.removed if not each.overruled]

    def counts(self) -> dict[str, int]:
        """Removals by code, in order of the filters."""
        found: dict[str, int] = {}
        for each in self.gone:
            found[each.code] = found.get(each.code, 0) + 1
        return found

    def text(self) -> str:
        total = len(self.kept) + len(self.gone)
        lines = [f"{self.what}: {total} concepts, {len(self.kept)} stay, {len(self.gone)} should go"]
        for each in self.gone[:SHOWN]:
            lines.append(f"  - {each.concept}: {each.reason}")
        if len(self.gone) > SHOWN:
            lines.append(f"  … and {len(self.gone) - SHOWN} more")
        for each in self.removed:
            if each.overruled:
                lines.append(f"  kept by hand: {each.concept}, though {each.reason}")
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  no concept tells {first!r} from {second!r}" for first, second in self.indistinct[:10]]
        return "\n".join(lines)


def judgement(
    judged: Judged,
    *,
    what: str,
    domain: str,
    classes: tuple[str, ...],
    models: dict[str, str],
    text_encoder: str,
    rules: Rules,
    said: int,
    notes: list[str],
) -> Judgement:
    """The document of a judgement."""
    return Judgement(
        what=what,
        domain=domain,
        classes=list(classes),
        models=models,
        text_encoder=text_encoder,
        rules=rules,
        said=said,
        kept=[_kept(each) for each in judged.kept],
        removed=judged.removed,
        notes=notes,
        indistinct=judged.indistinct,
    )


def _kept(each: Candidate) -> Kept:
    return Kept(concept=each.name, text=each.text, classes=sorted(each.classes), without=sorted(each.without))
