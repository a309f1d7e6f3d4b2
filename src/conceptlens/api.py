"""The functions behind the commands. Each imports what it needs when called, so that `import conceptlens` is quick."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conceptlens.data.checks.check import DataReport
    from conceptlens.evaluation.codebook.document import Audit
    from conceptlens.evaluation.evaluate import Evaluation
    from conceptlens.evaluation.faithfulness.faithfulness import Faithfulness
    from conceptlens.evaluation.interventions.measure import Interventions
    from conceptlens.evaluation.interventions.what_if import WhatIf
    from conceptlens.evaluation.leakage.leakage import Leakage
    from conceptlens.evaluation.localization.localize import Localisation
    from conceptlens.explanations.explain_files import Explanations
    from conceptlens.explanations.predict import Predictions
    from conceptlens.gig.run import Decomposed
    from conceptlens.runs.folder import RunFolder
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.training.cost import Cost
    from conceptlens.training.encode import EncodedImages
    from conceptlens.web.share.make import Shared
    from conceptlens.workflows.authoring.check import Checked
    from conceptlens.workflows.authoring.draft import Drafted
    from conceptlens.workflows.authoring.filters.filters import Rules
    from conceptlens.workflows.compare.compare import Compared
    from conceptlens.workflows.compare.plan import Plan
    from conceptlens.workflows.export.export import Exported
    from conceptlens.workflows.refine.document import Refinement
    from conceptlens.workflows.study.analyze import Analysed
    from conceptlens.workflows.study.make import Pack

    RunLike = str | Path | OpenedRun

Overrides = Sequence[str] | Mapping[str, Any]


def dry_run(recipe: str | Path | Mapping[str, Any], overrides: Overrides = ()) -> "Cost":
    """What training a recipe would cost; nothing is written."""
    from conceptlens.core.processes import Launched
    from conceptlens.recipes.parse import load_recipe
    from conceptlens.training.cost import estimate
    from conceptlens.training.records.progress import Progress
    from conceptlens.training.train import open_session

    loaded = load_recipe(recipe, overrides, trusted=True)
    return estimate(open_session(loaded, None, Launched(loaded.training.precision), Progress(quiet=True)))


def encode(
    recipe: str | Path | Mapping[str, Any], overrides: Overrides = (), *, quiet: bool = False
) -> "EncodedImages":
    """Store what a recipe's encoder says of every image up to its last, learning blocks; `train` then starts there."""
    from conceptlens.recipes.parse import load_recipe
    from conceptlens.training.encode import encode_recipe

    return encode_recipe(load_recipe(recipe, overrides, trusted=True), quiet=quiet)


def resume(run: str | Path, *, data: Any = None, quiet: bool = False) -> "OpenedRun | RunFolder":
    """Go on with a training or a decomposition that was stopped, to the same result as if it had not been."""
    from conceptlens.runs.folder import RunFolder

    if RunFolder.open(run).info.get("kind") == "decompose":
        from conceptlens.gig.run import resume_decomposition

        return resume_decomposition(run, _note(quiet)).run
    from conceptlens.model import resume as resume_training

    return resume_training(run, data=data, quiet=quiet)


