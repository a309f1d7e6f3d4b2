"""The command line: a thin dictionary of the functions in `api`. Nothing that `--help` reaches imports torch."""

import argparse
import errno
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from conceptlens import __version__, api
from conceptlens.codebook.commands import COMMANDS as CODEBOOK
from conceptlens.errors import UserError, did_you_mean

Words = list[str]


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are ours."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. See `{self.prog} --help`.")


@dataclass(frozen=True)
class Command:
    """A name on the command line: what it says of itself, the words it takes, what it does with them."""

    about: str
    arguments: Callable[[_Parser], Any]
    run: Callable[[argparse.Namespace, Words], int]


def _say(text: object) -> None:
    print(text, flush=True)


def _train(args: argparse.Namespace, overrides: Words) -> int:
    if args.out:
        overrides = [*overrides, "--out", args.out]
    if args.print_config:
        from conceptlens.recipe.parse import load_recipe, recipe_yaml

        _say(recipe_yaml(load_recipe(args.recipe, overrides)).rstrip())
        return 0
    if args.dry_run:
        _say(api.dry_run(args.recipe, overrides).text())
        return 0
    _finished(api.train(args.recipe, overrides, overwrite=args.overwrite, quiet=args.quiet))
    return 0


def _encode(args: argparse.Namespace, overrides: Words) -> int:
    from conceptlens.processes import is_main

    result = api.encode(args.recipe, overrides, quiet=args.quiet)
    if is_main():
        _say(result.text())
    return 0


def _finished(run: Any) -> None:
    """Only the main process of several speaks."""
    from conceptlens.evaluation.summary import run_text
    from conceptlens.processes import is_main

    if is_main():
        _say(run_text(run))


def _resume(args: argparse.Namespace, _: Words) -> int:
    run = api.resume(args.run, quiet=args.quiet)
    if run.info.get("kind") == "decompose":
        _say(f"written: {run.path / 'report.html'}")
    else:
        _finished(run)
    return 0


def _data_section(words: Words, source: str | None) -> dict[str, Any]:
    """`--data.key value` words as a recipe's data section."""
    from conceptlens.recipe.parse import parse_overrides

    tree = parse_overrides(words)
    strangers = [key for key in tree if key != "data"]
    if strangers:
        raise UserError(
            f"--{strangers[0]} is not known here; settings of the data are --data.KEY, as --data.class_column dx."
        )
    section = tree.get("data", {})
    return {"source": source, **section} if source else section


def _evaluate(args: argparse.Namespace, words: Words) -> int:
    section = _data_section(words, args.data)
    if section and "source" not in section:
        raise UserError("Settings of other data were given, but no data: add --data SOURCE.")
    result = api.evaluate(args.run, section or None, split=args.split, out=args.out)
    from conceptlens.processes import is_main

    if is_main():
        _say(result.text())
    return 0


def _predict(args: argparse.Namespace, _: Words) -> int:
    result = api.predict(args.run, args.images, out=args.out)
    _say(result.text())
    for item in result.failed:
        print(f"error: {item.error}", file=sys.stderr)
    return 2 if result.failed else 0


def _explain(args: argparse.Namespace, _: Words) -> int:
    result = api.explain(
        args.run,
        args.images,
        out=args.out,
        concepts=args.concepts,
        maps=[name.strip() for name in args.maps.split(",") if name.strip()],
        sheet=args.sheet,
        split=args.split,
        n=args.n,
        show=args.show,
        opacity=args.opacity,
    )
    _say(result.text())
    for item in result.failed:
        print(f"error: {item.error}", file=sys.stderr)
    return 2 if result.failed else 0


def _localise(args: argparse.Namespace, words: Words) -> int:
    section = _data_section(words, args.data)
    result = api.localise(
        args.run, section or None, split=args.split, where=args.where, n=args.n, sigma=args.sigma, out=args.out
    )
    _say(result.text())
    if args.faithfulness:
        _say(api.faithfulness(args.run, section or None, split=args.split, n=args.faithfulness, fill=args.fill).text())
    return 0


