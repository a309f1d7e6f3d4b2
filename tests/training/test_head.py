"""The head that is fitted again: whose readings it is shown, and what that changes."""

from pathlib import Path

import pytest
import torch

import conceptlens as cl
from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.nn.heads.bottleneck import Bottleneck
from conceptlens.training.head import Partners, fit_head
from tests.training.tiny import tiny

QUESTION = torch.tensor([0, 0, 3])  # a group of two values, and one concept alone
SAID = torch.tensor([[1, 0, 1], [0, 1, 0], [1, 0, UNKNOWN], [0, 1, 1]])
OTHERS = torch.tensor([[0, 1, 0], [1, 0, 0], [1, 0, 0]])  # none with the third concept


def test_readings_come_from_images_with_the_same_label_question_by_question() -> None:
    partners = Partners.find(SAID, OTHERS, QUESTION)
    assert partners.count.tolist() == [[2, 0], [1, 3], [2, 0], [1, 0]]
    read, others = torch.zeros(4, 3), torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9]])
    rows = torch.arange(4)
    low = partners.draw(rows, read, others, torch.zeros(4, 2))
    assert low.tolist() == [[4, 5, 0], [1, 2, 3], [4, 5, 0], [1, 2, 0]]
    high = partners.draw(rows, read, others, torch.full((4, 2), 0.99))
    assert high.tolist() == [[7, 8, 0], [1, 2, 9], [7, 8, 0], [1, 2, 0]]  # the values of a group come from one image


CONCEPTS = ConceptSet.from_yaml(
    "name: two\nclasses: [a, b]\ngroups: {good: {values: [no, yes]}, bad: {values: [no, yes]}}"
)


def test_a_group_that_is_read_badly_in_new_images_loses_its_say() -> None:
    """Both groups tell the class of training images; of validation images the second one says nothing."""
    value = torch.arange(40) % 2
    labels = torch.stack([1 - value, value, 1 - value, value], 1)
    sure = torch.where(labels == 1, 0.99, 0.01)
    new = torch.cat([sure[:, :2], torch.full((40, 2), 0.5)], 1)
    bottleneck = Bottleneck(CONCEPTS, "probability")
    common = {"weights": torch.ones(2), "batch_size": 20, "rate": 0.05, "decay": 0.01, "smoothing": 0.0, "seed": 0}

    def say(share: float) -> float:
        """How much more the second group moves the class than the first."""
        head = fit_head(bottleneck, sure, labels, value, new, labels, share=share, steps=100, **common)
        moved = (head.weight[1] - head.weight[0]).detach()
        return float((moved[3] - moved[2]) / (moved[1] - moved[0]))

    assert say(0.0) == pytest.approx(1, abs=0.25)
    assert say(1.0) < 0.4


@pytest.mark.slow
def test_only_the_head_changes(tmp_path: Path) -> None:
    heads = []
    for share in (0.0, 0.5, 0.5):
        out = tmp_path / f"run-{len(heads)}"
        recipe = tiny(out, method={"name": "evidence-cbm", "validation_readings": share})
        model = cl.train(recipe, quiet=True)
        heads.append({name: value.clone() for name, value in model.pipeline.model.state_dict().items()})
    assert all(torch.equal(heads[0][name], heads[1][name]) for name in heads[0] if not name.startswith("head."))
    assert not torch.equal(heads[0]["head.weight"], heads[1]["head.weight"])
    assert torch.equal(heads[1]["head.weight"], heads[2]["head.weight"])
