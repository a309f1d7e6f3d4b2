"""The text encoder without weights: the same everywhere, close where words are shared, turned by a negation."""

import subprocess
import sys
import time

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.encoders.text.hashed import HashedText, stem

ENCODER = HashedText()


def cosine(first: str, second: str) -> float:
    vectors = ENCODER.embed([first, second])
    return float(vectors[0] @ vectors[1])


def test_values_never_change() -> None:
    expected = torch.tensor([0.01902388408780098, -0.05022623762488365, -0.012337666004896164])
    assert torch.equal(ENCODER.embed(["granules"])[0, :3], expected)


@pytest.mark.slow
def test_another_process_agrees_bit_for_bit() -> None:
    phrase = "a white blood cell whose nucleus is divided into two lobes, without granules"
    code = f"from conceptlens.encoders.text.hashed import _vector; print(_vector({phrase!r}).tobytes().hex())"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "77"}
    )
    assert run.stdout.strip() == ENCODER.embed([phrase])[0].numpy().tobytes().hex()


def test_unit_vectors_that_do_not_depend_on_their_company() -> None:
    texts = ["pink granules", "a", "no", "Zellkern, rund: größer als 5 µm", "word " * 3000]
    vectors = ENCODER.embed(texts)
    assert vectors.shape == (5, ENCODER.width)
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(5))
    assert torch.equal(vectors[0], ENCODER.embed(texts[:1])[0])
    assert ENCODER.embed([]).shape == (0, ENCODER.width)


@pytest.mark.parametrize(
    ("text", "closer", "farther"),
    [
        ("a cell with pink granules", "pink granules in the cytoplasm", "a round nucleus"),
        ("a nucleus divided into two lobes", "a nucleus with three lobes", "a cytoplasm that is light blue"),
        ("coarse chromatin", "chromatin that is coarse and dense", "small vacuoles"),
        ("a large cell", "large cells", "a bird with a hooked beak"),
        ("granular cytoplasm", "cytoplasm", "nucleus"),
        ("granularity", "granular", "vacuole"),
    ],
)
def test_shared_words_bring_phrases_together(text: str, closer: str, farther: str) -> None:
    assert cosine(text, closer) > 0.2 + cosine(text, farther)


def test_unrelated_phrases_are_nearly_orthogonal() -> None:
    assert abs(cosine("pink granules", "a round nucleus")) < 0.25


@pytest.mark.parametrize(
    ("plain", "negated"),
    [
        ("granules", "no granules"),
        ("a cell with granules", "a cell without granules"),
        ("a cell with visible granules", "a cell with no granules"),
        ("granular", "non-granular"),
    ],
)
def test_a_negation_turns_the_phrase(plain: str, negated: str) -> None:
    assert cosine(plain, negated) < 0.65


def test_a_negation_ends() -> None:
    """What comes after a comma or a `but` is not negated any more."""
    assert cosine("no granules, a round nucleus", "a round nucleus") > 0.2 + cosine(
        "no round nucleus", "a round nucleus"
    )


def test_order_counts_but_less_than_words() -> None:
    assert 0.6 < cosine("red nucleus blue cytoplasm", "blue nucleus red cytoplasm") < 0.95


def test_case_spacing_and_stop_words_matter_little() -> None:
    assert cosine("Pink  GRANULES", "pink granules") == pytest.approx(1)
    assert cosine("the pink granules", "pink granules") > 0.95


@pytest.mark.parametrize(
    ("words", "root"),
    [
        ("granule granules", "granul"),
        ("lobe lobes lobed", "lob"),
        ("spot spots spotted", "spot"),
        ("nucleus nuclei", "nucleus"),
    ],
)
def test_stem(words: str, root: str) -> None:
    assert {stem(word) for word in words.split()} == {root}


@pytest.mark.parametrize("text", ["", "   \n\t", "?!"])
def test_a_text_without_words_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="at least one word"):
        ENCODER.embed(["fine", text])


def test_a_single_text_and_other_types_are_refused() -> None:
    with pytest.raises(UserError, match="Put it in a list"):
        ENCODER.embed("granules")
    with pytest.raises(UserError, match="got 7"):
        ENCODER.embed([7])  # type: ignore[list-item]


def test_ten_thousand_phrases_a_minute() -> None:
    phrases = [f"a cell of kind {index} with {index * 7 % 1000} pink granules" for index in range(2000)]
    start = time.process_time()
    ENCODER.embed(phrases)
    assert time.process_time() - start < 12
