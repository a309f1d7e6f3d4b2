"""Bad words, recipes, numbers and concept files: exit code 2, words that help, no traceback, nothing half-written."""

from pathlib import Path

import pytest

from conceptlens.cli import main
from conceptlens.core.upgrades import SCHEMA
from tests.conftest import Refuse
from tests.own_data import CONCEPTS, OwnData

# --- words on the command line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["trian"], ("'trian'", "Did you mean 'train'?")),
        (["data"], ("needs a second word", "check")),
        (["data", "chek", "x"], ("Did you mean 'check'?",)),
        (["train"], ("`data.source` is missing", "--data.source")),
        (["train", "--quiet"], ("recipe",)),
        (["train", "blood-cell/ivq-cbm"], ("Did you mean 'blood-cells/ivq-cbm'?",)),
        (["train", "none.yaml"], ("none.yaml: no such file",)),
        (["train", "blood-cells/ivq-cbm", "extra"], ("extra",)),
        (["train", "blood-cells/ivq-cbm", "--training.epoch", "3"], ("'epoch'", "Did you mean 'epochs'?")),
        (["train", "blood-cells/ivq-cbm", "--sead", "3"], ("--sead", "Did you mean '--seed'?")),
        (["evaluate"], ("run",)),
        (["evaluate", "nowhere"], ("nowhere: no such run",)),
        (["evaluate", "nowhere", "--spilt", "val"], ("--spilt", "Did you mean '--split'?")),
        (["predict", "nowhere"], ("images",)),
        (["predict", "nowhere", "x.png"], ("no such run",)),
        (["predict", "nowhere", "x.png", "--oot", "y.csv"], ("Did you mean '--out'?",)),
        (["predict", "nowhere", "x.png", "--out", "y.xls"], ("y.xls", ".csv or .json")),
        (["resume", "nowhere"], ("no such run",)),
        (["report", "nowhere"], ("no such run",)),
        (["list", "--all"], ("--all",)),
        (["data", "check", "shaeps"], ("Did you mean 'shapes'?",)),
        (["data", "check", "shapes", "--concept", "x"], ("--concept", "Did you mean '--concepts'?")),
        (["data", "check", "shapes", "--concepts", "dermoscpy"], ("Did you mean 'dermoscopy'?",)),
    ],
)
def test_words(refuse: Refuse, words: list[str], says: tuple[str, ...]) -> None:
    refuse(*words, says=says)


def test_settings_of_no_data(refuse: Refuse, own_run: Path) -> None:
    refuse("evaluate", own_run, "--data.class_column", "dx", says="--data SOURCE")


def test_a_run_beside_is_suggested(refuse: Refuse, own_run: Path) -> None:
    refuse("resume", own_run.parent / "rum", says="Did you mean 'run'?")


# --- recipes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "expected a mapping"),
        (b"null", "expected a mapping"),
        (b"- a\n- b", "expected a mapping"),
        (b"data: !!python/object/apply:os.system ['touch hacked']", "line 1, column 7 is not valid YAML"),
        (b"a: &x [1]\nb: *x", "aliases"),
        (b"data:\n\tsource: shapes", "line 2, column 1"),
        (b"[" * 3000 + b"]" * 3000, "nested"),
        (b"data: {source: caf\xe9}", "expected UTF-8"),
        (b"\xff\xfed\x00", "expected UTF-8"),
        (b"data: {source: shapes", "not valid YAML"),
        (b"data: shapes\ndata: shapes", "'data' is given twice"),
        (b"data: shapes\n? [1, 2]\n: 3", "a key must be a word"),
        (b"a: 1\n---\nb: 2", "not valid YAML"),
        (f"schema: {SCHEMA + 1}\ndata: shapes".encode(), f"schemas up to {SCHEMA}"),
        (b"data: shapes\n5: x", "'5'"),
        (b"data: 5", "data: expected a mapping"),
        (b"data:", "`data.source` is missing"),
        (b"data: {source: 5}", "data.source: expected text"),
        (b"data: shapes\ntraining: fast", "training: expected a mapping"),
        (b"data: shapes\ntraining: {loss: 5}", "training.loss: expected a mapping"),
        (b"data: shapes\nmethod: [ivq-cbm]", "method: expected a name"),
        (b"data: shapes\nmethod: ivq-cmb", "Did you mean 'ivq-cbm'?"),
        (b"data: shapes\nregularizer: ivvq", "Did you mean 'ivq'?"),
        (b"data: shapes\ntrainng: {}", "Did you mean 'training'?"),
        (b"data: {source: shapes, rename: {clases: {}}}", "Did you mean 'classes'?"),
        (b"data: {source: shapes, task: multi}", "expected one of 'single', 'multilabel', 'ordinal'"),
        (b"data: {source: shapes, limit: 1.5}", "data.limit: expected a whole number"),
        (b"data: {source: shapes, shapes: {n: 3}}", "data.shapes.n"),
        (b"data: shapes\ntraining: {stages: [{name: a, epoch: 3}]}", "Did you mean 'epochs'?"),
        (b"data: shapes\ntraining: {stages: [all]}", "training.stages: expected a list"),
        (b"data: shapes\ntraining: {stages: [{train: [modl]}]}", "Did you mean 'model'?"),
        (b"data: shapes\nmethod: ivq-cbm\nencoder: {text: words}", "builtin/text"),
        (b"data: shapes\nencoder: {layers: [9]}", "layer"),
        (b"data: shapes\nencoder: {options: {wdith: 3}}", "Did you mean 'width'?"),
        (b"data: shapes\nencoder: {name: builtin/vti}", "Did you mean 'builtin/vit'?"),
        (b"data: shapes\nencoder: {name: timm/resnet8}", "Did you mean 'timm/resnet18'?"),
        (b"data: shapes\nencoder: {name: resnet18}", "Did you mean 'timm/resnet18'?"),
    ],
)
def test_recipes(refuse_training: Refuse, tmp_path: Path, text: bytes, says: str) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_bytes(text)
    refuse_training(file, says=says)
    assert not Path("hacked").exists()


