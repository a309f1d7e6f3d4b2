"""What a column of a table is: the class, the patient, a concept, a note about the image."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from conceptlens.data.labels.words import fold, is_missing, yes_no
from conceptlens.data.splits.names import split_of

Role = Literal["class", "group", "split", "certainty", "concept", "finding", "metadata", "empty"]
Cells = Sequence[str]

CLASS_WORDS = (
    *("class", "classes", "label", "labels", "diagnosis", "dx", "target", "category", "y"),
    *("grade", "pathology", "histology", "disease", "outcome", "species"),
    *("diagnose", "diagnostic", "diagnostico", "diagnosi", "klasse", "classe", "clase", "befund"),
)
CERTAIN = frozenset({"final", "confirmed", "definite", "definitive", "main", "primary"})  # which of several diagnoses
PATIENT_WORDS = (
    *("patient", "subject", "participant", "person", "mrn", "pat", "pid"),
    *("patientin", "patienten", "patientennummer", "patientennr", "paciente", "paziente", "proband"),
)
# From the coarsest: a patient rather than a lesion.
GROUP_WORDS = (*(*PATIENT_WORDS, "animal", "case", "series"), *("lesion", "lasion", "eye", "auge", "specimen", "slide"))
EYES = frozenset({"eye", "auge"})
# Words of a name that say which one, and nothing about it.
IDENTIFIERS = frozenset({"id", "ids", "index", "no", "nr", "number", "num", "nummer", "name", "code", "key", "uid"})
SPLIT_WORDS = ("split", "set", "subset", "partition", "fold")
# What is known of an image without looking at it.
METADATA_WORDS = {
    *("age", "sex", "gender", "race", "ethnicity", "skin", "weight", "kg", "cm"),
    *("site", "hospital", "center", "clinic", "scanner", "camera", "device", "vendor", "manufacturer", "model"),
    *("date", "year", "month", "day", "time", "localization", "location", "region", "laterality", "side"),
    *("comment", "comments", "note", "notes", "remark", "remarks", "quality", "id", "index"),
    *("path", "file", "filename", "url", "width", "height", "rows", "columns"),
    *("top", "bottom", "left", "right", "x", "y", "w", "h"),
    *("history", "family", "father", "mother", "smoke", "smoker", "smoking", "drink", "alcohol", "pesticide"),
    *("pain", "hurt", "itch", "biopsy", "biopsied", "biopsed", "treatment", "therapy", "management", "difficulty"),
    *("fitzpatrick", "fitspatrick", "modality", "magnification"),
    *("alter", "geschlecht", "datum", "bemerkung", "bemerkungen", "kommentar", "klinik", "zentrum", "gerat", "seite"),
    *("sexe", "sexo", "sesso", "edad", "eta", "fecha", "commentaire", "comentario"),
}
MARKS = frozenset({"x", "xx", "✓", "✔", "✗", "+", "*", "1", "yes", "y", "true", "present", "ja", "si", "oui"})
MOST_CLASSES = 50
MOST_VALUES = 12  # of a concept
RARE = 5  # times as many images of a usual value as of one that may be its misspelling
MARKED = 0.9  # of the images must have a class
ALMOST = 0.85  # share of letters that two spellings have in common: one other letter of seven


@dataclass(frozen=True)
class ColumnRole:
    """A column, what it is taken for, and why."""

    name: str
    role: Role
    values: tuple[str, ...] = ()  # of a class or a concept
    marked: bool = False  # a mark or a blank: the blank is taken for a no
    reason: str = ""


def name_words(name: str) -> list[str]:
    """The words of a column's name, without accents."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", plain).lower())


def thing_of(name: str) -> frozenset[str]:
    """What a column's name speaks of: `Pat.-Nr.` and `patient_id` of the same."""
    words = {"patient" if word in PATIENT_WORDS else word for word in name_words(name)}
    return frozenset(words - IDENTIFIERS or words)


