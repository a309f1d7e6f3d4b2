"""Gram anchoring against numbers worked out by hand, a naive loop, and what an anchor must not do."""

import pytest
import torch

from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.nn.regularizers.gram import Gram, gram_loss, similarities
from conceptlens.nn.regularizers.regularizer import Context
from conceptlens.nn.setup import Setup


def mini() -> BuiltinViT:
    torch.manual_seed(0)
    return BuiltinViT(image_size=16, width=8, depth=1, heads=2, stem_width=4, text_width=0, name="builtin/vit-mini")


def test_by_hand() -> None:
    # Two patches at right angles; the anchor's point the same way, at any length. Cosines: 0 against 1, twice.
    patches, anchor = torch.tensor([[[3.0, 0.0], [0.0, 2.0]]]), torch.tensor([[[1.0, 0.0], [5.0, 0.0]]])
    torch.testing.assert_close(similarities(patches), torch.eye(2)[None])
    assert gram_loss(patches, anchor, reduction="sum").tolist() == pytest.approx([2.0])
    assert gram_loss(patches, anchor).tolist() == pytest.approx([0.5])


def test_negative_similarities_may_be_dropped() -> None:
    # Opposite patches (cosine −1) against right angles (0): a difference only if negative cosines count.
    patches, anchor = torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]]), torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    assert gram_loss(patches, anchor, reduction="sum").tolist() == pytest.approx([2.0])
    assert gram_loss(patches, anchor, reduction="sum", drop_negative=True).tolist() == pytest.approx([0.0])


def test_equals_a_naive_loop() -> None:
    torch.manual_seed(0)
    patches, anchor = torch.randn(2, 5, 4), torch.randn(2, 5, 4)
    found = gram_loss(patches, anchor)
    for b in range(2):
        total = 0.0
        for i in range(5):
            for j in range(5):
                ours = torch.cosine_similarity(patches[b, i], patches[b, j], dim=0)
                theirs = torch.cosine_similarity(anchor[b, i], anchor[b, j], dim=0)
                total += float(ours - theirs) ** 2
        assert found[b].item() == pytest.approx(total / 25, rel=1e-4)


def test_turning_all_patches_alike_costs_nothing() -> None:
    torch.manual_seed(0)
    patches = torch.randn(2, 6, 4)
    turn = torch.linalg.qr(torch.randn(4, 4)).Q
    assert float(gram_loss(patches @ turn * 3, patches).max()) < 1e-10


def test_the_anchor_is_the_start_and_stays_there(setup: Setup) -> None:
    encoder, regularizer = mini(), Gram(setup, weight=4.0)
    images = torch.rand(3, 3, 16, 16)
    start = encoder(images).patches.detach()
    assert regularizer(encoder(images), Context(images)).losses == {}  # not attached: nothing to hold
    regularizer.attach(encoder)
    assert regularizer(encoder(images), Context(images)).losses["gram"].tolist() == pytest.approx([0, 0, 0], abs=1e-9)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    regularizer.train()
    tokens = encoder(images)
    loss = regularizer(tokens, Context(images)).losses["gram"]
    torch.testing.assert_close(loss, 4.0 * gram_loss(tokens.patches, start))
    assert float(loss.detach().min()) > 0
    loss.sum().backward()
    assert encoder.stem is not None
    assert all(parameter.grad is not None for parameter in encoder.trunk.parameters())
    with torch.no_grad():
        assert regularizer(encoder(images), Context(images)).losses == {}  # predictions pay nothing for it


def test_the_anchor_is_no_part_of_what_is_saved(setup: Setup) -> None:
    encoder, regularizer = mini(), Gram(setup)
    regularizer.attach(encoder)
    assert list(regularizer.parameters()) == []
    assert regularizer.state_dict() == {}
    regularizer.detach()
    assert regularizer(encoder(torch.rand(1, 3, 16, 16)), Context(torch.rand(1, 3, 16, 16))).losses == {}


def test_stored_tokens_pass_through_the_anchor_too(setup: Setup) -> None:
    from conceptlens.encoders.contract import Cut

    encoder, regularizer = mini(), Gram(setup)
    images = torch.rand(2, 3, 16, 16)
    entering = encoder.before(encoder.normalize(images), 1).detach()
    encoder.cut = Cut(1, encoder.grid(16, 16))
    regularizer.attach(encoder)
    loss = regularizer(encoder.from_stored(entering), Context(entering)).losses["gram"]
    assert loss.tolist() == pytest.approx([0, 0], abs=1e-9)
