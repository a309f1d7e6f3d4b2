"""Jobs of the page: forms from functions, a queue that is a folder, refusals."""

import json
import os
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from conceptlens import api
from conceptlens.core import plugins
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_json
from conceptlens.core.locks import lock_file
from conceptlens.data.sources.shard_files import expand
from conceptlens.recipes.parse import load_recipe
from conceptlens.web.jobs import runner
from conceptlens.web.jobs.desk import JobDesk, Request
from conceptlens.web.jobs.forms import Form, run_name, settings_words
from conceptlens.web.jobs.runner import Progress, run_job
from conceptlens.web.jobs.scheduler import Scheduler
from conceptlens.web.jobs.store import JobStore, alive
from conceptlens.web.server.folders import RunEntry
from conceptlens.web.server.safety import Policy
from tests.web.conftest import World, client_of

JOBS = {"interventions": api.interventions, "train": api.train}


def example(
    run: str, *, n: int = 5, to: Literal["a", "b"] = "a", fast: bool = True, by: list[str] | None = None
) -> None:
    """Does something.

    Args:
        run: The folder.
        n: How many.
        to: Which.
        fast: Whether.
        by: Columns.
    """


def test_a_form_is_what_the_command_line_is() -> None:
    form = Form.of("example", example)
    assert (form.about, form.needs_run) == ("Does something.", True)
    assert [(option.name, option.type, option.choices) for option in form.options] == [
        ("n", int, ()), ("to", None, ("a", "b")), ("fast", None, ()), ("by", None, ()),
    ]  # fmt: skip
    assert form.words({"n": 3, "to": "b", "fast": False, "by": ["x", "--y"]}) == [
        "--n=3", "--to=b", "--no-fast", "--by=x", "--by=--y",
    ]  # fmt: skip
    assert form.words({"n": None, "to": "", "fast": True, "by": []}) == []


@pytest.mark.parametrize(
    "values", [{"n": "3; rm"}, {"to": "c"}, {"out": "/tmp"}, {"fast": "yes"}, {"n": [1]}, {"by": "a\nb"}]
)
def test_what_does_not_fit_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Form.of("example", example).words(values)


def test_a_training_has_a_field_for_each_plain_setting_of_its_recipe() -> None:
    settings = {option.name: option for option in Form.of("train", api.train).settings}
    assert (settings["training.learning_rate"].type, settings["seed"].type) == (float, int)
    assert settings["training.schedule"].choices == ("exponential", "polynomial", "cosine", "constant")
    assert settings["training.tensorboard"].choices == ("true", "false")
    assert settings["training.epochs"].type is None, "a number, or auto"
    assert settings["training.epochs"].help.startswith("Passes over the training images")
    assert not {"training.loss", "training.stages", "training.betas", "out", "data"} & set(settings)
    for name in settings:
        assert settings_words([f"{name} = 1"]) == [f"--{name}=1"]
    assert Form.of("example", example).settings == ()


def test_settings_are_plain() -> None:
    assert settings_words(["training.epochs = 5", "seed: 3"]) == ["--training.epochs=5", "--seed=3"]
    for line in ("method.name = file.py:Class", "data.source = /etc", "training.x = a;b", "--out=x"):
        with pytest.raises(UserError):
            settings_words([line])
    for name in ("", "../x", "a/b", ".hidden", "-x"):
        with pytest.raises(UserError):
            run_name(name)


def test_progress_counts_within_a_step() -> None:
    progress = Progress()
    progress.read("permutation 10 of 100", 0.0)
    progress.read("permutation 20 of 100", 5.0)
    assert (progress.value["first"], progress.value["done"], progress.value["total"]) == (10, 20, 100)
    progress.read("another step 1 of 3", 6.0)
    assert (progress.value["since"], progress.value["first"], progress.value["total"]) == (6.0, 1, 3)
    assert not progress.read("  \r", 7.0)


