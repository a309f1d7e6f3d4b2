"""Words of a concept, folded so that two spellings of one thing compare equal."""

import re
import unicodedata

from conceptlens.encoders.text.hashed import NEGATIONS, STOP_WORDS, stem

_WORD = re.compile(r"[^\W_]+")
_EMPTY = STOP_WORDS | {"very", "quite", "rather", "clearly", "slightly", "somewhat", "more", "most", "each", "any"}
_EMPTY |= {"coloured", "colored"}  # "granules colored pink" are pink granules

# Words of one line differ on purpose: two texts that hold different ones are two concepts, however close their vectors.
_FAMILIES = """
red blue green yellow orange purple violet pink brown black white grey gray buff rufous olive golden tan colour
big large small tiny huge medium
long short wide narrow broad thick thin equal
high low tall
light dark pale deep bright
round oval square triangular pointed elongated
one two three four five six seven eight nine ten single double multiple few many several numerous once twice thrice
left right
upper lower top bottom above below upperpart underpart upperside underside
inner outer inside outside near far centre center edge
front back anterior posterior dorsal ventral
straight curved hooked bent wavy
smooth rough uneven jagged
regular irregular
symmetric asymmetric
sharp blurred vague fuzzy
dense sparse loose tight
solid striped spotted mottled plain
male female
young adult juvenile
flat raised sunken
open closed
parallel perpendicular
every most half
"""
FAMILIES: dict[str, frozenset[int]] = {}
for _number, _line in enumerate(_FAMILIES.strip().splitlines()):
    for _one in _line.split():
        FAMILIES[stem(_one)] = FAMILIES.get(stem(_one), frozenset()) | {_number}
# Like a negation: on one side only, it makes another concept.
_TURNS = dict.fromkeys(NEGATIONS, "no") | {word: word for word in ("both", "neither", "either", "only", "partly")}
# Spellings and synonyms that must not count as a contrast.
SAME = {stem(a): stem(b) for a, b in (("gray", "grey"), ("big", "large"), ("center", "centre"), ("tiny", "small"))}
SAME |= {stem(a): stem(b) for a, b in (("many", "numerous"), ("dark", "deep"), ("wide", "broad"), ("several", "many"))}


def _families(each: str) -> frozenset[int]:
    """The families of a stem, also of a comparative: darker as dark, larger as large, reddish as red."""
    for plain in (each, *(each.removesuffix(ending) for ending in ("er", "r", "est", "st", "ish") if each != ending)):
        if plain in FAMILIES:
            return FAMILIES[plain]
        if plain[-1:] == plain[-2:-1] and plain[:-1] in FAMILIES:  # bigger, reddish
            return FAMILIES[plain[:-1]]
    return frozenset()


def clean(text: object, longest: int = 400) -> str:
    """Untrusted text as one printable line: no control characters, no line breaks, cut at `longest` characters."""
    plain = unicodedata.normalize("NFKC", str(text)[: 4 * longest])
    kept = "".join(sign if unicodedata.category(sign)[0] != "C" else " " for sign in plain)
    return " ".join(kept.split())[:longest].strip()


def words(text: str) -> list[str]:
    """Words in lower case, as they stand."""
    return _WORD.findall(text.lower())


def stems(text: str) -> list[str]:
    """Stems of the words that carry meaning, with synonyms of size and color made one; negations stay."""
    return [_stem(word) for word in words(text) if word not in _EMPTY]


def _stem(word: str) -> str:
    cut = stem(word)
    return SAME.get(cut, cut)


def key(text: str) -> str:
    """What two spellings of one name share: `Nucleus-shape`, `nucleus shapes` → `nucleus shap`."""
    return " ".join(stems(text)) or text.lower().strip()


def leftovers(first: str, second: str) -> tuple[list[str], list[str]]:
    """Words, as they stand, whose stems only one of two texts has."""
    one, two = ([word for word in words(text) if word not in _EMPTY] for text in (first, second))
    left, right = {_stem(word) for word in one}, {_stem(word) for word in two}
    return [word for word in one if _stem(word) not in right], [word for word in two if _stem(word) not in left]


def on_purpose(first: list[str], second: list[str]) -> bool:
    """Whether the words that are left of two texts say that they differ on purpose.

    A `no` or a `both` on one side does, two words of one family do, and so does a word of any family where nothing is
    left on the other side: "brown" and "a pale yellowish brown".
    """
    if {_TURNS[word] for word in first if word in _TURNS} != {_TURNS[word] for word in second if word in _TURNS}:
        return True
    one, two = ([_families(_stem(word)) for word in side] for side in (first, second))
    if not first or not second:
        return any(one) or any(two)
    return any(a & b for a in one for b in two)
