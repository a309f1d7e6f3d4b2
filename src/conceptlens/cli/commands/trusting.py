"""What a run's concepts are worth: corrected, leaking, audited, replaced."""

import argparse

from conceptlens import api
from conceptlens.cli.commands.command import Command, Parser, Words, quiet, say_result
from conceptlens.core.errors import UserError


def _intervene_arguments(parser: Parser) -> None:
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
    quiet(parser)


def _intervene(args: argparse.Namespace, _: Words) -> int:
    if args.image:
        say_result(api.what_if(args.run, args.image, args.set or [], split=args.split))
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
    say_result(result)
    return 0


def _leakage_arguments(parser: Parser) -> None:
    parser.add_argument("run", help="the run folder")
    parser.add_argument("--split", default="test", help="whose predictions; training keeps those of test")
    parser.add_argument(
        "--twins", type=int, default=99, help="deals of the scores among images with equal labels; 0: no verdict"
    )
    parser.add_argument("--out", help="folder for the files; trust/ in the run folder if not given")
    quiet(parser)


def _leakage(args: argparse.Namespace, _: Words) -> int:
    say_result(api.leakage(args.run, split=args.split, twins=args.twins, out=args.out, quiet=args.quiet))
    return 0


def _audit_arguments(parser: Parser) -> None:
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
    quiet(parser)


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
    say_result(result)
    return 0


def _refine_arguments(parser: Parser) -> None:
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
    quiet(parser)


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
    say_result(result)
    return 0


COMMANDS = {
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
}
