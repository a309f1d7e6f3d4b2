"""What all measures have in common: they take an opened run, write nothing, and their results can be shown."""

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import conceptlens as cl
from conceptlens import api
from conceptlens.core.documents import Document
from conceptlens.core.errors import UserError
from conceptlens.evaluation.evaluate import evaluate_run
from conceptlens.evaluation.faithfulness import faithfulness
from conceptlens.evaluation.faithfulness.faithfulness import faithfulness_run
from conceptlens.evaluation.localization.localize import localize_run
from conceptlens.evaluation.trust import intervene_run, leakage_run, what_if_run
from conceptlens.runs.opened import OpenedRun
from conceptlens.workflows.audit.audit import audit_run
from tests.training.tiny import tiny

Measure = Callable[[OpenedRun], Document]
MEASURES: dict[str, Measure] = {
    "evaluate": lambda run: evaluate_run(run, split="val"),
    "intervene": lambda run: intervene_run(run, resamples=5),
    "leakage": lambda run: leakage_run(run, resamples=5, permutations=0),
    "what_if": lambda run: what_if_run(run, run.readout().ids[0]),
    "localize": lambda run: localize_run(run, n=4),
    "faithfulness": lambda run: faithfulness_run(run, n=2, steps=2),
    "audit": lambda run: audit_run(run, resamples=5),
}
DRAWN = {"intervene", "leakage", "audit"}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> OpenedRun:
    recipe = tiny(tmp_path_factory.mktemp("measures") / "run", training__epochs=1)
    return OpenedRun.open(cl.train(recipe, quiet=True).path)


def content(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_writes_nothing_and_its_result_can_be_shown(opened: OpenedRun, name: str, tmp_path: Path) -> None:
    before = content(opened.path)
    result = MEASURES[name](opened)
    assert content(opened.path) == before
    assert result.written_to is None
    assert result.written_text() == ""
    rows = result.table()
    assert rows
    assert len({tuple(row) for row in rows}) == 1  # the same columns in each
    shown = result._repr_html_()
    assert type(result).__name__ in shown
    assert "<script" not in shown
    assert result.has_figure == (name in DRAWN)
    if name in DRAWN:
        from matplotlib.figure import Figure

        assert isinstance(result.plot(), Figure)
    else:
        with pytest.raises(UserError, match="has no figure"):
            result.plot()
    result.save(tmp_path / "result.json")
    assert (tmp_path / "result.png").exists() == (name in DRAWN)
    again = type(result).read(tmp_path / "result.json")
    assert again == result
    assert again.to_dict() == result.to_dict()
    assert again.written_to == result.written_to == tmp_path / "result.json"


def test_an_image_alone_in_its_batch_counts_for_faithfulness(
    opened: OpenedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faithfulness, "BATCH", 2)
    assert faithfulness_run(opened, n=3, steps=1).images == 3  # it has no other image's background


@pytest.mark.slow
def test_an_opened_run_is_as_good_as_its_folder(opened: OpenedRun, tmp_path: Path) -> None:
    first = api.leakage(opened, permutations=0, resamples=5, out=tmp_path / "one")
    second = api.leakage(opened.path, permutations=0, resamples=5, out=tmp_path / "two")
    assert first == second
    assert first.written_text() == (
        f"written to {tmp_path / 'one' / 'leakage.json'}, drawn in {tmp_path / 'one' / 'leakage.png'}"
    )


def test_without_pandas_it_says_so(opened: OpenedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    result = MEASURES["what_if"](opened)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="pip install pandas"):
        result.to_pandas()


def test_with_pandas_rows_become_a_frame(opened: OpenedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    result = MEASURES["what_if"](opened)
    frame: dict[str, Any] = {}
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda rows: frame.setdefault("rows", rows)))
    assert result.to_pandas() == result.table()
    assert frame["rows"] == result.table()


def test_markup_in_names_stays_text() -> None:
    class Named(Document):
        remedy = "Make it again."
        name: str

    assert "<b>" not in Named(name="<b>bold</b>")._repr_html_()
    with pytest.raises(UserError, match="Named is no table"):
        Named(name="a").table()
    assert Named(name="a") == Named(name="a") != Named(name="b")
