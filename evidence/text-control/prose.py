"""What README.md says in tables and sentences, from the rows; `scripts/evidence_check.py` looks for each."""

import json
from pathlib import Path

import numpy as np

from conceptlens.core.files import read_json, stored

HERE = Path(__file__).parent
READERS = {"class-token": "class token", "ivq": "`ivq-cbm` (Magnet)", "magnet": "`magnet-cbm`"}
TEXTS = {
    "class-token": ("class-token", "class-token-centered", "class-token-random-text", "class-token-orthogonal"),
    "ivq": ("ivq-cbm", None, "ivq-cbm-random-text", "ivq-orthogonal"),
    "magnet": ("magnet-cbm", None, "magnet-cbm-random-text", "magnet-orthogonal"),
}


def statements() -> list[str]:
    """Rows of both tables and numbers of the verdicts."""
    runs = {row["run"]: row["test"] for row in read_json(stored(HERE / "frozen.json"))["runs"]}
    made = []
    for reader, texts in TEXTS.items():
        cells = [READERS[reader]]
        for text in texts:
            mine = [runs[f"{text}-s{seed}"] for seed in range(3)] if text else []
            scores = [
                f"{100 * np.mean([row[name] for row in mine]):.1f}"
                for name in ("concept.auc", "concept.balanced_accuracy")
                if mine
            ]
            chance = " ".join(str(row["groups_at_chance"]) for row in mine)
            cells.append(f"{', '.join(scores)}; {chance}" if mine else "–")
        made.append(f"| {' | '.join(cells)} |")
    classes = [
        100 * np.mean([runs[f"{text}-s{seed}"]["class.balanced_accuracy"] for seed in range(3)])
        for texts in TEXTS.values()
        for text in texts
        if text
    ]
    made.append(f"Class accuracy is {min(classes):.1f} to {max(classes):.1f} % in every cell")
    blocks = read_json(stored(HERE / "results.json"))["data"][0]["blocks"]
    rows = {row["name"]: row["measures"] for block in blocks for row in block["rows"]}
    short = {
        name: 100 * rows[name]["concept.balanced_accuracy"]["mean"] for name in ("ivq-cbm", "ivq-cbm (random text)")
    }
    own, other = short.values()
    made.append(
        f"| short comparison, concept balanced accuracy | {own:.1f} | random directions in place of texts: {other:.1f}"
    )
    made.append(f"beat the texts by {other - own:.0f} points")
    main = {
        name: 100 * read_json(stored(HERE / f"{name}.json"))["splits"]["test"]["concept"]["balanced_accuracy"]
        for name in ("raw", "raw-after-reorder", "centered")
    }
    made.append(
        f"{main['raw']:.1f}; {main['raw-after-reorder']:.1f} with other random numbers | texts less their mean: "
        f"{main['centered']:.1f}"
    )
    return made


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
