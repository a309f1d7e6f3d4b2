"""Table 3: calibration and leakage of joint and sequential training, from what the class heads read in test images.

    python evidence/pf-cbm/leak.py --rows OUT [--resamples 200]

Reads OUT/readouts, writes OUT/leak.jsonl: a line for each training. The measures are those of `conceptlens leakage`.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from score import aucs, calibration

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.files import read_text, stored
from conceptlens.evaluation.classification.auc import auc_within
from conceptlens.evaluation.leakage.leakage import Leakage, measure_leakage
from conceptlens.runs.readout import Floats, Readout
from conceptlens.stats.estimates import Bootstrap

SETS = {"blood": "blood-cells", "shapes": "shapes"}


def readout_of(file: Path, concepts: ConceptSet) -> Readout:
    held = np.load(file, allow_pickle=False)
    groups = set(held["groups"].tolist())
    keep = [at for at, concept in enumerate(concepts.concepts) if concept.group in groups]
    weight, bias = held["weight"].astype(np.float64), held["bias"].astype(np.float64)

    def decide(rows: Floats) -> Floats:
        return np.asarray(rows @ weight.T + bias)

    ids = tuple(held["ids"].tolist())
    stated = held["probabilities"].astype(np.float64)
    return Readout(
        concepts.subset(keep),
        tuple(map(str, range(len(weight)))),
        "single",
        (),
        ids,
        ids,
        "probability",
        None,
        stated,
        held["concept_logits"].astype(np.float64),
        held["truth"],
        held["labels"],
        np.zeros((len(stated), len(weight))),
        decide,
    )


def numbers(readout: Readout, leakage: Leakage) -> dict[str, Any]:
    """The columns of Table 3, and what stands beside them."""
    known = (readout.truth != UNKNOWN).all(1)
    stated, truth = (
        torch.from_numpy(np.asarray(values[known], np.float64)) for values in (readout.bottleneck, readout.truth)
    )
    within = [
        auc_within(readout.concept_logits[known, at], readout.truth[known, at] == 1, readout.labels[known])
        for at in range(len(readout.concepts))
    ]
    found = {finding.name: finding.estimate.value for finding in leakage.findings}
    return {
        "images": len(readout),
        "top1": float(readout.hits(readout.logits(readout.bottleneck)).mean()),
        "auc": float(aucs(torch.from_numpy(readout.concept_logits[known]), truth).nanmean()),
        "auc_within_class": float(np.mean([value for value in within if value is not None])),
        "ece": float(calibration(stated, truth).mean()),
        "information": float(np.mean([each.score.value or 0.0 for each in leakage.concepts])),
        "information_of_labels": float(np.mean([each.label.value or 0.0 for each in leakage.concepts])),
        "information_beyond_labels": float(np.mean([each.beyond_label.value or 0.0 for each in leakage.concepts])),
        "leaks": leakage.leaks,
        "findings": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--resamples", type=int, default=200)
    given = parser.parse_args()
    with (given.rows / "leak.jsonl").open("w", encoding="utf-8") as out:
        for line in read_text(stored(given.rows / "rows.jsonl")).splitlines():
            row = json.loads(line)
            if row["section"] != "table3" or "failed" in row:
                continue
            name = "-".join(str(row[key]).replace(" ", "_") for key in ("section", "condition", "bank", "seed"))
            readout = readout_of(given.rows / "readouts" / f"{name}.npz", ConceptSet.load(SETS[row["bank"]]))
            bootstrap = Bootstrap(readout.units, given.resamples)
            found = numbers(readout, measure_leakage(readout, bootstrap, run=name))
            key = {name: row[name] for name in ("condition", "bank", "seed")}
            out.write(json.dumps({**key, **found}) + "\n")
            out.flush()
            print(key, {name: value for name, value in found.items() if isinstance(value, float)}, flush=True)


if __name__ == "__main__":
    main()