def test_a_folder_is_not_a_recipe(refuse_training: Refuse, tmp_path: Path) -> None:
    refuse_training(tmp_path, says="found a folder")


@pytest.mark.parametrize(
    "stages", ["[{class_path: conceptlens_trap.X}]", "'[{class_path: conceptlens_trap.X}]'", "conceptlens_trap.X"]
)
def test_a_recipe_imports_nothing(
    refuse_training: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: str
) -> None:
    """jsonargparse imports what a `class_path` names, if it is let."""
    (tmp_path / "conceptlens_trap.py").write_text("open('sprung', 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "recipe.yaml"
    file.write_text(f"data: shapes\ntraining: {{stages: {stages}}}")
    refuse_training(file, says="training.stages")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("training.epochs", "-3", "expected 1 or more, found -3"),
        ("training.epochs", "1e9", "expected 'auto' or a whole number"),
        ("training.epochs", "many", "expected 'auto' or a whole number, found 'many'"),
        ("training.batch_size", "0", "expected 1 or more"),
        ("training.learning_rate", "-1", "above 0, below 10, found -1"),
        ("training.learning_rate", ".nan", "a finite number, found nan"),
        ("training.learning_rate", "1e400", "a finite number, found inf"),
        ("training.weight_decay", ".inf", "a finite number"),
        ("training.clip", "-1", "expected 0 or more"),
        ("training.warmup", ".inf", "a finite number"),
        ("training.betas", "[0.9]", "training.betas"),
        ("training.betas", "[0.9, 1.0]", "from 0 to below 1"),
        ("training.threads", "100000", "1 to 1024"),
        ("training.accumulate", "3", "a divisor of the batch size"),
        ("training.ema", "1", "a decay below 1"),
        ("training.loss.class_weight", ".nan", "a finite number"),
        ("training.loss.class_balance", "[-1, 1]", "weights of 0 or more"),
        ("training.loss.class_balance", "[0, 0]", "not all of them 0"),
        ("training.loss.class_balance", "[.nan, 1]", "a finite number"),
        ("training.loss.class_balance", "[1, 1, 1]", "expected 2 weights, one per class, found 3"),
        ("training.stages", "[{learning_rate: -1}]", "a rate above 0"),
        ("training.augment.crop", "0", "an area above 0"),
        ("encoder.learning_rate", "-1", "a rate above 0"),
        ("encoder.image_size", "8", "16 to 4096 pixels"),
        ("encoder.image_size", "99999", "16 to 4096 pixels"),
        ("encoder.train", "5", "builtin/vit-mini has 1"),
        ("encoder.options.width", "33", "multiple of heads"),
        ("encoder.options.width", "1000000000", "Out of memory"),
        ("encoder.options.width", ".nan", "a finite number"),
        ("regularizer.beta", "-1", "regularizer.beta: expected 0 or more"),
        ("regularizer.beta", ".nan", "a finite number"),
        ("regularizer.rate", "-1", "expected 0 or more"),
        ("regularizer.codebook_multiple", "0", "at least one code"),
        ("regularizer.codebook_multiple", ".nan", "a finite number"),
        ("regularizer.codebook_size", "-5", "at least one code"),
        ("method.temperature", "0", "calibrate or a number above 0"),
        ("method.temperature", "-1", "calibrate or a number above 0"),
        ("method.target_entropy", "2", "a share between 0 and 1"),
        ("method.query_rate", "-1", "expected 0 or more"),
        ("method.logit_scale", "0", "a number above 0"),
        ("data.split.val", "2", "a share between 0 and 1"),
        ("data.cache_mb", "-1", "0 or more megabytes"),
        ("data.window", "[5, 5]", "two numbers, the smaller first"),
        ("data.window", "[0, .inf]", "a finite number"),
        ("data.window", "wide", "data.window"),
        ("data.limit", "0", "above 0"),
        ("data.source", "", "data.source"),
        ("metrics.bootstrap", "-1", "0 to 100,000"),
        ("metrics.confidence", "1", "between 0 and 1"),
        ("seed", "-1", "a whole number from 0"),
        ("seed", "99999999999", "a whole number from 0 to"),
        ("seed", "nan", "expected a whole number"),
    ],
)
def test_numbers(refuse_training: Refuse, own: OwnData, key: str, value: str, says: str) -> None:
    refuse_training(own.recipe, f"--{key}", value, says=says)


