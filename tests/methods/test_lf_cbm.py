"""LF-CBM on targets that are known: its filters, its standardized projections, its head."""

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.methods.lf_cbm import LFCBM, strongest
from conceptlens.nn.losses.cubed_cosine import cubed_cosine
from conceptlens.nn.setup import Setup
from tests.methods.fit_world import fit_data
from tests.methods.test_pcbm import as_tokens

KEEP = {"concept_similarity": 1.0, "class_similarity": 1.0, "activation": -1.0, "interpretability": -1.0}
FAST = {"rate": 1e-2, "steps": 300, "lam": 0.01}


def test_projections_follow_their_targets_and_are_standardized(setup: Setup) -> None:
    data = fit_data(setup)
    model = LFCBM(setup, **KEEP, **FAST)  # type: ignore[arg-type]
    numbers = model.fit(data)
    assert data.dropped == {}
    train = model(as_tokens(data.train.vectors)).bottleneck
    torch.testing.assert_close(train.mean(0), torch.zeros(5), atol=1e-4, rtol=0)
    torch.testing.assert_close(train.std(0, correction=0), torch.ones(5), atol=1e-4, rtol=0)
    held = model(as_tokens(data.val.vectors))
    targets = torch.from_numpy(data.val.image_text) @ setup.text.T
    assert float(cubed_cosine(held.bottleneck, targets).mean()) == pytest.approx(
        numbers["projection_similarity"], abs=1e-4
    )
    # Part of the targets is noise that no map can follow; least squares shows how far one can get.
    x, p = (torch.from_numpy(each) for each in (data.train.vectors, data.train.image_text))
    least_squares = torch.linalg.lstsq(x - x.mean(0), (p - p.mean(0)) @ setup.text.T).solution
    reached = float(cubed_cosine(torch.from_numpy(data.val.vectors) @ least_squares, targets).mean())
    assert numbers["projection_similarity"] > reached - 0.02
    assert float((held.logits.argmax(1).numpy() == data.val.labels).mean()) > 0.9


def test_no_concept_label_is_looked_at(setup: Setup) -> None:
    first, second = fit_data(setup), fit_data(setup)
    second.train.concepts[:] = -1
    second.val.concepts[:] = -1
    weights = []
    for data in (first, second):
        torch.manual_seed(0)
        model = LFCBM(setup, **KEEP, **FAST)  # type: ignore[arg-type]
        model.fit(data)
        weights.append(torch.cat([value.flatten() for value in model.state_dict().values()]))
    assert torch.equal(*weights)
    assert LFCBM.supervision == "text"


def test_the_strongest_five(setup: Setup) -> None:
    data = fit_data(setup)
    activations = torch.from_numpy(data.train.image_text) @ setup.text.T
    expected = activations.sort(0, descending=True).values[:5].mean(0)
    torch.testing.assert_close(strongest(data), expected)


def test_filters_shrink_the_model(setup: Setup) -> None:
    data = fit_data(setup)
    seen = strongest(data)
    weakest = int(seen.argmin())
    model = LFCBM(setup, **KEEP | {"activation": 0.1}, activation_by="quantile", **FAST)  # type: ignore[arg-type]
    model.fit(data)
    assert list(data.dropped) == [setup.concepts.names[weakest]]
    kept = [at for at in range(5) if at != weakest]
    assert torch.equal(model.text, setup.text[kept])
    assert model.vectors.shape == (4, 8)
    fresh = LFCBM(Setup(setup.concepts.subset(kept), setup.text[kept], 8, 2))
    fresh.load_state_dict(model.state_dict())


def test_what_the_projection_cannot_follow_goes(setup: Setup) -> None:
    data = fit_data(setup)
    model = LFCBM(setup, **KEEP | {"interpretability": 0.999}, **FAST)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="left out all 5"):
        model.fit(data)
    assert "does not follow" in data.dropped["size: big"]


def test_names_like_classes_go(setup: Setup) -> None:
    data = fit_data(setup)
    data.embed = lambda texts: torch.stack([setup.text[3], -setup.text[3]])[: len(texts)]
    LFCBM(setup, **KEEP | {"class_similarity": 0.99}, **FAST).fit(data)  # type: ignore[arg-type]
    assert list(data.dropped) == ["color: blue"]
    assert "class left" in data.dropped["color: blue"]


@pytest.mark.parametrize(
    "options", [{"rate": 0.0}, {"steps": 0}, {"activation": 1.0, "activation_by": "quantile"}, {"lam": -1.0}]
)
def test_options_out_of_range(setup: Setup, options: dict[str, object]) -> None:
    with pytest.raises(UserError, match=f"method.{next(iter(options))}"):
        LFCBM(setup, **options)  # type: ignore[arg-type]
