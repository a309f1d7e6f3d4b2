"""Why a run says what it says, where it looks, and all of it on a page."""

import argparse
import sys

from conceptlens import api
from conceptlens.cli.commands.command import Command, Parser, Words, data_section, say, say_result


def _explain_arguments(parser: Parser) -> None:
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
    say(result.text())
    for item in result.failed:
        print(f"error: {item.error}", file=sys.stderr)
    return 2 if result.failed else 0


def _localise_arguments(parser: Parser) -> None:
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


def _localise(args: argparse.Namespace, words: Words) -> int:
    from conceptlens.data.regions.regions import NoRegions

    section = data_section(words, args.data)
    try:
        result = api.localise(
            args.run, section or None, split=args.split, where=args.where, n=args.n, sigma=args.sigma, out=args.out
        )
        say_result(result)
    except NoRegions as lacking:
        if not args.faithfulness:
            raise
        say(f"Where maps point was not measured. {lacking}")  # faithfulness needs no regions
    if args.faithfulness:
        say_result(api.faithfulness(args.run, section or None, split=args.split, n=args.faithfulness, fill=args.fill))
    return 0


def _serve_arguments(parser: Parser) -> None:
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


COMMANDS = {
    "explain": Command(
        "why a run says what it says of images: a sentence, maps, pictures", _explain_arguments, _explain
    ),
    "localise": Command(
        "whether a run's maps point at the object and at the part of each concept",
        _localise_arguments,
        _localise,
        "--data",
    ),
    "serve": Command("the web page: predictions, what if, training, concepts", _serve_arguments, _serve),
}
