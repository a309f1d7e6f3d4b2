"""A planted leak is found, a clean bottleneck is not reported, a planted shortcut is named; each measure by a loop."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from conceptlens.concepts import UNKNOWN
from conceptlens.core.errors import UserError
from conceptlens.evaluation.interventions.units import make_units
from conceptlens.evaluation.leakage import probe
from conceptlens.evaluation.leakage.controls import corrupted, half, permute_within, shuffled
from conceptlens.evaluation.leakage.effective_concepts import path_hits, pruned_hits
from conceptlens.evaluation.leakage.findings import ACCURACY, NATS, OWN, USED, completeness, judge
from conceptlens.evaluation.leakage.information import BINS, SHRINK, bins, concept_gains, information
from conceptlens.evaluation.leakage.leakage import Leakage, labels_follow_from_class, measure_leakage
from conceptlens.evaluation.leakage.permuted import Chance
from conceptlens.nn.sparse_head import fit_path
from conceptlens.runs.readout import Readout
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import assign_folds, sides
from tests.evaluation.trust.world import CONCEPTS, SHORTCUT, clean, in_probabilities, leaky, readout, shortcut


def measured(made: Readout, permutations: int = 79) -> Leakage:
    return measure_leakage(made, Bootstrap(made.units, 200), folds=2, permutations=permutations)


def value(found: Leakage, name: str) -> float:
    number = next(each for each in found.findings if each.name.strip().startswith(name)).estimate.value
    assert number is not None
    return number


@pytest.mark.parametrize("shared", [0.0, pytest.param(1.5, marks=pytest.mark.slow)])
def test_a_clean_bottleneck_is_not_reported(shared: float) -> None:
    found = measured(clean(300, noise=1.5, shared=shared))
    assert found.leaks is False
    assert found.false_alarm_rate == 0.05
    assert found.permutations == 79
    assert not [each.name for each in found.findings if each.verdict == "bad"]
    assert "No significant leakage" in found.summary
    assert value(found, "of a score beyond its own label") < 0.005
    assert abs(value(found, "gained by the head")) < 0.06
    assert all(each.good.endswith(".") for each in found.findings)


@pytest.mark.slow
def test_a_clean_bottleneck_of_probabilities_is_not_reported_either() -> None:
    assert measured(in_probabilities(clean(300))).leaks is False


def test_a_planted_leak_is_found() -> None:
    found, honest = measured(leaky(600)), measured(clean(), permutations=0)
    assert found.leaks is True
    assert all(found.finding(name).verdict == "bad" for name in (ACCURACY, NATS, OWN, USED))
    assert found.summary.startswith(
        "This bottleneck leaks: the scores predict the class better than the true concepts do; "
    )
    for name in (ACCURACY, NATS, OWN, USED):
        chance = found.finding(name).chance
        assert chance is not None
        assert chance.excess.low is not None
        assert chance.excess.low > 0
        assert chance.p == chance.adjusted == pytest.approx(1 / 80)
    assert value(found, "lost when scores") > 0.05
    assert honest.leaks is None
    assert not [each.name for each in honest.findings if each.name == USED or each.verdict]
    assert value(found, "class from soft") > value(found, "class from true labels") + 0.02
    assert value(found, "completeness of the labels") < value(honest, "completeness of the labels")
    assert value(found, "concept-class mutual") > value(found, "of the labels themselves")


@pytest.mark.slow
def test_a_planted_shortcut_shows_by_name() -> None:
    found = measured(shortcut(500))
    assert found.leaks is True
    worst = max(found.concepts, key=lambda each: each.beyond_label.value or 0)
    assert worst.concept == CONCEPTS.names[SHORTCUT]
    assert (
        f"1 of 7 concepts carry more class information than their label does, most of all {worst.concept}"
        in found.summary
    )
    others = [each.beyond_label.value or 0 for each in found.concepts if each is not worst]
    assert max(others) < 0.02


def test_labels_that_follow_from_the_class_are_no_evidence() -> None:
    made = clean(300)
    table = np.array([[1, 0, 0, 1, 0, 1, 0], [0, 1, 0, 0, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0]], np.int8)
    disguised = replace(made, truth=table[made.labels])
    assert labels_follow_from_class(disguised)
    assert not labels_follow_from_class(made)
    found = measured(disguised)
    assert found.leaks is None
    assert found.false_alarm_rate is None
    assert "leakage cannot be tested" in found.summary
    assert {each.verdict for each in found.findings} == {None}
    with pytest.raises(UserError, match="Add concept labels"):
        measured(replace(made, truth=np.full_like(made.truth, UNKNOWN)))


def test_information_against_counts_in_a_loop() -> None:
    draw = np.random.default_rng(0)
    labels, given, cells = draw.integers(3, size=200), draw.integers(2, size=200), draw.integers(4, size=200)
    learn, ask = np.arange(150), np.arange(150, 200)
    known = draw.random((200, 2)) < 0.9
    known[:, 0] = True
    pair = np.stack([cells, cells], axis=1)  # the second column with fewer images to learn from
    found = information(pair, np.stack([given, given], axis=1), labels, learn, ask, known)
    for column in (0, 1):
        taught = [i for i in learn.tolist() if known[i, column]]
        overall = Counter(labels[taught].tolist())
        for place, image in enumerate(ask.tolist()):
            same = [i for i in taught if given[i] == given[image]]
            fine = [i for i in same if cells[i] == cells[image]]
            prior = {c: (overall[c] + 0.5) / (len(taught) + 1.5) for c in range(3)}
            base = {c: sum(labels[i] == c for i in same) + SHRINK * prior[c] for c in range(3)}
            base = {c: part / sum(base.values()) for c, part in base.items()}
            near = {c: sum(labels[i] == c for i in fine) + SHRINK * base[c] for c in range(3)}
            own = int(labels[image])
            expected = math.log(near[own] / sum(near.values())) - math.log(base[own])
            assert found[place, column] == pytest.approx(expected)


def test_information_of_known_size() -> None:
    """A score that is the class says ln 5; one that is noise says nothing; the label takes away what it explains."""
    draw = np.random.default_rng(0)
    n = 3000
    labels, noise = np.arange(n) % 5, draw.normal(size=n)
    fold = assign_folds([str(place) for place in range(n)])
    marks = (labels == 0).astype(np.int8)
    both, given = np.stack([labels + 0.01 * noise, noise], axis=1), np.stack([marks, marks], axis=1).astype(np.int64)
    found = concept_gains(both, given.astype(np.int8), given, [labels], fold)
    tells, mute = ({name: rows[:, column] for name, rows in found.items()} for column in (0, 1))
    assert tells["score"].mean() == pytest.approx(math.log(5), abs=0.08)
    assert tells["label"].mean() == pytest.approx(math.log(5) - 0.8 * math.log(4), abs=0.02)
    assert tells["beyond_label"].mean() == pytest.approx(0.8 * math.log(4), abs=0.08)
    assert -0.02 < mute["score"].mean() < 0.002
    assert -0.02 < mute["beyond_label"].mean() < 0.002
    assert np.bincount(bins(noise[:, None], np.arange(n))[:, 0]).tolist() == [n // BINS] * BINS


def test_probes_are_judged_on_images_they_have_not_seen() -> None:
    draw = np.random.default_rng(0)
    features, labels = draw.normal(size=(60, 50)), draw.integers(2, size=60)
    fold = assign_folds([str(place) for place in range(60)])
    right = probe.cross_fit(features, labels, fold).argmax(1) == labels
    assert right.mean() < 0.75  # learned by heart it would be 1
    gone = np.where(fold == 0, 2, labels)
    shares = np.exp(probe.cross_fit(features, gone, fold))
    np.testing.assert_allclose(shares.sum(1), 1)
    assert (shares[fold == 0, 2] < 1e-3).all()  # a class that the learning side does not show


def test_features_of_labels_and_hard_scores() -> None:
    truth = np.array([[1, 0, UNKNOWN], [0, 1, UNKNOWN], [UNKNOWN, 1, UNKNOWN]], np.int8)
    np.testing.assert_allclose(probe.label_features(truth), [[1, 0, 0.5, 0], [0, 1, 0.5, 0], [0.5, 1, 0.5, 1]])
    scores = np.array([[1.0, 3.0, 2.0, -1.0, -2.0, 0.5, -0.5]])
    made = readout(scores, np.zeros((1, 7), np.int8), np.zeros(1, np.int64), np.zeros((3, 7)), np.zeros(3))
    assert probe.hard_scores(made).tolist() == [[0, 1, 0, 1, 0, 1, 0]]


def test_pruning_keeps_the_weightiest_of_each_class() -> None:
    made = clean(200)
    found = pruned_hits(made, keep=2)
    assert made.head is not None
    spread, mean = made.bottleneck.std(0), made.bottleneck.mean(0)
    for image in range(30):
        logits = []
        for row, bias in zip(made.head.weight, made.head.bias, strict=True):
            kept = sorted(range(7), key=lambda k: -abs(row[k]) * spread[k])[:2]
            logits.append(bias + sum(row[k] * (made.bottleneck[image, k] if k in kept else mean[k]) for k in range(7)))
        assert found is not None
        assert found[image] == (int(np.argmax(logits)) == made.labels[image])
    assert pruned_hits(made, keep=7) is None
    assert pruned_hits(replace(made, head=None), keep=2) is None


def test_the_sparse_path_is_that_of_the_sparse_head() -> None:
    made = clean(300)
    fold = assign_folds(made.units, folds=2)
    found = path_hits(made.bottleneck, made.labels, 3, fold, [2, 5])
    learn, ask = sides(fold)[0]
    path = fit_path(
        made.bottleneck[learn],
        torch.from_numpy(made.labels[learn]),
        3,
        steps=30,
        ratio=3e-3,
        until_nec=5,
        tolerance=1e-2,
    )
    right = path.accuracy_at(torch.from_numpy(made.bottleneck[ask]), torch.from_numpy(made.labels[ask]), [2, 5])
    assert found[2][ask].mean() == pytest.approx(right[2.0])
    assert found[5][ask].mean() == pytest.approx(right[5.0])


def test_dealing_keeps_what_it_should() -> None:
    made = clean(200)
    generator = np.random.default_rng(0)
    strata = made.labels
    permuted = permute_within(made.bottleneck[:, 0], strata, generator)
    for each in range(3):
        assert sorted(permuted[strata == each]) == sorted(made.bottleneck[strata == each, 0])
    assert (permuted != made.bottleneck[:, 0]).mean() > 0.9
    within = shuffled(made, within_label=True)
    rows = {tuple(row): tuple(labels) for row, labels in zip(made.bottleneck[:, :3], made.truth[:, :3], strict=True)}
    assert all(rows[tuple(row)] == tuple(labels) for row, labels in zip(within[:, :3], made.truth[:, :3], strict=True))
    anywhere = shuffled(made, within_label=False)
    assert sorted(anywhere[:, 5]) == sorted(made.bottleneck[:, 5])


def test_half_of_the_units_are_spoilt() -> None:
    made = clean(200)
    units = make_units(CONCEPTS, "concepts")[:6]
    mask = half(made, units)
    assert (mask.sum(1) == 3).all()
    assert not mask[:, 6].any()
    spoilt = corrupted(made, units, np.full_like(made.bottleneck, 9.0))
    np.testing.assert_array_equal(spoilt == 9.0, mask)


def test_a_bypass_is_seen() -> None:
    """Half of the accuracy above chance comes from elsewhere."""
    made = clean(600)
    truth = np.eye(3)[np.maximum(made.labels, 0)]
    around = replace(made, rest=20.0 * truth, bypass="an oracle")
    found = measured(around, permutations=0)
    assert value(found, "accuracy of the model") == 1
    assert value(found, "accuracy with shuffled") == 1
    own, chance = float(made.hits(made.logits(made.bottleneck)).mean()), found.chance
    assert value(found, "completeness of the concepts") == pytest.approx((own - chance) / (1 - chance))
    assert "an oracle" in found.summary


def test_verdicts() -> None:
    def verdict(p: float, adjusted: float) -> str:
        nothing = Estimate(value=0.0)
        return judge(Chance(permuted=nothing, excess=nothing, p=p, adjusted=adjusted), 0.05)

    assert verdict(0.01, 0.02) == "bad"
    assert verdict(0.03, 0.08) == "look"
    assert verdict(0.3, 0.4) == "good"
    with pytest.raises(UserError, match="at least 79"):
        measured(clean(100), permutations=20)


def test_several_labels_at_once() -> None:
    made = clean(300)
    labels = np.stack([made.labels == each for each in range(3)], axis=1).astype(np.int64)
    labels[:5, 1] = UNKNOWN
    several = replace(made, task="multilabel", labels=labels, thresholds=(0.5, 0.5, 0.5))
    p = 1 / (1 + np.exp(-made.decide(made.bottleneck)))
    right = (p >= 0.5) == labels
    assert several.hits(several.logits(several.bottleneck))[0] == pytest.approx(right[0, [0, 2]].mean())
    assert several.hits(several.logits(several.bottleneck))[9] == pytest.approx(right[9].mean())
    found = measured(several, permutations=0)
    assert found.effective.path == {}
    assert found.effective.why is not None


def test_completeness_of_a_model_at_chance_is_unknown() -> None:
    right, half = np.array([1.0, 1, 1, 1]), np.array([1.0, 0, 1, 0])
    weights = np.array([[1.0, 1, 1, 1], [2, 0, 2, 0]])
    np.testing.assert_allclose(completeness(right, half, 0.5)(weights), [np.nan, 1.0])  # 0.5 / 0, 0.5 / 0.5
