"""Filtering a draft of 200 classes with ten concepts each, against what is promised.

python bench/authoring.py [--classes 200] [--concepts 10] [--json FILE]

Phrases are made of colors, marks and parts; a third of them repeats another in other words, as drafts do.
"""

import argparse
import os
import platform
import time
from collections import Counter
from itertools import islice, product
from pathlib import Path

import torch

from conceptlens.core.files import write_json
from conceptlens.encoders import make_text_encoder
from conceptlens.workflows.authoring.candidates import Candidate
from conceptlens.workflows.authoring.filters.filters import Judge, Rules

SECONDS = 30.0
COLORS = ["red", "blue", "green", "yellow", "orange", "purple", "pink", "brown", "black", "white", "gray", "olive"]
MARKS = ["spots", "stripes", "bars", "patches", "rings", "streaks", "scales", "bands", "dots", "edges"]
PARTS = [
    "crown",
    "nape",
    "throat",
    "breast",
    "belly",
    "back",
    "wing",
    "tail",
    "rump",
    "flank",
    "leg",
    "bill",
    "eye",
    "cheek",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--concepts", type=int, default=10)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    wanted = args.classes * args.concepts
    phrases = [f"{color} {mark} on the {part}" for color, mark, part in product(COLORS, MARKS, PARTS)]
    again = [f"{mark} of {color} on its {part}" for color, mark, part in product(COLORS, MARKS, PARTS)]
    texts = list(islice(phrases + again, wanted))
    candidates = [
        Candidate(text, text, text, None, frozenset({f"class {place % args.classes}"}), frozenset())
        for place, text in enumerate(texts)
    ]
    started = time.perf_counter()
    judge = Judge([f"species {place}" for place in range(args.classes)], make_text_encoder("builtin/text"), Rules())
    judged = judge.of(candidates)
    seconds = time.perf_counter() - started
    removed = Counter(each.code for each in judged.removed)
    print(f"{len(candidates)} concepts of {args.classes} classes: {seconds:.1f} s (at most {SECONDS:.0f})")
    print(f"kept {len(judged.kept)}, removed {dict(removed)}")
    if args.json:
        machine = {
            "system": platform.platform(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "load": os.getloadavg()[0],
        }
        found = {"seconds": seconds, "concepts": len(candidates), "kept": len(judged.kept), "removed": dict(removed)}
        write_json(args.json, {"machine": machine, "promise": {"seconds": SECONDS}, "found": found})


if __name__ == "__main__":
    main()
