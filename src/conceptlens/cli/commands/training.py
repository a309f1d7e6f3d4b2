"""Making a run and measuring it."""

import argparse
import sys
from typing import Any

from conceptlens import api
from conceptlens.cli.commands.command import Command, Parser, Words, data_section, quiet, say, say_result
from conceptlens.core.errors import UserError


def _demo_arguments(parser: Parser) -> None:
    parser.add_argument("--out", default="runs/demo", help="the run folder")
    parser.add_argument("--again", action="store_true", help="train anew even if the demo is there")
    quiet(parser)


def _demo(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.cli.demo import demo

    say(demo(args.out, again=args.again, quiet=args.quiet))
    return 0


def _check_arguments(parser: Parser) -> None:
    parser.add_argument("source", help="a folder, a table, or a built-in name")
    parser.add_argument("--concepts", help="the concept file, or the name of a ready one")
    parser.add_argument("--out", help="a .json file for the findings")
    parser.epilog = "Settings of the data are written as in a recipe: --data.class_column dx --data.images photos."
    quiet(parser)


def _check(args: argparse.Namespace, words: Words) -> int:
    report = api.check_data(data_section(words, args.source), args.concepts, quiet=args.quiet)
    say(report.text())
    if args.out:
        from pathlib import Path

        from conceptlens.core.files import write_json

        write_json(Path(args.out), report.to_json())
    return 0 if report.ok else 2


def _train_arguments(parser: Parser) -> None:
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
    quiet(parser)


def _finished(run: Any) -> None:
    """Only the main process of several speaks."""
    from conceptlens.core.processes import is_main
    from conceptlens.evaluation.summary import run_text

    if is_main():
        say(run_text(run))


def _train(args: argparse.Namespace, overrides: Words) -> int:
    if args.out:
        overrides = [*overrides, "--out", args.out]
    if args.print_config:
        from conceptlens.recipes.parse import load_recipe, recipe_yaml

        say(recipe_yaml(load_recipe(args.recipe, overrides, trusted=True)).rstrip())
        return 0
    if args.dry_run:
        say(api.dry_run(args.recipe, overrides).text())
        return 0
    from conceptlens.model import train

    _finished(train(args.recipe, overrides, overwrite=args.overwrite, quiet=args.quiet))
    return 0


def _encode_arguments(parser: Parser) -> None:
    parser.add_argument("recipe", help="a YAML file, or the name of a ready recipe (see `conceptlens list`)")
    parser.epilog = (
        "The recipe's encoder must be frozen or train its last blocks only; say where with --encoder.store FOLDER. "
        "Called again, it goes on where it was stopped."
    )
    quiet(parser)


def _encode(args: argparse.Namespace, overrides: Words) -> int:
    from conceptlens.core.processes import is_main

    result = api.encode(args.recipe, overrides, quiet=args.quiet)
    if is_main():
        say(result.text())
    return 0


def _resume_arguments(parser: Parser) -> None:
    parser.add_argument("run", help="the run folder")
    quiet(parser)


def _resume(args: argparse.Namespace, _: Words) -> int:
    run = api.resume(args.run, quiet=args.quiet)
    if run.info.get("kind") == "decompose":
        say(f"written: {run.path / 'report.html'}")
    else:
        _finished(run)
    return 0


def _evaluate_arguments(parser: Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--data", help="other data: a folder, a table, a built-in name; the run's own if not given")
    parser.add_argument("--split", help="train, val, test or all; test of the run's own data, all of other data")
    parser.add_argument("--out", help="file for the result; in the run folder if not given")
    parser.epilog = (
        "Settings of other data are written as in a recipe: "
        "--data.class_column dx --data.rename.classes '{melanoma: mel}'."
    )


def _evaluate(args: argparse.Namespace, words: Words) -> int:
    section = data_section(words, args.data)
    if section and "source" not in section:
        raise UserError("Settings of other data were given, but no data: add --data SOURCE.")
    result = api.evaluate(args.run, section or None, split=args.split, out=args.out)
    from conceptlens.core.processes import is_main

    if is_main():
        say_result(result)
    return 0


def _predict_arguments(parser: Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("images", nargs="+", help="image files or folders")
    parser.add_argument("--out", help="a .csv or .json file for the predictions")


def _predict(args: argparse.Namespace, _: Words) -> int:
    result = api.predict(args.run, args.images, out=args.out)
    say(result.text())
    for item in result.failed:
        print(f"error: {item.error}", file=sys.stderr)
    return 2 if result.failed else 0


def _report_arguments(parser: Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument(
        "--share", metavar="FILE.html", help="write views of the web page as one file to send instead (extra `page`)"
    )
    parser.add_argument(
        "--views", help="which, by commas: image, what-if, training, concepts, trust …; all that it has if not given"
    )
    parser.add_argument("--images", type=int, metavar="N", help="at most so many example images in it, 200")
    parser.add_argument("--limit", type=float, metavar="MB", help="of the file, 15: pictures get smaller, then fewer")
    quiet(parser)


def _report(args: argparse.Namespace, _: Words) -> int:
    chosen = {name: getattr(args, name) for name in ("views", "images", "limit") if getattr(args, name) is not None}
    if args.share is None:
        if chosen:
            raise UserError(f"--{next(iter(chosen))} is of a file to send: name it with --share FILE.html.")
        say(f"written: {api.make_report(args.run)}")
        return 0
    if "views" in chosen:
        chosen["views"] = [name.strip() for name in args.views.split(",") if name.strip()]
    if "limit" in chosen:
        if not 0 < args.limit < 10_000:
            raise UserError(f"--limit: expected megabytes, as 15, found {args.limit:g}.")
        chosen["limit"] = round(args.limit * 1_000_000)
    say(api.share(args.run, args.share, **chosen, quiet=args.quiet).text())
    return 0


def _export_arguments(parser: Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--format", default="torch", help="torch (a .pt2 file for torch.export.load) or onnx")
    parser.add_argument("--out", help="the file; export/model.pt2 or .onnx in the run folder if not given")
    parser.add_argument("--size", type=int, help="side in pixels of the images it takes; the run's own if not given")


def _export(args: argparse.Namespace, _: Words) -> int:
    say(api.export(args.run, format=args.format, out=args.out, size=args.size).text())
    return 0


def _list(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.concepts import library
    from conceptlens.core.registry import ENCODERS, METHODS, REGULARISERS, list_data_sources
    from conceptlens.recipes.parse import recipe_names

    for title, names in (
        ("recipes", recipe_names()),
        ("methods", METHODS.names()),
        ("regularisers", REGULARISERS.names()),
        ("concept sets", library()),
        ("data by name", list_data_sources()),
        ("encoders", ["builtin/vit", "builtin/vit-mini", *ENCODERS.names(), "timm/NAME", "open_clip/NAME"]),
        ("text encoders", ["builtin/text", "builtin/hashed-text", "builtin/random-text", "open_clip/NAME"]),
    ):
        say(f"{title + ':':15}{', '.join(names)}")
    return 0


COMMANDS = {
    "demo": Command("train an IVQ-CBM on the built-in blood cells and show the result", _demo_arguments, _demo),
    "data check": Command("what is wrong with my data, before an hour is lost", _check_arguments, _check, "--data"),
    "train": Command("train a recipe", _train_arguments, _train, "--"),
    "encode": Command("compute once what a frozen encoder says of every image", _encode_arguments, _encode, "--"),
    "resume": Command("go on with a run that was stopped", _resume_arguments, _resume),
    "evaluate": Command("measure a run on its test images or on other data", _evaluate_arguments, _evaluate, "--data"),
    "predict": Command("class and concepts of image files", _predict_arguments, _predict),
    "report": Command("write a run's report.html again, or a file to send with --share", _report_arguments, _report),
    "export": Command("a run as one file that runs without conceptlens", _export_arguments, _export),
    "list": Command("recipes, methods, concept sets and data that come with the package", lambda parser: None, _list),
}
