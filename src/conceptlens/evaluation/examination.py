"""All examinations of a run in one: corrections, leakage, maps, calibration, subgroups, faithfulness: `trust.json`.

What cannot be measured says why and stops no other. The verdicts on corrections, leakage, maps and faithfulness are
those of the commands that measure them alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from pydantic import PrivateAttr

from conceptlens.core.documents import Document, TableRow
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.evaluation.calibration.reliability import class_calibration, concept_calibration
from conceptlens.evaluation.calibration.verdict import calibration_numbers, judge_calibration
from conceptlens.evaluation.classification.balanced import mean_of
from conceptlens.evaluation.faithfulness.faithfulness import faithfulness_run
from conceptlens.evaluation.interventions.measure import Interventions, judge_over_folds
from conceptlens.evaluation.localization.localize import localize_run
from conceptlens.evaluation.subgroups.metadata import make_columns
from conceptlens.evaluation.subgroups.outcomes import outcomes
from conceptlens.evaluation.subgroups.subgroups import judge_groups
from conceptlens.evaluation.subgroups.verdict import judge_subgroups, subgroup_numbers
from conceptlens.evaluation.trust import Retrain, intervene_run, leakage_run
from conceptlens.evaluation.verdict import Numbers, Outcome, Verdict
from conceptlens.runs.folds import FOLDS, fold_folders
from conceptlens.stats.estimates import Bootstrap

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

Side = Literal["corrections", "leakage", "maps", "calibration", "subgroups", "faithfulness"]
NUMBERS: dict[Side, tuple[str, ...]] = {
    "corrections": ("untouched", "sham", "truth", "wrong", "ceiling", "area"),
    "leakage": ("raw", "excess", "above_ceiling"),
    "maps": ("ap", "best_blind_ap", "pointing", "best_blind_pointing"),
    "calibration": ("class_ece", "concept_ece"),
    "subgroups": ("worst", "overall"),
    "faithfulness": ("insertion", "center_insertion", "deletion", "center_deletion", "own_part", "other_parts"),
}
HEADINGS: dict[Outcome, str] = {"finding": "findings", "pass": "passed", "unmeasured": "not measured"}
MARKS: dict[Outcome, str] = {"finding": "!", "pass": "+", "unmeasured": "?"}
IMAGES = 500  # on which maps are judged, at most
FAITHFUL_IMAGES = 32  # on which their faithfulness is, at most: each is encoded a hundred times


class Trust(Document):
    """The file."""

    remedy = "Measure it again with `conceptlens trust RUN`."

    run: str
    split: str
    verdicts: dict[Side, Verdict]
    numbers: dict[Side, Numbers]  # fractions; None where unmeasured
    _results: dict[str, Document] = PrivateAttr(default_factory=dict)

    @property
    def results(self) -> dict[str, Document]:
        """What the verdicts rest on, by the names of `runs.results`; not in the file."""
        return self._results

    @property
    def has_findings(self) -> bool:
        return any(verdict.outcome == "finding" for verdict in self.verdicts.values())

    def ordered(self) -> Iterator[tuple[Side, Verdict]]:
        """Findings first, then what passed, then what could not be measured."""
        for outcome in HEADINGS:
            yield from ((side, each) for side, each in self.verdicts.items() if each.outcome == outcome)

    def number_words(self, side: Side) -> str:
        """The numbers of one side that were measured."""
        found = self.numbers[side]
        return ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in found.items() if value is not None)

    def text(self) -> str:
        counts = {outcome: sum(each.outcome == outcome for each in self.verdicts.values()) for outcome in HEADINGS}
        found = f"{counts['finding']} finding{'' if counts['finding'] == 1 else 's'}"
        head = f"{found}, {counts['pass']} passed, {counts['unmeasured']} not measured"
        lines = [f"{self.run}, {'cross-validated' if self.split == FOLDS else self.split} images: {head}"]
        last: Outcome | None = None
        for side, verdict in self.ordered():
            if verdict.outcome != last:
                lines += ["", HEADINGS[verdict.outcome]]
                last = verdict.outcome
            lines.append(f"{MARKS[verdict.outcome]} {side}: {verdict.reason}")
            if words := self.number_words(side):
                lines.append(f"    {words}")
        return "\n".join(lines)

    def printed(self) -> dict[str, Any]:
        """What `--json` prints: the outcomes and their numbers."""
        return {
            "verdicts": {side: verdict.outcome for side, verdict in self.verdicts.items()},
            "numbers": {side: dict(numbers) for side, numbers in self.numbers.items()},
        }

    def table(self) -> list[TableRow]:
        """A row for each number."""
        return [
            {"side": side, "outcome": self.verdicts[side].outcome, "number": name, "value": value}
            for side, numbers in self.numbers.items()
            for name, value in numbers.items()
        ]


def trust_run(
    run: "OpenedRun",
    *,
    split: str | None = None,
    n: int = IMAGES,
    resamples: int = 1000,
    without: Sequence[Side] = (),
    retrain: Retrain | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> Trust:
    """Examine a run in every way that its data allows; nothing is written.

    A cross-validated run is examined in all its folds, unless a split is named.

    Args:
        run: The run.
        split: Whose images; by default the split of the run's own numbers.
        n: Largest number of images on which maps are judged, at equal steps over the split.
        resamples: Number of bootstrap resamples of the intervals.
        without: Examinations to leave out.
        retrain: Trains the run's method without the class, which leakage is then measured against.
        note: Says something to the person who waits.
    """
    if split is None and (folders := fold_folders(run.path)):
        return _trust_folds(run, folders, n=n, resamples=resamples, without=without, retrain=retrain, note=note)
    chosen = split or run.reported_split
    # What a measure returns has a verdict and numbers.
    measures: dict[Side, tuple[str, Callable[[], Any]]] = {
        "corrections": ("interventions", lambda: intervene_run(run, split=chosen, resamples=resamples)),
        "leakage": ("leakage", lambda: leakage_run(run, split=chosen, resamples=resamples, retrain=retrain, note=note)),
        "maps": ("localization", lambda: localize_run(run, split=chosen, n=n)),
        "calibration": ("", lambda: _calibration(run, chosen, resamples)),
        "subgroups": ("", lambda: _subgroups(run, chosen, resamples)),
        "faithfulness": ("faithfulness", lambda: faithfulness_run(run, split=chosen, n=min(n, FAITHFUL_IMAGES))),
    }
    verdicts: dict[Side, Verdict] = {}
    numbers: dict[Side, Numbers] = {}
    results: dict[str, Document] = {}
    if unknown := set(without) - set(measures):
        raise unknown_name("examination", min(unknown), get_args(Side))
    for side in get_args(Side):
        name, measure = measures[side]
        if side not in without:
            note(side)
        verdicts[side], numbers[side], found = _examine(run, side, None if side in without else measure)
        if isinstance(found, Document):
            results[name] = found
    trust = Trust(run=run.name, split=chosen, verdicts=verdicts, numbers=numbers)
    trust._results = results
    return trust


def _trust_folds(
    run: "OpenedRun",
    folders: Sequence[Path],
    *,
    n: int,
    resamples: int,
    without: Sequence[Side],
    retrain: Retrain | None,
    note: Callable[[str], object],
) -> Trust:
    """Leakage and maps by the model of each fold; corrections, calibration and subgroups over all of their images.

    Whether maps are faithful is slow to measure: the folds share the images, each judged by the model that never saw
    it.
    """
    from conceptlens.runs.opened import OpenedRun

    found: list[Trust] = []
    folds = [OpenedRun.open(folder, device=run.device, data=run.memory) for folder in folders]
    together = len({tuple(fold.concepts.names) for fold in folds}) == 1  # a method may choose others in each fold
    pooled: dict[Side, Callable[[], Any]] = {
        "calibration": lambda: _calibration(run, FOLDS, resamples),
        "subgroups": lambda: _subgroups(run, FOLDS, resamples),
    }
    if together:
        pooled["faithfulness"] = lambda: faithfulness_run(run, n=min(n, FAITHFUL_IMAGES), folds=folds)
    for number, fold in enumerate(folds, start=1):
        note(f"fold {number} of {len(folds)}")
        found.append(trust_run(fold, n=n, resamples=resamples, without=[*without, *pooled], retrain=retrain, note=note))
    verdicts: dict[Side, Verdict] = {}
    numbers: dict[Side, Numbers] = {}
    for side in get_args(Side):
        if side in pooled and side not in without:
            note(side)
            verdicts[side], numbers[side], _ = _examine(run, side, pooled[side])
        else:
            verdicts[side] = _over_folds([each.verdicts[side] for each in found])
            numbers[side] = {key: mean_of([each.numbers[side][key] for each in found]) for key in NUMBERS[side]}
    parts = [part for each in found if isinstance(part := each.results.get("interventions"), Interventions)]
    if judged := judge_over_folds(parts, lambda units: Bootstrap(units, resamples)):
        verdicts["corrections"] = judged[0]
        numbers["corrections"] |= judged[1]
    return Trust(run=run.name, split=FOLDS, verdicts=verdicts, numbers=numbers)


def _examine(run: "OpenedRun", side: Side, measure: Callable[[], Any] | None) -> tuple[Verdict, Numbers, Any]:
    """The verdict of a measure, its numbers and what it returned; why there are none where it cannot be measured.

    Args:
        run: The run.
        side: What is measured.
        measure: Returns what has a verdict and numbers; None where it was left out.
    """
    nothing: Numbers = dict.fromkeys(NUMBERS[side])
    if measure is None:
        reason = "It was left out when the run was examined."
        return Verdict(outcome="unmeasured", reason=reason), nothing, None
    try:
        found = measure()
    except (UserError, OSError) as error:
        return Verdict(outcome="unmeasured", reason=_why(error, run)), nothing, None
    if found.verdict.outcome == "unmeasured":
        return found.verdict, nothing, found
    return found.verdict, {key: found.numbers.get(key) for key in nothing}, found


def _over_folds(verdicts: Sequence[Verdict]) -> Verdict:
    """A finding in half of the folds that were measured, or in more, is a finding."""
    measured = [verdict for verdict in verdicts if verdict.outcome != "unmeasured"]
    if not measured:
        return verdicts[0]
    findings = [verdict for verdict in measured if verdict.outcome == "finding"]
    outcome: Outcome = "finding" if 2 * len(findings) >= len(measured) else "pass"
    alike = [verdict for verdict in measured if verdict.outcome == outcome]
    return Verdict(outcome=outcome, reason=f"In {len(alike)} of {len(measured)} folds. {alike[0].reason}")


def _why(error: Exception, run: "OpenedRun") -> str:
    """The reason in words, without the places of this machine."""
    return str(error).strip().replace(str(run.path), run.name) or type(error).__name__


@dataclass(frozen=True)
class _Judged:
    """A verdict without a document of its own."""

    verdict: Verdict
    numbers: Numbers


def _calibration(run: "OpenedRun", split: str, resamples: int) -> _Judged:
    stored = run.predictions(split)
    bootstrap = Bootstrap(stored.units, resamples)
    classes = class_calibration(stored, bootstrap)
    concepts = concept_calibration(stored, run.concepts, bootstrap)
    return _Judged(judge_calibration(classes, concepts), calibration_numbers(classes, concepts))


def _subgroups(run: "OpenedRun", split: str, resamples: int) -> _Judged:
    stored = run.predictions(split)
    place = {name: index for index, name in enumerate(run.source.examples.ids)}
    rows = [place[name] for name in stored.ids]
    metadata = {name: [words[row] for row in rows] for name, words in run.source.examples.metadata.items()}
    columns, skipped = make_columns(metadata)
    seen = outcomes(stored, run.concepts)
    groups, _ = judge_groups(seen, columns, Bootstrap(stored.units, resamples))
    overall = None if np.isnan(seen.hit).all() else float(np.nanmean(seen.hit))
    return _Judged(judge_subgroups(groups, overall, skipped), subgroup_numbers(groups, overall))
