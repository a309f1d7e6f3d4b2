"""The reference reader never sees the class; an honest graded reader passes beside it, a planted leak does not."""

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from conceptlens import api
from conceptlens.concepts import UNKNOWN
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.loading.transfer import to_device
from conceptlens.encoders.freezing import weights_hash
from conceptlens.evaluation import trust
from conceptlens.evaluation.leakage import image_vectors
from conceptlens.evaluation.leakage.excess import Excess, information_over, largest
from conceptlens.evaluation.leakage.leakage import Leakage, measure_leakage
from conceptlens.evaluation.leakage.reference import TaughtImages, mean_auc, read_reference, sequential
from conceptlens.evaluation.leakage.verdict import judge_leakage
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.readout import Readout
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import assign_folds
from tests.evaluation.trust.world import readout

TAUGHT, JUDGED = 500, 400
ROWS = ("ids", "units", "bottleneck", "concept_logits", "truth", "labels", "rest")


def graded(seed: int = 0, leak: float = 0.0) -> tuple[Readout, TaughtImages]:
    """Quantities that depend on the class, labels cut from them, and an honest reader of a noisier view of them."""
    draw = np.random.default_rng(seed)
    n = TAUGHT + JUDGED
    labels = draw.integers(3, size=n)
    amounts = draw.normal(size=(3, 4))[labels] + draw.normal(size=(n, 4))
    shape = (amounts[:, :1] > np.array([-0.6, 0.6])).sum(1)
    truth = np.concatenate([np.eye(3)[shape], amounts[:, [1]] > 0, amounts[:, [1]] <= 0, amounts[:, 2:] > 0], axis=1)
    truth = truth.astype(np.int8)
    vectors = amounts @ draw.normal(size=(4, 10)) + draw.normal(size=(3, 10))[labels] + draw.normal(size=(n, 10))
    seen, scores = vectors + 0.3 * draw.normal(size=vectors.shape), np.zeros(truth.shape)
    for column in range(truth.shape[1]):
        reader = LogisticRegression(C=0.02, max_iter=500).fit(seen[:TAUGHT], truth[:TAUGHT, column])
        scores[:, column] = reader.decision_function(seen)
    scores += leak * scores.std(0) * draw.choice([-1.5, 0.0, 1.5], size=(3, 7))[labels]
    head = LogisticRegression(max_iter=500).fit(scores[:TAUGHT], labels[:TAUGHT])
    taught, judged = slice(0, TAUGHT), slice(TAUGHT, None)
    made = readout(scores[judged], truth[judged], labels[judged], head.coef_, head.intercept_)
    return made, TaughtImages("initial", vectors[taught], truth[taught], labels[taught], vectors[judged])


def few(made: Readout, images: TaughtImages, n: int = 60) -> tuple[Readout, TaughtImages]:
    """The first judged images: a measure of all of them takes a second."""
    rows = {name: getattr(made, name)[:n] for name in ROWS}
    return replace(made, **rows), replace(images, judged=images.judged[:n])


def measured(made: Readout, images: TaughtImages | None) -> Leakage:
    references = None if images is None else lambda: [images]
    return measure_leakage(made, Bootstrap(made.units, 50), folds=2, permutations=0, references=references)


def test_the_reader_does_not_look_at_the_class() -> None:
    made, images = graded()
    other = replace(images, labels=np.random.default_rng(1).permutation(images.labels))
    first, second = read_reference(made, images), read_reference(replace(made, labels=made.labels[::-1]), other)
    np.testing.assert_array_equal(first.readout.bottleneck, second.readout.bottleneck)
    assert first.strengths == second.strengths


