"""Whether patches of an image are much longer than the others: the mark of patches used as scratch space.

    python -m pretraining.probe.artifacts --data imagenette=DIR [--weights vit.safetensors] [--out artifacts.json]

Every second of the 500 Imagenette images that the student's training only watched.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from conceptlens.core.files import write_json
from conceptlens.encoders.builtin.vit import BuiltinViT
from pretraining.command import command
from pretraining.probe.features import read_batches
from pretraining.probe.models import StudentModel
from pretraining.probe.sets import imagenette, parse_places


def longest_patches(lengths: Tensor) -> dict[str, float]:
    """What stands out among lengths of patches (N, L), each image against its own median."""
    against = lengths / lengths.median(1, keepdim=True).values
    return {
        "longest_over_median_mean": float(against.amax(1).mean()),
        "longest_over_median_largest": float(against.max()),
        "share_above_twice_the_median": float((against > 2).float().mean()),
    }


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True, metavar="NAME=PATH")
    parser.add_argument("--weights", type=Path, help="of builtin/vit; the package's own if not given")
    parser.add_argument("--out", type=Path, default=Path("evidence/builtin-encoder/artifacts.json"))
    args = parser.parse_args(arguments)
    images = imagenette(parse_places(args.data))
    files = [images.files[index] for index in images.where("val")[::2]]
    found = {}
    for words, norm in (("before the final norm", False), ("after the final norm", True)):
        model = StudentModel(words, BuiltinViT(weights=args.weights, final_norm=norm))
        grids = [model.see(pixels).grid for (pixels,) in read_batches(images.root, files, [model], 25)]
        found[words] = longest_patches(torch.cat(grids).flatten(1, 2).norm(dim=-1))
    write_json(args.out, {"schema": 1, "images": len(files), "found": found})
    print(found)


if __name__ == "__main__":
    sys.exit(main())
