"""The functions behind the commands. Each imports what it needs when called, so that `import conceptlens` is quick."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conceptlens.compare.compare import Compared
    from conceptlens.compare.plan import Plan
    from conceptlens.data.check import DataReport
    from conceptlens.evaluation.evaluate import Evaluation
    from conceptlens.evaluation.faithfulness import Faithfulness
    from conceptlens.evaluation.localisation import Localisation
    from conceptlens.evaluation.predict import PredictionList
    from conceptlens.explain.explain import Explanations
    from conceptlens.export.export import Exported
    from conceptlens.runs import RunFolder
    from conceptlens.training.cost import Cost
    from conceptlens.training.encode import EncodedImages
    from conceptlens.trust.run import Measured
    from conceptlens.trust.what_if import WhatIf

Overrides = Sequence[str] | Mapping[str, Any]


def train(
    recipe: str | Path | Mapping[str, Any], overrides: Overrides = (), *, overwrite: bool = False, quiet: bool = False
) -> "RunFolder":
    """Train a recipe and return its run folder.

    Args:
        recipe: A YAML file, the name of a ready recipe, or a mapping.
        overrides: Settings laid over the recipe: a mapping, or words as on the command line.
        overwrite: Replace a run that is in the way.
        quiet: Show no progress.
    """
    from conceptlens.recipe.parse import load_recipe
    from conceptlens.report.page import write_report
    from conceptlens.training.train import start_run

    return start_run(load_recipe(recipe, overrides), write_report, overwrite=overwrite, quiet=quiet)


def dry_run(recipe: str | Path | Mapping[str, Any], overrides: Overrides = ()) -> "Cost":
    """What training a recipe would cost; nothing is written."""
    from conceptlens.processes import Launched
    from conceptlens.recipe.parse import load_recipe
    from conceptlens.training.cost import estimate
    from conceptlens.training.progress import Progress
    from conceptlens.training.train import open_session

    loaded = load_recipe(recipe, overrides)
    return estimate(open_session(loaded, None, Launched(loaded.training.precision), Progress(quiet=True)))


def encode(
    recipe: str | Path | Mapping[str, Any], overrides: Overrides = (), *, quiet: bool = False
) -> "EncodedImages":
    """Store what a recipe's encoder says of every image up to its last, learning blocks; `train` then starts there."""
    from conceptlens.recipe.parse import load_recipe
    from conceptlens.training.encode import encode_recipe

    return encode_recipe(load_recipe(recipe, overrides), quiet=quiet)


def resume(run: str | Path, *, quiet: bool = False) -> "RunFolder":
    """Go on with a run that was stopped, to the same result as if it had not been."""
    from conceptlens.report.page import write_report
    from conceptlens.training.train import resume_run

    return resume_run(run, write_report, quiet=quiet)


def evaluate(
    run: str | Path,
    data: Mapping[str, Any] | str | None = None,
    *,
    split: str | None = None,
    out: str | Path | None = None,
) -> "Evaluation":
    """Measure a finished run on its own test images, or on other data.

    Args:
        run: The run folder.
        data: Keys of a recipe's `data` section, or just a source; the run's own data if None.
        split: `train`, `val`, `test` or `all`.
        out: File for the result.
    """
    from conceptlens.evaluation.evaluate import evaluate_run
    from conceptlens.recipe.parse import load_recipe

    config = None if data is None else load_recipe({"data": data if isinstance(data, str) else dict(data)}).data
    return evaluate_run(run, data=config, split=split, out=out)


def predict(run: str | Path, images: Sequence[str | Path], *, out: str | Path | None = None) -> "PredictionList":
    """Class and concepts of image files or folders."""
    from conceptlens.evaluation.predict import predict_run

    return predict_run(run, images, out=out)


