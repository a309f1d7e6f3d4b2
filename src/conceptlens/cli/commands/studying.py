"""People's judgement of maps."""

import argparse

from conceptlens import api
from conceptlens.cli.commands.command import Command, Parser, Words, quiet, say


def _make_study_arguments(parser: Parser) -> None:
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
    quiet(parser)


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
    say(result.text())
    return 0


def _analyse_study_arguments(parser: Parser) -> None:
    parser.add_argument("pack", help="the folder that `study make` wrote, with its key.json")
    parser.add_argument(
        "responses", nargs="*", help="files of raters, or folders of them; those saved in the pack if none"
    )
    parser.add_argument("--out", help="folder for the result; the pack's if not given")
    parser.add_argument("--beside", action="append", help="analysis.json of another study, for one table of both")


def _analyse_study(args: argparse.Namespace, _: Words) -> int:
    say(api.analyse_study(args.pack, args.responses, out=args.out, beside=args.beside or []).text())
    return 0


COMMANDS = {
    "study make": Command("a blinded study of a run's maps for people", _make_study_arguments, _make_study),
    "study analyse": Command("what people's answers say of the maps", _analyse_study_arguments, _analyse_study),
}