def test_the_reader_is_the_most_regularized_that_reads_as_well_as_the_run() -> None:
    made, images = graded()
    strengths = (3.0, 0.3, 0.03)
    reference = read_reference(made, images, strengths=strengths)
    for number, columns in enumerate(([0, 1, 2], [3, 4], [5], [6])):
        goal = mean_auc(made.concept_probabilities[:, columns], made.truth[:, columns])
        single = [read_reference(made, images, strengths=[each]).readout.concept_probabilities for each in strengths]
        quality = [mean_auc(each[:, columns], made.truth[:, columns]) or 0.0 for each in single]
        enough = [strength for strength, each in zip(strengths, quality, strict=True) if each >= (goal or 0)]
        assert reference.strengths[number] == (enough[0] if enough else strengths[int(np.argmax(quality))])


def test_mean_auc_by_hand() -> None:
    scores = np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0], [4.0, 0.0]])
    truth = np.array([[0, 0], [1, 1], [0, 1], [1, UNKNOWN]], np.int8)
    assert mean_auc(scores, truth) == pytest.approx((3 / 4 + 0 / 2) / 2)  # 3 of 4 pairs in order, 0 of 2
    assert mean_auc(scores, np.zeros((4, 2), np.int8)) is None


def test_the_class_head_of_the_reader_learns_from_images_it_has_not_read() -> None:
    """Concept labels drawn at random, read from more numbers than images: learned by heart they would say the class."""
    draw = np.random.default_rng(0)
    made, _ = graded()
    n = 60
    truth = np.concatenate([np.eye(3)[draw.integers(3, size=n)], np.eye(2)[draw.integers(2, size=n)]], axis=1)
    truth = np.concatenate([truth, draw.integers(2, size=(n, 2))], axis=1).astype(np.int8)
    images = TaughtImages(
        "initial", draw.normal(size=(n, 90)), truth, truth[:, :3].argmax(1), draw.normal(size=(len(made), 90))
    )
    reader = sequential(read_reference(made, images, strengths=[1e-3]), images)
    assert reader.head is not None
    # Of scores that know nothing the head expects little: their weight times their spread is small.
    assert np.abs(reader.head.weight * reader.bottleneck.std(0)).max() < 1.5
    assert reader.bypass is None
    assert reader.logits(reader.bottleneck).shape == (len(made), 3)


def test_labels_that_teach_nothing_are_left_out() -> None:
    made, images = graded()
    gone = images.concepts.copy()
    gone[:, :3] = UNKNOWN  # a whole group
    gone[:, 5] = 1  # a concept that always holds
    reference = read_reference(made, replace(images, concepts=gone))
    assert reference.taught == [1, 3]
    over = information_over(made, reference, assign_folds(made.units))
    assert over.shape == (JUDGED, 2)
    nobody = replace(images, concepts=np.full_like(images.concepts, UNKNOWN))
    assert measured(*few(made, nobody)).verdict.outcome == "unmeasured"


