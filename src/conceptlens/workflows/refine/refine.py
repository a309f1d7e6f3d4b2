"""`conceptlens refine`: change concepts, train the recipe again with the same seeds, compare.

Table 9 of the IVQ-CBM paper shows one training before and one after. A second training differs anyhow, and new words
anywhere may help; so here there may be several seeds, intervals over seeds and images, and a control: the same words
put in the place of a concept chosen at random, another one for each seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint, write_text
from conceptlens.core.registry import BUILTIN_DATA, METHODS
from conceptlens.recipes import Recipe
from conceptlens.recipes.parse import load_recipe
from conceptlens.reports.page import write_report
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.predictions import StoredPredictions, load_predictions
from conceptlens.stats.crossed_bootstrap import Spread, spreads
from conceptlens.stats.estimates import Estimate
from conceptlens.stats.questions import Question, exists
from conceptlens.training.train import resume_run, start_run
from conceptlens.workflows.compare.measures import Answers, questions
from conceptlens.workflows.refine.document import Contrast, Refinement, Row
from conceptlens.workflows.refine.edit import Edited, Replacement, drop, find, parse_replacement, replace_words

FOLDER = "refine"
SIDES = ("before", "after", "control")
SHOWN = {
    "class.accuracy": "class accuracy",
    "class.balanced_accuracy": "class balanced accuracy",
    "class.macro_auc": "class AUC",
    "concept.balanced_accuracy": "concept balanced accuracy",
    "concept.auc": "concept AUC",
}


@dataclass(frozen=True)
class _Plan:
    """What is trained: a concept set for each side and seed."""

    file: Path  # of the recipe
    recipe: Recipe
    base: ConceptSet
    after: Edited
    control: dict[int, Edited]
    control_words: dict[int, list[str]]  # seed: which concepts were chosen at random


def refine_run(
    run: OpenedRun,
    *,
    replace: Sequence[str] = (),
    drops: Sequence[str] = (),
    rename: bool = False,
    seeds: int = 1,
    control: bool = True,
    resamples: int = 1000,
    out: str | Path | None = None,
    quiet: bool = True,
    note: Callable[[str], object] = lambda text: None,
) -> Refinement:
    """Change concepts of a finished run and train its recipe again; the trainings are written, the result is not.

    Args:
        run: The run.
        replace: `old=new`: other words for a concept, whose labels it keeps.
        drops: Concepts to leave out.
        rename: New words become the concept's name as well.
        seeds: Trainings of each side; the first has the run's own seed.
        control: Also change concepts chosen at random.
        resamples: Of the intervals.
        out: Folder for the runs; `refine/` in the run folder, in a folder for this change, by default.
        quiet: Show no progress of the trainings.
        note: Says something to the person who waits.
    """
    if seeds < 1:
        raise UserError(f"--seeds: expected 1 or more, found {seeds}.")
    plan = _plan(run, replace, drops, rename=rename, seeds=seeds, control=control)
    name = fingerprint(*replace, "drop", *drops, str(rename))[:8]
    folder = run.out_folder(out, f"{FOLDER}/{name}")
    runs: dict[str, list[RunFolder]] = {side: [] for side in SIDES if side != "control" or plan.control}
    first = plan.recipe.seed
    for seed in range(first, first + seeds):
        for side in runs:
            note(f"{side}, seed {seed}")
            edited = {"before": Edited(plan.base), "after": plan.after}.get(side) or plan.control[seed]
            own = side == "before" and seed == first
            runs[side].append(run.folder if own else _train(plan, edited, folder, side, seed, quiet=quiet))
    refinement = compare(run, plan, runs, list(replace), list(drops), resamples=resamples)
    refinement._folder = folder
    return refinement


def _plan(
    run: OpenedRun, replace: Sequence[str], drops: Sequence[str], *, rename: bool, seeds: int, control: bool
) -> _Plan:
    """Check what is asked for and choose the control, before anything is trained."""
    recipe = run.recipe
    base = ConceptSet.load(recipe.concepts) if recipe.concepts else ConceptSet.load(run.path / "concepts.yaml").whole
    if not replace and not drops:
        raise UserError("Nothing to change: name it with --replace 'OLD=NEW' or --drop CONCEPT.")
    if replace and drops:
        raise UserError(
            "--replace and --drop cannot be used together: their effects could not be separated. Use one at a time."
        )
    method = METHODS.get(str(recipe.method["name"]))
    if not method.reads_concepts:
        raise UserError(f"{recipe.method['name']} reads no concepts, so there is nothing to refine.")
    if replace and not method.uses_text:
        raise UserError(
            f"{recipe.method['name']} does not read the words of its concepts, only their labels: other words change "
            "nothing. Use --drop, or change labels in the data and train anew."
        )
    swaps = [parse_replacement(base, word) for word in replace]
    gone = [find(base, name) for name in drops]
    changed = {each.concept for each in swaps} | set(gone)
    if len(changed) < len(swaps) + len(gone):
        raise UserError("A concept is named twice. Name each once.")
    after = replace_words(base, swaps, rename=rename) if swaps else drop(base, gone)
    rest = [place for place in range(len(base)) if place not in changed]
    controls: dict[int, Edited] = {}
    words: dict[int, list[str]] = {}
    for seed in range(recipe.seed, recipe.seed + seeds) if control and len(rest) >= len(changed) else ():
        chosen = np.random.default_rng([seed, 11]).choice(rest, len(changed), replace=False).tolist()
        others = [Replacement(place, each.words) for place, each in zip(chosen, swaps, strict=False)]
        controls[seed] = replace_words(base, others, rename=rename) if swaps else drop(base, chosen)
        words[seed] = [base.names[place] for place in chosen]
    if after.renamed and recipe.data.source in BUILTIN_DATA:
        raise UserError("--rename: built-in data knows its own names only. Leave --rename out; words change anyway.")
    return _Plan(run.path / "recipe.yaml", recipe, base, after, controls, words)


def _train(plan: _Plan, edited: Edited, folder: Path, side: str, seed: int, *, quiet: bool) -> RunFolder:
    """A training, or the one that is there already with the same concepts."""
    place, file, words = folder / f"{side}-{seed}", folder / f"{side}-{seed}.yaml", edited.concepts.to_yaml()
    if (place / "run.json").exists() and file.exists() and file.read_text("utf-8") == words:
        return resume_run(place, write_report, quiet=quiet)  # one that is done stays as it is
    write_text(file, words)
    settings: dict[str, Any] = {"concepts": str(file.absolute()), "seed": seed, "out": str(place)}
    if edited.renamed:
        settings["data"] = {"rename": {"values": _merged(plan.recipe, edited.renamed)}}
    return start_run(load_recipe(plan.file, settings), write_report, overwrite=True, quiet=quiet)


def _merged(recipe: Recipe, renamed: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """The data's own other words, and ours for what they called before."""
    known = {group: dict(words) for group, words in recipe.data.rename.values.items()}
    for group, words in renamed.items():
        before = known.setdefault(group, {})
        known[group] = {**{theirs: words.get(ours, ours) for theirs, ours in before.items()}, **words}
    return known


