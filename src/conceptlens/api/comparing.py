"""Comparisons of methods, and studies of maps with human raters."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from conceptlens.core.documents import TextResult
from conceptlens.core.engines import EngineName
from conceptlens.core.progress import note

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.workflows.reproduce.reproduce import Catalog, Reproduced
    from conceptlens.workflows.study.analyze import Analyzed
    from conceptlens.workflows.study.make import Pack


def compare(
    file: str | Path,
    *,
    out: str | Path | None = None,
    plan: bool = False,
    commands: bool = False,
    jobs: int = 1,
    shard: str | None = None,
    job: str | None = None,
    engine: EngineName = "local",
    engine_option: Sequence[str] = (),
    quiet: bool = True,
) -> Any:
    """Compare recipes on data sets with several seeds: one table with intervals and tests.

    Called again, it skips finished jobs and runs the rest. Under `accelerate launch` every process runs its share of
    the jobs.

    Args:
        file: The comparison: recipes, data sets, seeds (see docs/compare.md).
        out: Folder for runs, table and figures; `runs/compare-<file>` by default.
        plan: Only show what would run, what is done and how long the rest takes.
        commands: Only list a command line for each job that is not done, for any scheduler.
        jobs: Number of trainings at once, each in its own process.
        shard: `i/n`: only every n-th job, beginning with the i-th, for many machines.
        job: Run only the job with this id, as `commands` lists it.
        engine: What starts the trainings: processes of this machine, Ray, or SLURM (see docs/scale.md).
        engine_option: A setting of the engine, as `num_gpus=1` of a Ray task or `slurm_partition=gpu`.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.compare("compare.yaml", plan=True)  # doctest: +SKIP
    """
    from conceptlens.workflows.compare import compare as comparison

    if plan:
        return comparison.plan(file, out=out)
    if commands:
        return TextResult("\n".join(comparison.commands(file, out=out)))
    if job is not None:
        return comparison.run_job(file, job, out=out)
    return comparison.compare(
        file, out=out, at_once=jobs, shard=shard, engine=engine, engine_option=engine_option, quiet=quiet
    )


def reproduce(
    what: str = "list",
    *,
    full: bool = False,
    data: str | Path | None = None,
    out: str | Path | None = None,
    jobs: int = 1,
    engine: EngineName = "local",
    engine_option: Sequence[str] = (),
) -> "Catalog | Reproduced":
    """Make a table or a figure of one of the four papers again, or list all of them.

    By default it makes a small version, on a laptop with built-in data. It shows the procedure; its numbers prove
    nothing.

    Args:
        what: `list`, or a name in it, as `ivq-cbm/table-3`.
        full: As in evidence: the whole data, several seeds; call it in the folder of a clone.
        data: Folder that `conceptlens data prepare` made; only for `full`.
        out: Folder for what is made; `runs/reproduce/NAME` by default.
        jobs: Trainings of a comparison at once.
        engine: What starts the trainings of a comparison: processes of this machine, Ray, or SLURM.
        engine_option: A setting of the engine, as `num_gpus=1` of a Ray task or `slurm_partition=gpu`.

    >>> import conceptlens as cl
    >>> cl.reproduce().text().startswith("cortex")
    True
    """
    from conceptlens.workflows.reproduce import reproduce as reproduction

    if what == "list":
        return reproduction.catalog()
    return reproduction.run(
        what,
        full=full,
        data=None if data is None else Path(data),
        out=None if out is None else Path(out),
        compare_words=reproduction.compare_words(jobs, engine, engine_option),
    )


def make_study(
    run: "str | Path | OpenedRun",
    *,
    out: str | Path | None = None,
    n: int | None = None,
    catch_share: float = 0.2,
    options: int = 5,
    attention: int = 4,
    control: Literal["moved", "patches", "other"] = "moved",
    map: Literal["auto", "evidence", "attention", "gradcam"] = "auto",
    concepts: Sequence[str] = (),
    split: Literal["train", "val", "test"] = "test",
    side: int = 384,
    seed: int = 0,
    effect: float = 1.0,
    power: float = 0.9,
    raters: int = 2,
    quiet: bool = True,
) -> "Pack":
    """Make a blinded study of a run's maps for people: a page for raters, and a key that you keep.

    Args:
        run: The run folder.
        out: Folder for the pack; `study/` in the run folder by default.
        n: Number of images; the power calculation chooses it by default.
        catch_share: Share of images that are shown with a shuffled map.
        options: Number of answers to choose from.
        attention: Number of attention checks.
        control: How maps are shuffled.
        map: Which map is shown; by default the method's own, evidence before attention, or else Grad-CAM.
        concepts: Ask about this concept or group only.
        split: Of the run's own data.
        side: Largest side of the pictures in pixels.
        seed: Of every random choice.
        effect: Difference between true and shuffled maps, in points of the scale, that the study should detect.
        power: Probability of detecting it.
        raters: How many people will answer.
        quiet: Show no progress.

    >>> import conceptlens as cl
    >>> cl.make_study(run, out="study", n=10)  # doctest: +SKIP
    """
    from conceptlens.workflows.study.make import make_study as make
    from conceptlens.workflows.study.power import Plan

    return make(
        run,
        out,
        n=n,
        catch_share=catch_share,
        options=options,
        attention=attention,
        control=control,
        map=map,
        concepts=list(concepts) or None,
        split=split,
        side=side,
        seed=seed,
        plan=Plan(effect=effect, power=power, raters=raters),
        note=note(quiet),
    )


def analyze_study(
    pack: str | Path, responses: Sequence[str | Path] = (), *, out: str | Path | None = None, beside: Sequence[str] = ()
) -> "Analyzed":
    """Analyze the answers of raters: ratings of true against shuffled maps, choices, agreement.

    Args:
        pack: The folder of the study, with its key.
        responses: Response files, or folders of them; those that the page saved in the pack by default.
        out: Folder for the result; the pack's by default.
        beside: `analysis.json` of another study, for a common table.

    >>> import conceptlens as cl
    >>> print(cl.analyze_study("study").text())  # doctest: +SKIP
    """
    from conceptlens.workflows.study.analyze import analyze_study as analyze

    return analyze(pack, responses, out=out, beside=beside)
