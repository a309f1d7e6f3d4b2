"""Random text vectors: unit length, the same everywhere, deaf to words."""

import subprocess
import sys

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.encoders import list_text_encoders, make_text_encoder
from conceptlens.encoders.text.random import RandomText, random_text_name


def test_unit_vectors_that_look_gaussian() -> None:
    vectors = RandomText().embed([f"text {number}" for number in range(400)])
    assert vectors.shape == (400, 384)
    assert vectors.dtype == torch.float32
    assert torch.allclose(vectors.norm(dim=1), torch.ones(400), atol=1e-6)
    scaled = vectors.double() * 384**0.5
    assert abs(float(scaled.mean())) < 0.01
    assert float((scaled**4).mean()) == pytest.approx(3, abs=0.15)
    cosines = (vectors @ vectors.T)[~torch.eye(400, dtype=torch.bool)]
    assert float(cosines.std()) == pytest.approx(384**-0.5, rel=0.03)


def test_equal_texts_are_equal_and_like_texts_are_not() -> None:
    same, again, like = RandomText().embed(["a red cell", "a red cell", "a red cells"])
    assert torch.equal(same, again)
    assert abs(float(same @ like)) < 0.25


@pytest.mark.slow
def test_the_same_bits_in_another_process() -> None:
    code = "from conceptlens.encoders.text.random import _vector; print(_vector('a red cell', 8).tobytes().hex())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert told == RandomText("builtin/random-text/8").embed(["a red cell"]).numpy().tobytes().hex()


def test_names_and_widths() -> None:
    assert "builtin/random-text" in list_text_encoders()
    assert make_text_encoder("builtin/random-text").width == 384
    assert make_text_encoder(random_text_name(512)).embed(["x"]).shape == (1, 512)
    assert RandomText().embed([]).shape == (0, 384)
    for name in ("builtin/random-text/", "builtin/random-text/0", "builtin/random-texts"):
        with pytest.raises(UserError, match="builtin/random-text/512"):
            make_text_encoder(name)
    with pytest.raises(UserError, match="at least one word"):
        RandomText().embed(["…"])
