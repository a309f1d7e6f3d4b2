"""Class names in disguise: a concept that holds a class's name, or means nearly the same, gives the answer away.

Words come first, as they can be shown to a reader: all words of a name, its head word (the last: "sparrow" of "Song
Sparrow") or a long one, also inside a longer word ("eosinophilic"). Words of the domain are not taken for a name. Then
the text vector: LF-CBM (ICLR 2023, section 3.1) drops concepts whose text is too close to a class name's.
"""

from collections.abc import Sequence
from functools import lru_cache

from torch import Tensor

from conceptlens.encoders.text.hashed import stem
from conceptlens.workflows.authoring.candidates import Candidate
from conceptlens.workflows.authoring.filters.wording import FAMILIES, stems, words

# Names that are ordinary words give nothing away unless they are all that is said.
ORDINARY = frozenset({"normal", "abnormal", "healthy", "other", "none", "unknown", "negative", "positive", "mixed"})
LEARNED = 10  # letters from which any word of a name is taken to be its own: "melanocytic" nevus
INSIDE = 5  # letters of a stem that are taken for the name when a longer word begins with them


class Names:
    """The words by which classes can be recognized.

    Args:
        classes: Their names.
        domain: What all of them are; its words give nothing away.
    """

    def __init__(self, classes: Sequence[str], domain: str = "") -> None:
        self.classes = tuple(classes)
        neutral = set(stems(domain))
        self._whole: list[frozenset[str]] = []
        self._heads: dict[str, str] = {}  # stem → a class that is called so
        for name in classes:
            own = [each for each in stems(name) if each not in neutral]
            plain = all(each.isdecimal() or each in ORDINARY for each in own)
            self._whole.append(frozenset() if plain else frozenset(own))
            # A color or a number at the end of a name ("Grade 2", "Scarlet Red") is a feature of many things.
            if own and not plain and not own[-1].isdecimal() and own[-1] not in FAMILIES and len(own[-1]) > 2:
                self._heads.setdefault(own[-1], name)
            for each in own[:-1]:
                if not plain and len(each) >= LEARNED and each not in FAMILIES:
                    self._heads.setdefault(each, name)
        self._inside = tuple((head, name) for head, name in self._heads.items() if len(head) >= INSIDE)

    def inside(self, text: str) -> tuple[str, str] | None:
        """The first class that a text names, and the word that does it."""
        plain = words(text)
        held = set(stems(text))
        for word in plain:
            name = self._named(word)
            if name:
                return name, word
        for name, whole in zip(self.classes, self._whole, strict=True):
            if whole and whole <= held:
                return name, name
        return None

    @lru_cache(maxsize=20_000)  # noqa: B019 - lives as long as one judgement
    def _named(self, word: str) -> str | None:
        cut = stem(word)
        if cut in self._heads:
            return self._heads[cut]
        return next((name for head, name in self._inside if cut.startswith(head)), None)


def names_a_class(candidates: Sequence[Candidate], names: Names) -> dict[int, str]:
    """Candidates whose value or text holds a class's name, by position, with the reason."""
    found: dict[int, str] = {}
    for at, each in enumerate(candidates):
        hit = names.inside(f"{each.value} {each.text}")
        if hit:
            name, word = hit
            shown = f"it holds {word!r}, " if word.lower() != name.lower() else "it holds "
            found[at] = f"{shown}the name of the class {name!r}"
    return found


def means_a_class(vectors: Tensor, class_vectors: Tensor, classes: Sequence[str], cutoff: float) -> dict[int, str]:
    """Candidates whose text (K, D) says nearly what a class's name (C, D) says, both of unit length."""
    if not len(class_vectors) or not len(vectors):
        return {}
    nearest = (vectors @ class_vectors.T).max(1)
    return {
        at: f"its text means nearly the same as the class {classes[int(nearest.indices[at])]!r} (cosine {cosine:.2f}, "
        f"cut-off {cutoff:.2f})"
        for at, cosine in enumerate(nearest.values.tolist())
        if cosine >= cutoff
    }
