"""What the head reads of concept logits, and how answers are written: by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.nn.heads.bottleneck import EPSILON, FOLLOW, SHARPEST, Bottleneck, sharpness

CONCEPTS = ConceptSet.from_yaml(
    "groups:\n  size: {values: [small, medium, large]}\n  marks: {kind: independent, values: [spots, rim]}\n"
)
LOGITS = torch.log(torch.tensor([[1.0, 2.0, 5.0, 3.0, 1.0]]))  # shares of 1/8, 2/8, 5/8; odds of 3 and 1
FLOOR = math.log(EPSILON)
LABELS = torch.tensor([[0, 1, 0, 1, 0]])


def make(**options: Any) -> Bottleneck:
    return Bottleneck(CONCEPTS, **options)


def test_spaces() -> None:
    p = torch.tensor([[0.125, 0.25, 0.625, 0.75, 0.5]])
    torch.testing.assert_close(make(space="probability")(LOGITS), p)
    assert torch.equal(make(space="logit")(LOGITS), LOGITS)
    odds = [math.log((0.75 + EPSILON) / (0.25 + EPSILON)), 0.0]
    expected = torch.tensor([[*(math.log(each + EPSILON) for each in (0.125, 0.25, 0.625)), *odds]])
    torch.testing.assert_close(make(space="log-probability")(LOGITS), expected)


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        ("probability", [0.0, 1.0, 0.0, 1.0, 0.0]),
        (
            "log-probability",
            [FLOOR, math.log(1 + EPSILON), FLOOR, math.log((1 + EPSILON) / EPSILON), math.log(EPSILON / (1 + EPSILON))],
        ),
    ],
)
def test_an_answer_is_certainty(space: Any, expected: list[float]) -> None:
    made = make(space=space)
    torch.testing.assert_close(made.write(LABELS, made(LOGITS)), torch.tensor([expected]))


def test_unknown_labels_are_never_written() -> None:
    made = make(space="probability", randint=1.0)
    read = made(LOGITS)
    unknown = torch.tensor([[-1, -1, -1, 1, -1]])
    written = made.rehearse(read, unknown)
    assert torch.equal(written[0, [0, 1, 2, 4]], read[0, [0, 1, 2, 4]])
    assert written[0, 3] == 1


def test_randint_tells_a_whole_group_and_about_the_share_asked_for() -> None:
    torch.manual_seed(0)
    made = make(space="probability", randint=0.25)
    rows = 4000
    read = made(LOGITS).expand(rows, -1)
    told = made.rehearse(read, LABELS.expand(rows, -1)) != read
    assert torch.equal(told[:, 0], told[:, 1])
    assert torch.equal(told[:, 1], told[:, 2])  # one label says all values of an exclusive group
    assert not torch.equal(told[:, 3], told[:, 4])
    for share in told.float().mean(0).tolist():
        assert share == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / rows))


def test_uniform_draws_a_chance_for_each_image() -> None:
    """The number of told groups is then as often none and all as half: its variance is that of a mixture."""
    torch.manual_seed(0)
    made = make(space="probability", randint="uniform")
    read = made(LOGITS).expand(6000, -1)
    told = (made.rehearse(read, LABELS.expand(6000, -1)) != read)[:, 2:].float().sum(1)  # three draws an image
    counts = torch.bincount(told.long(), minlength=4) / 6000
    torch.testing.assert_close(counts, torch.full((4,), 0.25), atol=0.03, rtol=0)


@pytest.mark.parametrize(("share", "gradient"), [(1.0, 1.0), (0.0, 0.0), (0.25, 0.25)])
def test_class_gradient_scales_what_comes_back(share: float, gradient: float) -> None:
    logits = LOGITS.clone().requires_grad_()
    read = make(class_gradient=share)(logits)
    passed = make(class_gradient=share).pass_on(read)
    torch.testing.assert_close(passed, LOGITS)
    if passed.requires_grad:
        passed.sum().backward()
    found = torch.zeros_like(LOGITS) if logits.grad is None else logits.grad
    torch.testing.assert_close(found, torch.full_like(LOGITS, gradient))


def naive_sharpness(logits: Tensor, target: Tensor) -> float:
    """The best of a fine grid."""

    def surprise(s: float) -> float:
        if logits.shape[1] > 1:
            each = -((s * logits).log_softmax(1) * target).sum()
        else:
            each = torch.nn.functional.binary_cross_entropy_with_logits(s * logits, target, reduction="sum")
        return float(each) + 0.5 * (s - 1) ** 2

    return min((0.001 * step for step in range(1, 20_000)), key=surprise)


@pytest.mark.parametrize("columns", [1, 3])
def test_the_temperature_is_that_of_a_naive_search(columns: int) -> None:
    chance = torch.Generator().manual_seed(3)
    logits = 3 * torch.randn(60, columns, generator=chance, dtype=torch.float64)
    p = (logits / 2).softmax(1) if columns > 1 else (logits / 2).sigmoid()
    target = (
        torch.nn.functional.one_hot(torch.multinomial(p, 1, generator=chance)[:, 0], columns).double()
        if columns > 1
        else torch.bernoulli(p, generator=chance)
    )
    assert sharpness(logits, target) == pytest.approx(naive_sharpness(logits, target), abs=0.002)


def test_fitting_twice_changes_nothing_more_and_unknown_labels_do_not_count() -> None:
    chance = torch.Generator().manual_seed(1)
    made = make(space="probability", calibrate=True)
    logits = 4 * torch.randn(500, 5, generator=chance)
    kind = torch.multinomial((logits[:, :3] / 3).softmax(1), 1, generator=chance)[:, 0]
    labels = torch.cat([torch.nn.functional.one_hot(kind, 3), (torch.rand(500, 2, generator=chance) < 0.5).long()], 1)
    labels[::7, :3] = -1
    numbers = made.fit_temperature(logits, labels)
    assert float(made.sharpness[0]) == pytest.approx(1 / 3, rel=0.2)
    assert float(made.sharpness[1]) < 0.1  # these labels do not depend on the logits
    assert numbers["mean_temperature"] > 1
    before = made.sharpness.clone()
    made.fit_temperature(made.calibrated(logits), labels)
    torch.testing.assert_close(made.sharpness, before, rtol=0.02, atol=1e-3)


def test_a_group_that_says_the_opposite_for_a_while_comes_back() -> None:
    made = make(space="probability", calibrate=True)
    chance = torch.Generator().manual_seed(2)
    logits, kind = torch.randn(500, 5, generator=chance), torch.randint(3, (500,), generator=chance)
    labels = torch.cat([torch.nn.functional.one_hot(kind, 3), torch.randint(2, (500, 2), generator=chance)], 1)
    right = 3 * torch.randn(500, 5, generator=chance) + 4 * labels
    for _ in range(3):  # epochs of a training
        made.fit_temperature(made.calibrated(logits - 4 * labels), labels)
    assert made.sharpness.tolist() == pytest.approx([1 / SHARPEST] * 2)
    for _ in range(2):
        made.fit_temperature(made.calibrated(right), labels)
    fresh = make(space="probability", calibrate=True)
    for _ in range(2):
        fresh.fit_temperature(fresh.calibrated(right), labels)
    torch.testing.assert_close(made.sharpness, fresh.sharpness, rtol=0.02, atol=1e-3)


def test_without_calibration_a_probability_stays_as_it_is() -> None:
    made = make(space="probability")
    assert made.fit_temperature(LOGITS, LABELS) == {}
    assert "sharpness" not in made.state_dict()


def test_written_logits_follow_the_images_with_that_label() -> None:
    made = make(space="logit", randint=0.25)
    start = made.answers.clone()
    torch.testing.assert_close(start[1, 1], torch.tensor([-5.0, 5.0, -5.0, -5.0, -5.0]))
    made.follow(LOGITS, LABELS)
    torch.testing.assert_close(made.answers[1, 1], (1 - FOLLOW) * start[1, 1] + FOLLOW * LOGITS[0])
    assert torch.equal(made.answers[0, 1], start[0, 1])  # no image here has another size than medium
    written = made.write(LABELS, LOGITS)[0]
    torch.testing.assert_close(written[:3], made.answers[1, 1, :3])
    torch.testing.assert_close(written[3:], torch.stack([made.answers[1, 3, 3], made.answers[0, 4, 4]]))


def test_a_head_of_logits_without_randint_has_learned_no_answers() -> None:
    with pytest.raises(UserError, match="randint"):
        make(space="logit").write(LABELS, LOGITS)