def test_the_time_left_is_the_jobs_once_one_of_its_kind_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier job: 10 s until the first of five parts, 8 s for them, then 20 s of something that does not count."""
    store = JobStore(tmp_path / ".jobs")
    now = 1000.0
    monkeypatch.setattr("conceptlens.web.jobs.store.time.time", lambda: now)

    def said(name: str, lines: list[tuple[str, float]], **more: float) -> None:
        progress = Progress(begun=0.0 if more else 980.0)
        for line, at in lines:
            progress.read(line, at)
        write_json(store.folder / name / "progress.json", progress.value | more)

    def left(name: str) -> tuple[float | None, str | None]:
        status = store.get(name)
        assert status is not None
        return status.seconds_left, status.left_of

    parts = [(f"part {number} of 5", 8.0 + 2 * number) for number in range(1, 6)]
    first, other, second = (store.add(name, [name, "x"], "cpu", "x").id for name in ("audit", "trust", "audit"))
    for name in (other, second):
        store.start(name, os.getpid())
    said(other, [("part 1 of 5", 988.0), ("part 2 of 5", 1000.0)])
    said(second, [("part 1 of 5", 990.0), ("part 2 of 5", 1000.0)])
    assert left(second) == (30.0, "step")  # three more parts, 10 s each; nothing is known of what follows
    said(first, [*parts, ("drawing", 18.0)], took=38.0)
    write_json(store.folder / first / "ended.json", {"code": 0, "time": "then"})
    assert left(second) == (50.0, "job")  # and 20 s of drawing
    assert left(other) == (36.0, "step")  # another command
    said(second, [("drawing", 995.0)])
    assert left(second) == (15.0, "job")  # it draws since 5 s
    said(second, [("reading", 999.0)])
    assert left(second) == (18.0, "job")  # it began 20 s ago
    said(second, [])
    assert left(second) == (18.0, "job")


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_served_folder_brings_no_jobs_along(tmp_path: Path) -> None:
    """Whoever made the folder could have any command run."""
    planted = JobStore(tmp_path / "runs" / ".jobs").add("decompose", ["decompose", "evil.py:build"], "cpu", None)
    desk = JobDesk(tmp_path / "runs", {}, [], allowed=True)
    assert desk.store.get(planted.id) is None
    assert not desk.store.folder.is_relative_to(tmp_path / "runs")


def test_states_follow_from_files(tmp_path: Path) -> None:
    store = JobStore(tmp_path / ".jobs")
    first = store.add("audit", ["audit", "x"], "cpu", "x").id
    second = store.add("audit", ["audit", "y"], "cpu", "y").id

    def state(name: str) -> str:
        status = store.get(name)
        assert status is not None
        return status.state

    assert [state(first), state(second)] == ["queued", "queued"]
    store.start(first, os.getpid())
    assert state(first) == "running"
    store.cancel(second)
    assert state(second) == "cancelled"
    gone = {"pid": 2**22 + 7, "made": 0.0, "time": "then"}  # a process of before the machine was restarted
    (store.folder / first / "started.json").write_text(json.dumps(gone), "utf-8")
    assert state(first) == "interrupted"
    for code, word in ((0, "done"), (3, "done"), (2, "failed")):
        (store.folder / first / "ended.json").write_text(json.dumps({"code": code, "time": "now"}), "utf-8")
        assert state(first) == word
    assert JobStore(tmp_path / ".jobs").get("000009") is None
    assert not alive(os.getpid(), 0.0)  # the same number, another process


def test_one_job_at_a_time_on_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = JobStore(tmp_path / ".jobs")
    started: list[str] = []

    class Child:
        pid = os.getpid()

        def __init__(self, words: list[str], **options: Any) -> None:
            self.folder = Path(words[-1])
            started.append(self.folder.name)

        def poll(self) -> int | None:
            return 0 if (self.folder / "ended.json").exists() else None

    monkeypatch.setattr("conceptlens.web.jobs.scheduler.subprocess.Popen", Child)
    names = [store.add("audit", ["audit"], device, None).id for device in ("cpu", "cpu", "cuda:0")]
    scheduler = Scheduler(store)
    scheduler.look()
    scheduler.look()
    assert started == [names[0], names[2]]
    (store.folder / names[0] / "ended.json").write_text('{"code": 0, "time": ""}', "utf-8")
    scheduler.look()
    assert started == [names[0], names[2], names[1]]


def test_a_queue_survives_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that runs goes on and keeps its device; one that waits is started by the next server, once."""
    started: list[str] = []

    class Child:
        pid = os.getpid()

        def __init__(self, words: list[str], **options: Any) -> None:
            started.append(Path(words[-1]).name)
            JobStore(Path(words[-1]).parent).start(started[-1], os.getpid())

        def poll(self) -> None:
            return None

    monkeypatch.setattr("conceptlens.web.jobs.scheduler.subprocess.Popen", Child)
    before = JobDesk(tmp_path / "runs", {}, [], allowed=True)
    first, second = (before.store.add("audit", ["audit"], "cpu", None).id for _ in range(2))
    assert before.scheduler is not None
    before.scheduler.look()
    after = JobDesk(tmp_path / "runs", {}, [], allowed=True)  # the other one is gone
    assert after.scheduler is not None
    after.scheduler.look()
    assert started == [first]
    assert [(status.job.id, status.state) for status in after.store.all()] == [(first, "running"), (second, "queued")]
    (after.store.folder / first / "ended.json").write_text('{"code": 0, "time": ""}', "utf-8")
    after.scheduler.look()
    after.scheduler.look()
    assert started == [first, second]


