"""One vector for the whole image."""

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.nn.attention.global_token import global_token


def test_class_token_or_mean_patch() -> None:
    patches = torch.arange(8.0).reshape(1, 4, 2)
    tokens = Tokens(patches, (2, 2), cls=torch.tensor([[9.0, 9.0]]))
    assert global_token(tokens, "cls").tolist() == [[9.0, 9.0]]
    assert global_token(tokens, "mean").tolist() == [[3.0, 4.0]]


def test_a_missing_class_token_is_said() -> None:
    with pytest.raises(UserError, match=r"method\.pool"):
        global_token(Tokens(torch.zeros(1, 4, 2), (2, 2)), "cls")