def evaluate(
    run: "RunLike",
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
    from conceptlens.core.processes import is_main
    from conceptlens.evaluation.evaluate import evaluate_run
    from conceptlens.recipes.parse import load_recipe
    from conceptlens.runs.opened import OpenedRun

    opened = OpenedRun.open(run)
    asked = data if data is None or isinstance(data, str) else dict(data)
    config = None if asked is None else load_recipe({"data": asked}, trusted=True).data
    result = evaluate_run(opened, data=config, split=split)
    return result.save(Path(out or opened.path / result.default_file)) if is_main() else result


def predict(run: str | Path, images: Sequence[str | Path], *, out: str | Path | None = None) -> "Predictions":
    """Class and concepts of image files or folders."""
    from conceptlens.explanations.predict import predict_run

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
    from conceptlens.explanations.explain_files import explain_run

    return explain_run(
        run, images, out=out, concepts=concepts, maps=maps, sheet=sheet, split=split, n=n, show=show, opacity=opacity
    )


def localise(
    run: "RunLike",
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
    from conceptlens.evaluation.localization.localize import localise_run
    from conceptlens.runs.opened import OpenedRun

    opened = OpenedRun.open(run)
    section = {"source": data} if isinstance(data, str) else data
    result = localise_run(opened, data=section, split=split, where=where, n=n, sigma=sigma)
    return result.save(Path(out or opened.path / result.default_file))


def intervene(
    run: "RunLike",
    *,
    split: str = "test",
    by: str = "groups",
    to: str = "quantile",
    orders: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    on: Sequence[str] | None = None,
    instead: str | None = None,
    threshold: float = 0.9,
    resamples: int = 1000,
    out: str | Path | None = None,
    quiet: bool = True,
) -> "Interventions":
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
        resamples: Of the intervals.
        out: Folder for the files; `trust/` in the run folder by default.
        quiet: Show no progress.
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
        orders=POLICIES if orders is None else orders,
        classes=classes,
        on=on,
        instead=instead,
        threshold=threshold,
        resamples=resamples,
        note=_note(quiet),
    )
    return result.save(folder / "interventions.json")


def what_if(run: "RunLike", image: str | Path, edits: Sequence[str] = (), *, split: str = "test") -> "WhatIf":
    """One image with some concepts set by hand, before and after.

    Args:
        run: The run folder.
        image: The name of one of the run's images, or any image file.
        edits: As `granule colour=pink`, `granularity: yes=0.3` or `cell size=mean of Basophil`.
        split: Of the run's images.
    """
    from conceptlens.evaluation.trust import what_if_run
    from conceptlens.runs.opened import OpenedRun

    return what_if_run(OpenedRun.open(run), image, edits, split=split)


def leakage(
    run: "RunLike",
    *,
    split: str = "test",
    twins: int = 99,
    resamples: int = 1000,
    out: str | Path | None = None,
    quiet: bool = True,
) -> "Leakage":
    """Whether a finished run's concepts carry more of the class than their names say.

    Args:
        run: The run folder; only the scores that it keeps are read, no image.
        split: Whose predictions; training keeps those of `test`.
        twins: How many times the scores are dealt anew among images with equal labels, to see what chance does; 0 for
            numbers without a verdict.
        resamples: Of the intervals.
        out: Folder for the files; `trust/` in the run folder by default.
        quiet: Show no progress.
    """
    from conceptlens.evaluation.trust import FOLDER, leakage_run
    from conceptlens.runs.opened import OpenedRun

    opened = OpenedRun.open(run)
    opened.readout(split)  # a run that cannot be measured gets no folder
    folder = opened.out_folder(out, FOLDER)
    result = leakage_run(opened, split=split, twins=twins, resamples=resamples, note=_note(quiet))
    return result.save(folder / "leakage.json")


def audit(
    run: "RunLike",
    *,
    split: str | None = None,
    by: Sequence[str] | None = None,
    alpha: float = 0.1,
    false_alarms: float = 0.05,
    resamples: int = 1000,
    out: str | Path | None = None,
    quiet: bool = True,
) -> "Audit":
    """What a finished run's codebook and concepts have become, whom it fails, and what is strange to it.

    Args:
        run: The run folder.
        split: `test` or `val`; the one that the run's numbers speak of by default.
        by: Columns of metadata to look for failures by, as `sex` or `age=40,60`; all by default.
        alpha: Share of images whose prediction set may miss the truth.
        false_alarms: Share of usual images that may be called strange.
        resamples: Of the intervals.
        out: Folder for the files; `audit/` in the run folder by default.
        quiet: Show no progress.
    """
    from conceptlens.runs.opened import OpenedRun
    from conceptlens.workflows.audit.audit import FOLDER, audit_run, keep_predictions, save_audit

    opened = OpenedRun.open(run)
    folder = opened.out_folder(out, FOLDER)
    keep_predictions(opened, ("val",) if (split or opened.reported_split) == "val" else ("val", "test"), _note(quiet))
    result = audit_run(
        opened, split=split, by=by, alpha=alpha, false_alarms=false_alarms, resamples=resamples, note=_note(quiet)
    )
    save_audit(result, folder, failures=None if out else opened.path / "trust" / "failures.json")
    return result


def refine(
    run: "RunLike",
    *,
    replace: Sequence[str] = (),
    drop: Sequence[str] = (),
    rename: bool = False,
    seeds: int = 1,
    control: bool = True,
    out: str | Path | None = None,
    quiet: bool = True,
) -> "Refinement":
    """Change concepts of a finished run, train its recipe again with the same seeds, and compare.

    Args:
        run: The run folder.
        replace: `old=new`: other words for a concept, whose labels it keeps.
        drop: Concepts to leave out.
        rename: New words become the concept's name as well.
        seeds: Trainings of each side; the first has the run's own seed.
        control: Also change concepts chosen at random, another one for each seed.
        out: Folder for runs and results; below `refine/` in the run folder by default.
        quiet: Show no progress.
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
        note=_note(quiet),
    )
    return result.save(result.folder / "refine.json")


def _note(quiet: bool) -> Callable[[str], object]:
    """What says how far a measurement is."""
    import sys

    return (lambda text: None) if quiet else (lambda text: print(text, file=sys.stderr, flush=True))


def faithfulness(
    run: "RunLike",
    data: Mapping[str, Any] | str | None = None,
    *,
    split: str | None = None,
    n: int = 64,
    fill: str = "blur",
    steps: int = 14,
    out: str | Path | None = None,
) -> "Faithfulness":
    """Whether a finished run's maps show what it used: insertion, deletion, occlusion of parts, noise, random weights.

    Args:
        run: The run folder.
        data: As for `localise`.
        split: As for `localise`.
        n: At most so many images, evenly spread over the split.
        fill: What stands where something was taken away: `black`, `mean` or `blur`.
        steps: In which cells are taken away and put back.
        out: File for the result; `faithfulness.json` in the run folder by default.
    """
    from conceptlens.evaluation.faithfulness.faithfulness import faithfulness_run
    from conceptlens.runs.opened import OpenedRun

    opened = OpenedRun.open(run)
    section = {"source": data} if isinstance(data, str) else data
    result = faithfulness_run(opened, data=section, split=split, n=n, fill=fill, steps=steps)
    return result.save(Path(out or opened.path / result.default_file))


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
    from conceptlens.workflows.export.export import export_run

    return export_run(run, format=format, out=out, size=size)


def compare(
    file: str | Path, *, out: str | Path | None = None, jobs: int = 1, shard: str | None = None, quiet: bool = False
) -> "Compared":
    """Train what a comparison file asks for and is not done, and compare what is.

    Args:
        file: The comparison: recipes, data sets, seeds.
        out: Folder for runs, table and figures; `runs/compare-<file>` by default.
        jobs: Trainings at once, each a process of its own.
        shard: `i/n`: only every n-th job, beginning with the i-th.
        quiet: Show no progress.
    """
    from conceptlens.workflows.compare.compare import compare as run

    return run(file, out=out, at_once=jobs, shard=shard, quiet=quiet)


def plan_comparison(file: str | Path, *, out: str | Path | None = None) -> "Plan":
    """What a comparison would run, what is done and how long the rest takes; nothing is started."""
    from conceptlens.workflows.compare.compare import plan

    return plan(file, out=out)


def comparison_commands(file: str | Path, *, out: str | Path | None = None) -> list[str]:
    """A command line for each job of a comparison that is not done, for any scheduler."""
    from conceptlens.workflows.compare.compare import commands

    return commands(file, out=out)


def check_data(data: Mapping[str, Any] | str, concepts: str | None = None, *, quiet: bool = False) -> "DataReport":
    """What is wrong with images, labels and splits, before an hour is lost."""
    from conceptlens.concepts import ConceptSet
    from conceptlens.data.checks.check import check_data as check
    from conceptlens.recipes.parse import load_recipe

    recipe = load_recipe({"data": data if isinstance(data, str) else dict(data)}, trusted=True)
    return check(recipe.data, ConceptSet.load(concepts) if concepts else None, quiet=quiet)


def serve(
    runs: Sequence[str | Path],
    *,
    host: str = "127.0.0.1",
    port: int = 8642,
    token_file: str | None = None,
    names: Sequence[str] = (),
    models: int = 4,
    threads: int | None = None,
    open_browser: bool = False,
) -> None:
    """Serve the web page of some runs until interrupted; needs the extra `page`.

    Args:
        runs: Run folders, or folders that hold some.
        host: Address to listen on. Any but the loopback needs a token on every request.
        port: 0 for any that is free.
        token_file: File with the token; the variable CONCEPTLENS_TOKEN otherwise, or one is made and shown.
        names: Names by which the server is called besides its addresses.
        models: Models kept in memory.
        threads: Of a pass through a model; half of the cores by default.
        open_browser: Show the page.
    """
    from importlib.util import find_spec

    from conceptlens.core.errors import UserError

    lacking = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if lacking:
        raise UserError(f"The web page needs {' and '.join(lacking)}: pip install 'conceptlens[page]'.")
    from conceptlens.web.server.serve import Options
    from conceptlens.web.server.serve import serve as run

    run(runs, Options(host, port, token_file, names, models, threads), open_browser=open_browser)


def draft_concepts(
    classes: Sequence[str],
    domain: str,
    out: str | Path,
    *,
    endpoint: str | None = None,
    model: str | None = None,
    checker: str | None = None,
    checker_endpoint: str | None = None,
    key_variable: str = "CONCEPTLENS_API_KEY",
    checker_key_variable: str | None = None,
    answers: str | Path | None = None,
    per_class: int = 10,
    text: str = "builtin/text",
    rules: "Rules | None" = None,
    timeout: float = 120.0,
    attempts: int = 5,
    per_minute: float = 0,
    at_once: int = 4,
    quiet: bool = True,
) -> "Drafted":
    """Turn class names and a domain into a concept file, by an OpenAI-compatible endpoint or by pasted answers.

    Args:
        classes: Their names.
        domain: What the images show, in a few words.
        out: Folder for `concepts.yaml`, `judgement.json`, its page, and the questions and answers.
        endpoint: The address; None: questions are written to a file, and answers pasted there.
        model: The model's name there.
        checker: A second model that checks the answers; None: nobody does.
        checker_endpoint: Where it is; where the first is by default.
        key_variable: The environment variable that holds the key. Keys are never written anywhere.
        checker_key_variable: The same of another endpoint for the second model.
        answers: The file of questions and answers.
        per_class: Features asked for of each class.
        text: The text encoder that compares texts.
        rules: Limits of the filters.
        timeout: Seconds for one answer.
        attempts: Tries while an endpoint is slow, busy or broken.
        per_minute: Requests at most; 0: any number.
        at_once: Requests at once.
        quiet: Show no progress.
    """
    from conceptlens.workflows.authoring.draft import draft_concepts as draft
    from conceptlens.workflows.authoring.language_model.models import models_asked

    asked = models_asked(
        endpoint,
        model,
        checker=checker,
        checker_endpoint=checker_endpoint,
        key_variable=key_variable,
        checker_key_variable=checker_key_variable,
        timeout=timeout,
        attempts=attempts,
        per_minute=per_minute,
    )
    return draft(
        classes,
        domain,
        out,
        drafter=asked.drafter,
        checker=asked.checker,
        checker_name=asked.checker_name,
        answers=answers,
        per_class=per_class,
        text=text,
        rules=rules,
        at_once=at_once,
        note=_note(quiet),
    )


def check_concepts(
    file: str | Path,
    data: Mapping[str, Any] | str | None = None,
    *,
    domain: str = "",
    text: str = "builtin/text",
    rules: "Rules | None" = None,
    encoder: str = "builtin/vit",
    n: int = 2000,
    out: str | Path | None = None,
    quiet: bool = True,
) -> "Checked":
    """What should not be a concept in a file, and with data what the images say of the rest.

    Args:
        file: The concept file, or the name of a ready one.
        data: Keys of a recipe's `data` section, or just a source; None: only the texts are judged.
        domain: What the images show: its words are nobody's class name.
        text: The text encoder that compares texts.
        rules: Limits of the filters.
        encoder: The image encoder.
        n: At most so many images.
        out: Folder for the files; none are written without.
        quiet: Show no progress.
    """
    from conceptlens.workflows.authoring.check import check_concepts as check

    section = {"source": data} if isinstance(data, str) else data
    return check(file, section, domain=domain, text=text, rules=rules, encoder=encoder, n=n, out=out, note=_note(quiet))


def make_study(
    run: str | Path,
    out: str | Path | None = None,
    *,
    n: int | None = None,
    catch_share: float = 0.2,
    options: int = 5,
    attention: int = 4,
    control: str = "moved",
    map: str = "auto",
    concepts: Sequence[str] | None = None,
    split: str = "test",
    side: int = 384,
    seed: int = 0,
    effect: float = 1.0,
    power: float = 0.9,
    raters: int = 2,
    quiet: bool = True,
) -> "Pack":
    """A blinded study of a run's maps: a page for raters, and a key that stays with you.

    Args:
        run: The run folder.
        out: Folder for the pack; `study/` in the run folder by default.
        n: Images; by default as many as the power calculation asks for.
        catch_share: Of images whose map is shuffled.
        options: Answers to choose from.
        attention: Checks that someone reads the questions.
        control: How maps are shuffled: `moved`, `patches` or `other`.
        map: `attention`, `gradcam`, or `auto`.
        concepts: Ask about these only.
        split: Of the run's own data.
        side: Largest side of the pictures in pixels.
        seed: Of every random choice.
        effect: Points of the scale between true and shuffled maps that the study should find.
        power: How surely.
        raters: How many people will answer.
        quiet: Show no progress.
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
        concepts=concepts,
        split=split,
        side=side,
        seed=seed,
        plan=Plan(effect=effect, power=power, raters=raters),
        note=_note(quiet),
    )