def test_a_job_runs_once_whoever_starts_it(tmp_path: Path) -> None:
    """A server may be killed after it began a job and before anybody knows; the next one begins it again."""
    store = JobStore(tmp_path)
    folder = tmp_path / store.add("audit", ["--version"], "cpu", None).id
    with lock_file(folder / ".lock"):
        assert run_job(folder) == 0
    assert not (folder / "log.txt").exists()  # another process has it
    run_job(folder)
    ended = (folder / "ended.json").stat().st_mtime_ns
    run_job(folder)
    assert (folder / "ended.json").stat().st_mtime_ns == ended


def test_a_job_whose_process_cannot_begin_is_not_begun_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    store = JobStore(tmp_path)
    name = store.add("audit", ["audit"], "cpu", None).id
    scheduler = Scheduler(store)
    for _ in range(40):
        scheduler.look()
        status = store.get(name)
        assert status is not None
        if status.state == "interrupted":
            return
        time.sleep(0.05)
    raise AssertionError(status)


def test_no_code_runs_in_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe may change between the look at it and the command that reads it."""
    assert runner.NO_CODE == plugins.NO_CODE
    monkeypatch.setenv(plugins.NO_CODE, "1")
    (tmp_path / "evil.py").write_text("raise SystemExit('it ran')", "utf-8")
    (tmp_path / "recipe.yaml").write_text(f"data: shapes\nmethod: '{tmp_path}/evil.py:Evil'\n", "utf-8")
    with pytest.raises(UserError, match="allow-code"):
        load_recipe(tmp_path / "recipe.yaml", trusted=True)


def test_a_job_asks_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe of a served run, which may be a stranger's, may name its data by one."""
    given: dict[str, str] = {}

    def begin(words: list[str], **options: Any) -> None:
        given.update(options["env"])
        raise OSError("enough")

    monkeypatch.setattr(runner.subprocess, "Popen", begin)
    store = JobStore(tmp_path)
    with pytest.raises(OSError, match="enough"):
        runner.run_job(tmp_path / store.add("audit", ["audit", "x"], "cpu", "x").id)
    for name in (runner.NO_CODE, runner.OFFLINE):
        monkeypatch.setenv(name, given[name])
    with pytest.raises(UserError, match="does not fetch it by itself"):
        expand("memory2://shards/*.tar")


def test_without_the_flag_nothing_starts_and_the_command_is_shown(
    client: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.root.parent)
    with client_of(world.root, jobs=JOBS) as closed:
        told = closed.get("/api/v1/jobs").json()
        assert not told["allowed"]
        assert "--allow-jobs" in told["how"]
        body = {"command": "interventions", "run": "slots", "values": {"resamples": 20, "order": ["chance"]}}
        refused = closed.post("/api/v1/jobs", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        line = closed.post("/api/v1/jobs/line", json=body).json()["line"]
        assert line == f"conceptlens interventions {world.root.name}/slots --resamples=20 --order=chance"
        assert closed.post("/api/v1/jobs/line", json={**body, "values": {"out": "x"}}).status_code == 400
        assert not (world.root / ".jobs").exists()


def test_a_name_without_a_token_starts_no_jobs(world: World) -> None:
    with pytest.raises(UserError, match="needs a token"):
        client_of(world.root, jobs=JOBS, allow_jobs=True, policy=Policy(None, frozenset({"lab.example"})))


def test_other_sites_and_strangers_start_nothing(own_world: World) -> None:
    body = {"command": "interventions", "run": "slots"}
    with client_of(own_world.root, jobs=JOBS, allow_jobs=True, policy=Policy("t" * 20)) as client:
        assert client.post("/api/v1/jobs", json=body).status_code == 401
        known = {"Authorization": f"Bearer {'t' * 20}"}
        elsewhere = {**known, "Origin": "http://evil.example"}
        assert client.post("/api/v1/jobs", json=body, headers=elsewhere).status_code == 403
        assert client.get("/api/v1/jobs", headers=known).json()["jobs"] == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null", "Content-Type": "text/plain"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"},
        {"Host": "evil.example"},
    ],
)
def test_on_loopback_other_sites_start_nothing(own_world: World, headers: dict[str, str]) -> None:
    body = json.dumps({"command": "interventions", "run": "slots"})
    with client_of(own_world.root, jobs=JOBS, allow_jobs=True) as client:
        assert client.post("/api/v1/jobs", content=body, headers=headers).status_code == 403
        assert client.get("/api/v1/jobs").json()["jobs"] == []


