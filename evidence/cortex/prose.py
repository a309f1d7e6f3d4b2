"""Figure 7's table as README.md prints it, from its rows; `scripts/evidence_check.py` looks for each line."""

import json
from pathlib import Path

from conceptlens.core.files import read_json

REGIONS = ("nucleus", "cytoplasm")


def statements() -> list[str]:
    lines = []
    rows = read_json(Path(__file__).parent / "figure-7.json")["rows"]
    for row in rows:
        places = [f"{100 * row['on'][name]:.0f} ({100 * row['any_position_on'][name]:.0f})" for name in REGIONS]
        lines.append(
            f"| {row['concept']} | {row['token']} | {row['lift']:.0f} | {row['with_token']} of {row['test_images']} "
            f"| {row['positions']} | {' | '.join(places)} |"
        )
    return [*lines, f"{sum(row['with_token'] for row in rows)} test images"]


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
