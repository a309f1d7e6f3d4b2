"""Concept files drafted and judged."""

import argparse
from pathlib import Path
from typing import Any

from conceptlens import api
from conceptlens.cli.commands.command import Command, Parser, Words, data_section, quiet, say
from conceptlens.core.errors import UserError


def _rule_arguments(parser: Parser) -> None:
    parser.add_argument("--text", default="builtin/text", help="the text encoder that compares texts")
    parser.add_argument("--most-words", type=int, default=20, help="of a concept's text; 0: any number")
    parser.add_argument("--repeats-above", type=float, help="cosine from which two texts may say the same")
    parser.add_argument("--class-above", type=float, help="cosine from which a text names a class")
    parser.add_argument(
        "--keep", action="append", help="a concept ('axis: value') or axis that stays whatever the filters say"
    )


def _draft_concepts_arguments(parser: Parser) -> None:
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
    quiet(parser)


def _class_names(given: str) -> list[str]:
    """A file with a name a line, or names by commas."""

    if Path(given).is_file():
        return Path(given).read_text("utf-8", errors="replace").splitlines()
    return [name.strip() for name in given.split(",") if name.strip()]


def _rules(args: argparse.Namespace) -> Any:
    from conceptlens.workflows.authoring.filters.filters import Rules

    return Rules(
        most_words=args.most_words, repeats_above=args.repeats_above, class_above=args.class_above, keep=args.keep or []
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
    say(result.text())
    return 0


def _check_concepts_arguments(parser: Parser) -> None:
    parser.add_argument("file", help="the concept file, or the name of a ready one")
    parser.add_argument("--data", help="images and labels, to hear what they say: a folder, a table, a built-in name")
    parser.add_argument("--domain", help="what the images show: its words are nobody's class name")
    parser.add_argument("--encoder", default="builtin/vit", help="the image encoder that looks at them")
    parser.add_argument("--n", type=int, default=2000, help="at most so many images")
    parser.add_argument("--out", help="folder for judgement.json and its page")
    parser.add_argument("--strict", action="store_true", help="exit with code 2 if something should go")
    _rule_arguments(parser)
    parser.epilog = "Settings of the data are written as in a recipe: --data.class_column dx --data.images photos."
    quiet(parser)


def _check_concepts(args: argparse.Namespace, words: Words) -> int:
    section = data_section(words, args.data)
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
    say(result.text())
    return 2 if args.strict and not result.ok else 0


COMMANDS = {
    "concepts draft": Command(
        "class names and a domain into a concept file, with language models", _draft_concepts_arguments, _draft_concepts
    ),
    "concepts check": Command(
        "what should not be a concept, and what the images say of the rest",
        _check_concepts_arguments,
        _check_concepts,
        "--data",
    ),
}
