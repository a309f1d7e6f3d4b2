"""`conceptlens study analyze PACK RESPONSES…`: what the raters' answers say of a model's maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from conceptlens.core.documents import Document, Part, ResultMixin
from conceptlens.core.errors import UserError
from conceptlens.core.files import write_text
from conceptlens.workflows.study.agreement import Weights, krippendorff_alpha, mean_kappa, pairs
from conceptlens.workflows.study.contrast import Contrast, contrast
from conceptlens.workflows.study.key import Key, TrialKey
from conceptlens.workflows.study.make import KEY
from conceptlens.workflows.study.proportions import Share, share_of
from conceptlens.workflows.study.raters import Rater, chance_of, judge_rater
from conceptlens.workflows.study.responses import FOLDER, Responses, read_responses, response_files

ANALYSIS, RESULT_PAGE, TABLE = "analysis.json", "analysis.html", "table.md"
LIKERT = 5
RESAMPLES = 500  # of images, for the intervals of agreement


class Agreement(Part):
    """Between raters, on one question."""

    raters: int
    kappa: float | None  # mean over pairs: quadratic weights for ratings, none for choices
    low: float | None
    high: float | None
    linear_kappa: float | None  # of ratings, with linear weights
    alpha: float | None  # Krippendorff's
    pairs: dict[str, float | None]


class Numbers(Part):
    """The result for a set of raters."""

    raters: list[str]
    likert: Contrast
    choice: Share
    choice_shuffled: Share
    chance: float | None
    likert_agreement: Agreement
    choice_agreement: Agreement


class Analysis(Document):
    """The file."""

    remedy = "Make it again with `conceptlens study analyze`."

    study: str
    run: str
    data: str
    method: str
    map: str
    control: str
    result: Numbers  # of raters who passed the checks of attention
    everyone: Numbers  # of all
    raters: list[Rater]

    def text(self) -> str:
        found = self.result
        likert, left_out = found.likert, [each for each in self.raters if not each.passed]
        lines = [
            f"study {self.study}: {self.method} on {self.data}, {len(found.raters)} raters",
            f"  localization: mean rating {likert.true.text()} of 5; shuffled maps {likert.shuffled.text()}; "
            f"difference {likert.difference.text()}" + (f", p = {likert.p:.4f}" if likert.p is not None else ""),
            f"  choice: {found.choice.text()}; shuffled maps {found.choice_shuffled.text()}"
            + (f"; chance {found.chance:.0%}" if found.chance is not None else ""),
        ]
        for name, each in (("ratings", found.likert_agreement), ("choices", found.choice_agreement)):
            if each.kappa is not None:
                shown = f" [{each.low:.2f}, {each.high:.2f}]" if each.low is not None else ""
                lines.append(f"  agreement on {name}: kappa {each.kappa:.2f}{shown}")
        lines += [f"  left out: {each.rater} ({'; '.join(each.why_not)})" for each in left_out]
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Analyzed(ResultMixin):
    """Where the files are."""

    analysis: Analysis
    folder: Path
    markdown: str  # the table

    def to_dict(self) -> dict[str, Any]:
        return {"folder": str(self.folder), **self.analysis.to_dict()}

    def text(self) -> str:
        return (
            f"{self.analysis.text()}\n\n{self.markdown}\nwritten: {self.folder / ANALYSIS}, {RESULT_PAGE} and {TABLE}"
        )


def analyze_study(
    pack: str | Path,
    responses: Sequence[str | Path] = (),
    *,
    out: str | Path | None = None,
    beside: Sequence[str | Path] = (),
) -> Analyzed:
    """Analyze response files.

    Args:
        pack: The folder that `make` wrote, with its key.
        responses: Files and folders; `responses/` in the pack, where the page's server puts them, by default.
        out: Folder for the files; the pack's by default.
        beside: Analyses of other studies, for one table with a row for each.
    """
    from conceptlens.workflows.study.result_page import result_page
    from conceptlens.workflows.study.table import table_six

    folder = Path(pack)
    if not (folder / KEY).exists():
        raise UserError(
            f"{folder}: expected a study pack with a {KEY}, found none. `conceptlens study make` writes one."
        )
    key = Key.read(folder / KEY)
    if not responses and (folder / FOLDER).is_dir():
        responses = [folder / FOLDER]
    found = analyze(key, read_responses(response_files(responses), key))
    others = [Analysis.read(Path(each)) for each in beside]
    target = Path(out) if out else folder
    if target.exists() and not target.is_dir():
        raise UserError(f"{target}: expected a folder, found a file. Choose another one with --out.")
    table = table_six([*others, found])
    found.write(target / ANALYSIS)
    write_text(target / TABLE, table)
    write_text(target / RESULT_PAGE, result_page(found, [*others, found]))
    return Analyzed(found, target, table)


def analyze(key: Key, responses: Sequence[Responses]) -> Analysis:
    """All numbers of a study."""
    raters = [judge_rater(one, key) for one in responses]
    passed = [one for one, rater in zip(responses, raters, strict=True) if rater.passed]
    everyone = numbers(key, responses)
    return Analysis(
        study=key.study,
        run=key.run,
        data=key.data,
        method=key.method,
        map=key.map,
        control=key.control,
        result=numbers(key, passed) if len(passed) < len(responses) else everyone,
        everyone=everyone,
        raters=raters,
    )


def numbers(key: Key, responses: Sequence[Responses]) -> Numbers:
    """The result for some raters."""
    likert = [trial for trial in key.trials if trial.kind == "likert"]
    choice = [trial for trial in key.trials if trial.kind == "choice"]
    rated = [(t, int(one.answers[t.id].answer)) for one in responses for t in likert if t.id in one.answers]
    chosen = [(t, one.answers[t.id].answer == t.answer) for one in responses for t in choice if t.id in one.answers]
    options = sorted({name for trial in choice for name in trial.options})
    place = {name: n for n, name in enumerate(options)}
    names = [one.rater for one in responses]
    return Numbers(
        raters=names,
        likert=contrast([v for _, v in rated], [t.catch for t, _ in rated], [t.image for t, _ in rated]),
        choice=_share(chosen, False),
        choice_shuffled=_share(chosen, True),
        chance=chance_of(choice) if choice else None,
        likert_agreement=_agreement(
            names,
            _matrix(responses, [t.id for t in likert], {str(n + 1): n for n in range(LIKERT)}),
            LIKERT,
            "quadratic",
        ),
        choice_agreement=_agreement(names, _matrix(responses, [t.id for t in choice], place), len(options), "none"),
    )


def _share(chosen: Sequence[tuple[TrialKey, bool]], catch: bool) -> Share:
    rows = [(trial, right) for trial, right in chosen if trial.catch == catch]
    return share_of([right for _, right in rows], [trial.image for trial, _ in rows])


def _matrix(responses: Sequence[Responses], trials: Sequence[str], place: dict[str, int]) -> npt.NDArray[np.int64]:
    """Answers as numbers, (raters, trials), −1 where one is missing."""
    return np.array(
        [[place[one.answers[name].answer] if name in one.answers else -1 for name in trials] for one in responses],
        dtype=np.int64,
    ).reshape(len(responses), len(trials))


def _agreement(names: Sequence[str], answers: npt.NDArray[np.int64], count: int, weights: Weights) -> Agreement:
    kappa = mean_kappa(answers, count, weights)
    low = high = None
    if kappa is not None and answers.shape[1] > 1:
        drawn = np.random.default_rng(0).integers(answers.shape[1], size=(RESAMPLES, answers.shape[1]))
        again = [value for rows in drawn if (value := mean_kappa(answers[:, rows], count, weights)) is not None]
        if again:
            low, high = (float(bound) for bound in np.quantile(again, [0.025, 0.975]))
    return Agreement(
        raters=len(names),
        kappa=kappa,
        low=low,
        high=high,
        linear_kappa=mean_kappa(answers, count, "linear") if weights == "quadratic" else None,
        alpha=krippendorff_alpha(answers, count, weights),
        pairs=pairs(names, answers, count, weights),
    )