def _intervene(args: argparse.Namespace, _: Words) -> int:
    if args.image:
        _say(api.what_if(args.run, args.image, args.set or [], split=args.split).text())
        return 0
    if args.set:
        raise UserError("--set edits one image: name it, as `conceptlens intervene RUN IMAGE --set group=value`.")
    result = api.intervene(
        args.run,
        split=args.split,
        by=args.by,
        to=args.to,
        orders=[word.strip() for word in args.order.split(",") if word.strip()] if args.order else None,
        classes=[args.class_] if args.class_ else None,
        on=args.on,
        instead=args.instead,
        threshold=args.threshold,
        out=args.out,
        quiet=args.quiet,
    )
    _say(result.text())
    return 0


def _leakage(args: argparse.Namespace, _: Words) -> int:
    _say(api.leakage(args.run, split=args.split, out=args.out, quiet=args.quiet).text())
    return 0


def _audit(args: argparse.Namespace, _: Words) -> int:
    result = api.audit(
        args.run,
        split=args.split,
        by=args.by,
        alpha=args.alpha,
        false_alarms=args.false_alarms,
        out=args.out,
        quiet=args.quiet,
    )
    _say(result.text())
    return 0


def _refine(args: argparse.Namespace, _: Words) -> int:
    result = api.refine(
        args.run,
        replace=args.replace or (),
        drop=args.drop or (),
        rename=args.rename,
        seeds=args.seeds,
        control=not args.no_control,
        out=args.out,
        quiet=args.quiet,
    )
    _say(result.text())
    return 0


def _export(args: argparse.Namespace, _: Words) -> int:
    _say(api.export(args.run, format=args.format, out=args.out, size=args.size).text())
    return 0


def _check(args: argparse.Namespace, words: Words) -> int:
    report = api.check_data(_data_section(words, args.source), args.concepts, quiet=args.quiet)
    _say(report.text())
    if args.out:
        from pathlib import Path

        from conceptlens.files import write_json

        write_json(Path(args.out), report.to_json())
    return 0 if report.ok else 2


