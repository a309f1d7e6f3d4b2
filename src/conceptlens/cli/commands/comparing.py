"""Methods against each other."""

import argparse
import sys

from conceptlens import api
from conceptlens.cli.commands.command import Command, Parser, Words, quiet, say


def _compare_arguments(parser: Parser) -> None:
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
    quiet(parser)


def _compare(args: argparse.Namespace, _: Words) -> int:
    if args.plan:
        say(api.plan_comparison(args.file, out=args.out).text())
        return 0
    if args.commands:
        say("\n".join(api.comparison_commands(args.file, out=args.out)))
        return 0
    if args.job:
        from conceptlens.workflows.compare.compare import run_job

        code, words = run_job(args.file, args.job, out=args.out)
        say(words)
        return code
    if args.worker and args.out:
        from conceptlens.workflows.compare.compare import run_worker

        run_worker(args.out)
        return 0
    from conceptlens.core.processes import is_main

    result = api.compare(args.file, out=args.out, jobs=args.jobs, shard=args.shard, quiet=args.quiet)
    if is_main():
        say(result.text())
    for failure in result.failed:
        print(f"error: {failure}", file=sys.stderr)
    return 2 if result.failed else 0


COMMANDS = {
    "compare": Command("recipes × data sets × seeds: one table with intervals and tests", _compare_arguments, _compare)
}
