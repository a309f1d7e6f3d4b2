"""Texts that are too long: nobody checks them at a glance, and they hold several concepts at once."""

from collections.abc import Sequence

from conceptlens.workflows.authoring.candidates import Candidate


def too_long(candidates: Sequence[Candidate], most_words: int, name_longest: int) -> dict[int, str]:
    """Candidates with more words than a person reads at a glance, or a name too long for a table; 0 keeps all."""
    found: dict[int, str] = {}
    for at, each in enumerate(candidates):
        count = len(each.text.split())
        if 0 < most_words < count:
            found[at] = f"its text has {count} words, more than {most_words}"
        elif 0 < name_longest < len(each.value):
            found[at] = f"its name has {len(each.value)} characters, more than {name_longest}"
    return found
