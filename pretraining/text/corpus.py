"""The files between building phrases and learning from them: small, and read without the package's other parts."""

import hashlib
import lzma
from dataclasses import dataclass
from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_bytes, write_json, write_text

HELD_OUT_SHARE = 50  # one phrase in so many
PHRASES, PIECES, CHECKS = "phrases.txt.xz", "pieces.txt", "checks.json"


def tidy(phrase: str) -> str:
    """Lower case, single spaces: neither tokenizer sees more."""
    return " ".join(phrase.lower().split())


def is_held_out(phrase: str) -> bool:
    """Whether a phrase is for validation only: decided by its own hash, not by its place."""
    return int.from_bytes(hashlib.sha256(tidy(phrase).encode()).digest()[:4], "big") % HELD_OUT_SHARE == 0


def read_pieces(path: Path) -> list[str]:
    """A vocabulary, one piece a line; not by `splitlines`, for some pieces are line ends of Unicode."""
    if not path.is_file():
        raise UserError(f"{path}: no such file. Expected a vocabulary, one piece a line.")
    return path.read_text("utf-8").removesuffix("\n").split("\n")


@dataclass(frozen=True)
class Corpus:
    """What the tower learns from and is measured on.

    Args:
        phrases: Sorted, each once; those that `is_held_out` names are not learned from.
        pieces: The tower's vocabulary.
        checks: Further texts to measure on, by name.
    """

    phrases: list[str]
    pieces: list[str]
    checks: dict[str, list[str]]

    @property
    def learned(self) -> list[str]:
        return [phrase for phrase in self.phrases if not is_held_out(phrase)]

    @property
    def held_out(self) -> list[str]:
        return [phrase for phrase in self.phrases if is_held_out(phrase)]

    def write(self, folder: Path) -> None:
        """Three files of a few megabytes: 650,000 phrases take 4.5 MB, for sorted text packs well."""
        packed = lzma.compress("\n".join(self.phrases).encode(), preset=9 | lzma.PRESET_EXTREME)
        write_bytes(folder / PHRASES, packed)
        write_text(folder / PIECES, "".join(f"{piece}\n" for piece in self.pieces))
        write_json(folder / CHECKS, {"texts": self.checks})

    @classmethod
    def read(cls, folder: Path) -> "Corpus":
        if not (folder / PHRASES).is_file():
            raise UserError(f"{folder / PHRASES}: no such file. Make it with `python -m pretraining.text.phrases`.")
        phrases = lzma.decompress((folder / PHRASES).read_bytes()).decode().split("\n")
        return cls(phrases, read_pieces(folder / PIECES), read_json(folder / CHECKS)["texts"])
