"""CLEAR: a matching that is the best of all, a bottleneck of the chosen texts, and what its stages learn."""

from itertools import permutations

import pytest
import torch
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.clear import CLEAR, match
from conceptlens.methods.contract import IMAGE_VECTOR
from conceptlens.methods.fitted.data import FitData, FitImages
from conceptlens.nn.setup import Setup
from tests.methods.fit_world import fit_data

FAST = {"score_hidden": 16, "score_steps": 60, "score_batch": 32, "steps": 200}


def data_in_text_space(setup: Setup) -> FitData:
    """The images' vectors are those that are comparable with texts."""
    data = fit_data(setup)
    for name in ("train", "val"):
        found = getattr(data, name)
        setattr(data, name, FitImages(found.image_text, found.labels, found.concepts))
    return data


def read(model: CLEAR, vectors: object) -> torch.Tensor:
    image = torch.as_tensor(vectors)
    return model(Tokens(torch.zeros(len(image), 1, 8), (1, 1), None, (), {IMAGE_VECTOR: image})).bottleneck


def test_the_matching_is_the_best_of_all() -> None:
    chance = torch.Generator().manual_seed(0)
    vectors, texts = torch.randn(3, 4, generator=chance), torch.randn(5, 4, generator=chance)
    cosines = F.normalize(vectors, dim=-1) @ F.normalize(texts, dim=-1).T
    best = max(permutations(range(5), 3), key=lambda places: sum(float(cosines[i, j]) for i, j in enumerate(places)))
    chosen, mean = match(7 * vectors, texts)
    assert tuple(chosen) == best
    assert mean == pytest.approx(sum(float(cosines[i, j]) for i, j in enumerate(best)) / 3, abs=1e-6)


def test_two_vectors_that_like_one_text_get_two() -> None:
    """Each alone would take the first text; together the second gives way where it loses least."""
    texts = torch.eye(3)
    chosen, _ = match(torch.tensor([[1.0, 0.1, 0.0], [1.0, 0.9, 0.0]]), texts)
    assert chosen == [0, 1]


def test_as_many_concepts_as_asked_for_and_cosines_with_their_texts(setup: Setup) -> None:
    data = data_in_text_space(setup)
    model = CLEAR(setup, concepts=3, **FAST)  # type: ignore[arg-type]
    numbers = model.fit(data)
    assert len(data.dropped) == 2
    assert all("3 learned concept vectors" in reason for reason in data.dropped.values())
    kept = data.kept()
    torch.testing.assert_close(read(model, data.val.vectors), torch.from_numpy(data.val.vectors) @ setup.text[kept].T)
    assert numbers["concepts"] == 3
    assert -1 <= numbers["match_cosine"] <= 1
    assert 0 <= numbers["langevin_distance"] <= 4
    assert model.space == "cosine"
    fresh = CLEAR(Setup(setup.concepts.subset(kept), setup.text[kept], 8, 2))
    fresh.load_state_dict(model.state_dict())


def test_the_class_is_learned_and_the_head_reads_plain_cosines(setup: Setup) -> None:
    data = data_in_text_space(setup)
    model = CLEAR(setup, **FAST)  # type: ignore[arg-type]  # two classes: four of the five concepts
    numbers = model.fit(data)
    assert numbers["concepts"] == 4
    logits = model.decide(read(model, data.val.vectors))
    labels = torch.from_numpy(data.val.labels)
    assert float((logits.argmax(1) == labels).float().mean()) > 0.9
    torch.testing.assert_close(F.cross_entropy(logits, labels).item(), numbers["head_val_loss"], rtol=1e-3, atol=1e-4)


def test_no_concept_label_is_looked_at_and_a_seed_makes_it(setup: Setup) -> None:
    weights = []
    for hidden in (False, True):
        data = data_in_text_space(setup)
        if hidden:
            data.train.concepts[:] = -1
            data.val.concepts[:] = -1
        torch.manual_seed(int(hidden))  # what was drawn before does not matter
        model = CLEAR(setup, concepts=2, **FAST)  # type: ignore[arg-type]
        model.fit(data)
        weights.append(torch.cat([value.flatten() for value in model.state_dict().values()]))
    assert torch.equal(*weights)
    assert CLEAR.supervision == "text"


def test_without_langevin_the_vectors_serve_the_classes_alone(setup: Setup) -> None:
    numbers = CLEAR(setup, concepts=2, langevin_weight=0, **FAST).fit(data_in_text_space(setup))  # type: ignore[arg-type]
    assert "langevin_distance" not in numbers
    assert "score_loss" not in numbers


def test_small_steps_along_the_score_keep_the_vectors_near(setup: Setup) -> None:
    """The distance from a vector to where Langevin steps lead grows with ε: 2 is a random direction."""
    found = [
        CLEAR(setup, concepts=2, langevin_step=step, **FAST).fit(data_in_text_space(setup))["langevin_distance"]  # type: ignore[arg-type]
        for step in (1e-4, 1.0)
    ]
    assert found[0] < 0.05 < found[1]


def test_a_sparse_head_in_its_place(setup: Setup) -> None:
    numbers = CLEAR(setup, concepts=3, nec=1.0, **FAST).fit(data_in_text_space(setup))  # type: ignore[arg-type]
    assert numbers["effective_concepts"] <= 1
    assert "head_val_loss" not in numbers


def test_several_classes_an_image_are_refused(setup: Setup) -> None:
    data = data_in_text_space(setup)
    data.task = "multilabel"
    with pytest.raises(UserError, match="multilabel"):
        CLEAR(setup, **FAST).fit(data)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["concepts", "score_steps", "langevin_step", "langevin_weight", "batch"])
def test_options_out_of_range(setup: Setup, option: str) -> None:
    with pytest.raises(UserError, match=f"method.{option}"):
        CLEAR(setup, **{option: -1})  # type: ignore[arg-type]
