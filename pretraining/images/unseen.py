"""Twenty Tiny-ImageNet classes the student never sees, so that prompts can be tried on classes that are new to it.

The rule is fixed: the twenty classes, Imagenette's not among them, whose wnid has the smallest SHA-256 after a seed.
The draw is committed in unseen_classes.txt; this makes the same file again:

    python -m pretraining.images.unseen --tiny DIR --imagenette DIR
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

from conceptlens.core.errors import UserError
from pretraining.command import command

FILE = Path(__file__).with_name("unseen_classes.txt")
HOW_MANY = 20
SEED = 0


def draw_unseen(wnids: Iterable[str], taken: Iterable[str], *, how_many: int = HOW_MANY, seed: int = SEED) -> list[str]:
    """The classes to leave out, sorted; the same on every machine and whatever the order of `wnids`."""
    free = sorted(set(wnids) - set(taken))
    if len(free) < how_many:
        raise UserError(f"Expected at least {how_many} classes to draw from, found {len(free)}.")
    return sorted(sorted(free, key=lambda wnid: sha256(f"{seed} {wnid}".encode()).digest())[:how_many])


def read_unseen(path: Path = FILE) -> dict[str, str]:
    """The committed draw: wnid → name."""
    lines = [line.partition("\t") for line in path.read_text("utf-8").splitlines() if line]
    if not all(tab and name for _, tab, name in lines):
        raise UserError(f"{path}: expected `wnid<TAB>name` in each line.")
    return {wnid: name for wnid, _, name in lines}


def _names(tiny: Path) -> dict[str, str]:
    with (tiny / "words.txt").open(encoding="utf-8") as file:
        return {wnid: names.split(",")[0].strip() for wnid, names in (line.split("\t") for line in file)}


@command
def main(arguments: Sequence[str] | None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", type=Path, required=True, help="Tiny-ImageNet, with train/ and words.txt")
    parser.add_argument("--imagenette", type=Path, required=True, help="Imagenette, with train/")
    options = parser.parse_args(arguments)
    folders = [options.tiny / "train", options.imagenette / "train"]
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder; expected one folder per class in it.")
    wnids, taken = ([entry.name for entry in folder.iterdir() if entry.is_dir()] for folder in folders)
    names = _names(options.tiny)
    print("\n".join(f"{wnid}\t{names[wnid]}" for wnid in draw_unseen(wnids, taken)))


if __name__ == "__main__":
    sys.exit(main())
