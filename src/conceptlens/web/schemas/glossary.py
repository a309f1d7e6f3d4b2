"""The shape of the glossary."""

from conceptlens.core.documents import Part
from conceptlens.web.schemas.runs import Answer


class Term(Part):
    """What a term means."""

    meaning: str
    reference: str | None  # the paper that introduced it; null for terms of conceptlens itself


class Glossary(Answer):
    """The meaning of each term."""

    terms: dict[str, Term]
