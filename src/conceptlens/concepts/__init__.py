"""Concept sets: the words a model may use."""

from conceptlens.concepts.concept_set import UNKNOWN, Concept, ConceptSet, Group, library

__all__ = ["UNKNOWN", "Concept", "ConceptSet", "Group", "library"]