def explain(
    run: str | Path,
    images: Sequence[str | Path] = (),
    *,
    out: str | Path | None = None,
    concepts: Sequence[str] | None = None,
    maps: Sequence[str] = ("attention", "gradcam", "index"),
    sheet: bool = False,
    split: str = "test",
    n: int = 12,
    show: str = "all",
    opacity: float = 0.6,
) -> "Explanations":
    """Why a finished run says what it says of image files, or of images of its own data: files and pictures.

    Args:
        run: The run folder.
        images: Files and folders; none for images of the run's own data.
        out: Folder for the files; `explain/` in the run folder by default.
        concepts: Whose maps are wanted: concepts, groups, or `all`; by default those that decided each image.
        maps: Of `attention`, `gradcam` and `index`.
        sheet: Also draw, for each concept, the maps of all images on one sheet.
        split: Of the run's own data: `train`, `val` or `test`.
        n: At most so many of its images.
        show: Which: `right`, `wrong`, `uncertain` or `all`.
        opacity: Of a map where it is largest, 0 to 1.
    """
    from conceptlens.explain.explain import explain_run

    return explain_run(
        run,
        images,
        out=out,
        concepts=concepts,
        maps=maps,
        sheet=sheet,
        split=split,
        n=n,
        show=show,
        opacity=opacity,
    )


def localise(
    run: str | Path,
    data: Mapping[str, Any] | str | None = None,
    *,
    split: str | None = None,
    where: str = "visible",
    n: int | None = None,
    sigma: float | None = None,
    out: str | Path | None = None,
) -> "Localisation":
    """Whether a finished run's maps point at the object, and at the part that each concept speaks of.

    Args:
        run: The run folder.
        data: Keys of a recipe's `data` section, or just a source: other data. With `regions` alone, where things are in
            the run's own images.
        split: `train`, `val`, `test` or `all`; by default `test` of the run's own data, `all` of other data.
        where: Judge a concept's map in images in which its region is `visible`, or only where the concept is `present`.
        n: At most so many images, evenly spread over the split.
        sigma: Width of the centred blob in sides of the image; that of other images' regions by default.
        out: File for the result; `localisation.json` in the run folder by default.
    """
    from conceptlens.evaluation.localisation import localise_run

    section = {"source": data} if isinstance(data, str) else data
    return localise_run(run, data=section, split=split, where=where, n=n, sigma=sigma, out=out)


def intervene(
    run: str | Path,
    *,
    split: str = "test",
    by: str = "groups",
    to: str = "quantile",
    orders: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    on: Sequence[str] | None = None,
    instead: str | None = None,
    threshold: float = 0.9,
    out: str | Path | None = None,
    quiet: bool = True,
) -> "Measured":
    """What a finished run's classes do when concepts are corrected, spoilt or taken from another class.

    Args:
        run: The run folder; only the scores that it keeps are read, no image.
        split: Whose predictions; training keeps those of `test`.
        by: Correct `groups`, single `concepts`, or `parts` at a time.
        to: A label becomes a `quantile` of the concept's scores, or the `mean` score of images with that label.
        orders: Of `chance`, `uncertainty`, `influence` and `expected gain`; all by default.
        classes: Of the counterfactual test; all by default.
        on: Groups or concepts of that test; the two most influential of each class by default.
        instead: The class whose mean scores it puts in; all others by default.
        threshold: It looks at images with a larger probability of the class.
        out: Folder for the files; `trust/` in the run folder by default.
        quiet: Show no progress.
    """
    from conceptlens.trust.order import POLICIES
    from conceptlens.trust.run import intervene_run

    return intervene_run(
        run,
        split=split,
        by=by,
        to=to,
        orders=POLICIES if orders is None else orders,
        classes=classes,
        on=on,
        instead=instead,
        threshold=threshold,
        out=out,
        note=_note(quiet),
    )


def what_if(run: str | Path, image: str | Path, edits: Sequence[str] = (), *, split: str = "test") -> "WhatIf":
    """One image with some concepts set by hand, before and after.

    Args:
        run: The run folder.
        image: The name of one of the run's images, or any image file.
        edits: As `granule colour=pink`, `granularity: yes=0.3` or `cell size=mean of Basophil`.
        split: Of the run's images.
    """
    from conceptlens.trust.run import what_if_run

    return what_if_run(run, image, edits, split=split)


