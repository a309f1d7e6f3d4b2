"""What a run's concepts are worth: measured from the predictions that it keeps. Nothing is written."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from conceptlens.core.errors import UserError
from conceptlens.core.progress import Note
from conceptlens.evaluation.interventions.blurred import measure_blurred
from conceptlens.evaluation.interventions.counterfactual import THRESHOLD
from conceptlens.evaluation.interventions.measure import Interventions, measure_interventions
from conceptlens.evaluation.interventions.order import POLICIES
from conceptlens.evaluation.interventions.what_if import WhatIf, one_of, read_image, what_if
from conceptlens.evaluation.leakage.image_vectors import image_vectors
from conceptlens.evaluation.leakage.leakage import Leakage, measure_leakage
from conceptlens.evaluation.leakage.permuted import PERMUTATIONS
from conceptlens.evaluation.leakage.reference import ClassFree, TaughtImages
from conceptlens.explanations.subjects import OneImage
from conceptlens.methods.class_terms import never_saw_class
from conceptlens.stats.estimates import Bootstrap

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

FOLDER = "trust"
Retrain = Callable[["OpenedRun", Note], AbstractContextManager["OpenedRun | None"]]


def intervene_run(
    run: "OpenedRun",
    *,
    split: str = "test",
    by: str = "groups",
    to: str = "auto",
    orders: Sequence[str] = POLICIES,
    classes: Sequence[str] | None = None,
    on: Sequence[str] | None = None,
    instead: str | None = None,
    threshold: float = THRESHOLD,
    blur: Sequence[int] = (),
    resamples: int = 1000,
    note: Note = lambda text: None,
) -> Interventions:
    """Correct concepts of a run's images, in several orders, and measure what the class head predicts.

    With `blur` (pixels on a side) the same for images that are blurred before the encoder reads them.
    """
    readout = run.readout(split)
    bootstrap = Bootstrap(readout.units, resamples)
    blurred = measure_blurred(run, readout, blur, bootstrap, split=split, by=by, to=to, note=note) if blur else []
    found = measure_interventions(
        readout,
        bootstrap,
        run=run.name,
        split=split,
        by=by,
        to=to,
        orders=orders,
        classes=classes,
        on=on,
        instead=instead,
        threshold=threshold,
        note=note,
    )
    found.blurred = blurred
    return found


def leakage_run(
    run: "OpenedRun",
    *,
    split: str = "test",
    resamples: int = 1000,
    permutations: int = PERMUTATIONS,
    reference: bool = True,
    retrain: Retrain | None = None,
    note: Note = lambda text: None,
) -> Leakage:
    """Whether a run's scores carry more of the class than a reader that never saw it; without one, no verdict.

    Args:
        run: The run.
        split: Whose scores.
        resamples: Of the intervals.
        permutations: Of the raw test.
        reference: Compare with such a reader.
        retrain: Trains the run's method without the class; otherwise the reader is linear.
        note: Says something to the person who waits.
    """
    readout = run.readout(split)

    def readers() -> Sequence[ClassFree | TaughtImages]:
        if never_saw_class(run.recipe):
            return [ClassFree.of_run("this run itself, whose concepts never saw the class", readout, readout)]
        if retrain is not None:
            with retrain(run, note) as other:
                if other is not None:
                    found = other.readout(split)
                    return [ClassFree.of_run("the same method trained without the class", readout, found)]
        return image_vectors(run, split, note)

    return measure_leakage(
        readout,
        Bootstrap(readout.units, resamples),
        run=run.name,
        split=split,
        permutations=permutations,
        references=readers if reference else None,
        note=note,
    )


def what_if_run(run: "OpenedRun", image: OneImage, edits: Sequence[str] = (), *, split: str = "test") -> WhatIf:
    """One image with some concepts set by hand: an image of the split by its name, a file, or an image in memory."""
    readout = run.readout(split)
    one = one_of(readout, str(image)) if isinstance(image, str | Path) else None
    if one is None:
        if isinstance(image, str | Path) and not Path(image).is_file():
            raise UserError(f"{image}: neither an image file nor the name of one of the run's {split} images.")
        one = read_image(run, image)
    return what_if(readout, one, edits)
