"""What a run is worth, and whether it can be trusted."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from conceptlens.core.engines import EngineName
from conceptlens.core.engines.workers import Workers
from conceptlens.core.errors import UserError
from conceptlens.core.progress import note

if TYPE_CHECKING:
    from conceptlens.evaluation.codebook.document import Audit
    from conceptlens.evaluation.evaluate import Evaluation
    from conceptlens.evaluation.examination import Trust
    from conceptlens.evaluation.faithfulness.faithfulness import Faithfulness
    from conceptlens.evaluation.interventions.measure import Interventions
    from conceptlens.evaluation.leakage.leakage import Leakage
    from conceptlens.evaluation.localization.localize import Localization
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.workflows.refine.document import Refinement

Split = Literal["train", "val", "test"]
AnySplit = Literal["train", "val", "test", "all"]
Examination = Literal["corrections", "leakage", "maps", "calibration", "subgroups", "faithfulness"]
Data = Mapping[str, Any] | str | None


def _section(data: Data, *, regions: bool = False) -> dict[str, Any] | None:
    """Keys of a recipe's `data` section; without a source only regions of the run's own images."""
    if data is None:
        return None
    section = {"source": data} if isinstance(data, str) else dict(data)
    if "source" not in section and not regions:
        raise UserError("Settings of other data were given, but no data: add --data SOURCE.")
    return section


def trust(
    run: "str | Path | OpenedRun",
    *,
    split: Split | None = None,
    n: int = 500,
    resamples: int = 1000,
    without: Sequence[Examination] = (),
    out: str | Path | None = None,
    quiet: bool = True,
) -> "Trust":
    """Examine a run in all ways that its data allows: corrections, leakage, maps, calibration, subgroups, faithfulness.

    Prints what was found first, then what passed, then what could not be measured and why. Writes `trust/trust.json`,
    the results of `interventions`, `leakage`, `localize` and `faithfulness`, and the run's report again.

    Args:
        run: The run folder.
        split: Whose images; by default the split of the run's own numbers.
        n: Largest number of images on which maps are judged, at equal steps over the split.
        resamples: Number of bootstrap resamples of the intervals.
        without: An examination to leave out, such as `faithfulness`, which encodes 32 images a hundred times each.
        out: Folder for all files; places in the run folder by default.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.trust(run, out="trust", resamples=100).text()  # doctest: +SKIP
    """
    from conceptlens.evaluation.examination import trust_run
    from conceptlens.evaluation.trust import FOLDER
    from conceptlens.reports.page import FILE, render_report
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.runs.results import find_result
    from conceptlens.training.without_class import trained_without_class
    from conceptlens.workflows.audit.audit import keep_caution

    opened, say = OpenedRun.open(run), note(quiet)
    folder = opened.out_folder(out, FOLDER)
    result = trust_run(
        opened, split=split, n=n, resamples=resamples, without=without, retrain=trained_without_class, note=say
    )
    for name, found in result.results.items():
        found.save(folder / f"{name}.json" if out else opened.path / find_result(name).file)
    result.save(folder / "trust.json")
    if out is None:
        keep_caution(opened, say)
        if (opened.path / FILE).exists():
            render_report(opened.folder)
    return result


def evaluate(
    run: "str | Path | OpenedRun", *, data: Data = None, split: AnySplit | None = None, out: str | Path | None = None
) -> "Evaluation":
    """Measure a run on its own test images, or on other data.

    Args:
        run: The run folder.
        data: Other data: a folder, a table, or the name of built-in data; the run's own by default.
        split: Which images; `test` of the run's own data, `all` of other data by default.
        out: File for the result; `evaluation/` in the run folder by default.

    >>> import conceptlens as cl
    >>> evaluation = cl.evaluate(run, out="evaluation")
    >>> evaluation.text()
    '...'
    """
    from conceptlens.core.processes import is_main
    from conceptlens.evaluation.evaluate import evaluate_run
    from conceptlens.recipes.parse import load_recipe
    from conceptlens.runs.opened import OpenedRun

    opened, section = OpenedRun.open(run), _section(data)
    config = None if section is None else load_recipe({"data": section}, trusted=True).data
    result = evaluate_run(opened, data=config, split=split)
    return result.save(Path(out or opened.path / result.default_file)) if is_main() else result


def interventions(
    run: "str | Path | OpenedRun",
    *,
    split: Split = "test",
    by: Literal["groups", "concepts", "parts"] = "groups",
    to: Literal["auto", "one-hot", "learned", "shift", "quantile", "mean"] = "auto",
    order: Sequence[Literal["chance", "uncertainty", "influence", "expected gain"]] = (),
    classes: Sequence[str] = (),
    on: Sequence[str] = (),
    instead: str | None = None,
    threshold: float = 0.9,
    blur: Sequence[int] = (),
    resamples: int = 1000,
    out: str | Path | None = None,
    quiet: bool = True,
) -> "Interventions":
    """Measure how corrections of concepts change the class, and which concepts to ask for next.

    Args:
        run: The run folder; only the scores that it keeps are read, and images for `blur` alone.
        split: Whose predictions; training keeps those of `test`.
        by: What is corrected in one step.
        to: How an answer is written into what the class head reads: as 1 and 0, as the vector that the model learned,
            as a shift of the image's scores, as a quantile or a mean of scores. By default what suits the head.
        order: In which order; all by default.
        classes: A class of the counterfactual test; all by default.
        on: A group or concept of that test; the two most influential of each class by default.
        instead: The class whose mean scores it puts in; all others by default.
        threshold: It looks at images with a larger probability of the class.
        blur: Also correct the run's images blurred to so many pixels on a side; this reads them.
        resamples: Number of bootstrap resamples of the intervals.
        out: Folder for the files; `trust/` in the run folder by default.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.interventions(run, out="interventions").text()  # doctest: +SKIP
    """
    from conceptlens.evaluation.interventions.order import POLICIES
    from conceptlens.evaluation.trust import FOLDER, intervene_run
    from conceptlens.runs.opened import OpenedRun

    opened = OpenedRun.open(run)
    opened.readout(split)  # a run that cannot be measured gets no folder
    folder = opened.out_folder(out, FOLDER)
    result = intervene_run(
        opened,
        split=split,
        by=by,
        to=to,
        orders=order or POLICIES,
        classes=list(classes) or None,
        on=list(on) or None,
        instead=instead,
        threshold=threshold,
        blur=blur,
        resamples=resamples,
        note=note(quiet),
    )
    return result.save(folder / "interventions.json")


def leakage(
    run: "str | Path | OpenedRun",
    *,
    split: Split = "test",
    permutations: int = 99,
    reference: bool = True,
    resamples: int = 1000,
    out: str | Path | None = None,
    quiet: bool = True,
) -> "Leakage":
    """Measure whether a run's concept scores carry more class information than those of a model without the class.

    Args:
        run: The run folder.
        split: Whose predictions; training keeps those of `test`.
        permutations: Of the scores among images with equal labels; 0 for numbers without that test.
        reference: Compare with a reader that never saw the class, trained for it; without, only the scores that
            the run keeps are read, and there is no verdict.
        resamples: Number of bootstrap resamples of the intervals.
        out: Folder for the files; `trust/` in the run folder by default.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.leakage(run, reference=False, out="leakage").text()  # doctest: +SKIP
    """
    from conceptlens.evaluation.trust import FOLDER, leakage_run
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.training.without_class import trained_without_class

    opened = OpenedRun.open(run)
    opened.readout(split)  # a run that cannot be measured gets no folder
    folder = opened.out_folder(out, FOLDER)
    result = leakage_run(
        opened,
        split=split,
        permutations=permutations,
        resamples=resamples,
        reference=reference,
        retrain=trained_without_class,
        note=note(quiet),
    )
    return result.save(folder / "leakage.json")


def localize(
    run: "str | Path | OpenedRun",
    *,
    data: Data = None,
    split: AnySplit | None = None,
    where: Literal["visible", "present"] = "visible",
    n: int | None = None,
    sigma: float | None = None,
    maps: Sequence[Literal["own", "gradcam", "occlusion"]] = ("own", "gradcam"),
    out: str | Path | None = None,
    jobs: int = 1,
    engine: EngineName = "local",
    engine_option: Sequence[str] = (),
    quiet: bool = True,
) -> "Localization":
    """Measure whether a run's maps point at the object and at the part of each concept.

    Regions come from the recipe's `data.regions`, or from here, as --data.regions.masks FOLDER (see
    docs/localization.md).

    Args:
        run: The run folder.
        data: Other data: a folder, a table, or the name of built-in data. With `regions` alone, where things are in the
            run's own images.
        split: Which images; `test` of the run's own data, `all` of other data by default.
        where: Judge a concept's map where its region is visible, or only where the concept is present.
        n: Largest number of images, at equal steps over the split; 20,000 by default.
        sigma: Width of the center prior in sides of the image; that of other images' regions by default.
        maps: Kinds of maps: the method's own, gradcam, occlusion (a forward pass for each of some fifty regions).
        out: File for the result; in the run folder by default.
        jobs: Processes that share the images.
        engine: What starts these processes: this machine, Ray, or SLURM (see docs/scale.md).
        engine_option: A setting of the engine, as `num_gpus=1` of a Ray task or `slurm_partition=gpu`.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.localize(run, out="localization").text()  # doctest: +SKIP
    """
    from conceptlens.evaluation.localization.localize import localize_run
    from conceptlens.runs.opened import OpenedRun

    opened = OpenedRun.open(run)
    result = localize_run(
        opened,
        data=_section(data, regions=True),
        split=split,
        where=where,
        n=n,
        sigma=sigma,
        maps=maps,
        workers=Workers(jobs, engine, tuple(engine_option)),
        note=note(quiet),
    )
    return result.save(Path(out or opened.path / result.default_file))


def faithfulness(
    run: "str | Path | OpenedRun",
    *,
    data: Data = None,
    split: AnySplit | None = None,
    n: int = 64,
    fill: Literal["black", "mean", "blur"] = "blur",
    steps: int = 8,
    out: str | Path | None = None,
) -> "Faithfulness":
    """Measure whether a run's maps show what it used: pixels change, and the image is encoded again.

    Insertion and deletion of patches, hidden parts, other backgrounds, moved objects, noise, random weights; with a
    verdict.

    Args:
        run: The run folder.
        data: As for `localize`.
        split: As for `localize`.
        n: Largest number of images, at equal steps over the split.
        fill: What replaces removed pixels.
        steps: Number of steps in which cells are removed and restored.
        out: File for the result; `faithfulness.json` in the run folder by default.

    >>> import conceptlens as cl
    >>> cl.faithfulness(run, n=8, out="faithfulness").text()  # doctest: +SKIP
    """
    from conceptlens.evaluation.faithfulness.faithfulness import faithfulness_run
    from conceptlens.runs.opened import OpenedRun

    opened = OpenedRun.open(run)
    result = faithfulness_run(opened, data=_section(data, regions=True), split=split, n=n, fill=fill, steps=steps)
    return result.save(Path(out or opened.path / result.default_file))


def audit(
    run: "str | Path | OpenedRun",
    *,
    split: Literal["test", "val"] | None = None,
    by: Sequence[str] = (),
    alpha: float = 0.1,
    false_alarm_rate: float = 0.05,
    resamples: int = 1000,
    out: str | Path | None = None,
    jobs: int = 1,
    engine: EngineName = "local",
    engine_option: Sequence[str] = (),
    quiet: bool = True,
) -> "Audit":
    """Audit a run: its codebook, its concepts, subgroups, calibration, and images out of distribution.

    Args:
        run: The run folder.
        split: By default the split of the run's own numbers.
        by: A column of metadata that makes subgroups, as `sex`, or `age=40,60` for bands; all by default.
        alpha: Share of images whose prediction set may miss the truth.
        false_alarm_rate: Share of in-distribution images that may be flagged as out of distribution.
        resamples: Number of bootstrap resamples of the intervals.
        out: Folder for the files; `audit/` in the run folder by default.
        jobs: Processes that share the images.
        engine: What starts these processes: this machine, Ray, or SLURM (see docs/scale.md).
        engine_option: A setting of the engine, as `num_gpus=1` of a Ray task or `slurm_partition=gpu`.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.audit(run, resamples=20, out="audit").text()  # doctest: +SKIP
    """
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.workflows.audit.audit import FOLDER, audit_run, save_audit

    opened = OpenedRun.open(run)
    folder = opened.out_folder(out, FOLDER)
    result = audit_run(
        opened,
        split=split,
        by=list(by) or None,
        alpha=alpha,
        false_alarm_rate=false_alarm_rate,
        resamples=resamples,
        workers=Workers(jobs, engine, tuple(engine_option)),
        note=note(quiet),
    )
    save_audit(result, folder, failures=None if out else opened.path / "trust" / "failures.json")
    return result


def refine(
    run: "str | Path | OpenedRun",
    *,
    replace: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: bool = False,
    seeds: int = 1,
    control: bool = True,
    out: str | Path | None = None,
    quiet: bool = True,
) -> "Refinement":
    """Change concepts of a run, train its recipe again with the same seeds, and compare.

    Trains up to three runs a seed: before (the run itself for the first), after, and a control.

    Args:
        run: The run folder.
        replace: `old=new`: other words for a concept; its labels stay.
        drop: A concept to leave out.
        rename: Also use the new words as the concept's name.
        seeds: Number of seeds; the first is the run's own.
        control: Also make the change to a concept chosen at random, a different one for each seed.
        out: Folder for runs and results; below `refine/` in the run folder by default.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.refine(run, drop=["body colour: red"]).text()  # doctest: +SKIP
    """
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.workflows.refine.refine import refine_run

    result = refine_run(
        OpenedRun.open(run),
        replace=replace,
        drops=drop,
        rename=rename,
        seeds=seeds,
        control=control,
        out=out,
        quiet=quiet,
        note=note(quiet),
    )
    return result.save(result.folder / "refine.json")