def compare(
    run: OpenedRun,
    plan: _Plan,
    runs: dict[str, list[RunFolder]],
    replaced: list[str],
    dropped: list[str],
    *,
    resamples: int,
) -> Refinement:
    """The table: each measure before, after and with chosen-at-random concepts, and their differences."""
    split = (
        "test" if all((each.path / "predictions" / "test.safetensors").exists() for each in runs["after"]) else "val"
    )
    stored = {side: [load_predictions(each.path, split) for each in members] for side, members in runs.items()}
    ids = stored["before"][0].ids
    if any(each.ids != ids for members in stored.values() for each in members):
        raise UserError(f"{run.path}: the trainings were judged on different images; the data changed in between.")
    units = np.array(stored["before"][0].units)
    asked = {
        side: [_questions(each, one) for each, one in zip(members, runs[side], strict=True)]
        for side, members in stored.items()
    }
    notes = []
    if dropped:
        asked = {side: [_of_classes(each) for each in members] for side, members in asked.items()}
        notes.append("Concept measures are left out: fewer concepts are fewer questions.")
    if len(runs["after"]) == 1:
        notes.append("One seed a side: intervals speak of these trainings on other images, not of other trainings.")
    shown = [name for name in SHOWN if all(name in each for members in asked.values() for each in members)]
    spread = {
        side: spreads([{name: each[name] for name in shown} for each in members], units, resamples=resamples)
        for side, members in asked.items()
    }
    return Refinement(
        run=run.name,
        method=str(run.info["method"]),
        data=str(run.info["data"]["name"]),
        split=split,
        images=len(ids),
        seeds=[plan.recipe.seed + place for place in range(len(runs["after"]))],
        replaced=replaced,
        dropped=dropped,
        control={str(seed): words for seed, words in plan.control_words.items()},
        rows=[_row(name, {side: found[name] for side, found in spread.items()}) for name in shown],
        runs={side: [str(each.path) for each in members] for side, members in runs.items()},
        notes=notes,
    )


def _questions(stored: StoredPredictions, run: RunFolder) -> dict[str, Question]:
    concepts = ConceptSet.load(run.path / "concepts.yaml")
    n = len(stored.ids)
    answers = Answers(
        stored.task,
        stored.logits,
        stored.concept_logits,
        stored.labels,
        stored.concepts,
        concepts,
        np.tile(np.asarray(stored.thresholds, dtype=np.float64), (n, 1)),
        np.zeros(n, dtype=np.int64),
    )
    return {name: question for name, question in questions(answers).items() if name in SHOWN and exists(question)}


def _of_classes(asked: dict[str, Question]) -> dict[str, Question]:
    return {name: question for name, question in asked.items() if name.startswith("class.")}


def _row(name: str, found: dict[str, Spread]) -> Row:
    pairs = [("after", "before"), ("control", "before"), ("after", "control")]
    return Row(
        measure=name,
        name=SHOWN[name],
        values={side: _estimate(each, within=(0.0, 1.0)) for side, each in found.items()},
        contrasts=[
            _contrast(f"{one} − {two}", found[one].minus(found[two], paired=True))
            for one, two in pairs
            if one in found and two in found
        ],
    )


def _contrast(name: str, difference: Spread) -> Contrast:
    return Contrast(name=name, estimate=_estimate(difference), p=difference.p_value())


def _estimate(found: Spread, within: tuple[float, float] = (-1.0, 1.0)) -> Estimate:
    interval = found.interval(within=within)
    return Estimate(value=found.mean if np.isfinite(found.mean) else None, interval=interval)
