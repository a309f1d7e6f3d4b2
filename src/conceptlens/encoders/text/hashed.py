"""`builtin/hashed-text`: a text encoder without weights, the same to the last bit on every machine; a control.

It knows words, not meanings: what a trained tower gains over it is what the training taught.

Words, pieces of words and pairs of words are hashed to directions that are close to Gaussian (a random projection of a
bag of features); a phrase is their weighted sum at unit length. All sums are over whole numbers, so they are exact in
any order; only one square root and one division round, and both are defined by IEEE 754.
"""

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.encoders.text.check import check_texts

WIDTH = 256

# Whole weights; only their ratios matter.
WORD, STOP_WORD, NEGATED, NEGATION, PIECES, PAIR = 64, 8, 80, 32, 48, 32
NEGATED_PLAIN = 20  # what is left of a word's own direction behind a "no"

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a an and are as at be been being but by can for from had has have having his in into is it its of on or such
        than that the their them there these this those to was were which while who whose with""",
    )
)
NEGATIONS = frozenset(
    ("no", "not", "non", "without", "never", "none", "nor", "neither", "lacking", "lacks", "lack", "absent", "cannot")
)
NEGATION_ENDS = frozenset(("but", "and", "or", "with"))
NEGATION_REACH = 3  # content words behind a negation that it turns
IRREGULAR = {"nuclei": "nucleus", "nucleoli": "nucleolus", "foci": "focus"}
_TOKEN = re.compile(r"[^\W_]+|[,;:.!?]")


def stem(word: str) -> str:
    """A word without its commonest endings: granule, granules → granul; lobe, lobes, lobed → lob."""
    word = IRREGULAR.get(word, word)
    for ending, put in (("ies", "y"), ("ing", ""), ("ed", ""), ("ly", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: len(word) - len(ending)] + put
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


@lru_cache(maxsize=50_000)
def _direction(feature: str) -> npt.NDArray[np.int16]:
    """A feature's direction: sums of four bytes of its hash, centered, which are nearly Gaussian."""
    stream = hashlib.shake_256(feature.encode()).digest(4 * WIDTH)
    quarters = np.frombuffer(stream, np.uint8).reshape(WIDTH, 4).astype(np.int16)
    direction: npt.NDArray[np.int16] = quarters.sum(1, dtype=np.int16) - np.int16(510)
    return direction


@lru_cache(maxsize=50_000)
def _pieces(word: str) -> npt.NDArray[np.int64]:
    """Character n-grams of a word, as one vector about as long as a direction of weight PIECES."""
    marked = f"<{word}>"
    grams = sorted({marked[start : start + n] for n in (3, 4) for start in range(len(marked) - n + 1)} or {marked})
    total = np.zeros(WIDTH, np.int64)
    for gram in grams:
        total += _direction(f"piece {gram}")
    return total * PIECES // math.isqrt(len(grams))


def _features(text: str) -> Iterator[tuple[str, int]]:
    """Words (`word`), negated words (`not`) and pairs (`pair`) with their weights."""
    turned, previous = 0, ""
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if not token[0].isalnum() or token in NEGATION_ENDS:
            turned = 0
        if not token[0].isalnum():
            previous = ""
        elif token in NEGATIONS:
            turned, previous = NEGATION_REACH, "no"
            yield "word no", NEGATION
        elif token in STOP_WORDS:
            yield f"word {token}", STOP_WORD
        else:
            root = stem(token)
            yield (f"not {root}", NEGATED) if turned else (f"word {root}", WORD)
            if turned:
                yield f"word {root}", NEGATED_PLAIN
            if previous:
                yield f"pair {previous} {root}", PAIR
            turned, previous = max(turned - 1, 0), root


def _vector(text: str) -> npt.NDArray[np.float32]:
    # A feature counts once, so that a repeated word does not drown the others.
    features: dict[str, int] = {}
    for feature, weight in _features(text):
        features[feature] = max(weight, features.get(feature, 0))
    total = np.zeros(WIDTH, np.int64)
    for feature, weight in features.items():
        total += _direction(feature).astype(np.int64) * weight
        kind, _, root = feature.partition(" ")
        if weight == WORD and kind == "word":
            total += _pieces(root)
    return (total / math.sqrt(int((total * total).sum()))).astype(np.float32)


class HashedText:
    """English phrases to unit vectors: phrases that share words are close, a negated phrase is not."""

    name = "builtin/hashed-text"
    width = WIDTH

    def embed(self, texts: Sequence[str]) -> Tensor:
        """(n, 256), unit length, fp32, on the CPU."""
        check_texts(self.name, texts)
        vectors = [_vector(text) for text in texts]
        return torch.from_numpy(np.stack(vectors)) if vectors else torch.zeros(0, WIDTH)