def leakage(run: str | Path, *, split: str = "test", out: str | Path | None = None, quiet: bool = True) -> "Measured":
    """Whether a finished run's concepts carry more of the class than their names say.

    Args:
        run: The run folder; only the scores that it keeps are read, no image.
        split: Whose predictions; training keeps those of `test`.
        out: Folder for the files; `trust/` in the run folder by default.
        quiet: Show no progress.
    """
    from conceptlens.trust.run import leakage_run

    return leakage_run(run, split=split, out=out, note=_note(quiet))


def _note(quiet: bool) -> Callable[[str], object]:
    """What says how far a measurement is."""
    import sys

    return (lambda text: None) if quiet else (lambda text: print(text, file=sys.stderr, flush=True))


def faithfulness(
    run: str | Path,
    data: Mapping[str, Any] | str | None = None,
    *,
    split: str | None = None,
    n: int = 64,
    fill: str = "blur",
    out: str | Path | None = None,
) -> "Faithfulness":
    """Whether a finished run's maps show what it used: insertion, deletion, occlusion of parts, noise, random weights.

    Args:
        run: The run folder.
        data: As for `localise`.
        split: As for `localise`.
        n: At most so many images, evenly spread over the split.
        fill: What stands where something was taken away: `black`, `mean` or `blur`.
        out: File for the result; `faithfulness.json` in the run folder by default.
    """
    from conceptlens.evaluation.faithfulness import faithfulness_run

    section = {"source": data} if isinstance(data, str) else data
    return faithfulness_run(run, data=section, split=split, n=n, fill=fill, out=out)


def export(
    run: str | Path, *, format: str = "torch", out: str | Path | None = None, size: int | None = None
) -> "Exported":
    """Write a finished run as one file that runs without conceptlens: pixels in; classes, concepts and maps out.

    Args:
        run: The run folder.
        format: `torch`, for torch.export.load, or `onnx`.
        out: The file; `export/model.pt2` or `export/model.onnx` in the run folder by default. A card goes beside it.
        size: Side in pixels of the images it takes; the run's own by default.
    """
    from conceptlens.export.export import export_run

    return export_run(run, format=format, out=out, size=size)


def compare(
    file: str | Path,
    *,
    out: str | Path | None = None,
    jobs: int = 1,
    shard: str | None = None,
    quiet: bool = False,
) -> "Compared":
    """Train what a comparison file asks for and is not done, and compare what is.

    Args:
        file: The comparison: recipes, data sets, seeds.
        out: Folder for runs, table and figures; `runs/compare-<file>` by default.
        jobs: Trainings at once, each a process of its own.
        shard: `i/n`: only every n-th job, beginning with the i-th.
        quiet: Show no progress.
    """
    from conceptlens.compare.compare import compare as run

    return run(file, out=out, at_once=jobs, shard=shard, quiet=quiet)


def plan_comparison(file: str | Path, *, out: str | Path | None = None) -> "Plan":
    """What a comparison would run, what is done and how long the rest takes; nothing is started."""
    from conceptlens.compare.compare import plan

    return plan(file, out=out)


def comparison_commands(file: str | Path, *, out: str | Path | None = None) -> list[str]:
    """A command line for each job of a comparison that is not done, for any scheduler."""
    from conceptlens.compare.compare import commands

    return commands(file, out=out)


def check_data(data: Mapping[str, Any] | str, concepts: str | None = None, *, quiet: bool = False) -> "DataReport":
    """What is wrong with images, labels and splits, before an hour is lost."""
    from conceptlens.concepts import ConceptSet
    from conceptlens.data.check import check_data as check
    from conceptlens.recipe.parse import load_recipe

    recipe = load_recipe({"data": data if isinstance(data, str) else dict(data)})
    return check(recipe.data, ConceptSet.load(concepts) if concepts else None, quiet=quiet)


def make_report(run: str | Path) -> Path:
    """Write a run's `report.html` again."""
    from conceptlens.report.page import render_report
    from conceptlens.runs import RunFolder

    return render_report(RunFolder.open(run))
