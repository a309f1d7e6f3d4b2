"""What README.md says in its table and sentences, from the rows; `scripts/evidence_check.py` looks for each."""

import json
from pathlib import Path
from typing import Any

from conceptlens.core.files import read_json

HERE = Path(__file__).parent
METHODS = {"cbm": "`cbm`, 1e-4", "cbm, rate 1e-3": "`cbm`, 1e-3", "ivq-cbm": "`ivq-cbm`, 1e-3, concepts × 3"}


def scores(row: dict[str, Any]) -> list[float]:
    names = ("class_balanced_accuracy", "concept_balanced_accuracy", "concept_auc")
    return [100 * row[name] for name in names]


def statements() -> list[str]:
    """Rows of the table and the defaults of `ivq-cbm` before and since."""
    made = []
    for key, row in read_json(HERE / "lengths.json").items():
        data, method, _, _ = key.split(" | ")
        data = "all 1150 images" if "all" in data else data.split(", ")[1].replace(" training", "")
        shown = " | ".join(f"{score:.1f}" for score in scores(row))
        made.append(f"| {data} | {METHODS[method]} | {row['steps']} | {shown} | {row['groups_at_chance']} |")
    before, since = read_json(HERE / "defaults.json").values()
    one, two, three = (f"{score:.1f}" for score in scores(before))
    made.append(
        f"class {one}, concepts {two}, concept AUC {three}, {before['groups_at_chance']} of {before['groups']} "
        "groups at chance"
    )
    one, two, three = (f"{score:.1f}" for score in scores(since))
    made.append(f"{one}, {two}, {three}, {since['groups_at_chance']} of {since['groups']}")
    made.append(f"tokens of all built-in training images, {since['steps']} steps")
    return made


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
