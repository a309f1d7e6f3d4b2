"""Codebook and slot use against counts small enough to do by hand."""

import math

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.nn.quantization.usage import AssignmentUse, CodebookUse, codebook_use, perplexity


def test_use_and_perplexity_by_hand() -> None:
    assert codebook_use(torch.tensor([5, 0, 1, 0])) == 0.5
    assert perplexity(torch.tensor([3, 3, 0, 3])) == pytest.approx(3)
    assert perplexity(torch.tensor([7, 0])) == 1
    assert perplexity(torch.tensor([1, 3])) == pytest.approx(4 / 3**0.75)
    assert codebook_use(torch.zeros(3)) is perplexity(torch.zeros(3)) is None


def test_codes_add_up_over_batches() -> None:
    use = CodebookUse(4)
    assert use.summary() == {"codes": 4, "use": None, "perplexity": None, "dead": None}
    use.update(torch.tensor([[0, 0], [2, 0]]))
    use.update(torch.tensor([2, 2]))
    use.update(torch.zeros(0, dtype=torch.int64))
    assert use.counts.tolist() == [3, 0, 3, 0]
    summary = use.summary()
    assert summary["use"] == 0.5
    assert summary["perplexity"] == pytest.approx(2)
    assert summary["dead"] == [1, 3]
    with pytest.raises(UserError, match="0 to 3; found 1 to 4"):
        use.update(torch.tensor([1, 4]))
    assert use.counts.sum() == 6


def assignment_entropy(assignment: torch.Tensor) -> float | None:
    """As a split of one batch says it."""
    use = AssignmentUse(assignment.shape[-1])
    use.update(assignment)
    return use.summary()["assignment_entropy"]


def test_entropy_between_one_hot_and_uniform() -> None:
    assert assignment_entropy(torch.eye(4)[None]) == 0
    assert assignment_entropy(torch.full((2, 3, 4), 0.25)) == pytest.approx(1)
    half = torch.tensor([[[0.5, 0.5, 0, 0], [1, 0, 0, 0]]])
    assert assignment_entropy(half) == pytest.approx(math.log(2) / math.log(4) / 2)
    assert assignment_entropy(torch.ones(2, 3, 1)) is None
    assert assignment_entropy(torch.ones(0, 3, 2)) is None


def test_slots_over_a_split() -> None:
    use = AssignmentUse(4)
    assert use.summary()["empty_slots"] is None
    generator = torch.Generator().manual_seed(0)
    batches = [torch.rand(n, 5, 4, generator=generator) * torch.tensor([1, 1, 1, 1e-4]) for n in (3, 1)]
    batches = [batch / batch.sum(-1, keepdim=True) for batch in batches]
    for batch in batches:
        use.update(batch)
    together = torch.cat(batches).double()
    summary = use.summary()
    entropy = torch.special.entr(together).sum(-1).mean() / math.log(4)
    assert summary["assignment_entropy"] == pytest.approx(float(entropy))
    assert summary["slot_mass"] == pytest.approx((together.sum((0, 1)) / 20).tolist())
    assert sum(summary["slot_mass"]) == pytest.approx(1)
    assert summary["empty_slots"] == [3]
    assert use.summary(empty_below=1e-6)["empty_slots"] == []


def test_the_border_of_an_empty_slot() -> None:
    # An even share of two slots is ½; a hundredth of it is .005.
    for mass, empty in ((0.0049, [1]), (0.0051, [])):
        use = AssignmentUse(2)
        use.update(torch.tensor([[[1 - mass, mass]]]))
        assert use.summary()["empty_slots"] == empty


def test_wrong_number_of_slots() -> None:
    with pytest.raises(UserError, match=r"\(B, L, 4\), found \(1, 2, 3\)"):
        AssignmentUse(4).update(torch.ones(1, 2, 3) / 3)


def test_counts_of_several_processes_add_up_to_one_pass() -> None:
    generator = torch.Generator().manual_seed(1)
    codes = torch.randint(0, 5, (7, 4), generator=generator)  # code 5 is never the nearest
    whole, parts = CodebookUse(6), [CodebookUse(6), CodebookUse(6), CodebookUse(6)]
    whole.update(codes)
    for part, rows in zip(parts, (codes[:3], codes[3:], codes[:0]), strict=True):
        part.update(rows)
    for other in parts[1:]:
        parts[0].add(other)
    assert parts[0].counts.tolist() == whole.counts.tolist()
    assert parts[0].summary() == whole.summary()
    assert parts[0].summary()["dead"] == [5]


def test_assignments_of_several_processes_add_up_to_one_pass() -> None:
    generator = torch.Generator().manual_seed(2)
    assignment = torch.rand(6, 5, 3, generator=generator).softmax(-1)
    whole, parts = AssignmentUse(3), [AssignmentUse(3), AssignmentUse(3), AssignmentUse(3)]
    whole.update(assignment)
    for part, rows in zip(parts, (assignment[:2], assignment[2:], None), strict=True):
        if rows is not None:  # a process may have had no image
            part.update(rows)
    for other in parts[1:]:
        parts[0].add(other)
    one, sum_of = whole.summary(), parts[0].summary()
    assert parts[0].patches == whole.patches == 30
    assert sum_of["assignment_entropy"] == pytest.approx(one["assignment_entropy"])
    assert sum_of["slot_mass"] == pytest.approx(one["slot_mass"])
    assert sum_of["empty_slots"] == one["empty_slots"]
    first = AssignmentUse(3)
    first.add(whole)  # also where the main process is the one without
    assert first.summary()["slot_mass"] == pytest.approx(one["slot_mass"])
