"""States for `resume`: whole or not there, the last two kept, a damaged one passed over."""

import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.optim import AdamW

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.training.records.checkpoint import (
    Position,
    StateFolder,
    optimizer_tensors,
    random_tensors,
    restore_optimizer,
    restore_random,
)
from tests.core.test_manifest import rot


def parts(value: float) -> dict[str, dict[str, Tensor]]:
    filled = {"weight": torch.full((2, 3), value)}
    return {"pipeline": filled, "optimizer": {"weight/exp_avg": torch.zeros(2, 3)}, "random": random_tensors()}


def states_of(run: Path, *steps: int) -> StateFolder:
    folder = StateFolder(run)
    for step in steps:
        position = Position(total_steps=step, best_value=0.5)
        position.best_file = folder.save_best(position, {"weight": torch.full((2, 3), -float(step))})
        folder.save(position, parts(step))
    return folder


def loaded(folder: StateFolder) -> tuple[Position, dict[str, dict[str, Tensor]]]:
    found = folder.load()
    assert found is not None
    return found


def test_nothing_yet(tmp_path: Path) -> None:
    assert StateFolder(tmp_path).load() is None
    (tmp_path / "state").mkdir()
    assert StateFolder(tmp_path).load() is None


def test_the_newest_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    position = Position(1, 2, 3, 4, 5, 678, 0.25, 3, None, 1, {"class": 1.5}, 9.75)
    tensors = parts(7.0)
    folder.save(position, tensors)
    found, back = loaded(folder)
    assert asdict(found) == asdict(position)
    for part, values in tensors.items():
        assert set(back[part]) == set(values)
        assert all(torch.equal(back[part][name], value) for name, value in values.items())


def test_the_last_two_are_kept_with_the_weights_they_name(tmp_path: Path) -> None:
    folder = states_of(tmp_path, 1, 2, 10)
    assert [state.name.split("-")[0] for state in folder.states()] == ["000000002", "000000010"]
    assert sorted(file.name for file in folder.path.glob("best-*")) == [
        "best-000000002.safetensors",
        "best-000000010.safetensors",
    ]
    position, tensors = loaded(folder)
    assert position.total_steps == 10
    assert float(tensors["pipeline"]["weight"][0, 0]) == 10
    best = folder.load_best(position)
    assert best is not None
    assert float(best["weight"][0, 0]) == -10


def test_what_a_kill_left_half_written_is_ignored_and_removed(tmp_path: Path) -> None:
    folder = states_of(tmp_path, 1)
    shutil.copytree(folder.states()[0], folder.path / ".000000002-00000.0badcafe.tmp")
    (folder.path / ".000000002-00000.0badcafe.tmp" / "position.json").unlink()
    (folder.path / ".best-000000002.safetensors.0badcafe.tmp").write_bytes(b"half")
    (folder.path / ".000000000-00000.0badcafe.old").mkdir()
    assert loaded(folder)[0].total_steps == 1
    assert not [entry.name for entry in folder.path.iterdir() if entry.name.startswith(".")]


def test_an_error_while_writing_leaves_the_older_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = states_of(tmp_path, 1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("conceptlens.training.records.checkpoint.write_json", full)
    with pytest.raises(OSError, match="No space"):
        folder.save(Position(total_steps=2), parts(2))
    assert [state.name.split("-")[0] for state in folder.states()] == ["000000001"]
    assert not [entry.name for entry in folder.path.iterdir() if entry.name.startswith(".")]
    assert loaded(folder)[0].total_steps == 1


def damage_tensors(state: Path) -> None:
    file = state / "pipeline.safetensors"
    file.write_bytes(file.read_bytes()[:-10])


def flip_a_bit_of_the_tensors(state: Path) -> None:
    rot(state / "pipeline.safetensors")


def flip_a_bit_of_the_chosen_weights(state: Path) -> None:
    rot(state.parent / read_json(state / "position.json")["best_file"])


def damage_position(state: Path) -> None:
    (state / "position.json").write_text('{"total_steps": 2, "to')


def rename_an_entry(state: Path) -> None:
    text = (state / "position.json").read_text()
    (state / "position.json").write_text(text.replace("total_steps", "steps_in_all"))


def remove_a_part(state: Path) -> None:
    (state / "optimizer.safetensors").unlink()


@pytest.mark.parametrize(
    "damage",
    [
        damage_tensors,
        flip_a_bit_of_the_tensors,
        flip_a_bit_of_the_chosen_weights,
        damage_position,
        rename_an_entry,
        remove_a_part,
    ],
)
def test_a_damaged_state_is_passed_over_for_the_one_before(tmp_path: Path, damage: object) -> None:
    folder = states_of(tmp_path, 1, 2)
    assert callable(damage)
    damage(folder.states()[-1])
    assert loaded(folder)[0].total_steps == 1
    damage(folder.states()[0])
    with pytest.raises(UserError, match=r"000000002-00000: this state is damaged .* Train the run again"):
        folder.load()


def test_damaged_best_weights_are_a_clear_message(tmp_path: Path) -> None:
    folder = states_of(tmp_path, 1)
    position, _ = loaded(folder)
    (folder.path / str(position.best_file)).write_bytes(b"nonsense")
    with pytest.raises(UserError, match="best-000000001"):
        folder.load_best(position)
    (folder.path / str(position.best_file)).unlink()
    with pytest.raises(UserError, match="best-000000001"):
        folder.load_best(position)


def test_moments_go_back_to_their_parameters() -> None:
    """Two steps in a row, or one, saved, restored into a fresh optimizer, and another: the same weights."""
    torch.manual_seed(0)
    first = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    images = torch.randn(5, 3)

    def step(module: nn.Module, optimizer: AdamW) -> None:
        module(images).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    optimizer = AdamW(first.parameters(), lr=0.1)
    step(first, optimizer)
    second = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    second.load_state_dict(first.state_dict())
    other = AdamW(second.parameters(), lr=0.1)
    restore_optimizer(second, other, {key: value.clone() for key, value in optimizer_tensors(first, optimizer).items()})
    step(first, optimizer)
    step(second, other)
    for mine, theirs in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_random_numbers_go_on_where_they_stood() -> None:
    torch.manual_seed(3)
    torch.rand(5)
    stored = {name: value.clone() for name, value in random_tensors().items()}
    expected = torch.rand(4)
    torch.manual_seed(99)
    restore_random(stored)
    assert torch.equal(torch.rand(4), expected)
