"""Batches as a pure function of seed, epoch and step."""

import numpy as np
import pytest

from conceptlens.core.errors import UserError
from conceptlens.training.batches.order import Order, piece

INDICES = np.arange(100, 123, dtype=np.int64)


def test_an_epoch_takes_no_image_twice_and_drops_the_incomplete_batch() -> None:
    order = Order.plan(INDICES, 5, 1, seed=0)
    batches = list(order.epoch(0))
    assert order.steps == len(batches) == 4
    assert all(len(batch) == 5 for batch in batches)
    taken = np.concatenate(batches)
    assert len(np.unique(taken)) == 20
    assert np.isin(taken, INDICES).all()


def test_epochs_and_seeds_differ_and_repeat() -> None:
    first = [batch.tolist() for batch in Order.plan(INDICES, 5, 1, seed=0).epoch(3)]
    again = [batch.tolist() for batch in Order.plan(INDICES, 5, 1, seed=0).epoch(3)]
    later = [batch.tolist() for batch in Order.plan(INDICES, 5, 1, seed=0).epoch(4)]
    other = [batch.tolist() for batch in Order.plan(INDICES, 5, 1, seed=1).epoch(3)]
    assert first == again
    assert first != later
    assert first != other


def test_a_resumed_epoch_goes_on_with_the_same_batches() -> None:
    order = Order.plan(INDICES, 5, 1, seed=7)
    whole = [batch.tolist() for batch in order.epoch(2)]
    assert [batch.tolist() for batch in order.epoch(2, start=3)] == whole[3:]
    assert list(order.epoch(2, start=4)) == []


def test_every_image_is_seen_sooner_or_later() -> None:
    order = Order.plan(INDICES, 8, 1, seed=0)
    seen = np.concatenate([batch for epoch in range(10) for batch in order.epoch(epoch)])
    assert set(seen.tolist()) == set(INDICES.tolist())


def test_pieces_share_a_batch_without_gaps() -> None:
    batch = np.arange(12)
    for pieces in (1, 2, 3, 4, 6, 12):
        parts = [batch[piece(batch, index, pieces)] for index in range(pieces)]
        assert np.concatenate(parts).tolist() == batch.tolist()
        assert {len(part) for part in parts} == {12 // pieces}


def test_batches_larger_than_the_data_shrink_to_it() -> None:
    order = Order.plan(INDICES, 1000, 1, seed=0)
    assert (order.batch_size, order.steps) == (23, 1)
    assert Order.plan(INDICES, 1000, 4, seed=0).batch_size == 20  # the largest that four can share


def test_what_cannot_be_shared_is_refused() -> None:
    with pytest.raises(UserError, match="choose a multiple of 3"):
        Order.plan(INDICES, 10, 3, seed=0)
    with pytest.raises(UserError, match="2 training images are too few for 4"):
        Order.plan(INDICES[:2], 8, 4, seed=0)


def test_blocks_are_read_together() -> None:
    """Every image once; a block's images lie within one window of eight blocks; the same for any start."""
    blocks, indices = np.arange(0, 400, 4), np.arange(0, 400, 2)
    order = Order.plan(indices, 10, 2, seed=3, blocks=blocks)
    batches = list(order.epoch(1))
    assert sorted(np.concatenate(batches).tolist()) == indices.tolist()
    first, last = {}, {}
    for step, image in enumerate(np.concatenate(batches).tolist()):
        first.setdefault(image // 4, step)
        last[image // 4] = step
    assert max(last[block] - first[block] for block in first) < 16  # two images a block, eight blocks together
    assert not np.array_equal(np.concatenate(batches), indices)
    assert [batch.tolist() for batch in order.epoch(1, start=5)] == [batch.tolist() for batch in batches[5:]]
