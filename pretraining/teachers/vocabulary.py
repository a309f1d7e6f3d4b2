"""BERT's vocab.txt as a tokenizer."""

from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.encoders.text.wordpiece import END, PAD, START, UNKNOWN, WordPiece


def read_vocabulary(path: Path) -> WordPiece:
    """The tokenizer of a vocab.txt, a piece a line."""
    try:
        # Not splitlines(): some pieces are themselves line separators of Unicode.
        pieces = path.read_text("utf-8").replace("\r\n", "\n").removesuffix("\n").split("\n")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}. The tokenizer needs BERT's vocab.txt.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: expected UTF-8 text, but {error.reason} at byte {error.start}.") from None
    if missing := [mark for mark in (PAD, UNKNOWN, START, END) if mark not in pieces]:
        raise UserError(f"{path}: {', '.join(missing)} missing; expected BERT's vocab.txt, a piece a line.")
    return WordPiece(pieces)
