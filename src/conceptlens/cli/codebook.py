"""The words of `conceptlens codebook …`. Nothing at the top of this file imports torch."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conceptlens.core.errors import UserError

Words = list[str]
Note = Callable[[str], object]


def _note(args: argparse.Namespace) -> Note:
    return (lambda text: None) if args.quiet else (lambda text: print(text, file=sys.stderr, flush=True))


def _split(text: str | None) -> list[str] | None:
    """Conditions hold commas, so lists of them are cut at semicolons."""
    return None if text is None else [word.strip() for word in text.split(";") if word.strip()]


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"{option} {text!r}: expected whole numbers by commas, as 5,10,20.") from None


def _search_settings(args: argparse.Namespace) -> Any:
    from conceptlens.cortex.editing.settings import SearchSettings

    return SearchSettings(
        steps=args.steps,
        rate=args.rate,
        of=args.of,
        alpha=args.alpha,
        temperature=args.temperature,
        last_temperature=args.last_temperature,
        keep=args.keep,
        start=args.start,
    )


def _search_words(parser: argparse.ArgumentParser, steps: int) -> None:
    parser.add_argument("--steps", type=int, default=steps, help="budget of the search")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate of the token selection matrix")
    parser.add_argument("--of", default="probability", help="raise the probability (paper) or the logit (its code)")
    parser.add_argument("--alpha", type=float, default=0.0, help="weight of ‖E‖²")
    parser.add_argument("--temperature", type=float, default=1.0, help="of the Gumbel-softmax, at the first step")
    parser.add_argument("--last-temperature", type=float, help="at the last step; the same if not given")
    parser.add_argument("--keep", default="final", help="final (the most probable tokens) or best (the best draw)")
    parser.add_argument("--start", default="normal", help="normal (paper), uniform, or image: lean to its own tokens")


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="folder for the files; codebook/ in the study if not given")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def _say(text: str) -> int:
    print(text, flush=True)
    return 0


def _sample_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="builtin/cells, a model folder, or a file (see docs/codebook.md)")
    parser.add_argument(
        "--condition", help="'Basophil; cell size=big; neutral': one row each; all classes if not given"
    )
    parser.add_argument("--n", type=int, default=8, help="samples of each condition")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="samples.png", help="the picture; tokens go to a .json beside it")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def _sample(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.cortex.demo import sample_sheet
    from conceptlens.cortex.generators.condition import Condition, parse_condition
    from conceptlens.cortex.generators.open import open_model
    from conceptlens.runs.opened import best_device

    model = open_model(args.model).to(best_device())
    words = _split(args.condition)
    if words:
        conditions = [parse_condition(word, model.classes, model.attributes) for word in words]
    else:
        conditions = [Condition(), *map(Condition, model.classes)]
    return _say(sample_sheet(model, conditions, args.n, Path(args.out), seed=args.seed, note=_note(args)))


def _extract_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="builtin/cells, a model folder, a run with a codebook, or a file")
    parser.add_argument(
        "--concepts", help="'cell size=big; cell size=small': what to tell apart; all classes if not given"
    )
    parser.add_argument("--data", help="images to encode, for models that do not generate: a folder, a table, a name")
    parser.add_argument("--data-concepts", help="the concept file of --data")
    parser.add_argument("--by", help="a concept group of --data whose values are the concepts")
    parser.add_argument("--network", default="CE", help="CE, RE or TE")
    parser.add_argument("--per-concept", type=int, default=1000, help="samples of each concept")
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--filters", type=int, help="of CE and RE; twice the codes' width if not given")
    parser.add_argument("--hidden", type=int, help="units of the last layers")
    parser.add_argument("--image-size", type=int, help="of a VQGAN's images; 256 if nothing says otherwise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", required=True, help="the folder of the study")
    parser.add_argument("--overwrite", action="store_true", help="replace a study that is in the way")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def _extract(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.cortex.extractors.training import ExtractorTraining
    from conceptlens.cortex.study import new_study

    options = {name: value for name, value in (("filters", args.filters), ("hidden", args.hidden)) if value is not None}
    if args.network == "TE" and "filters" in options:
        raise UserError("--filters: TE has none; its width is --hidden.")
    study = new_study(
        args.model,
        args.out,
        concepts=_split(args.concepts),
        data=args.data,
        data_concepts=args.data_concepts,
        by=args.by,
        network=args.network,
        per_concept=args.per_concept,
        image_size=args.image_size,
        training=ExtractorTraining(epochs=args.epochs, batch=args.batch),
        seed=args.seed,
        overwrite=args.overwrite,
        options=options,
        note=_note(args),
    )
    found = ", ".join(f"{name} {value:.3f}" for name, value in study.extractor.card.accuracy.items())
    return _say(
        f"{args.network} over {len(study.extractor.card.concepts)} concepts: {found}\nwritten to {study.run.path}"
    )


def _tokens_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="the folder of `conceptlens codebook extract`")
    parser.add_argument("--n", type=int, default=20, help="tokens taken of each image")
    parser.add_argument("--k", type=int, default=100, help="tokens kept of each concept")
    parser.add_argument("--variant", default="paper", help="paper, released, released-mean or logit")
    parser.add_argument("--samples", type=int, default=20, help="noise samples")
    parser.add_argument("--alpha", type=float, default=0.2, help="noise, in parts of the embedding's range")
    parser.add_argument("--limit", type=int, default=200, help="training samples of each concept")
    parser.add_argument("--show", type=int, default=4, help="test samples of each concept written for the page")
    _common(parser)


def _tokens(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.cortex.results import tokens_result
    from conceptlens.cortex.study import open_study

    found = tokens_result(
        open_study(args.study),
        n=args.n,
        k=args.k,
        variant=args.variant,
        samples=args.samples,
        alpha=args.alpha,
        limit=args.limit,
        show=args.show,
        seed=args.seed,
        out=args.out,
    )
    return _say(found.text())


def _search_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="the folder of `conceptlens codebook extract`")
    parser.add_argument("concept", help="one of its concepts")
    parser.add_argument("--region", default="all", help="all, 'centre 4x4' or rows,columns as 7:11,3:8")
    parser.add_argument(
        "--sample", type=int, help="start within this sample of the test split; from nothing if not given"
    )
    parser.add_argument("--images", type=int, default=4, help="searches at once, from different starts")
    _search_words(parser, 500)
    _common(parser)


def _search(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.cortex.results import search_result
    from conceptlens.cortex.study import open_study

    found = search_result(
        open_study(args.study),
        args.concept,
        region=args.region,
        sample=args.sample,
        images=args.images,
        settings=_search_settings(args),
        seed=args.seed,
        out=args.out,
    )
    return _say(found.text())


def _edit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="the folder of `conceptlens codebook extract`")
    parser.add_argument("image", nargs="?", help="an image file; or --sample")
    parser.add_argument("--sample", type=int, help="a sample of the study's test split instead")
    parser.add_argument("--to", required=True, help="the target concept")
    parser.add_argument("--region", required=True, help="'centre 4x4' or rows,columns as 7:11,3:8")
    parser.add_argument("--method", default="tokens", help="tokens, or the baseline embeddings")
    parser.add_argument("--judge", action="append", default=[], help="a run folder that judges; may be given again")
    _search_words(parser, 500)
    _common(parser)


def _edit(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.cortex.results import edit_result
    from conceptlens.cortex.study import open_study

    found = edit_result(
        open_study(args.study),
        args.to,
        args.region,
        image=args.image,
        sample=args.sample,
        method=args.method,
        settings=_search_settings(args),
        judges=args.judge,
        seed=args.seed,
        out=args.out,
    )
    return _say(found.text())


def _bias_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "study", nargs="+", help="a study whose concepts are values of one attribute; several are corrected together"
    )
    parser.add_argument("--n", default="5,10,20", help="tokens taken of each image, by commas")
    parser.add_argument("--k", type=int, default=10, help="tokens of each set")
    parser.add_argument("--sets", default="frequency", help="how they are chosen: frequency (paper) or lift")
    parser.add_argument("--neutral", type=int, default=2000, help="samples for which no value is asked")
    parser.add_argument("--condition", default="neutral", help="what they are asked for instead")
    parser.add_argument("--twin", help="a model without the bias, with the same codebook")
    parser.add_argument("--permutations", type=int, default=200)
    parser.add_argument("--judge", action="append", default=[], help="a run folder that says what the samples show")
    parser.add_argument("--limit", type=int, default=1000, help="training samples of each concept")
    _common(parser)


def _bias(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.cortex.bias.study import bias_results
    from conceptlens.cortex.study import open_study

    if args.out and len(args.study) > 1:
        raise UserError("--out is for one study; with several, each gets its files in its own folder.")
    found = bias_results(
        [open_study(path) for path in args.study],
        n=_numbers(args.n, "--n"),
        k=args.k,
        sets=args.sets,
        neutral=args.neutral,
        condition=args.condition,
        unbiased=args.twin,
        limit=args.limit,
        permutations=args.permutations,
        judges=args.judge,
        seed=args.seed,
        out=[args.out] if args.out else None,
        note=_note(args),
    )
    return _say("\n\n".join(each.text() for each in found))


def _mask_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="the folder of `conceptlens codebook extract`")
    parser.add_argument("--judge", action="append", default=[], help="a run folder that judges; may be given again")
    parser.add_argument("--counts", default="5,10,15,20,25,30,35,40,45,50", help="tokens hidden, by commas")
    parser.add_argument("--n", type=int, default=20, help="tokens taken of each image for a concept's set")
    parser.add_argument("--k", type=int, default=100, help="tokens of a concept's set")
    parser.add_argument("--variant", default="paper", help="paper, released, released-mean or logit")
    parser.add_argument("--fill", default="black", choices=("black", "mean", "blur"))
    parser.add_argument("--hide", default="positions", help="chosen positions, or all with their ids")
    parser.add_argument("--limit", type=int, default=50, help="test samples of each concept")
    _common(parser)


def _mask(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.cortex.results import mask_result
    from conceptlens.cortex.study import open_study

    found = mask_result(
        open_study(args.study),
        args.judge,
        counts=_numbers(args.counts, "--counts"),
        n=args.n,
        k=args.k,
        variant=args.variant,
        fill=args.fill,
        hide=args.hide,
        limit=args.limit,
        seed=args.seed,
        out=args.out,
    )
    return _say(found.text())


def _pairs_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="the folder of `conceptlens codebook extract`")
    parser.add_argument("--pair", action="append", default=[], help="'Basophil; Monocyte'; neighbours if not given")
    parser.add_argument("--judge", action="append", default=[], help="a run folder that judges; may be given again")
    parser.add_argument("--region", default="centre 4x4", help="'centre 4x4' or rows,columns as 7:11,3:8")
    parser.add_argument("--images", type=int, default=50, help="of each concept")
    _search_words(parser, 500)
    _common(parser)


def _pairs(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.cortex.results import pairs_result
    from conceptlens.cortex.study import open_study

    pairs = []
    for text in args.pair:
        words = _split(text) or []
        if len(words) != 2:
            raise UserError(f"--pair {text!r}: expected two concepts, as 'Basophil; Monocyte'.")
        pairs.append((words[0], words[1]))
    found = pairs_result(
        open_study(args.study),
        pairs,
        args.judge,
        region=args.region,
        images=args.images,
        settings=_search_settings(args),
        seed=args.seed,
        out=args.out,
    )
    return _say(found.text())


def _demo_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="runs/codebook-demo", help="folder for the studies")
    parser.add_argument("--model", help="another model than the built-in generator")
    parser.add_argument("--per-concept", type=int, default=40, help="samples of each concept")
    parser.add_argument("--attribute", help="whose values are compared; the model's first if not given")
    parser.add_argument("--again", action="store_true", help="start anew even if the demo is there")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def _demo(args: argparse.Namespace, _: Words) -> int:
    from conceptlens.cortex.demo import demo
    from conceptlens.cortex.generators.open import BUILTIN

    words = demo(
        args.out,
        model_name=args.model or BUILTIN,
        per_concept=args.per_concept,
        attribute=args.attribute,
        again=args.again,
        note=_note(args),
    )
    return _say(words)


Entry = tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace, Words], int]]
COMMANDS: dict[str, Entry] = {
    "demo": ("look into the built-in generator: samples, tokens, search, edit, bias", _demo_words, _demo),
    "sample": ("images that a VQ generator makes for conditions", _sample_words, _sample),
    "extract": ("train an extractor of concepts on a VQ model's tokens", _extract_words, _extract),
    "tokens": ("which tokens make each concept of a study", _tokens_words, _tokens),
    "search": ("search the whole codebook for a concept's tokens", _search_arguments, _search),
    "bias": ("whose tokens a generator uses when it is asked for none", _bias_words, _bias),
    "edit": ("change a region of an image towards a concept", _edit_arguments, _edit),
    "mask": ("hide important tokens from independent judges", _mask_words, _mask),
    "pairs": ("edit concepts into each other and judge the change", _pairs_words, _pairs),
}
