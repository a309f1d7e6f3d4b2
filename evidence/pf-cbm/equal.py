"""Two trials: equal entropies on CUB (`equal.yaml`), and the order of corrections; rows and tables for README.md.

python evidence/pf-cbm/run.py --cub cub --out OUT --plan evidence/pf-cbm/equal.yaml --no-choice
conceptlens train shapes/pf-cbm --seed 0 --method.name pf-cbm-sequential --out RUN    # and pf-cbm; blood-cells/…
conceptlens interventions RUN --by groups --json | gzip > OUT/corrections-shapes-pf-cbm-sequential-0.json.gz
python evidence/pf-cbm/equal.py OUT       # takes OUT/rows.jsonl (or pf-rows.jsonl) and OUT/corrections-* over
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.files import read_text, stored

sys.path.insert(0, str(Path(__file__).parents[1]))

from raw_rows import rounded, spread, table  # a neighbor

FILE = Path(__file__).parent / "equal.jsonl"
NAMES = {
    "no_bbox_pca": "points of every image",
    "no_bbox_no_kp": "neither",
    "pseudo_kp": "pseudo points",
    "pseudo_kp_tight": "pseudo points, tight",
}
ORDERS = ("chance", "uncertainty", "influence", "expected gain")
Row = dict[str, Any]


def known() -> list[Row]:
    return [json.loads(line) for line in read_text(stored(FILE)).splitlines()] if stored(FILE).exists() else []


def take_over(out: Path) -> list[Row]:
    rows: list[Row] = []
    for file in (out / "rows.jsonl", out / "pf-rows.jsonl"):
        for line in file.read_text("utf-8").splitlines() if file.exists() else ():
            row = json.loads(line)
            if row["section"] != "equal" or "failed" in row:
                continue
            condition, entropy = row["condition"].split(" ")
            test = row["test"]
            rows.append(
                {
                    "trial": "equal", "condition": condition, "entropy": float(entropy), "seed": row["seed"],
                    **{name: test["places"]["pairs"][name] for name in ("pointing_patch", "pointing_cells")},
                    "top1": test["top1"], "auc": test["auc"],
                }
            )  # fmt: skip
    for file in sorted(out.glob("corrections-*.json.gz")):
        found = json.loads(gzip.decompress(file.read_bytes()) or b"{}")
        if not found:
            continue
        data, _, rest = file.name.removeprefix("corrections-").removesuffix(".json.gz").partition("-pf-")
        method, _, seed = rest.rpartition("-")
        if data == "blood-cells":
            method = method.replace("cbm-as-printed", "cbm")
        curves = {each["policy"]: [point["value"] for point in each["points"]] for each in found["curves"]}
        areas = {each["policy"]: [each["area"]["value"], *each["area"]["interval"]] for each in found["curves"]}
        rows.append(
            {
                "trial": "order", "data": data, "method": f"pf-{method}", "seed": int(seed), "images": found["images"],
                "ceiling": found["ceiling"]["value"], "curves": curves, "areas": areas,
            }
        )  # fmt: skip
    return [rounded(row) for row in rows]


def equal_table(rows: list[Row]) -> str:
    lines = []
    for condition, words in NAMES.items():
        for entropy in (0.0, 0.001):
            mine = [r for r in rows if r["trial"] == "equal" and (r["condition"], r["entropy"]) == (condition, entropy)]
            if mine:
                cells = [spread(row[name] for row in mine) for name in ("pointing_patch", "pointing_cells", "top1")]
                lines.append([f"{words} (`{condition}`)", f"{entropy:g}", len(mine), *cells])
    return table(["", "entropy", "seeds", "center within one patch", "next cell", "top-1"], lines)


def gain(curve: list[float]) -> float:
    """Mean of the curve above its start: what corrections bring, over all numbers of them."""
    return float(np.mean(curve[1:]) - curve[0])


def order_table(rows: list[Row]) -> str:
    lines = []
    groups = sorted({(row["data"], row["method"]) for row in rows if row["trial"] == "order"})
    for data, method in groups:
        mine = [r for r in rows if r["trial"] == "order" and (r["data"], r["method"]) == (data, method)]
        gains = {name: [gain(row["curves"][name]) for row in mine] for name in ORDERS}
        apart = [a - b for a, b in zip(gains["influence"], gains["uncertainty"], strict=True)]
        start = spread(row["curves"]["chance"][0] for row in mine)
        end = spread(row["curves"]["chance"][-1] for row in mine)
        cells = [spread(gains[name]) for name in ORDERS]
        lines.append([data, method, len(mine), mine[0]["images"], start, end, *cells, spread(apart)])
    head = ["data", "method", "seeds", "test images", "before", "all corrected", *(f"mean gain by {o}" for o in ORDERS)]
    return table([*head, "influence less uncertainty"], lines)


def main() -> None:
    rows = take_over(Path(sys.argv[1]))
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    FILE.with_suffix(".jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    print(equal_table(rows), order_table(rows), sep="\n\n")


if __name__ == "__main__":
    main()