def test_names_that_are_known_only_with_the_data_are_told_before_training(
    refuse_training: Refuse, own: OwnData, tmp_path: Path
) -> None:
    said = refuse_training(own.recipe, "--training.select", "class.acuracy", says="class.accuracy", begun=True)
    assert "training.select" in said
    assert '"loss"' not in (tmp_path / "the run" / "history.jsonl").read_text()


# --- concept files


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected a mapping"),
        ("groups: {}", "groups: must not be empty"),
        ("classes: [a]", "groups: is missing"),
        ("groups: {border: {valus: [a, b]}}", "Did you mean 'values'?"),
        ("groups: {border: {values: [a]}}", "has one value"),
        ("groups: {border: {values: [a, a]}}", "'a' twice"),
        ("groups: {border: {kind: exclusiv, values: [a, b]}}", "exclusive"),
        ("groups: {border: {values: [a, b], prompt: a border}}", "{value}"),
        ("groups: {border: {values: [a, b], under: brdr}}", "brdr"),
        ("schema: 7\ngroups: {border: {values: [a, b]}}", "schema 7"),
        (CONCEPTS.replace("benign: {", "bening: {"), "Did you mean 'benign'?"),
        (CONCEPTS.replace("{border: regular}", "{border: regulr}"), "Did you mean 'regular'?"),
        (CONCEPTS.replace("{border: regular}", "{bordr: regular}"), "Did you mean 'border'?"),
        (CONCEPTS.replace("[benign, malignant]", "[benign, benign]"), "named twice"),
        ("groups:\n\tborder: {}", "not valid YAML"),
        ("a: &x 1\nb: *x", "aliases"),
        ("groups: !!python/name:os.system", "not valid YAML"),
    ],
)
def test_concept_files(refuse: Refuse, own: OwnData, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "concepts.yaml").write_text(text)
    refuse(
        "data", "check", own.table, "--concepts", tmp_path / "concepts.yaml", "--quiet", says=("concepts.yaml", says)
    )


def test_concept_files_of_a_recipe(refuse_training: Refuse, own: OwnData, tmp_path: Path) -> None:
    (tmp_path / "concepts.yaml").write_text(CONCEPTS.replace("{border: regular}", "{border: regulr}"))
    refuse_training(own.recipe, "--concepts", tmp_path / "concepts.yaml", says="Did you mean 'regular'?")
    refuse_training(own.recipe, "--concepts", tmp_path / "none.yaml", says="none.yaml: no such file")
    refuse_training(own.recipe, "--concepts", "dermoscpy", says="Did you mean 'dermoscopy'?")


def test_concepts_that_nobody_labeled(refuse_training: Refuse, refuse: Refuse, mine: OwnData) -> None:
    mine.concepts.write_text(CONCEPTS.partition("by_class")[0])
    mine.change_all(border="", signs="")
    refuse_training(mine.recipe, says=("no training image has a label of any concept", "concept_weight 0"))
    check = ("data", "check", mine.table, "--data.class_column", "diagnosis", "--concepts", mine.concepts, "--quiet")
    refuse(*check, says="2 concept groups without a label")


def test_concepts_that_nobody_labeled_may_be_left_out_of_the_loss(mine: OwnData, tmp_path: Path) -> None:
    mine.concepts.write_text(CONCEPTS.partition("by_class")[0])
    mine.change_all(border="", signs="")
    words = ["train", str(mine.recipe), "--out", str(tmp_path / "run"), "--quiet"]
    assert main([*words, "--training.loss.concept_weight", "0"]) == 0
