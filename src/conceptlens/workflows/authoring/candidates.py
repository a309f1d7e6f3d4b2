"""A candidate: something that may become a concept, with the classes that are said to show it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from conceptlens.concepts import ConceptSet
from conceptlens.workflows.authoring.filters.wording import clean, key


@dataclass(frozen=True)
class Candidate:
    """One value of one group."""

    group: str
    value: str
    text: str  # what the text encoder reads
    part: str | None = None
    classes: frozenset[str] = frozenset()  # classes that show it
    without: frozenset[str] = frozenset()  # classes known not to; of all others nothing is known

    @property
    def name(self) -> str:
        return f"{self.group}: {self.value}"


@dataclass(frozen=True)
class GroupNote:
    """What was said of a group as a whole."""

    name: str
    part: str | None = None
    under: tuple[str, str | None] | None = None


@dataclass
class Gathered:
    """Candidates of several answers, those that say the same under the same name made one."""

    classes: tuple[str, ...]
    groups: dict[str, GroupNote] = field(default_factory=dict)  # by folded name
    found: dict[tuple[str, str], Candidate] = field(default_factory=dict)  # by folded group and value
    said: int = 0  # concepts in the answers, repeated ones counted each time

    def note(self, group: GroupNote) -> None:
        self.groups.setdefault(key(group.name), group)

    def add(self, class_name: str, group: str, value: str, text: str, part: str | None) -> None:
        """One line of an answer about a class."""
        self.said += 1
        known = self.groups.get(key(group))
        name = known.name if known else group
        if not known:
            self.note(GroupNote(group, part))
        place = (key(group), key(value))
        before = self.found.get(place)
        if before:
            self.found[place] = replace(before, classes=before.classes | {class_name})
            return
        part = part or (known.part if known else None)
        self.found[place] = Candidate(name, value, text, part, frozenset({class_name}))

    def candidates(self) -> list[Candidate]:
        """In order of their groups; a class that names a value of a group is taken not to show the others."""
        rows = list(self.found.items())
        speaks: dict[str, frozenset[str]] = {}
        for (group, _), each in rows:
            speaks[group] = speaks.get(group, frozenset()) | each.classes
        order = {group: place for place, group in enumerate(self.groups)}
        rows.sort(key=lambda row: order[row[0][0]])
        return [replace(each, without=speaks[group] - each.classes) for (group, _), each in rows]


def from_concepts(concepts: ConceptSet) -> list[Candidate]:
    """The concepts of a file, with what its table by class says."""
    labels = {name: concepts.labels_of_class(name) for name in concepts.by_class}
    return [
        Candidate(
            each.group,
            each.value,
            each.text,
            each.part,
            frozenset(name for name, row in labels.items() if row[at] == 1),
            frozenset(name for name, row in labels.items() if row[at] == 0),
        )
        for at, each in enumerate(concepts.concepts)
    ]


def class_names(given: Iterable[str]) -> tuple[str, ...]:
    """Class names as single lines, each once, in order."""
    return tuple(dict.fromkeys(name for name in (clean(each, 120) for each in given) if name))
