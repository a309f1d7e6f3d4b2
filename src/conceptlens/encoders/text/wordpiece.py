"""WordPiece (Schuster and Nakajima, Japanese and Korean Voice Search, 2012), as uncased BERT splits English text.

Text is lower-cased, accents are dropped, punctuation stands alone; each word is then cut from the left into the longest
pieces that the vocabulary holds. A piece that continues a word is marked with `##`.
"""

import unicodedata
from collections.abc import Iterable, Sequence

PAD, UNKNOWN, START, END = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
IDEOGRAPHS = ("\u3400\u4dbf", "\u4e00\u9fff", "\uf900\ufaff", "\U00020000\U0002fa1f")  # first and last of a range
LONGEST_WORD = 100  # characters; a longer one is unknown, as in BERT


def _is_punctuation(character: str) -> bool:
    """Unicode punctuation and every ASCII sign, `$` and `+` too."""
    return (character.isascii() and 32 < ord(character) < 127 and not character.isalnum()) or unicodedata.category(
        character
    ).startswith("P")


def _is_ideograph(character: str) -> bool:
    """Chinese characters are words of their own."""
    return any(each[0] <= character <= each[1] for each in IDEOGRAPHS)


def words(text: str) -> list[str]:
    """Lower-case words and punctuation marks, accents dropped: `Naïve T-cell` → naive, t, -, cell."""
    if text.isascii() and text.replace(" ", "").isalnum():  # most phrases; the long way would give the same
        return text.lower().split()
    pieces = []
    for character in unicodedata.normalize("NFD", text.lower()):
        category = unicodedata.category(character)
        if character in "\t\n\r" or category == "Zs":
            pieces.append(" ")
        elif category in ("Mn", "Cc", "Cf", "Cn", "Co", "Cs") or character == "\ufffd":
            continue
        elif _is_punctuation(character) or _is_ideograph(character):
            pieces.append(f" {character} ")
        else:
            pieces.append(character)
    return "".join(pieces).split()


class WordPiece:
    """Phrases to piece numbers.

    Args:
        pieces: The vocabulary; a piece's number is its place. It must hold `[PAD]`, `[UNK]`, `[CLS]` and `[SEP]`.
    """

    def __init__(self, pieces: Iterable[str]) -> None:
        self.pieces = list(pieces)
        self.number = {piece: place for place, piece in enumerate(self.pieces)}
        self.pad, self.unknown, self.start, self.end = (self.number[each] for each in (PAD, UNKNOWN, START, END))
        self._known: dict[str, tuple[int, ...]] = {}

    def split_word(self, word: str) -> tuple[int, ...]:
        """A word's pieces, the longest first from the left; one unknown if some part of it is in no piece."""
        if len(word) > LONGEST_WORD:
            return (self.unknown,)
        found, start = [], 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                if (piece := self.number.get(mark + word[start:end])) is not None:
                    found.append(piece)
                    start = end
                    break
            else:
                return (self.unknown,)
        return tuple(found)

    def encode(self, text: str, *, longest: int | None = None) -> list[int]:
        """`[CLS]` pieces `[SEP]`, at most `longest` numbers in all."""
        numbers = [self.start]
        for word in words(text):
            if (split := self._known.get(word)) is None:
                split = self.split_word(word)
                if len(self._known) < 100_000:  # words come again and again: remembering them saves most of the work
                    self._known[word] = split
            numbers.extend(split)
        if longest is not None:
            del numbers[max(longest - 1, 1) :]
        numbers.append(self.end)
        return numbers

    def encode_all(self, texts: Sequence[str], *, longest: int | None = None) -> list[list[int]]:
        return [self.encode(text, longest=longest) for text in texts]
