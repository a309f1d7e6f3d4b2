"""Any image model taken apart."""

import argparse

from conceptlens import api
from conceptlens.cli.commands.command import Command, Parser, Words, quiet, say


def _decompose_arguments(parser: Parser) -> None:
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
    parser.add_argument(
        "--dictionary",
        default="clusters",
        choices=("clusters", "learnt", "autoencoder"),
        help="where concept vectors come from; see the docs for when which is better",
    )
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
    quiet(parser)


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
        dictionary=args.dictionary,
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
    say(found.text())
    return 0


COMMANDS = {
    "decompose": Command(
        "take any image model apart into concepts, and draw how they make each other", _decompose_arguments, _decompose
    )
}
