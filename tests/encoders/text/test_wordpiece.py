"""WordPiece against splits worked by hand."""

import pytest

from conceptlens.encoders.text.wordpiece import LONGEST_WORD, WordPiece, words

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "cell",
    "##s",
    "nu",
    "##cle",
    "##us",
    "##cleus",
    "a",
    "t",
    "-",
    "naive",
    "n",
]
TOKENIZER = WordPiece(PIECES)


def split(text: str) -> list[str]:
    return [PIECES[number] for number in TOKENIZER.encode(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a cell", ["a", "cell"]),
        ("Cells  CELLS\tcells\n", ["cells"] * 3),
        ("naïve T-cell", ["naive", "t", "-", "cell"]),
        ("Größe: 5 µm (≈ 1/2)", ["große", ":", "5", "µm", "(", "≈", "1", "/", "2", ")"]),
        ("na\u0301ive", ["naive"]),  # an accent of its own, as some keyboards write it
        ("so-called “blue-gray” veil…", ["so", "-", "called", "“", "blue", "-", "gray", "”", "veil", "…"]),
        ("$5+x_y", ["$", "5", "+", "x", "_", "y"]),
        ("zero\u200bwidth\ufffd \x07bell", ["zerowidth", "bell"]),
        ("no\u00a0break\u2003space", ["no", "break", "space"]),
        ("細胞 x", ["細", "胞", "x"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cells", ["cell", "##s"]),
        ("nucleus", ["nu", "##cleus"]),  # the longest piece wins over ##cle ##us
        ("nucles", ["nu", "##cle", "##s"]),
        ("a naive T-cell", ["a", "naive", "t", "-", "cell"]),
        ("cellx a", ["[UNK]", "a"]),  # one part without a piece makes the whole word unknown
        ("s", ["[UNK]"]),  # known as an ending only
        ("", []),
    ],
)
def test_pieces(text: str, expected: list[str]) -> None:
    assert split(text) == ["[CLS]", *expected, "[SEP]"]


def test_a_very_long_word_is_unknown() -> None:
    tokenizer = WordPiece([*PIECES, "##n"])
    assert tokenizer.split_word("n" * LONGEST_WORD) == (14, *(LONGEST_WORD - 1) * (15,))
    assert tokenizer.split_word("n" * (LONGEST_WORD + 1)) == (tokenizer.unknown,)


def test_the_end_mark_survives_the_cut() -> None:
    whole = TOKENIZER.encode("a cell a cell a")
    assert TOKENIZER.encode("a cell a cell a", longest=5) == [*whole[:4], TOKENIZER.end]
    assert TOKENIZER.encode("a", longest=5) == TOKENIZER.encode("a")


def test_remembered_words_split_as_the_first_time() -> None:
    tokenizer = WordPiece(PIECES)
    assert tokenizer.encode("nucleus cells nucleus") == tokenizer.encode("nucleus cells nucleus")
    assert tokenizer.encode("nucleus")[1:-1] == list(tokenizer.split_word("nucleus"))
