"""Engines: every task once, lost processes replaced, codes as they came."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conceptlens.core.engines import EngineName, make_engine
from conceptlens.core.engines.contract import RETRIES, Task
from conceptlens.core.engines.environment import python
from conceptlens.core.errors import UserError

HERE = "tests.core.engines.tasks"
Outcome = dict[str, tuple[int, str]]
Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "src")]))
    # A worker of an engine imports torch otherwise, which these tasks do not need.

    def run_tasks(engine: EngineName, tasks: list[Task], at_once: int = 2) -> Outcome:
        words = ["cluster=local"] if engine == "slurm" else []
        outcome: Outcome = {}

        def on_end(task: Task, code: int, log: str) -> None:
            assert task.id not in outcome
            outcome[task.id] = (code, log)

        make_engine(engine, at_once, tmp_path / "logs", words).run(tasks, on_end)
        return outcome

    return run_tasks


def examine(run: Run, engine: EngineName, folder: Path) -> None:
    """What every engine must do."""
    notes = [Task(f"n{k}", f"{HERE}:note", {"file": str(folder / f"n{k}"), "word": str(k)}) for k in range(3)]
    codes = [Task(f"c{code}", f"{HERE}:answer", {"code": code}) for code in (1, 75)]
    lost = Task("lost", f"{HERE}:die", {"file": str(folder / "lost"), "times": 1})
    gone = Task("gone", f"{HERE}:die", {"file": str(folder / "gone"), "times": 99})
    outcome = run(engine, [*notes, *codes, lost, gone])
    assert {name: code for name, (code, _) in outcome.items() if name != "gone"} == {
        "n0": 0,
        "n1": 0,
        "n2": 0,
        "c1": 1,
        "c75": 75,
        "lost": 0,
    }
    assert [(folder / f"n{k}").read_text() for k in range(3)] == ["0\n", "1\n", "2\n"]
    assert outcome["gone"][0] not in (0, 75)
    assert len((folder / "gone").read_text().split()) == RETRIES + 1


def test_local(run: Run, tmp_path: Path) -> None:
    examine(run, "local", tmp_path)


@pytest.mark.slow
def test_ray(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    examine(run, "ray", tmp_path)


@pytest.mark.slow
def test_slurm_on_this_machine(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    examine(run, "slurm", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray", "slurm"])
def test_at_once(run: Run, engine: EngineName) -> None:
    if engine != "local":
        pytest.importorskip({"ray": "ray", "slurm": "submitit"}[engine])
    tasks = [Task(str(k), f"{HERE}:sleep", {"seconds": 1.5}) for k in range(4)]
    run(engine, tasks[:1])  # starting an engine takes a while
    started = time.monotonic()
    assert len(run(engine, tasks, 1)) == 4
    one = time.monotonic() - started
    assert one > 6
    started = time.monotonic()
    run(engine, tasks, 2)
    assert time.monotonic() - started < one - 2


def test_options_are_words(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="timeout_min=240"):
        make_engine("slurm", 1, tmp_path, ["fast"])
    with pytest.raises(UserError, match="the local engine has no options"):
        make_engine("local", 1, tmp_path, ["a=1"]).run([], lambda *_: None)


def test_workers_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """It may be a stranger's, and `python -m` would look there first."""
    (tmp_path / "yaml.py").write_text("open('ran', 'w'); raise ImportError('not the package')")
    code = "import os; from pathlib import Path; from conceptlens.core.engines.contract import Task; "
    code += "from conceptlens.core.engines.local import Worker; "
    code += "print(Worker(Path('log'), os.environ).do(Task('t', 'os:getpid', {})))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # where this process has the package from
    started = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, env=environment, capture_output=True)
    assert int(started.stdout) > 1, started.stderr.decode()
    assert not (tmp_path / "ran").exists()


def test_a_process_imports_from_the_current_folder_where_this_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = [folder for folder in sys.path if folder not in ("", os.getcwd())]
    monkeypatch.setattr(sys, "path", elsewhere)
    assert python() == [sys.executable, "-P"]
    monkeypatch.setattr(sys, "path", [os.getcwd(), *elsewhere])
    assert python() == [sys.executable]
