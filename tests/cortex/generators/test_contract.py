"""The contract: lookup, nearest tokens, and what it refuses."""

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.condition import Condition, parse_condition
from conceptlens.cortex.generators.contract import VQModel, lookup, nearest_tokens
from tests.cortex.tiny import CODES, GRID, WIDTH, TinyVQ


def test_embeddings_are_looked_up_channel_first() -> None:
    codebook = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    found = lookup(codebook, torch.tensor([[[0, 1], [1, 0]]]))
    assert found.tolist() == [[[[1, 3], [3, 1]], [[2, 4], [4, 2]]]]


def test_nearest_tokens_are_those_of_a_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    codebook, vectors = torch.randn(7, 3, generator=generator), torch.randn(2, 3, 4, 5, generator=generator)
    found = nearest_tokens(vectors, codebook, batch=3)
    for image in range(2):
        for row in range(4):
            for column in range(5):
                gaps = [(vectors[image, :, row, column] - code).square().sum() for code in codebook]
                assert found[image, row, column] == torch.stack(gaps).argmin()


def test_codes_are_their_own_nearest_tokens() -> None:
    model = TinyVQ()
    tokens = torch.arange(CODES).view(1, 3, 4)
    assert torch.equal(model.nearest_codes(model.embed(tokens)), tokens)


def test_decoded_and_encoded_again_tokens_stay() -> None:
    model = TinyVQ()
    tokens = model.generate(Condition("red"), 3)
    assert torch.equal(model.encode(model.decode(tokens)), tokens)


def test_ids_outside_of_the_codebook_are_refused() -> None:
    model = TinyVQ()
    for wrong in (CODES, -1):
        with pytest.raises(UserError, match=f"0 to {CODES - 1}"):
            model.decode(torch.full((1, *GRID), wrong))
    with pytest.raises(UserError, match="token ids"):
        model.decode(torch.zeros(1, *GRID))


def test_a_codebook_of_another_width_is_refused() -> None:
    with pytest.raises(UserError, match=f"width {WIDTH}"):
        TinyVQ().nearest_codes(torch.zeros(1, WIDTH + 1, 2, 2))


def test_a_model_without_decoder_or_generator_says_so() -> None:
    class Only(VQModel):
        name = "only codes"
        codebook = torch.zeros(2, 2)  # type: ignore[assignment]

        def encode(self, images: torch.Tensor) -> torch.Tensor:
            return images.long()[:, 0]

    with pytest.raises(UserError, match="no decoder"):
        Only().decode(torch.zeros(1, 1, 1, dtype=torch.long))
    with pytest.raises(UserError, match="--data"):
        Only().generate(None, 1)


def test_conditions_are_read_from_words() -> None:
    known = (("red", "green"), {"size": ("small", "big")})
    assert parse_condition("red, size=big", *known) == Condition("red", {"size": "big"})
    assert parse_condition("neutral", *known) == Condition()
    assert parse_condition("size=big", *known).text() == "size=big"
    assert Condition().text() == "neutral"
    for words, hint in (
        ("rad", "Did you mean 'red'"),
        ("sise=big", "Did you mean 'size'"),
        ("size=bug", "Did you mean 'big'"),
        ("red, green", "one class"),
        ("size=big, size=small", "twice"),
        ("red,,", "empty"),
    ):
        with pytest.raises(UserError, match=hint):
            parse_condition(words, *known)
