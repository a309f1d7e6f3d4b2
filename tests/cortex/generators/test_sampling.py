"""Temperature, top-k and top-p by hand."""

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.sampling import draw_tokens, kept_logits
from conceptlens.cortex.generators.settings import Sampling
from tests.cortex.tiny import TinyVQ

LOGITS = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()[None]


def kept(**options: float) -> list[int]:
    return kept_logits(LOGITS, Sampling(**options))[0].isfinite().nonzero()[:, 0].tolist()  # type: ignore[arg-type]


def test_what_may_be_drawn() -> None:
    assert kept() == kept(top_k=0) == kept(top_k=9) == kept(top_p=1.0) == [0, 1, 2, 3]
    assert kept(top_k=2) == [0, 1]
    assert kept(top_p=0.5) == [0]  # the first alone has half of the mass
    assert kept(top_p=0.6) == [0, 1]  # the smallest set that reaches it
    assert kept(top_p=0.01) == [0]  # never nothing
    assert kept(top_k=3, top_p=0.9) == [0, 1, 2]  # of the three, 0.5 and 0.3 are 0.84 of the mass
    shares = kept_logits(LOGITS, Sampling(temperature=0.5)).softmax(-1)  # squares: .25, .09, .0225, .0025
    torch.testing.assert_close(shares[0], torch.tensor([0.25, 0.09, 0.0225, 0.0025]) / 0.365)


def test_draws_have_the_shares_and_the_shape() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = draw_tokens(LOGITS.expand(4000, 1, 4), Sampling(top_k=2), generator)
    assert drawn.shape == (4000, 1)
    assert float((drawn == 0).float().mean()) == pytest.approx(0.625, abs=0.03)


@pytest.mark.parametrize(
    "wrong", [{"temperature": 0.0}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.5}, {"guidance": -1.0}]
)
def test_values_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"--{next(iter(wrong)).replace('_', '-')}"):
        Sampling(**wrong)  # type: ignore[arg-type]


def test_a_model_says_what_it_draws_by() -> None:
    model = TinyVQ()
    with pytest.raises(UserError, match=r"--top-k.*no such option"):
        model.set_sampling(Sampling(top_k=3))
    model.draws_with = ("top_p",)
    model.set_sampling(Sampling(top_p=0.5))
    model.set_sampling(Sampling())
    assert model.sampling.top_p == 0.5