def _demo(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.demo import demo

    _say(demo(args.out, again=args.again, quiet=args.quiet))
    return 0


def _compare(args: argparse.Namespace, _: Words) -> int:
    if args.plan:
        _say(api.plan_comparison(args.file, out=args.out).text())
        return 0
    if args.commands:
        _say("\n".join(api.comparison_commands(args.file, out=args.out)))
        return 0
    if args.job:
        from conceptlens.compare.compare import run_job

        code, words = run_job(args.file, args.job, out=args.out)
        _say(words)
        return code
    if args.worker:
        from conceptlens.compare.compare import run_worker

        run_worker(args.file, out=args.out)
        return 0
    from conceptlens.processes import is_main

    result = api.compare(args.file, out=args.out, jobs=args.jobs, shard=args.shard, quiet=args.quiet)
    if is_main():
        _say(result.text())
    for failure in result.failed:
        print(f"error: {failure}", file=sys.stderr)
    return 2 if result.failed else 0


def _decompose(args: argparse.Namespace, _: Words) -> int:
    def names(words: str | None) -> list[str] | None:
        return [word.strip() for word in words.split(",") if word.strip()] if words else None

    found = api.decompose(
        args.model,
        images=args.images,
        data=args.data,
        layers=names(args.layers),
        out=args.out,
        overwrite=args.overwrite,
        quiet=args.quiet,
        weights=args.weights,
        classes=args.classes,
        image_size=args.image_size,
        n=args.n,
        per_image=args.per_image,
        rule=args.rule,
        k=args.k,
        sparsity=args.sparsity,
        outputs=args.output,
        image=args.image,
        examples=args.examples,
        graphs=names(args.graphs) or [],
        path=args.path,
        target=args.target,
        validate_on=args.validate,
        noise=args.noise,
        attack=args.attack,
        seed=args.seed,
    )
    _say(found.text())
    return 0


def _report(args: argparse.Namespace, _: Words) -> int:
    _say(f"written: {api.make_report(args.run)}")
    return 0


def _serve(args: argparse.Namespace, _: Words) -> int:
    api.serve(
        args.runs,
        host=args.host,
        port=args.port,
        token_file=args.token_file,
        names=args.name or (),
        models=args.models,
        threads=args.threads,
        open_browser=not args.no_open and sys.stderr.isatty(),
    )
    return 0


def _list(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.concepts import library
    from conceptlens.recipe.parse import recipe_names
    from conceptlens.registry import METHODS, REGULARISERS

    for title, names in (
        ("recipes", recipe_names()),
        ("methods", METHODS.names()),
        ("regularisers", REGULARISERS.names()),
        ("concept sets", library()),
        ("built-in data", ["blood-cells", "shapes"]),
        ("encoders", ["builtin/vit", "builtin/vit-mini", "timm/NAME", "open_clip/NAME"]),
        ("text encoders", ["builtin/text", "builtin/hashed-text", "builtin/random-text", "open_clip/NAME"]),
    ):
        _say(f"{title + ':':15}{', '.join(names)}")
    return 0


def _rules(args: argparse.Namespace) -> Any:
    from conceptlens.concepts.authoring.judge import Rules

    return Rules(
        most_words=args.most_words,
        repeats_above=args.repeats_above,
        class_above=args.class_above,
        keep=args.keep or [],
    )


def _draft_concepts(args: argparse.Namespace, _: Words) -> int:
    result = api.draft_concepts(
        _class_names(args.classes),
        args.domain,
        args.out,
        endpoint=args.endpoint,
        model=args.model,
        checker=args.checker,
        checker_endpoint=args.checker_endpoint,
        key_variable=args.key_variable,
        checker_key_variable=args.checker_key_variable,
        answers=args.answers,
        per_class=args.per_class,
        text=args.text,
        rules=_rules(args),
        timeout=args.timeout,
        attempts=args.attempts,
        per_minute=args.per_minute,
        at_once=args.at_once,
        quiet=args.quiet,
    )
    _say(result.text())
    return 0


def _class_names(given: str) -> list[str]:
    """A file with a name a line, or names by commas."""
    from pathlib import Path

    if Path(given).is_file():
        return Path(given).read_text("utf-8", errors="replace").splitlines()
    return [name.strip() for name in given.split(",") if name.strip()]


def _check_concepts(args: argparse.Namespace, words: Words) -> int:
    section = _data_section(words, args.data)
    if section and "source" not in section:
        raise UserError("Settings of the data were given, but no data: add --data SOURCE.")
    result = api.check_concepts(
        args.file,
        section or None,
        domain=args.domain or "",
        text=args.text,
        rules=_rules(args),
        encoder=args.encoder,
        n=args.n,
        out=args.out,
        quiet=args.quiet,
    )
    _say(result.text())
    return 2 if args.strict and not result.ok else 0


def _make_study(args: argparse.Namespace, _: Words) -> int:
    result = api.make_study(
        args.run,
        out=args.out,
        n=args.n,
        catch_share=args.catch_share,
        options=args.options,
        attention=args.attention,
        control=args.control,
        map=args.map,
        concepts=args.concepts,
        split=args.split,
        side=args.side,
        seed=args.seed,
        effect=args.effect,
        power=args.power,
        raters=args.raters,
        quiet=args.quiet,
    )
    _say(result.text())
    return 0


def _analyse_study(args: argparse.Namespace, _: Words) -> int:
    _say(api.analyse_study(args.pack, args.responses, out=args.out, beside=args.beside or []).text())
    return 0


def _quiet(parser: _Parser) -> None:
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def _train_arguments(parser: _Parser) -> None:
    parser.add_argument("recipe", help="a YAML file, or the name of a ready recipe (see `conceptlens list`)")
    parser.add_argument("--out", help="the run folder; runs/<data>-<method>-<seed> if not given")
    parser.add_argument(
        "--print_config", "--print-config", action="store_true", help="show the complete recipe and stop"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what it would cost and stop")
    parser.add_argument("--overwrite", action="store_true", help="replace a run that is in the way")
    parser.epilog = (
        "Any key of the recipe can be set here: --training.epochs 5 --method.aggregate cls --data.source my.csv. "
        "`--print_config` shows all keys with their values."
    )
    _quiet(parser)


def _encode_arguments(parser: _Parser) -> None:
    parser.add_argument("recipe", help="a YAML file, or the name of a ready recipe (see `conceptlens list`)")
    parser.epilog = (
        "The recipe's encoder must be frozen or train its last blocks only; say where with --encoder.store FOLDER. "
        "Called again, it goes on where it was stopped."
    )
    _quiet(parser)


def _resume_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")
    _quiet(parser)


def _evaluate_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--data", help="other data: a folder, a table, a built-in name; the run's own if not given")
    parser.add_argument("--split", help="train, val, test or all; test of the run's own data, all of other data")
    parser.add_argument("--out", help="file for the result; in the run folder if not given")
    parser.epilog = (
        "Settings of other data are written as in a recipe: "
        "--data.class_column dx --data.rename.classes '{melanoma: mel}'."
    )


def _predict_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("images", nargs="+", help="image files or folders")
    parser.add_argument("--out", help="a .csv or .json file for the predictions")


def _explain_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("images", nargs="*", help="image files or folders; images of the run's own data if none")
    parser.add_argument("--out", help="folder for files and pictures; explain/ in the run folder if not given")
    parser.add_argument(
        "--concepts",
        action="append",
        help="whose maps: concepts ('granularity: yes'), groups or `all`, by commas or given again; "
        "those that decided the image if not given",
    )
    parser.add_argument("--maps", default="attention,gradcam,index", help="of attention, gradcam and index, by commas")
    parser.add_argument("--sheet", action="store_true", help="also a sheet of all images for each concept")
    parser.add_argument("--opacity", type=float, default=0.6, help="of a map at its largest value, 0 to 1")
    parser.add_argument("--split", default="test", help="of the run's own data: train, val or test")
    parser.add_argument("--n", type=int, default=12, help="at most so many of its images")
    parser.add_argument("--show", default="all", help="which of them: right, wrong, uncertain or all")


def _localise_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--data", help="other data: a folder, a table, a built-in name; the run's own if not given")
    parser.add_argument("--split", help="train, val, test or all; test of the run's own data, all of other data")
    parser.add_argument(
        "--where",
        default="visible",
        help="judge maps where the region is visible, or only where the concept is present",
    )
    parser.add_argument("--n", type=int, help="at most so many images")
    parser.add_argument(
        "--sigma", type=float, help="width of the centred blob in sides of the image; fitted if not given"
    )
    parser.add_argument("--out", help="file for the result; localisation.json in the run folder if not given")
    parser.add_argument(
        "--faithfulness", type=int, metavar="N", help="also insertion, deletion, occlusion, noise on N images: slower"
    )
    parser.add_argument(
        "--fill", default="blur", choices=("black", "mean", "blur"), help="what stands where cells were taken away"
    )
    parser.epilog = (
        "Regions come from the recipe's data.regions, or from here: --data.regions.masks FOLDER "
        "--data.regions.mask_files '{object: \"{name}_mask.png\"}' --data.regions.boxes boxes.csv (see "
        "docs/localisation.md)."
    )


def _intervene_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("image", nargs="?", help="one image, by its name in the run or as a file; all if not given")
    parser.add_argument(
        "--set",
        action="append",
        help="of one image: 'granule colour=pink', 'granularity: yes=0.3', 'cell size=mean of Basophil'; may be "
        "given again",
    )
    parser.add_argument("--by", default="groups", help="correct groups, concepts or parts at a time")
    parser.add_argument("--order", help="of chance, uncertainty, influence and 'expected gain', by commas; all if none")
    parser.add_argument("--to", default="quantile", help="a label as a quantile of the scores, or as their mean")
    parser.add_argument("--class", dest="class_", help="of the counterfactual test; all classes if not given")
    parser.add_argument("--on", action="append", help="a group or concept of that test; may be given again")
    parser.add_argument("--instead", help="the class whose mean scores are put in; all others if not given")
    parser.add_argument("--threshold", type=float, default=0.9, help="look at images the class is surer of than this")
    parser.add_argument("--split", default="test", help="whose predictions; training keeps those of test")
    parser.add_argument("--out", help="folder for the files; trust/ in the run folder if not given")
    _quiet(parser)


def _leakage_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--split", default="test", help="whose predictions; training keeps those of test")
    parser.add_argument("--out", help="folder for the files; trust/ in the run folder if not given")
    _quiet(parser)


def _audit_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--split", help="test or val; the one that the run's numbers speak of if not given")
    parser.add_argument(
        "--by", action="append", help="a column of metadata, as sex, or age=40,60 for bands; may be given again"
    )
    parser.add_argument("--alpha", type=float, default=0.1, help="share of images whose prediction set may miss")
    parser.add_argument(
        "--false-alarms", type=float, default=0.05, help="share of usual images that may be called strange"
    )
    parser.add_argument("--out", help="folder for the files; audit/ in the run folder if not given")
    _quiet(parser)


def _refine_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument(
        "--replace",
        action="append",
        metavar="OLD=NEW",
        help="other words for a concept, as 'texture: rough=irregular streaks'; may be given again",
    )
    parser.add_argument("--drop", action="append", help="a concept to leave out; may be given again")
    parser.add_argument("--rename", action="store_true", help="the new words become the concept's name as well")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each side; five for a table")
    parser.add_argument("--no-control", action="store_true", help="do not change concepts chosen at random as well")
    parser.add_argument("--out", help="folder for runs and results; refine/… in the run folder if not given")
    parser.epilog = "Trains up to three runs a seed: before (the run itself for the first), after, and a control."
    _quiet(parser)


def _export_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--format", default="torch", help="torch (a .pt2 file for torch.export.load) or onnx")
    parser.add_argument("--out", help="the file; export/model.pt2 or .onnx in the run folder if not given")
    parser.add_argument("--size", type=int, help="side in pixels of the images it takes; the run's own if not given")


def _check_arguments(parser: _Parser) -> None:
    parser.add_argument("source", help="a folder, a table, or a built-in name")
    parser.add_argument("--concepts", help="the concept file, or the name of a ready one")
    parser.add_argument("--out", help="a .json file for the findings")
    parser.epilog = "Settings of the data are written as in a recipe: --data.class_column dx --data.images photos."
    _quiet(parser)


def _demo_arguments(parser: _Parser) -> None:
    parser.add_argument("--out", default="runs/demo", help="the run folder")
    parser.add_argument("--again", action="store_true", help="train anew even if the demo is there")
    _quiet(parser)


def _compare_arguments(parser: _Parser) -> None:
    parser.add_argument("file", help="the comparison: recipes, data sets, seeds (see docs/compare.md)")
    parser.add_argument("--out", help="folder for runs, table and figures; runs/compare-<file> if not given")
    parser.add_argument("--plan", action="store_true", help="show what would run, what is done, for how long")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once, in processes of their own")
    parser.add_argument("--commands", action="store_true", help="print a command line for each open job and stop")
    parser.add_argument("--shard", help="i/n: only every n-th job, beginning with the i-th, for many machines")
    parser.add_argument("--job", help="do only the job of this id, as --commands prints it")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.epilog = (
        "Called again, it skips what is done and goes on with the rest. Under `accelerate launch` every process takes "
        "its share of the jobs."
    )
    _quiet(parser)


def _serve_arguments(parser: _Parser) -> None:
    parser.add_argument("runs", nargs="+", help="run folders, or folders that hold some")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; any but this machine's own needs a token"
    )
    parser.add_argument("--port", type=int, default=8642, help="0 for any that is free")
    parser.add_argument("--token-file", help="file with the token; CONCEPTLENS_TOKEN otherwise, or one is made")
    parser.add_argument("--name", action="append", help="a name by which the server is called; may be given again")
    parser.add_argument("--models", type=int, default=4, help="models kept in memory")
    parser.add_argument("--threads", type=int, help="of a pass through a model; half of the cores if not given")
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")


def _rule_arguments(parser: _Parser) -> None:
    parser.add_argument("--text", default="builtin/text", help="the text encoder that compares texts")
    parser.add_argument("--most-words", type=int, default=20, help="of a concept's text; 0: any number")
    parser.add_argument("--repeats-above", type=float, help="cosine from which two texts may say the same")
    parser.add_argument("--class-above", type=float, help="cosine from which a text names a class")
    parser.add_argument(
        "--keep", action="append", help="a concept ('axis: value') or axis that stays whatever the filters say"
    )


def _draft_concepts_arguments(parser: _Parser) -> None:
    parser.add_argument("--classes", required=True, help="names by commas, or a file with a name a line")
    parser.add_argument(
        "--domain", required=True, help="what the images show, as 'white blood cells in stained smears'"
    )
    parser.add_argument("--out", required=True, help="folder for the concept file, its reasons and the answers")
    parser.add_argument("--per-class", type=int, default=10, help="features asked for of each class")
    parser.add_argument("--endpoint", help="an OpenAI-compatible address, as http://localhost:8000/v1; none: you paste")
    parser.add_argument("--model", help="the model's name there")
    parser.add_argument("--checker", help="a second model that checks the answers; none: nobody does")
    parser.add_argument("--checker-endpoint", help="where the second model is; where the first is if not given")
    parser.add_argument(
        "--key-variable", default="CONCEPTLENS_API_KEY", help="environment variable that holds the endpoint's key"
    )
    parser.add_argument("--checker-key-variable", help="the same of the second model's endpoint, where it is another")
    parser.add_argument("--answers", help="the file of questions and answers; answers.md in the folder if not given")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one answer")
    parser.add_argument("--attempts", type=int, default=5, help="tries while the endpoint is slow, busy or broken")
    parser.add_argument("--per-minute", type=float, default=0, help="requests at most; 0: any number")
    parser.add_argument("--at-once", type=int, default=4, help="requests at once")
    _rule_arguments(parser)
    parser.epilog = "Without --endpoint the questions are written to a file: paste the answers there and call it again."
    _quiet(parser)


def _check_concepts_arguments(parser: _Parser) -> None:
    parser.add_argument("file", help="the concept file, or the name of a ready one")
    parser.add_argument("--data", help="images and labels, to hear what they say: a folder, a table, a built-in name")
    parser.add_argument("--domain", help="what the images show: its words are nobody's class name")
    parser.add_argument("--encoder", default="builtin/vit", help="the image encoder that looks at them")
    parser.add_argument("--n", type=int, default=2000, help="at most so many images")
    parser.add_argument("--out", help="folder for judgement.json and its page")
    parser.add_argument("--strict", action="store_true", help="exit with code 2 if something should go")
    _rule_arguments(parser)
    parser.epilog = "Settings of the data are written as in a recipe: --data.class_column dx --data.images photos."
    _quiet(parser)


def _make_study_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--out", help="folder for the pack; study/ in the run folder if not given")
    parser.add_argument("--n", type=int, help="images; as many as the power calculation asks for if not given")
    parser.add_argument("--effect", type=float, default=1.0, help="points of the scale that the study should find")
    parser.add_argument("--power", type=float, default=0.9, help="how surely")
    parser.add_argument("--raters", type=int, default=2, help="how many people will answer")
    parser.add_argument("--catch-share", type=float, default=0.2, help="of images whose map is shuffled")
    parser.add_argument("--control", default="moved", help="how: moved, patches or other")
    parser.add_argument("--options", type=int, default=5, help="answers to choose from")
    parser.add_argument("--attention", type=int, default=4, help="checks that someone reads the questions")
    parser.add_argument("--map", default="auto", help="attention, gradcam, or auto: the method's own where it has one")
    parser.add_argument("--concepts", action="append", help="ask about these only: concepts, groups or `all`")
    parser.add_argument("--split", default="test", help="of the run's own data: train, val or test")
    parser.add_argument("--side", type=int, default=384, help="largest side of the pictures in pixels")
    parser.add_argument("--seed", type=int, default=0, help="of every random choice")
    _quiet(parser)


def _analyse_study_arguments(parser: _Parser) -> None:
    parser.add_argument("pack", help="the folder that `study make` wrote, with its key.json")
    parser.add_argument("responses", nargs="+", help="response files of raters, or folders of them")
    parser.add_argument("--out", help="folder for the result; the pack's if not given")
    parser.add_argument("--beside", action="append", help="analysis.json of another study, for one table of both")


def _decompose_arguments(parser: _Parser) -> None:
    parser.add_argument(
        "model",
        help="a timm name, your own function (path/to/file.py:build, which is run), or a conceptlens run folder",
    )
    parser.add_argument("--images", help="a folder of images, or")
    parser.add_argument("--data", help="a recipe, or the name of built-in data")
    parser.add_argument(
        "--layers", help="names of modules by commas, from the input up; four of its blocks if not given"
    )
    parser.add_argument("--out", default="runs/decompose", help="the run folder")
    parser.add_argument("--overwrite", action="store_true", help="replace a run that is in the way")
    parser.add_argument(
        "--weights", help="of a timm model: a .safetensors file, or `fresh`; published ones if not given"
    )
    parser.add_argument("--classes", help="a text file with the name of a class a line, in the order of the outputs")
    parser.add_argument("--image-size", type=int, help="side in pixels; the model's own if not given")
    parser.add_argument("--n", type=int, help="at most so many images, evenly chosen")
    parser.add_argument("--per-image", type=int, default=1, help="vectors sampled of each image and layer")
    parser.add_argument("--rule", default="srd", choices=("srd", "gradient"), help="what they are sampled by")
    parser.add_argument("--k", type=int, help="concepts a layer; min(8 channels, 8192, samples / 6) if not given")
    parser.add_argument(
        "--sparsity", type=float, default=0.05, help="of the lasso, 0 to 1: the larger, the fewer concepts"
    )
    parser.add_argument(
        "--output", action="append", help="a class or named concept of the main graph; may be given again"
    )
    parser.add_argument("--image", help="the image of the image graph, by its name below the folder")
    parser.add_argument(
        "--examples", type=int, default=8, help="images over which contributions to an output are means"
    )
    parser.add_argument("--graphs", default="image,data", help="besides the main one: image, data, by commas")
    parser.add_argument(
        "--path", default="shifted", choices=("shifted", "printed"), help="of the integral, see the docs"
    )
    parser.add_argument(
        "--target", choices=("probability", "logit"), help="what a contribution to a class is measured in"
    )
    parser.add_argument(
        "--validate", type=int, default=4, help="images for insertion and deletion of concepts; 0: none"
    )
    parser.add_argument("--noise", type=float, default=0.0, help="also the image with noise of this σ, of 255")
    parser.add_argument("--attack", help="also the image after an attack that aims at this class")
    parser.add_argument("--seed", type=int, default=0)
    parser.epilog = "Called again with the same words, it goes on where it was stopped."
    _quiet(parser)


def _report_arguments(parser: _Parser) -> None:
    parser.add_argument("run", help="the run folder")


COMMANDS = {
    "demo": Command("train an IVQ-CBM on the built-in blood cells and show the result", _demo_arguments, _demo),
    "data check": Command("what is wrong with my data, before an hour is lost", _check_arguments, _check),
    "train": Command("train a recipe", _train_arguments, _train),
    "encode": Command("compute once what a frozen encoder says of every image", _encode_arguments, _encode),
    "resume": Command("go on with a run that was stopped", _resume_arguments, _resume),
    "evaluate": Command("measure a run on its test images or on other data", _evaluate_arguments, _evaluate),
    "predict": Command("class and concepts of image files", _predict_arguments, _predict),
    "explain": Command(
        "why a run says what it says of images: a sentence, maps, pictures", _explain_arguments, _explain
    ),
    "localise": Command(
        "whether a run's maps point at the object and at the part of each concept", _localise_arguments, _localise
    ),
    "intervene": Command(
        "correct concepts of a run's images, or set those of one, and see the class", _intervene_arguments, _intervene
    ),
    "leakage": Command(
        "whether a run's concepts carry more of the class than their names say", _leakage_arguments, _leakage
    ),
    "audit": Command(
        "what a run's codebook and concepts have become, whom it fails, what is strange to it", _audit_arguments, _audit
    ),
    "refine": Command("change concepts of a run, train it again, and see before and after", _refine_arguments, _refine),
    "export": Command("a run as one file that runs without conceptlens", _export_arguments, _export),
    "compare": Command("recipes × data sets × seeds: one table with intervals and tests", _compare_arguments, _compare),
    "serve": Command("the web page: predictions, what if, training, concepts", _serve_arguments, _serve),
    "concepts draft": Command(
        "class names and a domain into a concept file, with language models", _draft_concepts_arguments, _draft_concepts
    ),
    "concepts check": Command(
        "what should not be a concept, and what the images say of the rest", _check_concepts_arguments, _check_concepts
    ),
    "study make": Command("a blinded study of a run's maps for people", _make_study_arguments, _make_study),
    "study analyse": Command("what people's answers say of the maps", _analyse_study_arguments, _analyse_study),
    "decompose": Command(
        "take any image model apart into concepts, and draw how they make each other", _decompose_arguments, _decompose
    ),
    "report": Command("write a run's report.html again", _report_arguments, _report),
    **{f"codebook {name}": Command(*entry) for name, entry in CODEBOOK.items()},
    "list": Command("recipes, methods, concept sets and data that come with the package", lambda parser: None, _list),
}

TAKES_SETTINGS = {
    "train": "--",
    "encode": "--",
    "evaluate": "--data",
    "localise": "--data",
    "data check": "--data",
    "concepts check": "--data",
}  # settings begin with this


def _usage() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:{width}}{command.about}" for name, command in COMMANDS.items()]
    return (
        "conceptlens: vision models that explain themselves in concepts people can name\n\n"
        "usage: conceptlens COMMAND … [--debug]\n\n"
        + "\n".join(lines)
        + "\n\n`conceptlens COMMAND --help` says more; --debug shows "
        "the traceback of an error."
    )


def _run(words: Words) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        _say(_usage())
        return 0
    if words[0] == "--version":
        _say(f"conceptlens {__version__}")
        return 0
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    if name not in COMMANDS:
        if seconds := [command.split()[1] for command in COMMANDS if command.startswith(f"{name} ")]:
            given = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
            hint = did_you_mean(given, seconds) if given else f"Choose one of: {', '.join(seconds)}."
            raise UserError(f"`conceptlens {name}` needs a second word. {hint}")
        raise UserError(f"Unknown command {words[0]!r}. {did_you_mean(name, COMMANDS)}")
    command = COMMANDS[name]
    parser = _Parser(prog=f"conceptlens {name}", description=command.about, allow_abbrev=False)
    command.arguments(parser)
    own, settings = _split_settings(words[len(name.split()) :], parser)
    begin = TAKES_SETTINGS.get(name, "")
    for stranger in [word for word in settings if word.startswith("--") and not (begin and word.startswith(begin))]:
        known = [word for action in parser._actions for word in action.option_strings]
        hint = " Settings of the data are --data.KEY, as --data.class_column dx." if begin else ""
        raise UserError(f"{stranger} is not known here. {did_you_mean(stranger, known)}{hint}")
    return command.run(parser.parse_args(own), settings)


def _split_settings(words: Words, parser: _Parser) -> tuple[Words, Words]:
    """The command's own words, and settings such as `--training.epochs 5`, wherever they stand."""
    options = {word: action for action in parser._actions for word in action.option_strings}
    own: Words = []
    settings: Words = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, _ = word.partition("=")
        if not word.startswith("--") or name in options:
            own.append(word)
            if name in options and not equals and options[name].nargs != 0 and rest:
                own.append(rest.pop(0))
            continue
        settings.append(word)
        if not equals and rest and not rest[0].startswith("--"):
            settings.append(rest.pop(0))
    return own, settings


_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EFBIG)
_DEVICE = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ESTALE)


