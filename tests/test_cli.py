"""The command line as a user meets it: every command, on data of every kind, from any directory."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

import conceptlens
import conceptlens as cl
from conceptlens import api
from conceptlens.cli.commands import COMMANDS, load_function
from conceptlens.cli.entry import main
from conceptlens.core.files import parse_yaml, read_json, write_text
from conceptlens.core.signatures import Docstring
from conceptlens.recipes.parse import load_recipe, recipe_yaml
from conceptlens.runs.folder import RunFolder
from tests.own_data import OwnData
from tests.training.tiny import tiny

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process: its exit code, what it printed, what it complained of."""

    def call(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as stop:  # argparse ends `--help` this way
            code = int(stop.code or 0)
        return code, *capsys.readouterr()

    return call


def python(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, cwd=cwd)


def files_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*")}


# --- what needs no data


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_usage_names_every_command(cli: Cli, words: list[str]) -> None:
    code, out, err = cli(*words)
    assert (code, err) == (0, "")
    assert all(f"  {name} " in out for name in COMMANDS)


def test_a_first_word_alone_explains_itself(cli: Cli) -> None:
    code, out, err = cli("codebook", "--help")
    assert (code, err) == (0, "")
    assert all((f"  {name} " in out) == name.startswith("codebook ") for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(cli: Cli, name: str) -> None:
    code, out, err = cli(*name.split(), "--help")
    assert (code, err) == (0, "")
    assert f"usage: conceptlens {name}" in out
    assert Docstring.of(load_function(name)).about[:40] in " ".join(out.split())


def test_version(cli: Cli) -> None:
    assert cli("--version") == (0, f"conceptlens {conceptlens.__version__}\n", "")


def test_list_tells_what_comes_with_the_package(cli: Cli) -> None:
    code, out, _ = cli("list")
    assert code == 0
    for word in ("blood-cells/ivq-cbm", "ivq-cbm-released", "explicit-vq", "cub-312", "shapes", "builtin/vit"):
        assert word in out


def test_the_module_runs_as_a_program() -> None:
    done = python("-m", "conceptlens", "--version")
    assert (done.returncode, done.stdout) == (0, f"conceptlens {conceptlens.__version__}\n")


@pytest.mark.parametrize("words", ["'--help'", "'train', '--help'", "'data', 'check', '--help'", "'list'", "'trian'"])
def test_nothing_heavy_is_imported_for_a_word(words: str) -> None:
    script = f"""
import sys
from conceptlens.cli import main
try:
    main([{words}])
except SystemExit:
    pass
print("heavy:", sorted({{"torch", "timm", "sklearn", "scipy", "PIL", "accelerate"}} & set(sys.modules)))
"""
    assert "heavy: []" in python("-c", script).stdout


def test_help_is_instant() -> None:
    """Half a second of a core's time; others may be busy on this one, so the clock on the wall says nothing."""
    fastest = 9.0
    for _ in range(4):
        before = os.times()
        assert python("-m", "conceptlens", "--help").returncode == 0
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        fastest = min(fastest, spent)
    assert fastest < 0.5


def test_a_terminal_without_our_letters() -> None:
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    program = [sys.executable, "-m", "conceptlens", "--help"]
    done = subprocess.run(program, capture_output=True, check=False, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"usage: conceptlens COMMAND ?" in done.stdout


def test_a_reader_that_stops_early_is_no_error() -> None:
    program = [sys.executable, "-m", "conceptlens", "list"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait() == 0
        assert process.stderr.read() == b""


# --- settings


def test_recipe_shows_a_complete_recipe(
    cli: Cli, tmp_path: Path, own: OwnData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = cli("recipe", own.recipe, "--seed", "7", "--training.loss.concept=group")
    assert (code, err) == (0, "")
    tree = parse_yaml(out, where="printed")
    assert tree["seed"] == 7
    assert tree["training"]["loss"]["concept"] == "group"
    assert tree["training"]["epochs"] == 2
    assert tree["out"] == "runs/lesions-ivq-cbm-7"
    (tmp_path / "again.yaml").write_text(out, encoding="utf-8")
    assert cli("recipe", "again.yaml")[1] == out
    assert files_in(tmp_path) == {"again.yaml"}


def test_settings_may_stand_anywhere(cli: Cli, own: OwnData) -> None:
    wanted = cli("recipe", own.recipe, "--seed", "3", "--out", "here")[1]
    assert cli("recipe", "--seed", "3", "--out=here", own.recipe)[1] == wanted
    assert cli("recipe", "--seed=3", own.recipe, "--out", "here")[1] == wanted


def test_names_are_taken_to_the_letter(cli: Cli, own: OwnData) -> None:
    """As YAML, one would end at its `#`, one be a mapping, one a number."""
    words = ["--out", "runs/try #2: x", "--data.source", "scans #1.csv"]
    words += ["--data.class_column", "1", "--data.images", "[a]"]
    tree = parse_yaml(cli("recipe", own.recipe, *words)[1], where="printed")
    assert tree["out"] == "runs/try #2: x"
    assert tree["data"]["source"] == "scans #1.csv"
    assert tree["data"]["class_column"] == "1"
    assert tree["data"]["images"] == "[a]"
    tree = parse_yaml(cli("recipe", own.recipe, "--concepts", "null")[1], where="printed")
    assert tree["concepts"] is None


def test_names_that_look_like_numbers_and_a_home_folder(cli: Cli, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("data: {source: x.csv, class_column: 3, classes: [0, 1]}\nconcepts: ~/c.yaml\nout: ~/run\n")
    tree = parse_yaml(cli("recipe", recipe)[1], where="printed")
    assert tree["data"]["class_column"] == "3"
    assert tree["data"]["classes"] == ["0", "1"]
    assert (tree["concepts"], tree["out"]) == (str(Path.home() / "c.yaml"), str(Path.home() / "run"))


def test_estimate_shows_the_cost_and_writes_nothing(cli: Cli, own: OwnData, tmp_path: Path) -> None:
    code, out, err = cli("estimate", own.recipe, "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    for word in ("24 train, 8 val, 8 test", "4 concepts, 2 classes", "parameters", "memory", "time", "nothing was"):
        assert word in out
    assert not files_in(tmp_path)


# --- the whole way, on a user's own data of every kind


def test_data_check_says_what_is_there(cli: Cli, own: OwnData, tmp_path: Path) -> None:
    words = ("data", "check", own.table, "--data.class_column", "diagnosis", "--concepts", own.concepts)
    code, out, _ = cli(*words, "--quiet", "--out", tmp_path / "findings.json")
    assert code == 0
    assert "40 images, 2 classes, 4 concepts in 2 groups" in out
    assert "split (given): train 24, val 8, test 8" in out
    assert "The data is ready for training." in out
    assert read_json(tmp_path / "findings.json")["ok"] is True


def as_parquet(own: OwnData, folder: Path) -> list[object]:
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    rows = own.rows()
    parquet.write_table(pa.table({key: [row[key] for row in rows] for key in rows[0]}), folder / "lesions.parquet")
    return ["--data.source", folder / "lesions.parquet", "--data.images", own.root]


def as_npy(own: OwnData, folder: Path) -> list[object]:
    from PIL import Image

    pixels = [np.asarray(Image.open(own.image(number)))[..., ::-1] for number in range(40)]  # blue first, as published
    np.save(folder / "dataList.npy", np.stack(pixels))
    np.save(folder / "labelList.npy", np.arange(40) % 2)
    return ["--data.source", folder]


KINDS: dict[str, Callable[[OwnData, Path], list[object]]] = {
    "table": lambda own, folder: [],
    "folder": lambda own, folder: ["--data.source", own.folders],
    "parquet": as_parquet,
    "npy": as_npy,
    "ordinal": lambda own, folder: [
        *("--data.class_column", "grade", "--data.task", "ordinal", "--data.classes", "[none, mild, severe]"),
        *("--concepts", without_classes(own, folder)),
    ],
    "multilabel": lambda own, folder: [
        *("--data.class_column", "findings", "--data.task", "multilabel"),
        *("--concepts", without_classes(own, folder)),
    ],
}


def without_classes(own: OwnData, folder: Path) -> Path:
    file = folder / "concepts.yaml"
    text = own.concepts.read_text("utf-8")
    file.write_text(text[text.index("groups:") : text.index("by_class:")], encoding="utf-8")
    return file


@pytest.mark.parametrize("kind", KINDS)
def test_check_train_evaluate_predict_report(cli: Cli, own: OwnData, tmp_path: Path, kind: str) -> None:
    settings = KINDS[kind](own, tmp_path)
    run = tmp_path / "my runs" / "first one"
    code, out, err = cli("train", own.recipe, *settings, "--out", run)
    assert code == 0, err
    assert "class balanced accuracy" in out
    assert f"look at {run / 'report.html'}" in out
    assert "epoch   1/2" in err  # progress is on the error stream, so that results can be piped
    assert RunFolder.open(run).info["status"] == "done"

    source = load_recipe(run / "recipe.yaml").data
    words = ["--concepts", run / "concepts.yaml", "--data.class_column", source.class_column]
    words += ["--data.task", source.task, "--data.images", source.images or "null"]
    words += ["--data.classes", json.dumps(source.classes)]
    code, out, err = cli("data", "check", source.source, *words, "--quiet")
    assert code == 0, out

    code, out, err = cli("evaluate", run)
    assert (code, err) == (0, "")
    measured = read_json(run / "metrics.json")["splits"]["test"]
    (file,) = (run / "evaluation").iterdir()
    again = read_json(file)["splits"]["test"]
    assert again["class"]["per_class"] == measured["class"]["per_class"]
    assert ("quadratic_weighted_kappa" in again["class"]) is (kind == "ordinal")
    assert ("subset_accuracy" in again["class"]) is (kind == "multilabel")

    code, out, err = cli("predict", run, own.image(0), own.image(1), "--out", tmp_path / "said.json")
    assert (code, err) == (0, "")
    said = read_json(tmp_path / "said.json")["predictions"]
    assert [item["image"] for item in said] == [str(own.image(0)), str(own.image(1))]
    for item in said:
        assert set(item["concepts"]) == {"border", "signs"}
        assert sum(item["concepts"]["border"].values()) == pytest.approx(1)
        assert isinstance(item["predicted"], list) is (kind == "multilabel")

    (run / "report.html").unlink()
    code, out, err = cli("report", run)
    assert (code, out, err) == (0, f"written: {run / 'report.html'}\n", "")
    assert (run / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_the_way_on_built_in_data(cli: Cli, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    write_text(recipe, recipe_yaml(load_recipe(tiny(tmp_path / "unused", training__epochs=1))))
    run = tmp_path / "run"
    assert cli("train", recipe, "--out", run, "--quiet")[0] == 0
    assert cli("resume", run, "--quiet")[0] == 0
    assert "shapes (val)" in cli("evaluate", run, "--split", "val")[1]
    code, out, _ = cli("data", "check", "shapes", "--data.shapes.n", "60", "--quiet")
    assert (code, "60 images" in out) == (0, True)


def test_demo_shows_a_demo_that_is_there(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trains once, shows it the second time, trains again with --overwrite; here with a recipe that takes a moment."""
    ready = tmp_path / "quick.yaml"
    write_text(ready, recipe_yaml(load_recipe(tiny(tmp_path / "unused", training__epochs=1, encoder__train=1))))
    monkeypatch.setattr("conceptlens.api.training.DEMO", (str(ready), str(ready)))
    first = cli("demo", "--out", tmp_path / "demo", "--quiet")
    stamp = (tmp_path / "demo" / "run.json").stat().st_mtime_ns
    second = cli("demo", "--out", tmp_path / "demo")
    assert first[0] == second[0] == 0
    assert "trained before" in second[2]
    assert first[1] == second[1]
    assert (tmp_path / "demo" / "run.json").stat().st_mtime_ns == stamp
    assert cli("demo", "--out", tmp_path / "demo", "--quiet", "--overwrite")[0] == 0
    assert (tmp_path / "demo" / "run.json").stat().st_mtime_ns != stamp


# --- directories


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_relative_paths_and_another_directory(
    cli: Cli, own: OwnData, own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started with relative paths, stopped, resumed, measured and reported from elsewhere: the same bits."""
    monkeypatch.chdir(own.root)
    run = tmp_path / "stopped run"
    relative = os.path.relpath(run)
    settings = ["--data.source", "lesions.csv", "--data.images", ".", "--concepts", "concepts.yaml"]
    with monkeypatch.context() as patch:
        patch.setattr("conceptlens.training.train.save_model", interrupt)
        code, out, err = cli("train", "recipe.yaml", *settings, "--out", relative, "--quiet")
    assert (code, out) == (130, "")
    assert "resume" in err
    assert RunFolder.open(run).info["status"] == "failed"

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for word in ("evaluate", "report"):
        code, _, err = cli(word, run)
        assert code == 2
        assert f"conceptlens resume '{run}'" in err  # quoted: there is a space in it
    for words in (["resume", run, "--quiet"], ["evaluate", run], ["report", run], ["predict", run, own.image(3)]):
        code, _, err = cli(*words)
        assert (code, err) == (0, "")
    kept = load_recipe(run / "recipe.yaml")
    assert kept.data.source == str(own.table)
    assert Path(kept.data.images or "").resolve() == own.root.resolve()
    assert kept.concepts == str(own.concepts)
    assert (run / "metrics.json").read_bytes() == (own_run / "metrics.json").read_bytes()
    assert not files_in(tmp_path / "elsewhere")


def test_names_of_built_in_things_stay_names(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder called `shapes` and a file called like a ready concept set do not get in their way."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shapes").mkdir()
    recipe = tiny(tmp_path / "run", training__epochs=1, concepts="shapes")
    cl.train(recipe, quiet=True)
    kept = load_recipe(tmp_path / "run" / "recipe.yaml")
    assert (kept.data.source, kept.concepts) == ("shapes", "shapes")


def test_weights_are_remembered_by_their_absolute_path(
    own: OwnData, own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import save_file

    trained = load_file(own_run / "model" / "weights.safetensors")
    monkeypatch.chdir(tmp_path)
    encoder = {name.removeprefix("encoder."): value for name, value in trained.items() if name.startswith("encoder.")}
    save_file(encoder, "encoder.safetensors")
    run = cl.train(own.recipe, {"out": "run", "encoder": {"weights": "encoder.safetensors"}}, quiet=True)
    assert load_recipe(run.path / "recipe.yaml").encoder.weights == str(tmp_path / "encoder.safetensors")


@pytest.mark.slow
def test_as_a_program_from_another_directory(own: OwnData, tmp_path: Path) -> None:
    words = ("-m", "conceptlens", "train", os.path.relpath(own.recipe, tmp_path), "--training.epochs", "1", "--quiet")
    done = python(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "look at runs/lesions-ivq-cbm-0/report.html" in done.stdout
    assert done.stderr == ""
    assert (tmp_path / "runs" / "lesions-ivq-cbm-0" / "run.json").exists()


def test_same_seed_same_files(own: OwnData, own_run: Path, tmp_path: Path) -> None:
    again = cl.train(own.recipe, {"out": str(tmp_path / "run")}, quiet=True).path
    for name in ("metrics.json", "splits.json", "concepts.yaml", "stories.json", "model/weights.safetensors"):
        assert (again / name).read_bytes() == (own_run / name).read_bytes(), name
    histories = [
        [{key: value for key, value in line.items() if key != "time"} for line in RunFolder(run).read_history()]
        for run in (again, own_run)
    ]
    assert histories[0] == histories[1]


# --- errors of ours and of others


def test_debug_shows_the_traceback(cli: Cli) -> None:
    code, out, err = cli("train", "nowhere.yaml", "--debug")
    assert (code, out) == (2, "")
    assert "Traceback" in err
    assert err.endswith("error: nowhere.yaml: no such file.\n")
    assert "Traceback" not in cli("train", "nowhere.yaml")[2]


def test_a_bug_of_ours_is_called_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "make_report", lambda run: 1 / 0)
    code, _, err = cli("report", "somewhere")
    assert code == 1
    assert "ZeroDivisionError" in err
    assert "please report it" in err


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device", "runs/x"), "The disk is full (runs/x)"),
        (OSError(122, "Disk quota exceeded"), "The disk is full"),
        (PermissionError(13, "Permission denied", "runs/x"), "runs/x: Permission denied. Choose a place"),
        (OSError(30, "Read-only file system", "runs/x"), "Choose a place you may write to"),
        (OSError(5, "Input/output error", "runs/x"), "runs/x: Input/output error."),
        (MemoryError(), "Out of memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 1 byte"), "smaller training.batch_size"),
    ],
)
def test_errors_of_the_machine_are_told_in_words(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def fail(run: object) -> None:
        raise error

    monkeypatch.setattr(api, "make_report", fail)
    code, _, err = cli("report", "somewhere")
    assert code == 2
    assert words in err
    assert "Traceback" not in err


def test_a_full_disk_met_by_safetensors(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes the system's error on as text."""
    from safetensors import SafetensorError

    def fail(run: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(api, "make_report", fail)
    code, _, err = cli("report", "somewhere")
    assert code == 2
    assert "The disk is full" in err
