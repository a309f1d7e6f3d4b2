"""Jobs: names that follow from recipes, controls, folds, trials that choose, states that files tell."""

from pathlib import Path

import pytest

from conceptlens.core.errors import UserError
from conceptlens.core.files import write_json, write_text
from conceptlens.workflows.compare.compare import open_comparison
from conceptlens.workflows.compare.jobs import Comparison, Job, random_text_for
from conceptlens.workflows.compare.state import Places, Waiting, all_jobs, find_job
from conceptlens.workflows.compare.trials import chosen
from tests.workflows.compare.fakes import comparison_file, finish, jobs_of


def test_ids_follow_from_the_recipe_alone(tmp_path: Path) -> None:
    file = comparison_file(tmp_path)
    first, _ = jobs_of(file, tmp_path / "a")
    again, _ = jobs_of(file, tmp_path / "b")
    assert [job.id for job in first] == [job.id for job in again]
    assert len({job.id for job in first}) == 4
    assert first[0].id.startswith("shapes-one-s0-")
    assert first[0].recipe.out == str(tmp_path / "a" / "runs" / first[0].id)
    job = first[0]
    comparison = Comparison(file)
    slower, longer = (
        comparison.job(job.cell, {key: 7}, 0, None, tmp_path / "a") for key in ("training.threads", "training.epochs")
    )
    assert slower.id == job.id != longer.id
    assert (slower.recipe.training.threads, longer.recipe.training.epochs) == (7, 7)


def test_methods_that_read_texts_get_a_control(tmp_path: Path) -> None:
    comparison = Comparison(comparison_file(tmp_path, recipes={"one": None, "two": {"random_text": False}}))
    assert [entry.name for entry in comparison.entries] == ["one", "one (random text)", "two"]
    control = comparison.entries[1]
    assert control.control_of == "one"
    assert comparison.recipe("shapes", control, {}).encoder.text == "builtin/random-text/256"
    random = {"encoder.text": "builtin/random-text"}
    assert len(Comparison(comparison_file(tmp_path, recipes={"one": {"set": random}})).entries) == 1


def test_random_vectors_are_as_wide_as_what_they_replace() -> None:
    assert random_text_for({}) == "builtin/random-text"
    assert random_text_for({"text": "auto", "name": "builtin/vit"}) == "builtin/random-text"
    assert random_text_for({"text": "builtin/hashed-text"}) == "builtin/random-text/256"


def test_a_recipe_beside_the_comparison_is_found_and_its_data_left_out(tmp_path: Path) -> None:
    write_text(tmp_path / "mine.yaml", "data: {source: blood-cells}\ntraining: {epochs: 9}\nseed: 5\nout: elsewhere\n")
    comparison = Comparison(comparison_file(tmp_path, recipes={"mine": "mine.yaml"}))
    recipe = comparison.recipe("shapes", comparison.entries[0], {})
    assert (recipe.data.source, recipe.training.epochs, recipe.training.batch_size) == ("shapes", 9, 16)


def test_data_bring_settings_of_their_own(tmp_path: Path) -> None:
    data = {"a": "shapes", "b": {"source": "blood-cells", "limit": 5, "set": {"training.epochs": 4}}}
    comparison = Comparison(comparison_file(tmp_path, data=data))
    recipes = [comparison.recipe(name, comparison.entries[0], {}) for name in data]
    assert [(recipe.training.epochs, recipe.data.limit) for recipe in recipes] == [(1, None), (4, 5)]


def test_folds_repeat_with_another_division(tmp_path: Path) -> None:
    jobs, _ = jobs_of(comparison_file(tmp_path, folds={"k": 3, "repeats": 2}, seeds=[4]), tmp_path / "out")
    assert len(jobs) == 2 * 6
    told = [(job.recipe.data.split.seed, job.recipe.data.split.fold, job.recipe.data.split.folds) for job in jobs[:6]]
    assert told == [(0, 0, 3), (0, 1, 3), (0, 2, 3), (1, 0, 3), (1, 1, 3), (1, 2, 3)]


def test_trials_choose_on_validation_and_never_see_the_test(tmp_path: Path) -> None:
    file = comparison_file(tmp_path, trials={"grid": {"training.clip": [0.5, 1.0, 2.0]}})
    comparison, out = open_comparison(file, tmp_path / "out")
    jobs, places = all_jobs(comparison, out), Places(out)
    trials = [job for job in jobs if isinstance(job, Job)]
    assert len(trials) == 6
    assert sum(isinstance(job, Waiting) for job in jobs) == 4
    assert all(job.trial is not None and not job.recipe.metrics.test for job in trials)
    for job, val in zip(trials, [0.3, 0.9, 0.5, 0.6, 0.6, 0.1], strict=True):
        finish(job, places, val=val)
    later = all_jobs(comparison, out)
    assert len(later) == len(jobs)
    final = [job for job in later if isinstance(job, Job) and job.trial is None]
    assert [job.recipe.training.clip for job in final] == [1.0, 1.0, 0.5, 0.5]  # the first of equals
    assert all(job.recipe.metrics.test for job in final)
    assert [job.settings for job in final[:1]] == [{"training.clip": 1.0}]


