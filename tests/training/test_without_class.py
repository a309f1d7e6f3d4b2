"""Leakage against the same method trained without the class, which leaves nothing behind."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import conceptlens as cl
from conceptlens.evaluation.leakage.leakage import Leakage
from conceptlens.evaluation.trust import leakage_run
from conceptlens.runs.opened import OpenedRun
from conceptlens.training.without_class import trained_without_class
from tests.training.tiny import tiny

Trained = list[OpenedRun | None]


def train(out: Path, class_gradient: float, **changes: Any) -> OpenedRun:
    method = {"name": "cbm", "space": "probability", "class_gradient": class_gradient, "calibrate": False}
    recipe = tiny(out, method=method, regularizer={"name": "none"}, training__epochs=1, **changes)
    return OpenedRun.open(cl.train(recipe, quiet=True).path)


def measure(run: OpenedRun) -> tuple[Leakage, Trained]:
    """The measure, and the references that were trained for it."""
    made: Trained = []

    @contextmanager
    def watched(run: OpenedRun, note: Callable[[str], object]) -> Iterator[OpenedRun | None]:
        with trained_without_class(run, note) as found:
            if found is not None:
                assert found.recipe.method  # read while it is there
                assert found.info
            made.append(found)
            yield found

    return leakage_run(run, permutations=0, resamples=20, retrain=watched), made


@pytest.mark.slow
def test_a_joint_model_is_compared_with_itself_trained_without_the_class(tmp_path: Path) -> None:
    run = train(tmp_path / "run", 1)
    found, [other] = measure(run)
    assert other is not None
    assert not other.path.exists()
    assert not other.path.parent.exists()
    assert (other.recipe.method, other.recipe.encoder.train) == ({**run.recipe.method, "class_gradient": 0}, "none")
    assert (other.recipe.training, other.recipe.seed) == (run.recipe.training, run.recipe.seed)
    assert other.info["data"]["hash"] == run.info["data"]["hash"]
    assert [each.reader for each in found.excess] == ["the same method trained without the class"]
    assert "the same method trained without the class" in found.verdict.reason
    assert found.numbers["excess"] not in (None, 0)
    assert {"run", "the same method trained without the class"} == set(found.published)


@pytest.mark.slow
def test_a_sequential_model_has_no_excess_and_nothing_is_trained(tmp_path: Path) -> None:
    found, made = measure(train(tmp_path / "run", 0))
    assert made == []
    [over] = found.excess
    assert (over.information.value, over.largest.value, over.use.value) == (0, 0, 0)
    assert over.information.interval == (0, 0)
    assert found.numbers["excess"] == 0
    assert "this run itself" in over.reader


def test_without_its_data_a_run_is_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from conceptlens.training import without_class

    def lost(*inputs: Any, **settings: Any) -> None:
        raise cl.UserError("cells: no such folder.")

    monkeypatch.setattr(without_class, "start_run", lost)
    notes: list[str] = []
    with trained_without_class(train(tmp_path / "run", 1), notes.append) as found:
        assert found is None
    assert notes[-1] == "it could not be trained: cells: no such folder."
