"""The best balanced accuracy of the grade that a reader of IDRiD's one concept can have on the official test images.

python evidence/own-data/ceiling.py DATA
"""

import json
import sys
from collections import Counter
from pathlib import Path

from folders import rows_of

rows = [row for _, row, _, side in rows_of("idrid", Path(sys.argv[1]), 0) if side == "test"]
both = Counter((row["Risk of macular edema"], row["Retinopathy grade"]) for row in rows)
grades = Counter(row["Retinopathy grade"] for row in rows)
best = [max(both[value, grade] / grades[grade] for grade in grades) for value in {value for value, _ in both}]
found = {"images": len(rows), "grades": dict(sorted(grades.items())), "ceiling": round(sum(best) / len(grades), 5)}
(Path(__file__).parent / "ceiling.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")