def column_roles(
    columns: Mapping[str, Cells], folders: Cells | None = None, classes: Cells | None = None
) -> list[ColumnRole]:
    """What each column is.

    Args:
        columns: Cells of the same N images, by the columns' names.
        folders: The folder of each image, where images are sorted into several.
        classes: The class of each image, if it is already known; else a column may say it.
    """
    chosen = _class_column(columns, folders) if classes is None else None
    group = _group_column({name: cells for name, cells in columns.items() if name != chosen})
    roles = []
    for name, cells in columns.items():
        if name == chosen:
            why = "its name" if _class_score(name) else "it agrees with the folders"
            roles.append(ColumnRole(name, "class", _values(cells), reason=why))
        elif name == group:
            roles.append(ColumnRole(name, "group", reason="its name, and values that repeat"))
        else:
            roles.append(_role(name, cells, columns[chosen] if chosen else classes))
    return roles


def _role(name: str, cells: Cells, classes: Cells | None) -> ColumnRole:
    values = _values(cells)
    words = name_words(name)
    if not values:
        return ColumnRole(name, "empty")
    if fold(name) in SPLIT_WORDS and all(split_of(value) for value in values):
        return ColumnRole(name, "split")
    if words and words[-1] == "certainty":
        return ColumnRole(name, "certainty")
    if not METADATA_WORDS.isdisjoint(words) or (words and EYES.issuperset(words)):
        return ColumnRole(name, "metadata", reason="its name says something that is known without looking")
    if _class_score(name):
        return ColumnRole(name, "metadata", reason="its name speaks of the class")
    if classes is not None and _same_division(cells, classes):
        return ColumnRole(name, "metadata", reason="it says the same as the class")
    answers = {yes_no(value) for value in values}
    if answers == {True, False}:
        return ColumnRole(name, "finding", values)
    if len(values) == 1 and fold(values[0]) in MARKS and any(is_missing(cell) for cell in cells):
        return ColumnRole(name, "finding", values, marked=True)
    counts = Counter(cell for cell in cells if not is_missing(cell))
    repeated = sum(counts.values()) >= 4 * len(values)
    measured = any(re.search(r"\d[.,]\d|\d{4}-\d\d-\d\d", value) for value in values)  # or a day
    if 2 <= len(values) <= MOST_VALUES and repeated and not measured:
        return ColumnRole(name, "concept", values)
    return ColumnRole(name, "metadata", reason="one value only" if len(values) == 1 else "numbers, or too many values")


def _values(cells: Cells) -> tuple[str, ...]:
    """The distinct values in order: by number, or by letters."""
    found = {cell for cell in cells if not is_missing(cell)}
    try:
        return tuple(sorted(found, key=float))
    except ValueError:
        return tuple(sorted(found))


def _class_score(name: str) -> int:
    """How much a name sounds like the class: `dx` more than `dx_type`, whose last word is another."""
    words = [word for word in name_words(name) if word not in CERTAIN]
    if fold(name) in CLASS_WORDS or (len(words) == 1 and words[0] in CLASS_WORDS):
        return 3
    return 2 if words and words[-1] in CLASS_WORDS else 1 if not set(words).isdisjoint(CLASS_WORDS) else 0


def marked_class(columns: Mapping[str, Cells], folders: Cells | None) -> tuple[list[str], Cells]:
    """Columns side by side, `nevus` and `melanoma`, of which each image has one marked; and the one of each image.

    There are none if another column or the folders say the class. A tenth of the images may be marked nowhere.
    """
    names = list(columns)
    named = _class_column(columns, folders)
    if named and 2 * sum(map(is_missing, columns[named])) <= len(columns[named]):
        return [], ()
    marks = {name: marked for name, cells in columns.items() if (marked := _marked(name, cells)) is not None}
    found: list[list[str]] = []
    for first in range(len(names)):
        times = [0] * len(columns[names[first]])
        for last, name in enumerate(names[first:], start=first):
            times = [a + b for a, b in zip(times, marks.get(name, [2] * len(times)), strict=True)]
            if max(times, default=0) > 1:  # no mark, or two classes of one image
                break
            if last > first and sum(times) >= MARKED * len(times):
                found.append(names[first : last + 1])
    longest = max(map(len, found), default=0)
    best = [each for each in found if len(each) == longest]
    if len(best) != 1:  # none, or several that may be it
        return [], ()
    rows = range(len(columns[names[0]]))
    said = tuple(next((name for name in best[0] if marks[name][row]), "") for row in rows)
    if len(set(said) - {""}) < 2 or (folders is not None and not _same_division(said, folders)):
        return [], ()
    return best[0], said


