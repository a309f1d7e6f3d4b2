"""What README.md says in its tables, from the analysis; `scripts/evidence_check.py` looks for each row."""

import json
from pathlib import Path
from typing import Any

from conceptlens.core.files import read_json

HERE = Path(__file__).parent


def interval(found: dict[str, Any], digits: int = 2) -> str:
    return f"{found['value']:.{digits}f} [{found['low']:.{digits}f}, {found['high']:.{digits}f}]"


def share(found: dict[str, Any]) -> str:
    return f"{found['value']:.0%} ({found['right']}/{found['n']}) [{found['low']:.0%}, {found['high']:.0%}]"


def statements() -> list[str]:
    """A row for each rater, and the row of all who looked."""
    made = []
    recovered, analysis = read_json(HERE / "recovered.json"), read_json(HERE / "analysis.json")
    for rater in recovered["raters"]:
        (true, found), (low, shuffled) = rater["true"], rater["shuffled"]
        cells = [rater["rater"], f"{rater['knows']:.0%}", f"{rater['skill']:.0%}", f"{rater['accuracy']:.0%}"]
        cells += [share(rater["found"]), *(f"{value:.2f}" for value in (true, found, low, shuffled))]
        made.append(f"| {' | '.join(cells)} | {'yes' if rater['passed'] else 'no: '}")
    result = analysis["result"]
    ratings, chosen = result["likert"], result["choice"]
    cells = [analysis["data"], *(interval(ratings[name]) for name in ("true", "shuffled", "difference"))]
    cells += [share(chosen), share(result["choice_shuffled"]), f"{result['chance']:.0%}", str(len(result["raters"]))]
    cells.append(f"{result['likert_agreement']['kappa']:.2f}")
    made.append(f"| {' | '.join(cells)} |")
    made.append(f"The page of 200 images is {recovered['bytes'] / 1e6:.1f} MB")
    return made


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
