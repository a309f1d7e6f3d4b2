"""What README.md says in sentences and typed tables, from the rows; `scripts/evidence_check.py` looks for each."""

import json
from pathlib import Path
from typing import Any

import equal
import numpy as np
from conditions import known_rows

from conceptlens.core.files import read_json, read_text, stored
from trainings import Results, pairs

HERE = Path(__file__).parent
FULL, BOX, RESNET = ("table2", "cub-full"), ("table2", "cub-box"), ("resnet50", "cub-full-resnet50")
CUT = {"prior": "spatial_prior", "points": "pfcbm"}  # the rows that know the box, on images cut to it
POINTS, PRIOR, NEITHER, PSEUDO = "no_bbox_pca", "no_bbox_spatial_prior", "no_bbox_no_kp", "pseudo_kp"
COLLAPSE = ("no prior", "prior in the image", "prior in the creature")


def minus(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


class Rows:
    """Means over seeds."""

    def __init__(self) -> None:
        self.results = Results(HERE / "rows")

    def place(self, bank: tuple[str, str], condition: str, measure: str) -> float:
        found = [pairs(row, measure) for row in self.results.rows[(*bank, condition)]]
        return float(np.mean([value for value in found if value is not None]))

    def test(self, bank: tuple[str, str], condition: str, measure: str) -> float:
        return float(np.mean([row["test"][measure] for row in self.results.rows[(*bank, condition)]]))

    def away(self, bank: tuple[str, str], ours: str, theirs: str) -> str:
        """A difference in pointing with its interval."""
        found = self.results.difference((*bank, ours), (*bank, theirs), "pointing_patch")
        assert found is not None
        low, high = found["interval"]
        return f"{minus(found['difference'], 3)}, {minus(low, 3)} to {minus(high, 3)}"


def on_cub(rows: Rows) -> list[str]:
    made = []
    names = {POINTS: "points of every image", PRIOR: "prior", NEITHER: "neither", PSEUDO: "pseudo points"}
    for condition, name in names.items():
        cells = [
            f"{rows.place(bank, condition, measure):.3f}"
            for bank in (FULL, RESNET)
            for measure in ("pointing_cells", "pointing_patch")
        ]
        more = ", entropy 0.01" if condition == PSEUDO else ""
        made.append(f"| {name} (`{condition}`){more} | {' | '.join(cells)} |")
    near = {bank: [rows.place(bank, one, "pointing_patch") for one in (PRIOR, POINTS)] for bank in (FULL, BOX, RESNET)}
    made += [
        f"built-in: {near[FULL][0]:.3f} against {near[FULL][1]:.3f} (difference {rows.away(FULL, PRIOR, POINTS)})",
        f"ResNet50: {near[RESNET][0]:.3f} against {near[RESNET][1]:.3f} ({rows.away(RESNET, PRIOR, POINTS)})",
    ]
    both = {FULL: (PRIOR, POINTS), BOX: tuple(CUT.values()), RESNET: (PRIOR, POINTS)}
    top = {bank: [rows.test(bank, one, "top1") for one in pair] for bank, pair in both.items()}
    cut = [rows.place(BOX, one, "pointing_patch") for one in CUT.values()]
    made.append(f"cut to the box {cut[0]:.3f} against {cut[1]:.3f} ({rows.away(BOX, *CUT.values())})")
    made.append(
        f"| {top[FULL][0]:.3f} against {top[FULL][1]:.3f}; cut {top[BOX][0]:.3f} against {top[BOX][1]:.3f}; "
        f"ResNet50 {top[RESNET][0]:.3f} against {top[RESNET][1]:.3f} |"
    )
    far = {bank: [rows.place(bank, one, "distance_patches") for one in pair] for bank, pair in both.items()}
    made.append(
        f"Centroids are {far[FULL][0]:.2f} patches away against {far[FULL][1]:.2f}; cut {far[BOX][0]:.2f} against "
        f"{far[BOX][1]:.2f}; ResNet50 {far[RESNET][0]:.2f} against {far[RESNET][1]:.2f}"
    )
    nothing = [rows.place(bank, NEITHER, "pointing_patch") for bank in (FULL, BOX, RESNET)]
    made.append(f"{nothing[0]:.3f} (cut {nothing[1]:.3f}, ResNet50 {nothing[2]:.3f}), above the image-free baseline")
    gains = [near[bank][0] - none for bank, none in zip((FULL, BOX, RESNET), nothing, strict=True)]
    made.append(f"the prior adds {gains[0]:.3f}, {gains[1]:.3f} and {gains[2]:.3f}")
    pseudo = [rows.place(bank, one, "pointing_patch") for bank in (FULL, RESNET) for one in (PSEUDO, f"{PSEUDO}_tight")]
    made.append(f"built-in {pseudo[0]:.3f} and {pseudo[1]:.3f}")
    made.append(f"ResNet50 {pseudo[2]:.3f} and {pseudo[3]:.3f}")
    return made


def on_drawings() -> list[str]:
    """Small trainings with labels of each image and of the class, and Table 2's conditions."""
    made: list[str] = []
    rows = read_json(stored(HERE / "collapse.json"))["rows"]
    for labels in ("of each image", "of the class"):
        for weight in (0.01, 0.001, 0):
            cells = []
            for prior in COLLAPSE:
                key: dict[str, Any] = {"labels": labels, "entropy_weight": weight, "prior": prior}
                mine = [row for row in rows if key.items() <= row.items()]
                own, other = (np.mean([row[name] for row in mine]) for name in ("pointing", "pointing_other"))
                cells.append(f"**{own:.2f}** " if labels == "of each image" else f"{own:.2f} ")
                cells[-1] += f"(others {other:.2f})" if not made else f"({other:.2f})"
                if not made and len(cells) > 1:
                    cells[-1] = cells[-1].replace("others ", "")
            first = labels if weight == 0.01 else ""
            made.append(f"| {first} | {weight:g} | {' | '.join(cells)} |".replace("|  |", "| |"))
    found = known_rows()

    def mean(condition: str, weight: float, measure: str = "pointing_patch") -> float:
        key = {"condition": condition, "entropy_weight": weight}
        return float(np.mean([row[measure] for row in found if key.items() <= row.items()]))

    behind = [mean(POINTS, weight) - mean(PRIOR, weight) for weight in (0, 0.001)]
    ahead = [mean(PRIOR, weight) - mean(NEITHER, weight) for weight in (0, 0.001)]
    lost = [mean(NEITHER, weight) - mean(PSEUDO, weight) for weight in (0, 0.001)]
    conditions = sorted({row["condition"] for row in found if "seed" in row})
    largest = max(abs(mean(one, 0) - mean(one, 0.001)) for one in conditions)
    return [
        *made,
        f"the prior is {np.mean(behind):.2f} behind them and {np.mean(ahead):.2f} ahead of neither",
        f"own maps find the part in {mean(NEITHER, 0):.2f} of cases",
        f"other parts' maps in {mean(NEITHER, 0, 'pointing_other'):.2f}",
        f"{np.mean(lost):.2f} behind neither",
        f"at most {largest:.3f} between the two in any row",
    ]


def points_prior_neither(rows: Rows) -> list[str]:
    """The table of three rows on whole and cut images and with ResNet50."""
    made = []
    for condition, name in ((POINTS, "points of every image"), (PRIOR, "prior"), (NEITHER, "neither")):
        cells = []
        for bank in (FULL, BOX, RESNET):
            places = ["pointing_patch", *(["pointing_tenth"] if bank == BOX else [])]
            cells += [f"{rows.place(bank, condition, measure):.3f}" for measure in places]
            cells.append(f"{rows.place(bank, condition, 'distance_patches'):.2f}")
            cells.append(f"{rows.test(bank, condition, 'top1'):.3f}")
        marked = [f"**{cell}**" for cell in cells] if condition == POINTS else cells
        made.append(f"| {name} (`{condition}`) | {' | '.join(marked)} |")
    return made


def table3() -> list[str]:
    """Joint and sequential training on blood cells and drawings: cells of each line after its name."""
    found = [json.loads(line) for line in read_text(stored(HERE / "rows" / "leak.jsonl")).splitlines()]
    names = {"joint": "joint", "sequential": "sequential"}
    names |= {f"{name}, fewer concepts": f"{name}, fewer" for name in names}
    made = []
    for bank in ("blood", "shapes"):
        for condition, name in names.items():
            mine = [row for row in found if (row["bank"], row["condition"]) == (bank, condition)]

            def mean(*keys: str, mine: list[dict[str, Any]] = mine) -> float:
                return float(np.mean([row["findings"][keys[1]] if len(keys) > 1 else row[keys[0]] for row in mine]))

            def spread(key: str, mine: list[dict[str, Any]] = mine) -> str:
                values = [row[key] for row in mine]
                return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"

            cells = [
                spread("top1"),
                f"{mean('findings', 'class from true labels (ceiling)'):.3f}",
                spread("ece"),
                f"{minus(mean('information'), 3)} ({minus(mean('information_of_labels'), 3)})",
                minus(mean("information_beyond_labels"), 3),
                minus(mean("findings", "gained by the head from the class in scores beyond labels"), 3),
                f"{mean('findings', 'accuracy with half of the concepts wrong'):.3f}",
                f"{sum(row['leaks'] for row in mine)} of {len(mine)}",
            ]
            made.append(f"| {name} | {' | '.join(cells)} |")
    return made


def choices() -> list[str]:
    """The entropy's weight on validation images: short trials of both banks, and drawings."""
    worth = read_json(HERE / "rows" / "chosen.json")["worth"]
    made = []
    for bank, words in (("cub-full", "whole images, short"), ("cub-box", "cut, short")):
        tried = ("entropy_weight 0", "entropy_weight 0.001", "default", "entropy_weight 0.1")
        values = [worth[f"choice|prior: {name}|{bank}|0"] for name in tried]
        cells = [f"**{value:.3f}**" if value == max(values) else f"{value:.3f}" for value in values]
        made.append(f"| {words} | {' | '.join(cells)} |")
    means = read_json(HERE / "entropy.json")["means"].values()
    for words, key in (("one patch", "pointing_patch"), ("accuracy", "top1")):
        made.append(f"{words} " + ", ".join(f"{each[key]:.3f}" for each in means))
    return made


def again() -> list[str]:
    """Equal entropies on CUB, and the order of corrections."""
    rows = equal.known()

    def of(name: str, entropy: float) -> str:
        mine = [
            row for row in rows if row["trial"] == "equal" and (row["condition"], row["entropy"]) == (name, entropy)
        ]
        return f"{np.mean([row['pointing_patch'] for row in mine]):.3f}"

    made = []
    for entropy in (0.0, 0.001):
        pair = " and ".join(of(name, entropy) for name in ("pseudo_kp", "pseudo_kp_tight"))
        made.append(f"{pair} against {of('no_bbox_no_kp', entropy)}")
    made.append(f"{of('no_bbox_no_kp', 0)} with 0, {of('no_bbox_no_kp', 0.001)} with 0.001")
    orders = sorted((row for row in rows if row["trial"] == "order"), key=lambda row: str(row["method"]))
    first = {name: [row["curves"][name][1] - row["curves"][name][0] for row in orders] for name in equal.ORDERS}
    made.append(" and ".join(f"{value:.3f}" for value in first["uncertainty"]) + " by uncertainty")
    for name in ("uncertainty", "influence"):
        area, low, high = next(row for row in orders if row["method"] == "pf-cbm")["areas"][name]
        made.append(f"{area:.3f} ({low:.3f} to {high:.3f}) by {name}")
    return made


def statements() -> list[str]:
    rows = Rows()
    return [*on_cub(rows), *points_prior_neither(rows), *table3(), *choices(), *on_drawings(), *again()]


if __name__ == "__main__":
    print(json.dumps(statements(), ensure_ascii=False))
