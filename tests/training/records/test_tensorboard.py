"""Event files say what history.jsonl says, once, also after a kill; without the package nothing begins."""

import json
import sys
import types
from pathlib import Path

import pytest

import conceptlens as cl
from conceptlens.cli import main
from conceptlens.training.records.history import History
from tests.conftest import Refuse
from tests.training.tiny import tiny

Point = tuple[str, float, int]


class FakeWriter:
    """TensorBoard's writer as far as we use it: points appear in a file of its own at `flush` and `close`."""

    made = 0

    def __init__(self, log_dir: str) -> None:
        FakeWriter.made += 1
        self.path, self.points = Path(log_dir) / f"events.out.tfevents.{FakeWriter.made}", []
        self.path.touch()

    def add_scalar(self, tag: str, scalar_value: float, global_step: int, walltime: float) -> None:
        self.points.append((tag, scalar_value, global_step, walltime))

    def flush(self) -> None:
        self.path.write_text("".join(json.dumps(point) + "\n" for point in self.points))

    close = flush


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = FakeWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)


def points(folder: Path) -> list[Point]:
    """All points of all files: what TensorBoard shows."""
    lines = [line for file in sorted(folder.glob("events*")) for line in file.read_text().splitlines()]
    return sorted((tag, value, step) for tag, value, step, _ in map(json.loads, lines))


def expected(run: Path) -> list[Point]:
    found = []
    for line in map(json.loads, (run / "history.jsonl").read_text().splitlines()):
        numbers = {key: value for key, value in line.items() if isinstance(value, float | int)}
        for key in set(numbers) - {"epoch", "step", "time"}:
            found.append((f"{line['split']}/{key}", line[key], line["step"]))
    return sorted(found)


def test_every_number_is_a_point_of_its_split(fake: None, tmp_path: Path) -> None:
    (tmp_path / "tensorboard").mkdir()
    history = History(tmp_path / "history.jsonl")
    history.add(epoch=1, step=4, split="train", stage="main", loss=0.5, loss_ivq=0.25)
    history.add(epoch=1, step=4, split="train", kind="rank", rank_published=12.0)
    history.add(epoch=1, step=4, split="val", **{"class.accuracy": 1})
    history.flush()
    assert points(tmp_path / "tensorboard") == [
        ("train/loss", 0.5, 4),
        ("train/loss_ivq", 0.25, 4),
        ("train/rank_published", 12.0, 4),
        ("val/class.accuracy", 1, 4),
    ]


def test_a_resumed_history_is_written_anew(fake: None, tmp_path: Path) -> None:
    folder = tmp_path / "tensorboard"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    first = History(tmp_path / "history.jsonl")
    first.add(step=1, split="train", loss=3.0)
    kept = first.flush()
    first.add(step=2, split="train", loss=2.0)  # not in the state that the run resumes from
    first.flush()
    del first
    again = History(tmp_path / "history.jsonl", keep_bytes=kept, seconds=1000.0)
    again.add(step=2, split="train", loss=2.5)
    again.flush()
    assert points(folder) == [("train/loss", 2.5, 2), ("train/loss", 3.0, 1)]
    early, late = (json.loads(line)[3] for line in next(folder.glob("events*")).read_text().splitlines())
    assert late - early == pytest.approx(1000, abs=1)  # the pause between the sessions is no training time
    assert (folder / "notes.txt").read_text() == "mine"


def test_training_writes_what_the_history_has(fake: None, tmp_path: Path) -> None:
    run = cl.train(tiny(tmp_path / "run", training__tensorboard=True, training__epochs=1), quiet=True).path
    found = points(run / "tensorboard")
    assert found == expected(run)
    assert {"train/loss", "train/rank_published", "val/class.balanced_accuracy"} <= {tag for tag, _, _ in found}


def test_a_run_that_was_stopped_has_no_point_twice(fake: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after an epoch whose losses the state does not know, from which the run resumes."""
    out, real, calls = tmp_path / "run", History.add, [0]

    def stop(self: History, **values: object) -> None:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        real(self, **values)

    recipe = tiny(out, training__tensorboard=True, training__epochs=2, training__checkpoint_every=3)
    with monkeypatch.context() as patch:
        patch.setattr(History, "add", stop)
        with pytest.raises(KeyboardInterrupt):
            cl.train(recipe, quiet=True)
    assert ("train/loss", 3) in [(tag, step) for tag, _, step in expected(out)]
    cl.resume(out, quiet=True)
    assert points(out / "tensorboard") == expected(out)
    assert len(list((out / "tensorboard").iterdir())) == 1


def test_off_by_default(fake: None, tmp_path: Path) -> None:
    made = FakeWriter.made
    run = cl.train(tiny(tmp_path / "run", training__epochs=1), quiet=True).path
    assert not (run / "tensorboard").exists()
    assert FakeWriter.made == made


def test_without_the_package(refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    out = tmp_path / "run"
    refuse(
        *("train", "shapes/ivq-cbm", "--training.tensorboard", "true", "--out", out, "--quiet"),
        says=("training.tensorboard", "pip install 'conceptlens[tensorboard]'"),
    )
    assert not out.exists()


def test_tensorboard_itself_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="the extra `tensorboard` is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    out = tmp_path / "run"
    assert main(["train", str(_recipe(tmp_path, out)), "--quiet"]) == 0
    read = EventAccumulator(str(out / "tensorboard"))
    read.Reload()
    found = sorted((tag, each.step) for tag in read.Tags()["scalars"] for each in read.Scalars(tag))
    assert found == sorted((tag, step) for tag, _, step in expected(out))


def _recipe(folder: Path, out: Path) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(tiny(out, training__tensorboard=True, training__epochs=1)))  # JSON is YAML
    return path