@pytest.mark.parametrize(("select", "winner"), [("class.balanced_accuracy", 2), ("concept.auc", 3), ("-class.ece", 0)])
def test_of_equal_trials_the_one_that_is_better_at_the_other_thing_wins(
    select: str, winner: int, tmp_path: Path
) -> None:
    """Not the first of the grid: in an easy class many trials are equal."""
    scores = [(0.9, 0.6, 0.1), (0.7, 0.9, 0.2), (0.9, 0.7, 0.2), (0.8, 0.9, 0.2), (0.9, 0.7, 0.3)]
    for number, (accuracy, auc, ece) in enumerate(scores):
        val = {"class": {"balanced_accuracy": accuracy, "ece": ece}, "concept": {"auc": auc}}
        write_json(tmp_path / str(number) / "metrics.json", {"splits": {"val": val}})
    assert chosen([tmp_path / str(number) for number in range(5)], select) == winner


def test_equal_trials_without_concepts(tmp_path: Path) -> None:
    for number in range(2):
        val = {"class": {"balanced_accuracy": 0.9}, "concept": {"auc": None}}
        write_json(tmp_path / str(number) / "metrics.json", {"splits": {"val": val}})
    assert chosen([tmp_path / "0", tmp_path / "1"], "class.balanced_accuracy") == 0


def test_a_trial_that_failed_loses_but_all_must_be_over(tmp_path: Path) -> None:
    file = comparison_file(
        tmp_path, recipes={"one": {"random_text": False}}, trials={"grid": {"training.clip": [1, 2]}}
    )
    comparison, out = open_comparison(file, tmp_path / "out")
    places = Places(out)
    first, second = [job for job in all_jobs(comparison, out) if isinstance(job, Job)]
    finish(second, places)
    assert any(isinstance(job, Waiting) for job in all_jobs(comparison, out))
    write_json(places.record(first), {"status": "failed", "reason": "diverged"})
    assert places.state(first) == "failed"
    final = [job for job in all_jobs(comparison, out) if isinstance(job, Job) and job.trial is None]
    assert [job.recipe.training.clip for job in final] == [2.0, 2.0]


def test_done_is_done_with_the_same_recipe(tmp_path: Path) -> None:
    jobs, places = jobs_of(comparison_file(tmp_path), tmp_path / "out")
    job = jobs[0]
    assert places.state(job) == "to do"
    folder = finish(job, places)
    assert places.state(job) == "done"
    text = (folder / "recipe.yaml").read_text("utf-8")
    (folder / "recipe.yaml").write_text(text.replace("epochs: 1", "epochs: 2"), "utf-8")
    assert places.state(job) == "to do"


def test_jobs_share_the_tokens_that_are_the_same_for_all(tmp_path: Path) -> None:
    encoder = {"name": "builtin/vit", "train": "none", "store": "run", "text": "builtin/hashed-text"}
    recipes = {"one": {"set": {"method.slots": "group"}}, "two": {"random_text": False}}
    base = {"encoder": encoder, "method": "ivq-cbm", "regularizer": "none"}
    file = comparison_file(tmp_path, base=base, recipes=recipes)
    jobs, places = jobs_of(file, tmp_path / "out")
    assert {job.recipe.encoder.store for job in jobs} == {jobs[0].recipe.encoder.store}
    assert str(jobs[0].recipe.encoder.store).startswith(str(tmp_path / "out" / "tokens"))
    elsewhere, _ = jobs_of(file, tmp_path / "elsewhere")
    assert [job.id for job in jobs] == [job.id for job in elsewhere]
    finish(jobs[0], places)
    assert places.state(jobs[0]) == "done"
    apart = comparison_file(tmp_path, base={"encoder": encoder | {"pretrained": False}, "regularizer": "none"})
    assert {job.recipe.encoder.store for job in jobs_of(apart, tmp_path / "apart")[0]} == {"run"}


def test_unknown_jobs(tmp_path: Path) -> None:
    jobs, _ = jobs_of(comparison_file(tmp_path), tmp_path / "out")
    assert find_job(list(jobs), jobs[1].id) is jobs[1]
    with pytest.raises(UserError, match="Did you mean"):
        find_job(list(jobs), jobs[1].id[:-1])


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    file = comparison_file(tmp_path)
    write_text(tmp_path / "taken" / "photo.txt", "x")
    with pytest.raises(UserError, match="other files"):
        open_comparison(file, tmp_path / "taken")
    with pytest.raises(UserError, match="found a file"):
        open_comparison(file, file)
    with pytest.raises(UserError, match=r"class\.accuracy"):
        open_comparison(comparison_file(tmp_path, statistics={"primary": "class.acuracy"}))