def _system_error(error: BaseException) -> tuple[int | None, str]:
    """The system's number for an error and where it happened; safetensors passes the number on as text."""
    if isinstance(error, OSError):
        return error.errno, str(error.filename or "while reading or writing")
    number = re.search(r"\(os error (\d+)\)", str(error)) if type(error).__name__ == "SafetensorError" else None
    return (int(number[1]) if number else None), "while reading or writing weights"


def _reason(error: BaseException) -> str | None:
    """What a user can mend about an error of the system; None for a bug of ours."""
    if isinstance(error, UserError):
        return str(error)
    number, place = _system_error(error)
    if number in _FULL:
        return f"The disk is full ({place}). Free some space; `conceptlens resume RUN` goes on with a run."
    if number in _FORBIDDEN:
        return f"{place}: {os.strerror(number)}. Choose a place you may write to, or change its permissions."
    if number in (*_PLACE, *_DEVICE):
        return f"{place}: {os.strerror(number)}."
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        around = error.object[max(error.start - 40, 0) : error.end + 20].encode("utf-8", "replace").decode("utf-8")
        return f"A name is not UTF-8, near {around!r}. Rename the file or folder."
    out_of_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if out_of_memory or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error)):
        return "Out of memory. Try a smaller training.batch_size or encoder.image_size, or training.accumulate above 1."
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point: 0 if all is well, 2 for what the user can mend, 1 for a bug of ours, 130 when interrupted."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our letters still shows the rest
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        return _run(words)
    except KeyboardInterrupt:
        print("interrupted; `conceptlens resume RUN` goes on from the last state", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:
        reason = _reason(error)
        if debug or reason is None:
            import traceback

            traceback.print_exc()
        if reason is None:
            print("error: this is a bug in conceptlens; please report it with the lines above", file=sys.stderr)
            return 1
        print(f"error: {reason}", file=sys.stderr)
        return 2
