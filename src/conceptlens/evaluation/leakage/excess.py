"""By how much a run's scores carry more of the class than those of the reference reader.

Two measures, both beyond a concept's own label, of the run less of the reader, image by image:

- information: nats that a question's score says of the class, given its label (`information.beyond_label`; scores are
  cut at their quantiles, so that a recalibration changes nothing), mean over all questions. A leak may sit in few of
  them: where the three questions with the largest excess are certainly above the limit, theirs counts. They are chosen
  on other images than those they are measured on, so that chance alone has no excess.
- use: accuracy that the class head gains from it (`signs.head_use`). It depends on how a head was fitted, so it is
  shown beside, and decides nothing.
"""

import numpy as np

from conceptlens.core.documents import Part
from conceptlens.evaluation.leakage.information import beyond_label
from conceptlens.evaluation.leakage.permuted import own_label
from conceptlens.evaluation.leakage.reference import ClassFree, Reference, all_questions
from conceptlens.evaluation.leakage.signs import head_use
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.folds import sides
from conceptlens.stats.weighted import mean_known

LIMIT = 0.03
LARGEST = 3  # questions that count
DRAWS = 20  # of permutations behind the use


class Excess(Part):
    """Over one reference reader."""

    reader: str  # in words
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
            f"excess over {self.reader}: {self.information.text()} nats, "
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


def find_excess(readout: Readout, reader: ClassFree, fold: Indices, bootstrap: Bootstrap, *, seed: int = 0) -> Excess:
    """Of a run over one reader; a question that its training labels could not teach is left out."""
    over, other = information_over(readout, reader, fold), reader.readout
    used, reader_used = (head_use(each, draws=DRAWS, seed=seed)(each.bottleneck) for each in (readout, other))
    found = bootstrap.means(
        {
            "information": mean_known(over),
            "largest": largest(over, fold),
            "use": used - reader_used,
            "accuracy": other.hits(other.logits(other.bottleneck)),
        }
    )
    return Excess(
        reader=reader.name,
        questions=[_name(readout, reader.taught[place]) for place in _order(over)[:LARGEST]],
        run_auc=reader.run_auc,
        reader_auc=reader.auc,
        **found,
    )


def information_over(readout: Readout, reference: Reference | ClassFree, fold: Indices) -> Floats:
    """(N, questions that were taught): nats of a run's scores beyond own labels, less those of the reader's."""
    run, reader = (
        beyond_label(each.bottleneck, each.truth, own_label(each), each.targets, fold)
        for each in (readout, reference.readout)
    )
    asked = all_questions(readout.concepts)
    columns = [mean_known((run - reader)[:, list(asked[place].columns)]) for place in reference.taught]
    return np.stack(columns, axis=1) if columns else np.full((len(readout), 1), np.nan)


def largest(over: Floats, fold: Indices, count: int = LARGEST) -> Floats:
    """(N,): the mean over those columns of (N, Q) that are largest on average over the other folds' images."""
    column = np.full(len(over), np.nan)
    for learn, ask in sides(fold):
        column[ask] = mean_known(over[np.ix_(ask, _order(over[learn])[:count])])
    return column


def _order(over: Floats) -> Indices:
    """Columns (Q,) by their mean, largest first; those without one last."""
    means = np.array([column[~np.isnan(column)].mean() if (~np.isnan(column)).any() else -np.inf for column in over.T])
    return np.argsort(-means, kind="stable")


def _name(readout: Readout, question: int) -> str:
    """An exclusive group, or one concept of another group."""
    columns = all_questions(readout.concepts)[question].columns
    concept = readout.concepts.concepts[columns[0]]
    return concept.group if len(columns) > 1 else readout.concepts.names[columns[0]]
