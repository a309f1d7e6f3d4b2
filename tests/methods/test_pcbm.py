"""PCBM's scores by formula, its head, its residual; on vectors in which every concept has a direction."""

import numpy as np
import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import IMAGE_VECTOR
from conceptlens.methods.fitted.concept_vectors import ConceptVector, concept_vector
from conceptlens.methods.pcbm import PCBM, PCBMText
from conceptlens.nn.setup import Setup
from tests.methods.fit_world import fit_data


def as_tokens(vectors: np.ndarray) -> Tokens:
    cls = torch.from_numpy(vectors)
    return Tokens(torch.zeros(len(cls), 4, cls.shape[1]), (2, 2), cls)


def image_vectors(vectors: np.ndarray) -> Tokens:
    return Tokens(torch.zeros(len(vectors), 4, 8), (2, 2), None, aux={IMAGE_VECTOR: torch.from_numpy(vectors)})


@pytest.mark.parametrize("score", ["distance", "projection"])
def test_scores_are_the_formula(setup: Setup, score: str) -> None:
    """(c·x + b)/‖c‖ or c·x/‖c‖², concept by concept."""
    data = fit_data(setup)
    model = PCBM(setup, c=[0.1], score=score, lam=0.01)  # type: ignore[arg-type]
    model.fit(data)
    seen = model(as_tokens(data.val.vectors)).bottleneck.double().numpy()
    for k in range(5):
        found = concept_vector(k, data.train, data.val, c=[0.1], samples=500, seed=0)
        assert isinstance(found, ConceptVector)
        norm = np.linalg.norm(found.vector)
        for n in range(5):
            along = data.val.vectors[n].astype(np.float64) @ found.vector
            expected = (along + found.intercept) / norm if score == "distance" else along / norm**2
            assert seen[n, k] == pytest.approx(expected, abs=1e-4)


def test_it_learns_and_the_head_is_sparse(setup: Setup) -> None:
    data = fit_data(setup)
    model = PCBM(setup, c=[0.1])
    numbers = model.fit(data)
    output = model(as_tokens(data.val.vectors))
    assert float((output.logits.argmax(1).numpy() == data.val.labels).mean()) > 0.95
    assert ((output.concept_logits.numpy() > 0) == data.val.concepts).mean() > 0.95
    assert numbers["effective_concepts"] <= 2
    assert bool((model.head.weight[:, 2:] == 0).all())  # the class is its first concept, and the second its opposite
    assert numbers["duality_gap"] <= 1e-4
    assert torch.equal(model.decide(output.bottleneck), output.logits)
    assert model.bypass is None


def test_a_wanted_number_of_concepts(setup: Setup) -> None:
    model = PCBM(setup, c=[0.1], nec=1)
    assert model.fit(fit_data(setup))["effective_concepts"] == 1
    assert int((model.head.weight != 0).sum()) == 2  # one for each class on average


def test_concepts_without_labels_are_dropped(setup: Setup) -> None:
    data = fit_data(setup)
    data.train.concepts[:, 4] = -1
    model = PCBM(setup, c=[0.1], lam=0.01)
    numbers = model.fit(data)
    assert numbers["concepts"] == 4
    assert list(data.dropped) == ["extras: spots"]
    assert model.vectors.shape == (4, 8)
    assert model.text.shape[0] == 4
    assert model.head.in_features == 4
    fresh = PCBM(Setup(setup.concepts.subset([0, 1, 2, 3]), setup.text[:4], 8, 2))
    fresh.load_state_dict(model.state_dict())
    seen = as_tokens(data.val.vectors)
    assert torch.equal(fresh(seen).logits, model(seen).logits)


def test_nothing_left_is_refused(setup: Setup) -> None:
    data = fit_data(setup)
    data.train.concepts[:] = -1
    with pytest.raises(UserError, match="left out all 5 concepts"):
        PCBM(setup).fit(data)


def test_several_classes_an_image_are_refused(setup: Setup) -> None:
    data = fit_data(setup)
    data.task = "multilabel"
    with pytest.raises(UserError, match="multilabel"):
        PCBM(setup, c=[0.1]).fit(data)


def test_the_residual_bypasses_and_says_so(setup: Setup) -> None:
    data = fit_data(setup)
    model = PCBM(setup, c=[0.1], lam=0.01, residual=True)
    model.fit(data)
    seen = as_tokens(data.val.vectors)
    output = model(seen)
    assert "residual" in str(model.bypass)
    assert torch.equal(model.decide(output.bottleneck), output.logits)  # zero until it is trained
    with torch.no_grad():
        model.residual.weight.normal_()  # type: ignore[union-attr]
    moved = model(seen)
    expected = model.decide(output.bottleneck) + seen.cls @ model.residual.weight.T  # type: ignore[union-attr]
    torch.testing.assert_close(moved.logits, expected)
    assert torch.equal(moved.bottleneck, output.bottleneck)


def test_text_vectors_are_cosines(setup: Setup) -> None:
    data = fit_data(setup)
    data.train = type(data.train)(data.train.image_text, data.train.labels, data.train.concepts)
    data.val = type(data.val)(data.val.image_text, data.val.labels, data.val.concepts)
    model = PCBMText(setup)
    model.fit(data)
    output = model(image_vectors(data.val.vectors))
    torch.testing.assert_close(output.bottleneck, torch.from_numpy(data.val.vectors) @ setup.text.T)
    assert float((output.logits.argmax(1).numpy() == data.val.labels).mean()) > 0.9
    assert (PCBMText.supervision, PCBM.supervision) == ("text", "image-labels")
    assert (PCBMText.uses_text, PCBM.uses_text) == (True, False)


def test_texts_of_another_space_are_refused(setup: Setup) -> None:
    with pytest.raises(UserError, match=r"width 6, the image's 5: .*encoder.text: auto"):
        PCBMText(setup)(image_vectors(np.zeros((2, 5), np.float32)))


def test_mean_patch_where_asked_for(setup: Setup) -> None:
    patches = torch.randn(3, 4, 8)
    model = PCBM(setup, pool="mean")
    torch.testing.assert_close(
        model(Tokens(patches, (2, 2))).bottleneck, patches.mean(1) @ model.vectors.T + model.offsets
    )


def test_one_image_and_none(setup: Setup) -> None:
    model = PCBM(setup)
    both = torch.randn(2, 8)
    tokens = [Tokens(torch.zeros(len(each), 4, 8), (2, 2), each) for each in (both, both[:1], both[:0])]
    torch.testing.assert_close(model(tokens[0]).logits[:1], model(tokens[1]).logits)
    assert model(tokens[2]).logits.shape == (0, 2)


@pytest.mark.parametrize(
    "options", [{"c": []}, {"c": [0.0]}, {"samples": -1}, {"nec": 0}, {"lam": 0.0}, {"alpha": 0.0}]
)
def test_options_out_of_range(setup: Setup, options: dict[str, object]) -> None:
    with pytest.raises(UserError, match=f"method.{next(iter(options))}"):
        PCBM(setup, **options)  # type: ignore[arg-type]
