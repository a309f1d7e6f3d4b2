"""By how much a run's scores carry more of the class than those of the reference reader.

Two measures, both beyond a concept's own label, of the run less of the reader, image by image:

- information: nats that a question's score says of the class, given its label (`information.beyond_label`; scores are
  cut at their quantiles, so that a recalibration changes nothing), mean over all questions. A leak may sit in few of
  them: where the three questions with the largest excess are certainly above the limit, theirs counts. They are chosen
  on other images than those they are measured on, so that chance alone has no excess.
- use: accuracy that the class head gains from it (`signs.head_use`). It depends on how a head was fitted, so it is
  shown beside, and decides nothing.
"""

from dataclasses import dataclass

import numpy as np

from conceptlens.core.documents import Part
from conceptlens.evaluation.interventions.units import questions
from conceptlens.evaluation.leakage.information import beyond_label
from conceptlens.evaluation.leakage.permuted import own_label
from conceptlens.evaluation.leakage.probe import mean_known
from conceptlens.evaluation.leakage.reference import Reference
from conceptlens.evaluation.leakage.signs import head_use
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import sides

LIMIT = 0.03
LARGEST = 3  # questions that count
DRAWS = 20  # of permutations behind the use


class Excess(Part):
    """Over one reference reader."""

    encoder: str  # whose vectors it reads: `initial` or `final`
    information: Estimate  # nats, mean over all questions
    largest: Estimate  # nats, mean over the questions with the largest excess
    use: Estimate  # accuracy
    questions: list[str]  # with the largest excess, of all images
    run_auc: float | None  # of concepts, on the judged images
    reader_auc: float | None
    accuracy: Estimate  # of the reader with a class head of its own: a sequential model

    def text(self) -> str:
        read = "" if self.run_auc is None else f"; concept AUC {self.run_auc:.3f}, of the reader {self.reader_auc:.3f}"
        return (
            f"excess over a reader without the class ({self.encoder} encoder): {self.information.text()} nats, "
            f"{self.largest.text()} in {', '.join(self.questions)}{read}; "
            f"gained by the head: {self.use.text()} of accuracy"
        )

    @property
    def counts(self) -> Estimate:
        """The one number: nats of all questions, or of the largest where they are certainly above the limit."""
        return self.largest if self.largest.low is not None and self.largest.low > LIMIT else self.information

    @property
    def within(self) -> bool:
        """Whether the excess lies below the limit."""
        return self.counts.high is not None and self.counts.high < LIMIT


@dataclass(frozen=True)
class Gains:
    """What one readout's scores carry beyond own labels, for each image."""

    information: Floats  # (N, questions): nats; NaN where unknown
    use: Floats  # (N,)


def gains(readout: Readout, fold: Indices, *, seed: int = 0) -> Gains:
    """Of a run or of a reader."""
    nats = beyond_label(readout.bottleneck, readout.truth, own_label(readout), readout.targets, fold)
    asked = [each for group in questions(readout.concepts) for each in group]
    columns = [mean_known(list(nats[:, list(question.columns)].T)) for question in asked]
    return Gains(np.stack(columns, axis=1), head_use(readout, draws=DRAWS, seed=seed)(readout.bottleneck))


def find_excess(run: Gains, reference: Reference, fold: Indices, bootstrap: Bootstrap, *, seed: int = 0) -> Excess:
    """Over one reader; a question that its training labels could not teach is left out."""
    read = reference.readout
    reader = gains(read, fold, seed=seed)
    asked = [each for group in questions(read.concepts) for each in group]
    taught = np.flatnonzero([bool(reference.taught[question.columns[0]]) for question in asked])
    over = (run.information - reader.information)[:, taught]
    found = bootstrap.means(
        {
            "information": mean_known(list(over.T)),
            "largest": largest(over, fold),
            "use": run.use - reader.use,
            "accuracy": read.hits(read.logits(read.bottleneck)),
        }
    )
    names = [
        read.concepts.groups[_group_of(read, asked[place].columns[0])].name
        if len(asked[place].columns) > 1
        else read.concepts.names[asked[place].columns[0]]
        for place in taught[_order(over)][:LARGEST]
    ]
    return Excess(
        encoder=reference.encoder,
        information=found["information"],
        largest=found["largest"],
        use=found["use"],
        questions=names,
        run_auc=reference.run_auc,
        reader_auc=reference.auc,
        accuracy=found["accuracy"],
    )


def largest(over: Floats, fold: Indices, count: int = LARGEST) -> Floats:
    """(N,): the mean over those columns of (N, Q) that are largest on average over the other folds' images."""
    column = np.full(len(over), np.nan)
    for learn, ask in sides(fold):
        column[ask] = mean_known(list(over[np.ix_(ask, _order(over[learn])[:count])].T))
    return column


def _order(over: Floats) -> Indices:
    """Columns (Q,) by their mean, largest first; those without one last."""
    means = np.array([column[~np.isnan(column)].mean() if (~np.isnan(column)).any() else -np.inf for column in over.T])
    return np.argsort(-means, kind="stable")


def _group_of(readout: Readout, concept: int) -> int:
    return next(
        place
        for place, group in enumerate(readout.concepts.groups)
        if group.concepts.start <= concept < group.concepts.stop
    )
