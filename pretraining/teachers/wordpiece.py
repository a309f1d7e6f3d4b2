"""BERT's lower-casing tokeniser: Devlin et al., "BERT" (NAACL 2019); WordPiece as in Wu et al. (arXiv 1609.08144).

Text is cleaned, lower-cased, stripped of accents and cut at spaces, punctuation and Chinese characters; each word is
then covered from the left by the longest pieces of the vocabulary, pieces after the first carrying the mark `##`.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from conceptlens.errors import UserError

LONGEST_WORD = 100  # characters; a longer word is unknown, as in BERT
# Ideographs, which are words by themselves; other scripts of East Asia are written with spaces or taken as they come.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@lru_cache(maxsize=4096)
def _stands_alone(character: str) -> bool:
    """Whether a character is a word by itself: punctuation (all ASCII symbols count) or an ideograph."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    code = ord(character)
    return unicodedata.category(character).startswith("P") or any(low <= code <= high for low, high in _IDEOGRAPHS)


@lru_cache(maxsize=4096)
def _dropped(character: str) -> bool:
    """Whether a character is control or format, or stands for an undecodable byte; white space is not dropped."""
    return character in "\0\ufffd" or (character not in "\t\n\r" and unicodedata.category(character).startswith("C"))


def words(text: str) -> Iterator[str]:
    """The words and punctuation marks of a text, lower-cased and without accents."""
    cleaned = "".join(character for character in text if not _dropped(character))
    lowered = unicodedata.normalize("NFD", cleaned.lower())
    plain = "".join(character for character in lowered if unicodedata.category(character) != "Mn")
    for chunk in plain.split():
        word = ""
        for character in chunk:
            if _stands_alone(character):
                if word:
                    yield word
                yield character
                word = ""
            else:
                word += character
        if word:
            yield word


class WordPiece:
    """Texts to token numbers.

    Args:
        vocabulary: The pieces; a piece's number is its place.
        longest: At most so many tokens, the two marks included.
    """

    def __init__(self, vocabulary: Sequence[str], longest: int = 256) -> None:
        self.number = {piece: place for place, piece in enumerate(vocabulary)}
        self.longest = longest
        missing = [mark for mark in ("[PAD]", "[UNK]", "[CLS]", "[SEP]") if mark not in self.number]
        if missing:
            raise UserError(f"Vocabulary: {', '.join(missing)} missing; expected BERT's vocab.txt, a piece a line.")
        self.pad, self.unknown, self.first, self.last = (
            self.number[mark] for mark in ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
        )

    @classmethod
    def read(cls, path: Path) -> "WordPiece":
        """From a vocab.txt, a piece a line."""
        try:
            # Not splitlines(): some pieces are themselves line separators of Unicode.
            lines = path.read_text("utf-8").replace("\r\n", "\n").removesuffix("\n").split("\n")
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}. The tokeniser needs BERT's vocab.txt.") from None
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: expected UTF-8 text, but {error.reason} at byte {error.start}.") from None
        return cls(lines)

    def pieces(self, word: str) -> list[int]:
        """The numbers of a word's pieces, or the unknown mark alone if some part is not covered."""
        if len(word) > LONGEST_WORD:
            return [self.unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            for end in range(len(word), start, -1):
                piece = self.number.get(mark + word[start:end])
                if piece is not None:
                    found.append(piece)
                    start = end
                    break
            else:
                return [self.unknown]
        return found

    def __call__(self, text: str) -> list[int]:
        """[CLS] pieces [SEP], cut to the longest length."""
        body = [piece for word in words(text) for piece in self.pieces(word)]
        return [self.first, *body[: self.longest - 2], self.last]