def analyse_study(
    pack: str | Path,
    responses: Sequence[str | Path] = (),
    *,
    out: str | Path | None = None,
    beside: Sequence[str | Path] = (),
) -> "Analysed":
    """What raters' answers say of a run's maps: ratings against shuffled maps, choices, agreement.

    Args:
        pack: The folder of the study, with its key.
        responses: Response files, or folders of them; those that the page saved in the pack by default.
        out: Folder for the result; the pack's by default.
        beside: `analysis.json` of other studies, for one table of all.
    """
    from conceptlens.workflows.study.analyze import analyse_study as analyse

    return analyse(pack, responses, out=out, beside=beside)


def decompose(
    model: str,
    *,
    images: str | Path | None = None,
    data: str | Path | None = None,
    layers: Sequence[str] | None = None,
    out: str | Path = "runs/decompose",
    overwrite: bool = False,
    quiet: bool = True,
    **settings: Any,
) -> "Decomposed":
    """Take a trained image model apart into concepts, and draw how they make each other, layer by layer.

    Args:
        model: A timm name, `path/to/file.py:function` (which is run), or the folder of a conceptlens run.
        images: A folder of images, or
        data: a recipe, or the name of built-in data.
        layers: Names of modules, from the input up; four of its blocks by default.
        out: The run folder; called again with the same settings, it goes on where it was stopped.
        overwrite: Replace a run that is in the way.
        quiet: Show no progress.
        settings: Further ones, see `conceptlens.gig.settings.Settings`.
    """
    from conceptlens.gig.run import decompose_run, make_settings

    asked = make_settings(
        model=model,
        images=None if images is None else str(images),
        data=None if data is None else str(data),
        layers=None if layers is None else list(layers),
        **settings,
    )
    return decompose_run(asked, out, overwrite=overwrite, note=_note(quiet), trusted=True)


def share(
    run: str | Path,
    file: str | Path,
    *,
    views: Sequence[str] | None = None,
    images: int = 200,
    limit: int = 15_000_000,
    quiet: bool = False,
) -> "Shared":
    """Write views of the web page of a run as one HTML file that opens without a server; needs the extra `page`.

    Args:
        run: The run folder.
        file: Where to; it is replaced.
        views: As `image`, `what-if`, `training`, `concepts`; all that have something to show if None.
        images: At most so many example images.
        limit: Of the file, in bytes. Pictures become smaller, then fewer, until it fits.
        quiet: Say nothing on the way.
    """
    from importlib.util import find_spec

    from conceptlens.core.errors import UserError

    if find_spec("fastapi") is None:
        raise UserError("A file to send is made from the page, which needs fastapi: pip install 'conceptlens[page]'.")
    from conceptlens.web.share.make import share_run

    return share_run(run, file, views=views, images=images, limit=limit, say=_note(quiet))


def make_report(run: str | Path) -> Path:
    """Write a run's `report.html` again."""
    from conceptlens.reports.page import render_report
    from conceptlens.runs.folder import RunFolder

    return render_report(RunFolder.open(run))
