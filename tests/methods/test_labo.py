"""LaBo on vectors that are known: what it selects, where it starts, what it computes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.methods.fitted.data import FitData, FitImages
from conceptlens.methods.labo import LaBo, class_vectors
from conceptlens.nn.heads.association import associations_of
from conceptlens.nn.setup import Setup
from conceptlens.recipes.parse import load_recipe
from tests.methods.fit_world import fit_data
from tests.methods.test_pcbm import image_vectors

SOFTMAX = {"likelihood": "softmax"}
TABLE = "by_class: {left: {size: small, extras: [spots]}, right: {size: big}}\n"


def world(setup: Setup) -> FitData:
    """Images whose class is their first concept; their vectors are those of the text space."""
    data = fit_data(setup)
    data.train, data.val = (replace(each, vectors=each.image_text) for each in (data.train, data.val))  # type: ignore[arg-type]
    return data


def test_logits_are_shares_of_cosines(setup: Setup) -> None:
    """100 · x E_Cᵀ σ(W)ᵀ, one number at a time."""
    data = world(setup)
    model = LaBo(setup, **SOFTMAX)  # type: ignore[arg-type]
    model.fit(data)
    output = model(image_vectors(data.val.vectors[:4]))
    weights = associations_of(model.head).detach().double().numpy()
    for n in range(4):
        cosines = [float(data.val.vectors[n].astype(np.float64) @ each.double().numpy()) for each in model.text]
        assert output.bottleneck[n].tolist() == pytest.approx(cosines, abs=1e-5)
        assert output.concept_logits[n].tolist() == pytest.approx([100 * each for each in cosines], abs=1e-3)
        for y in range(2):
            shares = [np.exp(weights[y, k]) / np.exp(weights[:, k]).sum() for k in range(len(cosines))]
            expected = 100 * sum(share * each for share, each in zip(shares, cosines, strict=True))
            assert float(output.logits[n, y].detach()) == pytest.approx(expected, abs=1e-3)
    assert torch.equal(model.decide(output.bottleneck), output.logits)
    assert model.bypass is None


def test_it_starts_from_who_selected_what(setup: Setup) -> None:
    concepts = ConceptSet.from_yaml(setup.concepts.to_yaml() + TABLE)
    told = Setup(concepts, setup.text, 8, 2, ("left", "right"))
    data = replace(world(setup), concepts=concepts)
    model = LaBo(told, **SOFTMAX, prior=3.0)  # type: ignore[arg-type]
    assert model.candidates == "table"
    assert model.supervision == "class-table"
    numbers = model.fit(data)
    assert numbers["concepts"] == 3
    assert associations_of(model.head).tolist() == [[0, 3, 3], [3, 0, 0]]  # big; small and spots
    assert torch.equal(model.text, setup.text[[0, 1, 4]])
    assert data.dropped == {"color: red": "no class proposes it", "color: blue": "no class proposes it"}


def test_what_was_not_selected_goes(setup: Setup) -> None:
    data = world(setup)
    model = LaBo(setup, **SOFTMAX, per_class=1)  # type: ignore[arg-type]
    assert model.fit(data)["concepts"] == 2
    # Class 1 (`right`) is what shows the first concept, class 0 the second: nothing else tells them apart.
    assert sorted(set(setup.concepts.names) - set(data.dropped)) == ["size: big", "size: small"]
    assert associations_of(model.head).tolist() == [[0, 1], [1, 0]]
    reasons = set(data.dropped.values())
    assert reasons <= {"no class proposes it", *(f"not among the 1 selected of {name}" for name in data.classes)}
    fresh = LaBo(Setup(setup.concepts.subset([0, 1]), setup.text[:2], 8, 2))
    fresh.load_state_dict(model.state_dict())


def test_the_prior_alone_decides(setup: Setup) -> None:
    """Without a step of training, from what the class's images are like: better than chance, and worse turned round."""
    orthogonal = torch.linalg.qr(torch.randn(6, 6, generator=torch.Generator().manual_seed(1)))[0][:5]
    clear = replace(setup, text=orthogonal)
    data = world(clear)
    model = LaBo(clear, **SOFTMAX, per_class=1)  # type: ignore[arg-type]
    model.fit(data)
    said = model(image_vectors(data.val.vectors)).logits.argmax(1).numpy()
    assert (said == data.val.labels).mean() > 0.95
    with torch.no_grad():
        associations_of(model.head).copy_(associations_of(model.head).flip(0))
    said = model(image_vectors(data.val.vectors)).logits.argmax(1).numpy()
    assert (said == data.val.labels).mean() < 0.05


def test_no_concept_label_is_looked_at(setup: Setup) -> None:
    states = []
    for hidden in (False, True):
        data = world(setup)
        if hidden:
            data.train.concepts[:] = -1
            data.val.concepts[:] = -1
        model = LaBo(setup, **SOFTMAX)  # type: ignore[arg-type]
        model.fit(data)
        states.append(torch.cat([value.flatten() for value in model.state_dict().values()]))
    assert torch.equal(*states)
    assert LaBo.supervision == "text"


def test_class_vectors_are_means() -> None:
    vectors = np.array([[1.0, 0], [3, 0], [0, 4], [0, 0]], np.float32)
    images = FitImages(vectors, np.array([0, 0, 1, -1]), np.zeros((4, 0), np.int8))
    # The third class has no image: the mean of all four.
    assert class_vectors(images, 3).tolist() == [[2, 0], [0, 4], [1, 1]]
    several = replace(images, labels=np.array([[1, 0], [1, 1], [0, 1], [-1, 0]]))
    assert class_vectors(several, 2).tolist() == [[2, 0], [1.5, 2]]


def test_by_names_and_all(setup: Setup) -> None:
    data = world(setup)
    data.embed = lambda texts: torch.stack([setup.text[0] + setup.text[4], setup.text[3]])
    model = LaBo(setup, **SOFTMAX, candidates="text")  # type: ignore[arg-type]
    model.fit(data)
    assert "extras: spots" in set(setup.concepts.names) - set(data.dropped)
    data = world(setup)
    model = LaBo(setup, **SOFTMAX, candidates="all")  # type: ignore[arg-type]
    model.fit(data)
    assert associations_of(model.head).tolist() == [[1] * 5, [1] * 5]


def test_presets_are_the_paper_and_its_code(setup: Setup) -> None:
    said = {}
    for name in ("labo", "labo-released"):
        options = load_recipe({"data": "shapes", "method": name}).method
        said[name] = LaBo(setup, **{key: value for key, value in options.items() if key != "name"})  # type: ignore[arg-type]
    assert (said["labo"].discriminability, said["labo"].reading["over"]) == ("entropy", "classes")
    assert (said["labo-released"].discriminability, said["labo-released"].reading["over"]) == (
        "mutual-information",
        "concepts",
    )
    assert said["labo"].per_class == said["labo-released"].per_class == 50


@pytest.mark.parametrize("options", [{"alpha": -1.0}, {"beta": -0.1}, {"per_class": 0}, {"logit_scale": 0.0}])
def test_options_out_of_range(setup: Setup, options: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"method.{next(iter(options))}"):
        LaBo(setup, **options)  # type: ignore[arg-type]
