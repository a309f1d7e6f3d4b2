"""From the runs of the comparison to `runs.json.gz`, and from that alone to `rank.webp` and the tables of README.md.

python evidence/ivq-rank/collect.py [--runs runs/ivq-rank]
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import backbones
import numpy as np
from matplotlib.figure import Figure

from conceptlens.core.files import read_json, write_bytes, write_json, write_text
from conceptlens.pages.webp import webp
from conceptlens.reports.material import value_of

HERE = Path(__file__).parent
TOLD = {
    "class.balanced_accuracy": "class.balanced_accuracy",
    "concept.balanced_accuracy": "concept.balanced_accuracy",
    "concept.auc": "concept.auc",
    "concept.auc_within_class": "concept.auc_within_class",
    "axes_at_chance": "concept.groups_at_chance.count",
    "assignment_entropy": "slots.assignment_entropy",
}
RANKS = ("published", "effective", "effective_centered")
DATA = {"blood-cells": "blood cells", "ham10000": "HAM10000", "idrid": "IDRiD"}
ROWS = {  # Okabe and Ito's colors: one for each regularizer; the published code is dashed
    "ivq-cbm": ("ivq-cbm", "#0072b2", "-"),
    "ivq-cbm-with-plain-l2": ("… with plain L2", "#009e73", "-"),
    "ivq-cbm-without-ivq": ("… without", "#d55e00", "-"),
    "released": ("ivq-cbm-released", "#0072b2", "--"),
    "released-with-plain-l2": ("… with plain L2", "#009e73", "--"),
    "released-without-ivq": ("… without", "#d55e00", "--"),
}


def told(run: Path) -> dict[str, Any]:
    """What is kept of a run: its test scores, and the rank of the validation tokens by epoch."""
    test = read_json(run / "metrics.json")["splits"]["test"]
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text("utf-8").splitlines()]
    lines = [line for line in lines if line["split"] == "val" and "rank.published" in line]
    return {
        "run": run.name[: -len("-0123456789")],
        "test": {name: value_of(test, path) for name, path in TOLD.items()},
        "rank_by_epoch": {kind: [round(line[f"rank.{kind}"], 3) for line in lines] for kind in RANKS},
    }


def draw(runs: list[dict[str, Any]]) -> None:
    """The effective rank by epoch, a panel for each data set: seeds thin, their mean thick."""
    made = Figure(figsize=(11, 3.8), layout="constrained")
    panels = made.subplots(1, len(DATA), sharey=True)
    for panel, (data, title) in zip(panels, DATA.items(), strict=True):
        for row, (name, color, line) in ROWS.items():
            prefix = f"{data}-{row}-s"
            curves = [
                run["rank_by_epoch"]["effective"] for run in runs if run["run"].rpartition("s")[0] + "s" == prefix
            ]
            if not curves:
                continue
            panel.plot(np.transpose(curves), color, ls=line, lw=0.6, alpha=0.35)
            panel.plot(np.mean(curves, 0), color, ls=line, lw=2, label=name)
        panel.set(title=title, xlabel="epoch")
        panel.grid(alpha=0.25)
    panels[0].set(ylabel="effective rank of an image's patch tokens", ylim=(0, None))
    made.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(ROWS), fontsize=9)
    write_bytes(HERE / "rank.webp", webp(made))


def of(runs: list[dict[str, Any]], data: str, row: str) -> list[dict[str, Any]]:
    """The trainings of a row, by seed."""
    return [run for run in runs if run["run"].rpartition("s")[0] == f"{data}-{row}-"]


def table(runs: list[dict[str, Any]], data: str) -> str:
    """Mean ± standard deviation over seeds; ranks before the first epoch and after the last."""
    groups = {"blood-cells": 11, "ham10000": 7, "idrid": 9}[data]
    head = [DATA[data], "class bal. acc.", "concept bal. acc.", "concept AUC", f"groups at chance (of {groups})"]
    lines = [[*head, "rank, published", "rank, effective"], ["---"] * 7]
    for row, (name, _, _) in ROWS.items():
        mine = of(runs, data, row)
        title = f"`{name}`" if name.startswith("ivq") else name.removeprefix("… ")
        cells = []
        for measure in ("class.balanced_accuracy", "concept.balanced_accuracy", "concept.auc"):
            values = [run["test"][measure] for run in mine]
            cells.append(f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}")
        cells.append(" ".join(str(run["test"]["groups_at_chance"]) for run in mine))
        for kind in ("published", "effective"):
            curves = np.array([run["rank_by_epoch"][kind] for run in mine])
            cells.append(f"{curves[:, 0].mean():.0f} → {curves[:, -1].mean():.0f} ± {curves[:, -1].std(ddof=1):.1f}")
        lines.append([title, *cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def write_tables(runs: list[dict[str, Any]]) -> None:
    rows = backbones.read()

    def fill(match: re.Match[str]) -> str:
        made = backbones.TABLES[match[1]](rows) if match[1] in backbones.TABLES else table(runs, match[1])
        return f"<!-- table {match[1]} -->\n{made}\n<!-- end -->"

    page = HERE / "README.md"
    pattern = r"<!-- table ([\w-]+) -->.*?<!-- end -->"
    write_text(page, re.sub(pattern, fill, page.read_text("utf-8"), flags=re.DOTALL))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="the comparison's folder; without it, runs.json.gz is read")
    given = parser.parse_args()
    file = HERE / "runs.json.gz"
    if given.runs:
        found = sorted(run for run in (given.runs / "runs").iterdir() if (run / "metrics.json").exists())
        machine = read_json(found[0] / "environment.json")
        write_json(file, {"machine": machine, "runs": [told(run) for run in found]})
    runs = read_json(file)["runs"]
    draw(runs)
    backbones.draw(backbones.read())
    write_tables(runs)
    print(f"{len(runs)} runs")


if __name__ == "__main__":
    main()