def test_the_largest_are_chosen_on_other_images() -> None:
    over = np.array([[5.0, 0.0], [5.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    fold = np.array([0, 0, 1, 1])
    # Fold 0 learns from the last two, where the second column leads, and is measured there; fold 1 the other way round.
    assert largest(over, fold, count=1).tolist() == [0.0, 0.0, 0.0, 0.0]
    assert largest(over, fold, count=2).tolist() == [2.5, 2.5, 0.5, 0.5]
    over[0, 0] = np.nan
    assert largest(over, fold, count=2).tolist() == [0.0, 2.5, 0.5, 0.5]


@pytest.mark.slow
def test_an_honest_graded_reader_has_no_excess_and_a_leak_has() -> None:
    honest, leaking = measured(*graded()), measured(*graded(leak=0.8))
    assert honest.excess[0].within
    assert honest.numbers["excess"] == honest.excess[0].information.value
    assert honest.numbers["above_ceiling"] == pytest.approx(
        (honest.finding("accuracy of the model").estimate.value or 0)
        - (honest.finding("class from true labels (ceiling)").estimate.value or 0)
    )
    assert leaking.verdict.outcome == "finding"
    assert leaking.verdict.reason.startswith("The scores carry more class information")
    assert (leaking.numbers["excess"] or 0) > 0.05
    assert leaking.text().splitlines()[1] == leaking.verdict.text()
    assert next(iter(leaking.without)) == "the model as it is"
    assert len(leaking.without) == 4
    assert set(leaking.published) == {"run", "a linear reader of the initial encoder's vectors"}
    assert honest.to_dict() == Leakage.model_validate(honest.to_dict()).to_dict()


def test_recalibration_of_the_scores_changes_nothing() -> None:
    made, images = graded()
    reference, fold = read_reference(made, images), assign_folds(made.units)
    bent = replace(made, bottleneck=np.sign(made.bottleneck) * made.bottleneck**2 * np.arange(1, 8))
    np.testing.assert_allclose(
        information_over(bent, reference, fold), information_over(made, reference, fold), atol=1e-12
    )


def excess(value: float, low: float, high: float, largest: tuple[float, float, float] = (0.0, -0.01, 0.01)) -> Excess:
    nothing = Estimate(value=0.0)
    return Excess(
        reader="a linear reader",
        information=Estimate(value=value, interval=(low, high)),
        largest=Estimate(value=largest[0], interval=largest[1:]),
        use=nothing,
        questions=["shape"],
        run_auc=0.9,
        reader_auc=0.9,
        accuracy=nothing,
    )


@pytest.mark.parametrize(
    ("over", "above", "outcome", "says"),
    [
        (excess(0.0, -0.01, 0.029), (0.0, -0.01, 0.01), "pass", "no more class information"),
        (excess(0.0, -0.01, 0.029), (0.0, -0.01, 0.01), "pass", "never saw the class (a linear reader)"),
        (excess(0.0, -0.01, 0.031), (0.0, -0.01, 0.01), "finding", "cannot be excluded"),
        (excess(0.05, 0.02, 0.08), (0.0, -0.01, 0.01), "finding", "most of all in shape"),
        (excess(0.0, -0.01, 0.02, (0.1, 0.031, 0.2)), (0.0, -0.01, 0.01), "finding", "0.100"),
        (excess(0.0, -0.01, 0.02, (0.1, 0.029, 0.2)), (0.0, -0.01, 0.01), "pass", "0.000"),
        (excess(0.0, -0.01, 0.02), (0.05, 0.01, 0.09), "finding", "above what the true concepts allow"),
        (None, (0.05, 0.01, 0.09), "unmeasured", "no images"),
    ],
)
def test_the_verdict(over: Excess | None, above: tuple[float, float, float], outcome: str, says: str) -> None:
    verdict = judge_leakage(over, Estimate(value=above[0], interval=above[1:]), "no images" if over is None else "")
    assert verdict.outcome == outcome
    assert says in verdict.reason


@pytest.mark.slow
def test_without_a_reader_there_is_no_verdict_and_the_raw_numbers_stay() -> None:
    made, images = few(*graded())
    table = np.array([[1, 0, 0, 1, 0, 1, 0], [0, 1, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0]], np.int8)

    def lost() -> list[TaughtImages]:
        raise UserError("cells: no such folder.")

    cases = {
        "--no-reference": measured(made, None),
        "cells: no such folder": measure_leakage(
            made, Bootstrap(made.units, 20), permutations=0, references=lost, folds=2
        ),
        "training image": measured(made, replace(images, concepts=table[images.labels])),
        "Every image of a class": measured(replace(made, truth=table[made.labels]), images),
    }
    for says, found in cases.items():
        assert found.verdict.outcome == "unmeasured"
        assert says in found.verdict.reason
        assert found.numbers["excess"] is None
        assert found.numbers["raw"] is not None
        assert found.numbers["above_ceiling"] is not None


def test_several_labels_at_once_have_a_head_for_each() -> None:
    made, images = graded()
    several = replace(made, task="multilabel", labels=np.eye(3, dtype=np.int64)[made.labels], thresholds=(0.5,) * 3)
    taught = np.eye(3, dtype=np.int64)[images.labels]
    taught[:, 2] = 0  # never seen
    images = replace(images, labels=taught)
    reader = sequential(read_reference(several, images), images)
    said = reader.said(reader.logits(reader.bottleneck))
    assert not said[:, 2].any()
    assert (said[:, :2] == several.labels[:, :2]).mean() > 0.7


def test_files_of_older_versions_have_no_verdict() -> None:
    made, _ = few(*graded())
    new = ("verdict", "numbers", "excess", "above_ceiling", "without", "published")
    old = {key: value for key, value in measured(made, None).to_dict().items() if key not in new}
    found = Leakage.model_validate(old)
    assert found.verdict.outcome == "unmeasured"
    assert found.numbers == {"raw": None, "excess": None, "above_ceiling": None}


def test_a_run_is_read_with_its_encoder_as_it_began_and_as_it_ended(
    own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = OpenedRun.open(own_run)
    begun = deepcopy(run.pipeline.encoder)
    for parameter in begun.parameters():
        parameter.data.mul_(0.9)
    monkeypatch.setattr(image_vectors, "make_encoder", lambda config: deepcopy(begun))

    def read(began_with: str) -> dict[str, TaughtImages]:
        run.info["encoder"] = {**run.info["encoder"], "hash": began_with}
        return {each.encoder: each for each in image_vectors.image_vectors(run, "test", lambda text: None)}

    frozen, learned = read(weights_hash(run.pipeline.encoder)), read(weights_hash(begun))
    assert list(frozen) == ["initial"]
    assert list(learned) == ["initial", "final"]
    assert list(read("weights that are lost")) == ["final"]
    np.testing.assert_array_equal(frozen["initial"].vectors, learned["final"].vectors)
    assert not np.allclose(learned["initial"].vectors, learned["final"].vectors)
    train = run.splits["train"]
    with PixelReader(run.source, run.card.image_size, run.card.fit, cache_mb=0) as reader, torch.inference_mode():
        _, pixels = next(iter(to_device(reader.prefetch(iter([train[:2]])), run.device)))
        tokens = run.pipeline.encoder(pixels)
    assert tokens.cls is not None
    expected = torch.cat([tokens.cls, tokens.patches.mean(1)], dim=1).numpy()
    np.testing.assert_allclose(learned["final"].vectors[:2], expected, atol=1e-4)
    np.testing.assert_array_equal(learned["final"].labels, run.source.examples.labels[train])
    assert len(learned["final"].judged) == len(run.splits["test"])


def test_methods_that_cannot_do_without_the_class_are_compared_with_a_linear_reader(
    own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "never_saw_class", lambda recipe: False)
    retrain = lambda run, note: nullcontext(None)  # noqa: E731
    found = trust.leakage_run(OpenedRun.open(own_run), permutations=0, resamples=20, retrain=retrain)
    names = [each.reader for each in found.excess]
    assert names == ["a linear reader of the final encoder's vectors"]  # this encoder began at random


def test_the_command_compares_with_a_reader_unless_it_is_told_not_to(
    own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "never_saw_class", lambda recipe: True)
    found = api.leakage(own_run, permutations=0, resamples=20, out=tmp_path)
    assert read_json(tmp_path / "leakage.json")["verdict"] == found.verdict.model_dump()
    assert [each.reader for each in found.excess] == ["this run itself, whose concepts never saw the class"]
    assert found.numbers["excess"] == 0
    blind = api.leakage(own_run, permutations=0, resamples=20, reference=False, out=tmp_path / "blind")
    assert blind.verdict.outcome == "unmeasured"
    assert blind.excess == []


@pytest.mark.slow
def test_honest_readers_pass_and_leaks_are_found() -> None:
    """The simulation of evidence/leakage-test, with fewer draws."""

    def found(leak: float, seed: int) -> bool:
        made, images = graded(seed, leak)
        fold = assign_folds(made.units)
        over = information_over(made, read_reference(made, images), fold)
        both = Bootstrap(made.units, 200).means({"information": np.nanmean(over, 1), "largest": largest(over, fold)})
        return not excess(0, 0, 0).model_copy(update=both).within

    assert sum(found(0.0, seed) for seed in range(20)) <= 3
    assert sum(found(0.4, seed) for seed in range(20)) >= 16