def desk_and_request(root: Path, recipe: str) -> tuple[JobDesk, Request]:
    run = root / "stranger"
    run.mkdir(parents=True)
    (run / "recipe.yaml").write_text(recipe, "utf-8")
    entry = RunEntry("stranger", run, "stranger")
    return JobDesk(root, JOBS, [], allowed=False), Request("train", entry, None, "again", {}, [], "cpu")


def test_a_strangers_recipe_runs_no_code_and_writes_no_tokens_elsewhere(tmp_path: Path) -> None:
    for number, recipe in enumerate(("method: evil.py:Class", "data: {source: 'evil.py:Data'}")):
        desk, request = desk_and_request(tmp_path / str(number), recipe)
        with pytest.raises(UserError, match="names code of its own"):
            desk.submit(request)
        assert desk.store.all() == []
    desk, request = desk_and_request(tmp_path / "store", f"encoder: {{store: '{tmp_path}/anywhere'}}")
    assert "--encoder.store=run" in desk.words(request)
    desk, request = desk_and_request(tmp_path / "inside", f"encoder: {{store: '{tmp_path}/inside/tokens'}}")
    assert "--encoder.store=run" not in desk.words(request)


def test_a_recipe_that_changed_while_its_job_waited_is_not_trained(tmp_path: Path) -> None:
    desk, request = desk_and_request(tmp_path, "method: cbm")
    job = desk.submit(request)
    folder = desk.store.folder / job.id
    (tmp_path / "stranger" / "recipe.yaml").write_text("method: evil.py:Class", "utf-8")
    assert run_job(folder) == 2
    status = desk.store.get(job.id)
    assert status is not None
    assert (status.state, status.code) == ("failed", 2)
    assert "changed since the job was queued" in desk.store.log(job.id, 0)[0]


@pytest.mark.slow
def test_a_job_runs_survives_its_server_and_is_cancelled(own_world: World) -> None:
    def wait(client: Any, name: str, *states: str) -> dict[str, Any]:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            job: dict[str, Any] = next(job for job in client.get("/api/v1/jobs").json()["jobs"] if job["id"] == name)
            if job["state"] in states:
                return job
            time.sleep(0.2)
        raise AssertionError(f"never {states}")

    again = {"command": "train", "run": "slots", "name": "again", "settings": ["training.epochs = 2000"]}
    short = {"command": "interventions", "run": "slots", "values": {"resamples": 10}}
    with client_of(own_world.root, jobs=JOBS, allow_jobs=True) as client:
        long = client.post("/api/v1/jobs", json=again).json()["job"]["id"]
        next_ = client.post("/api/v1/jobs", json=short).json()["job"]["id"]
        wait(client, long, "running")
        assert wait(client, next_, "queued")  # one at a time
    with client_of(own_world.root, jobs=JOBS, allow_jobs=True) as client:  # the server is restarted
        job = wait(client, long, "running")
        until = time.monotonic() + 180  # a busy machine needs them
        while not job["total"] and time.monotonic() < until:
            time.sleep(0.3)
            job = wait(client, long, "running")
        assert job["total"], "a training says how far it is"
        client.post(f"/api/v1/jobs/{long}/cancel")
        wait(client, long, "cancelled")
        done = wait(client, next_, "done", "failed")
        log = client.get(f"/api/v1/jobs/{next_}/log").json()
        assert done["state"] == "done", log["text"]
        assert (own_world.slots / "trust" / "interventions.json").exists()
