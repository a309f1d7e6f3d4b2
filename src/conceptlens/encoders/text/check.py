"""What every text encoder refuses."""

from collections.abc import Sequence

from conceptlens.core.errors import UserError


def check_texts(encoder: str, texts: Sequence[str]) -> None:
    """Refuse a single text, what is not text, and texts without a word."""
    if isinstance(texts, str):
        raise UserError(f"{encoder}: expected a list of texts, got the single text {texts!r}. Put it in a list.")
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"{encoder}: expected texts, got {text!r}. Put it in quotes.")
        if not any(map(str.isalnum, text)):
            raise UserError(
                f"A concept's text must hold at least one word, got {text!r}. Write what the concept looks like."
            )
