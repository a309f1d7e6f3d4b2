"""Table 9 with what it lacks: five seeds, and the same words put in the place of a concept chosen at random.

A small run (the last block learns, few images) is audited; the concept of its least used code gets other words, as the
paper did with the concept whose prototype was dormant; `conceptlens refine` trains before, after and control.
"""

from pathlib import Path
from typing import Any

from codes import measure
from results import HERE, machine
from train import TUNE, train

from conceptlens.core.files import read_json, write_json
from conceptlens.recipes.parse import merge
from conceptlens.runs.opened import OpenedRun
from conceptlens.workflows.refine.refine import refine_run

SMALL: dict[str, Any] = {
    "data": {"source": "blood-cells", "limit": 250},
    "encoder": {"name": "builtin/vit", "store": "run"},
    "regularizer": {"name": "ivq"},
    "training": {"rank_every": 0, "threads": 1, "warmup": 0.5, "learning_rate": 2e-3},
    "metrics": {"bootstrap": 0},
}
# Other words for a concept, should its code be the least used one: what a reader of smears might say instead.
WORDS = {
    "cell size: big": "larger than the red cells around it by far",
    "cell size: small": "hardly larger than the red cells around it",
    "cell shape: round": "a disc with a smooth rim",
    "cell shape: irregular": "a rim with bulges and dents",
    "nucleus shape: unsegmented-band": "a horseshoe of even width",
    "nucleus shape: unsegmented-round": "one smooth ball",
    "nucleus shape: unsegmented-indented": "a kidney bean",
    "nucleus shape: segmented-bilobed": "two balls joined by a thread",
    "nucleus shape: segmented-multilobed": "a chain of several balls",
    "nucleus shape: irregular": "folded, without a clear form",
}
OTHERWISE = "clearly seen in the middle of the picture"


def run(work: Path, seeds: int) -> None:
    """One more seed at a time; what is trained stays."""
    base = work / "refine" / "base"
    train(merge(merge(SMALL, TUNE), {"seed": 0}), base)
    chosen_in = work / "refine" / "chosen.json"
    if not chosen_in.exists():
        book = measure(base, work / "refine" / "audit")
        least = min(book["matchings"]["co-assignment"]["matches"], key=lambda each: each["share"])
        write_json(chosen_in, {**least, "codes": book["codes"], "even_share": book["even_share"]})
    chosen = read_json(chosen_in)
    words = WORDS.get(chosen["concept"], OTHERWISE)
    for count in range(1, seeds + 1):
        made = refine_run(
            OpenedRun.open(base), replace=[f"{chosen['concept']}={words}"], seeds=count, out=work / "refine" / "runs"
        )
        write_json(
            HERE / "refine.json",
            {"machine": machine(), "chosen": chosen, "words": words, **made.model_dump(mode="json", exclude={"runs"})},
        )
        print(made.text(), flush=True)
