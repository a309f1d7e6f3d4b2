"""Codebook studies of a model that is an object, in Python alone."""

import json
from pathlib import Path

import pytest

from conceptlens import cortex
from conceptlens.cli import main
from conceptlens.core.errors import UserError
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.study import Study
from tests.cortex.tiny import TinyVQ

FEW = {"samples_per_concept": 12, "epochs": 2, "batch_size": 8, "filters": 4, "hidden": 8}


@pytest.fixture(scope="module")
def model() -> TinyVQ:
    return TinyVQ()


@pytest.fixture(scope="module")
def study(model: TinyVQ, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return cortex.extract(model, out=tmp_path_factory.mktemp("objects") / "study", **FEW)  # type: ignore[arg-type]


def test_an_open_model_stays_as_it_is(model: TinyVQ, tmp_path: Path) -> None:
    assert cortex.open(model) is model
    samples = cortex.sample(model, condition=["red", "size=big"], n=2, out=tmp_path / "s.png")
    assert "2 samples of 2 conditions" in samples.text()
    rows = json.loads((tmp_path / "s.json").read_text())["samples"]
    assert [row["condition"] for row in rows] == ["red", "size=big"]


def test_a_study_describes_itself(study: Study) -> None:
    assert study.text().startswith("CE over 3 concepts: top-1 ")
    assert str(study.run.path) in study.text()
    values = json.loads(json.dumps(study.to_dict()))
    assert values["concepts"] == ["red", "green", "blue"]
    assert values["accuracy"] == dict(study.extractor.card.accuracy)
    assert sum(values["samples"].values()) == 36
    assert "CE over 3 concepts" in study._repr_html_()


def test_every_analysis_takes_the_study_itself(study: Study) -> None:
    steps = SearchSettings(steps=3)
    tokens = cortex.tokens(study, tokens_per_image=3, tokens_per_concept=4, noise_samples=2)
    assert tokens.to_dict() == tokens.data
    assert [entry["concept"] for entry in tokens.data["sets"]] == ["red", "green", "blue"]
    assert "written:" in tokens.text()
    assert "<pre>red: " in tokens._repr_html_()
    assert len(cortex.search(study, "red", starts=2, settings=steps).data["tokens"]) == 2
    edited = cortex.edit(study, to="green", region="center 4x4", sample=0, settings=steps)
    assert len(edited.data["region"]) == 16
    assert all(path.is_relative_to(study.run.path) for path in edited.files)


def test_a_study_of_values_is_tested_for_bias(model: TinyVQ, tmp_path: Path) -> None:
    sizes = cortex.extract(model, out=tmp_path / "sizes", concepts=["size=small", "size=big"], **FEW)  # type: ignore[arg-type]
    options = {"tokens_per_image": [3], "tokens_per_concept": 3, "neutral": 10, "permutations": 5}
    (bias,) = cortex.measure_bias([sizes], **options)  # type: ignore[arg-type]
    assert bias.data["tables"]
    (again,) = cortex.measure_bias(sizes, unbiased=TinyVQ(), **options)  # type: ignore[arg-type]
    assert again.data["null"] == "neutral samples of tiny"
    means = [
        [pair["mean_first"] for table in result.data["tables"] for pair in table["pairs"]] for result in (bias, again)
    ]
    assert means[0] == means[1]  # the neutral samples are the same, what they are compared with is not


def test_the_model_is_passed_again_when_the_study_is_reopened(study: Study, model: TinyVQ) -> None:
    again = cortex.load(study.run.path, model=model)
    few = {"tokens_per_image": 3, "noise_samples": 2}
    assert cortex.tokens(again, **few).data == cortex.tokens(study, **few).data  # type: ignore[arg-type]
    with pytest.raises(UserError, match="another codebook"):
        cortex.load(study.run.path, model=TinyVQ(seed=1))


def test_without_its_model_a_study_is_refused(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"cortex\.load\(.*model=…\)"):
        cortex.load(study.run.path)
    assert main(["codebook", "tokens", str(study.run.path)]) == 2
    assert "model=…" in capsys.readouterr().err
