"""The tables of README.md and its two figures, from DATA.json.gz and rows.json.gz alone.

python evidence/ivq-ablations/pages.py
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from conceptlens.core.files import read_json, write_bytes, write_text
from conceptlens.pages.webp import webp

HERE = Path(__file__).parent
DATA = {"blood-cells": "blood cells", "ham10000": "HAM10000", "idrid": "IDRiD"}
MEASURES = ("class.balanced_accuracy", "concept.balanced_accuracy", "concept.auc")
PAPER = {  # balanced accuracy on ISIC 2018 (the images of HAM10000) and IDRiD; of Table 4 also that of concepts
    "table3": {"IVQ": "86.2, 73.1", "no regularizer": "84.8, 45.3", "class token + IVQ": "82.9, 61.3"},
    "table4": {"IVQ": "86.2 (83.9), 73.1 (59.5)", "explicit VQ": "51.5 (22.2), 23.8 (50.9)"},
    "table5": {"IVQ": "86.2", "Barlow Twins": "81.2", "spectral norm": "84.7", "Gram": "59.8"},
    "table10": {"beta 0.1": "86.1", "IVQ": "86.2", "beta 0.5": "86.1", "beta 1": "85.9"},
}
CODES = {"one code": "1", "IVQ": "K", "5 K codes": "5 K", "10 K codes": "10 K", "20 K codes": "20 K"}
TABLES = ("table3", "table3-weighed", "table4", "table5", "figure3", "table10")
SHARED = (*CODES, "beta 0.1", "beta 0.5", "beta 1", "plain L2", "explicit VQ", "explicit VQ (moving averages)")
SHARED += ("explicit VQ (rotation)", "class token + IVQ", "mean + IVQ", "cross-attention + IVQ")
LOOKS = {  # Okabe and Ito's colors
    "IVQ": ("#0072b2", "-"),
    "no regularizer": ("#d55e00", "--"),
    "plain L2": ("#009e73", "-."),
    "Barlow Twins": ("#cc79a7", ":"),
    "Barlow Twins over patches": ("#cc79a7", "-"),
    "spectral norm": ("#e69f00", "-"),
    "Gram": ("#000000", ":"),
}


def block(data: str, table: str) -> dict[str, Any]:
    """One table of one data set; all rows are of one kind of supervision."""
    found: dict[str, Any] = read_json(HERE / f"{data}.json.gz")["tables"][table]["data"][0]
    (only,) = found["blocks"]
    return dict(only)


def versus(part: dict[str, Any], first: str, name: str, measure: str) -> dict[str, Any] | None:
    """The test of one row against another."""
    pairs = [each for each in part["comparisons"] if each["measure"] == measure]
    return next((each for each in pairs if {each["first"], each["second"]} == {first, name}), None)


def cell(part: dict[str, Any], row: dict[str, Any], measure: str) -> str:
    """Mean ± spread over seeds in percent; bold where it is significantly different from IVQ with Magnet."""
    if measure not in row["measures"]:
        return "–"
    value = row["measures"][measure]
    told = f"{100 * value['mean']:.1f} ± {100 * value['sd']:.1f}"
    names = [each["name"] for each in part["rows"]]
    pair = versus(part, "IVQ" if "IVQ" in names else "IVQ (concepts weighed)", row["name"], measure)
    return f"**{told}**" if pair and pair["different"] else told


def table(name: str) -> str:
    parts = {data: block(data, name) for data in DATA}
    paper = PAPER.get(name)
    head = ["", *(["the paper"] if paper else []), *DATA.values()]
    lines = [head, ["---"] * len(head)]
    for place, row in enumerate(parts["blood-cells"]["rows"]):
        cells = [f"{row['name']}", *([paper.get(row["name"], "–")] if paper else [])]
        for part in parts.values():
            cells.append(" · ".join(cell(part, part["rows"][place], measure) for measure in MEASURES))
        lines.append(cells)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def trials() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Row → data set → its eight trials, seed 0, judged on validation."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for row in read_json(HERE / "rows.json.gz")["rows"]:
        named = re.match(rf"({'|'.join(DATA)})-(.+)-s0-t\d$", row["run"])
        if named:
            found.setdefault(named[2], {}).setdefault(named[1], []).append(row)
    return found


def slug(name: str) -> str:
    return re.sub(r"[()]", "", name.lower()).replace(" ", "-")


def by_concepts() -> str:
    """For each row the best of its eight trials by concept AUC, on validation: had concepts chosen."""
    tried = trials()
    names = [row["name"] for part in TABLES for row in block("idrid", part)["rows"]]
    lines = [["", *DATA.values()], ["---"] * 4]
    for name in dict.fromkeys(names):
        cells = [name]
        for data in DATA:
            best = max((each["val"] for each in tried[slug(name)][data]), key=lambda val: val["concept.auc"])
            cells.append(f"{100 * best['concept.auc']:.1f} ({100 * best['class.balanced_accuracy']:.1f})")
        lines.append(cells)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def mean(rows: list[dict[str, Any]], measure: str) -> float:
    return float(np.mean([row["val"][measure] for row in rows]))


def shared() -> str:
    """Rows that tried the same eight pairs of weight and rate: the mean over the pairs, on validation."""
    tried = trials()
    lines = [["", *DATA.values()], ["---"] * 4]
    for name in SHARED:
        cells = [name]
        for rows in (tried[slug(name)][data] for data in DATA):
            pairs = sorted((row["regularizer"]["weight"], row["learning_rate"]) for row in rows)
            assert pairs == [(weight, rate) for weight in (0.01, 0.1, 0.3, 1) for rate in (3e-4, 1e-3)]
            scores = [100 * mean(rows, measure) for measure in ("class.balanced_accuracy", "concept.auc")]
            cells.append(f"{scores[0]:.1f} · {scores[1]:.1f} · {mean(rows, 'rank.effective'):.0f}")
        lines.append(cells)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def chosen() -> str:
    """What the trials chose."""
    short = {"regularizer.weight": "λ", "training.learning_rate": "rate", "training.loss.concept_weight": "concepts ×"}
    lines = [["", *DATA.values()], ["---"] * 4]
    seen: dict[str, list[str]] = {}
    for name in TABLES:
        for place, row in enumerate(block("idrid", name)["rows"]):
            picks = [block(data, name)["rows"][place]["chosen"][0] for data in DATA]
            seen[row["name"]] = [", ".join(f"{short[key]} {value:g}" for key, value in pick.items()) for pick in picks]
    return "\n".join(
        f"| {' | '.join(cells)} |" for cells in [*lines, *([name, *picks] for name, picks in seen.items())]
    )


def panels(height: float) -> tuple[Figure, Any]:
    made = Figure(figsize=(11, height), layout="constrained")
    return made, made.subplots(1, len(DATA))


def save(made: Figure, name: str) -> None:
    write_bytes(HERE / name, webp(made))


def figure3() -> None:
    """Scores by the size of the codebook, with intervals over images and seeds."""
    made, places = panels(3.4)
    looks = {"class.balanced_accuracy": ("class", "#0072b2", "o"), "concept.auc": ("concept AUC", "#d55e00", "s")}
    for place, (data, title) in zip(places, DATA.items(), strict=True):
        rows = {row["name"]: row["measures"] for row in block(data, "figure3")["rows"]}
        for shift, (measure, (name, color, mark)) in zip((-0.07, 0.07), looks.items(), strict=True):
            means = 100 * np.array([rows[row][measure]["mean"] for row in CODES])
            spans = 100 * np.array([rows[row][measure]["interval"] for row in CODES])
            reach = np.abs(spans.T - means)
            at = np.arange(len(CODES)) + shift
            place.errorbar(at, means, reach, color=color, marker=mark, lw=1.2, capsize=3, label=name)
        tried = trials()
        held = [100 * mean(tried[slug(row)][data], "concept.auc") for row in CODES]
        place.plot(held, color="#d55e00", ls=":", lw=1.6, label="concept AUC, mean of eight settings (validation)")
        place.set_xticks(range(len(CODES)), list(CODES.values()))
        place.set(title=title, xlabel="codes")
        place.grid(alpha=0.25)
    places[0].set(ylabel="percent")
    made.legend(*places[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    save(made, "figure3.webp")


def figures67() -> None:
    """The effective rank of validation images' patch tokens by epoch: mean over seeds, and their span."""
    made, places = panels(3.8)
    for place, (data, title) in zip(places, DATA.items(), strict=True):
        rows = {row["name"]: row["ranks"]["rank.effective"] for row in block(data, "table5")["rows"]}
        for name, (color, line) in LOOKS.items():
            epochs, mean, low, high = np.transpose(rows[name])
            wide = 2.4 if name in ("IVQ", "no regularizer") else 1.3
            place.plot(epochs, mean, color=color, ls=line, lw=wide, label=name)
            place.fill_between(epochs, low, high, color=color, alpha=0.12, lw=0)
        place.set(title=title, xlabel="epoch", ylim=(0, None))
        place.grid(alpha=0.25)
    places[0].set(ylabel="effective rank of patch tokens")
    made.legend(*places[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9)
    save(made, "figures6-7.webp")


def main() -> None:
    tables: dict[str, Callable[[], str]] = {"by-concepts": by_concepts, "shared": shared, "chosen": chosen}

    def fill(match: re.Match[str]) -> str:
        made = tables[match[1]]() if match[1] in tables else table(match[1])
        return f"<!-- table {match[1]} -->\n{made}\n<!-- end -->"

    page = HERE / "README.md"
    text = page.read_text("utf-8")
    write_text(page, re.sub(r"<!-- table ([\w-]+) -->.*?<!-- end -->", fill, text, flags=re.DOTALL))
    figure3()
    figures67()


if __name__ == "__main__":
    main()
