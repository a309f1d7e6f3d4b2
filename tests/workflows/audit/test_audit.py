"""`conceptlens audit` on finished runs: with a codebook, without one, without concepts; files, page and refusals."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import conceptlens as cl
from conceptlens import api
from conceptlens.cli import main
from conceptlens.concepts import ConceptSet
from conceptlens.core.files import write_text
from conceptlens.evaluation.codebook import collect as chunked
from conceptlens.evaluation.codebook.document import Audit
from conceptlens.evaluation.codebook.projection import principal
from conceptlens.evaluation.concepts.findings import concept_findings
from conceptlens.evaluation.leakage.effective_concepts import Effective
from conceptlens.evaluation.leakage.leakage import Leakage
from conceptlens.evaluation.subgroups.failures import Failures
from conceptlens.runs.predictions import StoredPredictions, load_predictions
from conceptlens.stats.estimates import Estimate
from conceptlens.workflows.audit.measured import read_trust
from tests.conftest import Refuse
from tests.in_process import use_this_process
from tests.training.test_processes import numbers
from tests.training.tiny import tiny


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a codebook, in which other measurements lie too."""
    out = tmp_path_factory.mktemp("audit") / "run"
    made = cl.train(tiny(out, data__shapes={"n": 160, "size": 32}, training__epochs=2), quiet=True).path
    leakage().write(made / "trust" / "leakage.json")
    (made / "localization.json").write_text('{"schema": 1, "targets": 3}')
    return made


@pytest.fixture(scope="module")
def audited(finished: Path) -> Audit:
    return api.audit(finished)


def leakage() -> Leakage:
    nothing = Estimate(value=None)
    sparse = Effective(full=nothing, pruned=None, drop=None, path={}, mean=None, why=None)
    return Leakage(
        run="r",
        split="test",
        images=3,
        bypass=None,
        chance=0.5,
        leaks=True,
        summary="This bottleneck leaks.",
        findings=[],
        concepts=[],
        effective=sparse,
    )


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy that a test may write to."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_an_audit_of_a_codebook(finished: Path, audited: Audit) -> None:
    found = Audit.read(finished / "audit" / "audit.json")
    assert found == audited
    assert found.version == 1
    codebook = found.codebook
    assert codebook is not None
    assert codebook.kind == "implicit"
    tested = load_predictions(finished, "test")
    assert found.images == len(tested.ids) > 0
    assert sum(each.patches for each in codebook.codes) % found.images == 0
    assert sum(each.share.value or 0 for each in codebook.codes) == pytest.approx(1)
    assert {each.kind for each in codebook.matchings} == {"co-assignment", "labels", "text"}
    for prototype in codebook.codes:
        distances = [near.distance for near in prototype.near]
        assert distances == sorted(distances)
        assert len({near.image for near in prototype.near}) == len(prototype.near)
        assert {near.image for near in prototype.near} <= set(tested.ids)
    assert codebook.projections[0].method == "PCA"
    assert len(codebook.projections[0].codes) == codebook.size
    assert any(each.on_object is not None for each in codebook.codes)  # drawn creatures know where they are
    assert Failures.read(finished / "trust" / "failures.json").images == found.images


def test_pictures_and_page(finished: Path, audited: Audit) -> None:
    folder = finished / "audit"
    for picture in ("prototypes", "codes", "index-maps", "groups"):
        assert (folder / audited.pictures[picture]).read_bytes()[:4] == b"\x89PNG"
    page = (folder / "audit.html").read_text("utf-8")
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert audited.findings[0][:40] in page
    assert "36 codes" in audited.text()


def test_other_measurements_are_pulled_in(audited: Audit, tmp_path: Path) -> None:
    trust = audited.trust
    assert [each.file for each in trust] == ["trust/leakage.json", "localization.json"]
    assert trust[0].says == ["This bottleneck leaks."]
    assert "cannot be read" in trust[1].says[0]
    assert any(line.startswith("trust/leakage.json") for line in audited.findings)
    assert read_trust(tmp_path) == []