def _marked(name: str, cells: Cells) -> list[bool] | None:
    """Of a column with a mark, or a yes or no, which images have it; None of any other column."""
    values = _values(cells)
    answers = {yes_no(value) for value in values}
    if not METADATA_WORDS.isdisjoint(name_words(name)) or not values:
        return None
    if None not in answers:
        return [yes_no(cell) is True for cell in cells]
    return [not is_missing(cell) for cell in cells] if len(values) == 1 and fold(values[0]) in MARKS else None


def _class_column(columns: Mapping[str, Cells], folders: Cells | None) -> str | None:
    best, chosen = (False, 0, -len(CLASS_WORDS)), None
    for name, cells in columns.items():
        values = _values(cells)
        if not 2 <= len(values) <= min(MOST_CLASSES, len(cells) // 2) or group_word(name, cells):
            continue
        score = _class_score(name) + (3 if folders is not None and _same_division(cells, folders) else 0)
        known = 2 * sum(not is_missing(cell) for cell in cells) >= len(cells)
        words = [CLASS_WORDS.index(word) for word in name_words(name) if word in CLASS_WORDS]
        rank = known, score, -min(words, default=len(CLASS_WORDS))  # a diagnosis rather than how it was made
        if score > 1 and rank > best:
            best, chosen = rank, name
    if chosen and not _has_words(columns[chosen]):  # a column may say in words what the numbers mean
        said = {name: cells for name, cells in columns.items() if _has_words(cells)}
        chosen = next((name for name, cells in said.items() if _same_division(cells, columns[chosen])), chosen)
    return chosen


def _has_words(cells: Cells) -> bool:
    return any(re.search(r"[^\W\d]{2}", value) for value in _values(cells))


def _group_column(columns: Mapping[str, Cells]) -> str | None:
    """A patient rather than a lesion; values must repeat, or nothing is to be kept together."""
    for word in GROUP_WORDS:
        for name, cells in columns.items():
            if group_word(name, cells) == word:
                known = [cell for cell in cells if not is_missing(cell)]
                least = 3 if word in EYES else 2  # left and right are none
                if max(least, len(known) // 50) <= len(set(known)) < len(known):
                    return name
    return None


def group_word(name: str, cells: Cells) -> str:
    """The word by which a column names a patient, a lesion, …; none if it says something of one: `lesion color`."""
    words = set(name_words(name))
    word = next((word for word in GROUP_WORDS if word in words), "")
    values = _values(cells)
    if not METADATA_WORDS.isdisjoint(words - IDENTIFIERS) or (values and all(yes_no(v) is not None for v in values)):
        return ""
    names_only = words <= IDENTIFIERS.union(GROUP_WORDS)
    return word if names_only or len(values) > MOST_VALUES else ""


def one_spelling(cells: Cells) -> tuple[tuple[str, ...], dict[str, str]]:
    """The cells, where values that differ only in capitals and gaps get their most frequent spelling; and what changed.

    A hyphen at either end is a sign, no gap: -1 is not 1, and A- is not A.
    """

    def key(value: str) -> str:
        plain = value.strip().casefold()
        return plain if plain.startswith("-") or plain.endswith("-") else fold(value)

    counts = Counter(cell for cell in cells if not is_missing(cell))
    usual: dict[str, str] = {}
    for value, _ in counts.most_common():
        usual.setdefault(key(value), value)
    changed = {value: usual[key(value)] for value in counts if value != usual[key(value)]}
    return tuple(changed.get(cell, cell) for cell in cells), changed


def slips(cells: Cells) -> list[tuple[str, str]]:
    """Rare values that may be slips of the pen: each with the usual value that is spelled almost like it.

    Numbers are none (grade 1 is not grade 2), nor is what begins otherwise (typical is not atypical).
    """
    counts = Counter(cell for cell in cells if not is_missing(cell) and not any(c.isdigit() for c in cell))
    found = []
    for value, count in counts.items():
        usual = [v for v, n in counts.items() if n >= RARE * count and fold(v)[:1] == fold(value)[:1]]
        if close := get_close_matches(value, usual, 1, ALMOST):
            found.append((value, close[0]))
    return found


def _same_division(one: Cells, other: Cells) -> bool:
    """Whether two columns divide the images in the same way, whatever they call the parts."""
    pairs = {(a, b) for a, b in zip(one, other, strict=True) if not (is_missing(a) or is_missing(b))}
    return len(pairs) > 1 and len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