def test_chunks_of_other_processes_give_the_same_audit(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunked, "CHUNK", 10)
    alone = api.audit(finished, out=tmp_path / "alone", resamples=20).to_dict()
    ran = use_this_process(monkeypatch)
    shared = api.audit(finished, out=tmp_path / "shared", resamples=20, jobs=2).to_dict()
    test, val = (-(-len(load_predictions(finished, split).ids) // 10) for split in ("test", "val"))
    assert len(ran) == test + val > 4
    assert {**shared, "seconds": 0} == {**alone, "seconds": 0}
    assert not list(finished.glob(".audit-*"))


@pytest.mark.slow
def test_two_processes_audit_as_one(finished: Path, tmp_path: Path) -> None:
    alone = api.audit(finished, out=tmp_path / "alone", resamples=20).to_dict()
    shared = api.audit(finished, out=tmp_path / "shared", resamples=20, jobs=2).to_dict()
    assert numbers(shared).keys() == numbers(alone).keys()
    for name, value in numbers(alone).items():
        if not name.endswith("seconds"):
            assert numbers(shared)[name] == pytest.approx(value, abs=1e-4), name


@pytest.mark.slow
def test_validation_alone_is_halved_and_predicted_if_need_be(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = load_predictions(run, "val")
    shutil.rmtree(run / "predictions")
    shutil.rmtree(run / "audit", ignore_errors=True)
    words = ["audit", run, "--split", "val", "--out", run / "elsewhere", "--by", "facing", "--quiet"]
    assert main([str(word) for word in words]) == 0
    assert "elsewhere" in capsys.readouterr().out
    again = load_predictions(run, "val")
    assert kept.ids == again.ids
    np.testing.assert_allclose(kept.logits, again.logits, atol=1e-4)
    found = Audit.read(run / "elsewhere" / "audit.json")
    assert found.images == len(kept.ids)
    assert found.failures.images < found.images
    assert found.failures.columns == ["facing"]
    assert any("half of the validation images" in note for note in found.failures.notes)
    assert (run / "elsewhere" / "failures.json").exists()
    assert not (run / "audit").exists()


def test_what_cannot_be_audited(run: Path, refuse: Refuse, tmp_path: Path) -> None:
    refuse("audit", run, "--split", "train", says=("expected one of test, val, found 'train'", "'test'"))
    refuse("audit", run, "--by", "facin", says="Did you mean 'facing'")
    refuse("audit", run, "--alpha", "2", says="expected a share between 0 and 1")
    refuse("audit", run, "--false-alarm-rate", "0", says="expected a share between 0 and 1")
    refuse("audit", tmp_path / "nothing", says="no such run")
    (tmp_path / "file").write_text("")
    refuse("audit", run, "--out", tmp_path / "file", says="expected a folder")
    info = json.loads((run / "run.json").read_text())
    write_text(run / "run.json", json.dumps({**info, "status": "failed"}))
    refuse("audit", run, says="is not done")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cbm", "black-box"])
def test_methods_without_a_codebook(method: str, tmp_path: Path) -> None:
    made = cl.train(tiny(tmp_path / "run", method=method, regularizer="none", training__epochs=1), quiet=True)
    found = api.audit(made.path)
    assert found.codebook is None
    assert "no codebook" in found.findings[0]
    assert len(found.concepts) == (0 if method == "black-box" else 36)
    assert found.failures.ood is not None
    assert "centers of training patches" in found.failures.ood.compared_with
    assert (tmp_path / "run" / "audit" / "audit.html").exists()


@pytest.mark.slow
def test_explicit_quantization_is_said(tmp_path: Path) -> None:
    made = cl.train(tiny(tmp_path / "run", regularizer="explicit-vq", training__epochs=1), quiet=True)
    codebook = api.audit(made.path).codebook
    assert codebook is not None
    assert codebook.kind == "explicit"


CONCEPTS = ConceptSet.from_yaml("classes: [a, b]\ngroups: {m: {kind: independent, values: [p, q, r, s]}}")


def test_odd_concepts_are_named() -> None:
    draw = np.random.default_rng(0)
    truth = (draw.random((300, 4)) < 0.5).astype(np.int8)
    scores = 4.0 * truth - 2 + draw.normal(0, 1, truth.shape)
    scores[:, 1] = draw.normal(-9, 1, 300)  # never predicted, and unrelated to the label
    scores[:, 3] = 2 * scores[:, 2] + 0.01 * draw.normal(size=300)  # double
    names = tuple(str(place) for place in range(300))
    stored = StoredPredictions(
        names,
        names,
        ("a", "b"),
        "single",
        draw.normal(size=(300, 2)).astype(np.float32),
        scores.astype(np.float32),
        draw.integers(2, size=300),
        truth,
        (0.5, 0.5),
    )
    found = concept_findings(stored, CONCEPTS, influence=np.array([1.0, 0.0, 1.0, 1.0]), slot_mass=[1.0, 1.0, 0.0, 1.0])
    assert [each.kinds for each in found] == [
        [],
        ["never predicted", "at chance", "no influence"],
        ["duplicate", "empty slot"],
        ["at chance", "duplicate"],
    ]
    assert found[0].auc is not None
    assert found[0].auc > 0.95
    assert found[2].closest == "m: s"
    assert found[0].holds == pytest.approx(truth[:, 0].mean())


def test_principal_components_against_numpy() -> None:
    draw = np.random.default_rng(0)
    patches = draw.normal(size=(50, 6)) * np.arange(1, 7)
    codes = draw.normal(size=(3, 6))
    found = principal(codes, patches, np.zeros(50, dtype=np.int64))
    values = np.linalg.eigvalsh(np.cov(patches.T))[::-1]
    np.testing.assert_allclose(found.explained, values[:3] / values.sum(), rtol=1e-6)
    placed = np.array(found.patches)
    np.testing.assert_allclose(placed.var(0, ddof=1), values[:3], rtol=1e-3)
    again = principal(codes, patches, np.zeros(50, dtype=np.int64))
    assert again == found


@pytest.mark.slow
def test_stored_tokens_are_read_in_the_images_place(tmp_path: Path) -> None:
    store = tmp_path / "store"
    recipe = tiny(tmp_path / "run", encoder__train=1, encoder__store=str(store), training__epochs=1)
    made = cl.train(recipe, quiet=True)
    first = api.audit(made.path)
    assert first.tokens == f"tokens stored in {store}"
    shutil.rmtree(store)
    second = api.audit(made.path)
    assert second.tokens == "images"
    assert first.codebook is not None
    assert second.codebook is not None
    counts = [[each.patches for each in audit.codebook.codes] for audit in (first, second) if audit.codebook]
    assert sum(counts[0]) == sum(counts[1])
    # Tokens are stored in half precision: a patch between two codes may change sides.
    assert np.abs(np.subtract(*counts)).sum() <= 0.02 * sum(counts[0])
