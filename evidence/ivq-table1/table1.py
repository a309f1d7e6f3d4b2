"""One page from comparisons and maps: tables by data set, the paper's numbers beside ours, and a figure.

    python evidence/ivq-table1/table1.py --runs RUNS [RUNS …] --maps maps.json [maps.json …] --out evidence/ivq-table1

RUNS: folders that `conceptlens compare` wrote; of one whose predictions are not at hand, and which has no results.json
therefore, what each run measured is told (mean and spread over seeds, no tests). Rows of a folder replace those of the
folders before it. Writes results.json.gz (all that is shown, without the runs), figure.webp and the marked parts of
README.md. With `--keep`, what results.json.gz has already stays where no folder brings it anew.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import fine_tuned
import numpy as np

from conceptlens.core.files import read_json, write_bytes, write_json, write_text
from conceptlens.pages.webp import webp
from conceptlens.workflows.compare.supervision_blocks import TITLES

HERE = Path(__file__).parent
MEASURES = {
    "accuracy": "class.accuracy",
    "balanced acc.": "class.balanced_accuracy",
    "concept AUC": "concept.auc",
    "… within class": "concept.auc_within_class",
}
NUMBERS = {"effective concepts": "effective_concepts", "rank, published": "rank.published", "rank": "rank.effective"}
NOTHING = "–"
Rows = list[dict[str, Any]]
SEEN = {"blood cells": "classes and attributes of the training images"}  # by builtin/vit, in pretraining
NOT_THEIRS = " ‡"  # a published recipe in settings that are not its authors'


BY_CLASS = {"cub": "CUB"}  # runs without a comparison's results: begin of their names → data set, concepts by class


def from_metrics(folder: Path) -> dict[str, Rows]:
    """Rows of what each run measured of itself."""
    names = {re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-"): name for name in row_names()}
    gathered: dict[tuple[str, str], list[Path]] = {}
    for run in sorted(path.parent for path in (folder / "runs").glob("*/metrics.json")):
        match = re.match(r"([^-]+)-(.+)-s\d+-[0-9a-f]+$", run.name)
        assert match, run.name
        data, name = match.groups()
        gathered.setdefault((data, names[name]), []).append(run)
    found: dict[str, Rows] = {}
    for (data, name), runs in gathered.items():
        info = read_json(runs[0] / "run.json")
        tests = [read_json(run / "metrics.json")["splits"]["test"] for run in runs]
        fits = [re.findall(r'"effective_concepts": ([\d.]+)', (run / "history.jsonl").read_text()) for run in runs]
        told = {key: [_at(test, key) for test in tests] for key in (*MEASURES.values(), *NUMBERS.values())}
        told["effective_concepts"] = [float(fit[-1]) if fit else None for fit in fits]
        kind = "class-table" if info["supervision"] == "image-labels" else info["supervision"]
        row = {"block": TITLES[kind], "name": name, "control_of": None, "method": info["method"], "seconds": None}
        row |= {"bypass": info["bypass"], "trainings": len(runs)}
        for part, keys in (("measures", MEASURES), ("numbers", NUMBERS)):
            row[part] = {key: _spread(told[key]) for key in keys.values() if None not in told[key]}
        found.setdefault(BY_CLASS[data], []).append(row)
    order, titles = list(row_names()), list(TITLES.values())
    for rows in found.values():
        rows.sort(key=lambda row: (titles.index(row["block"]), order.index(row["name"])))
    return found


def row_names() -> list[str]:
    """As in others.yaml."""
    text = (HERE / "others.yaml").read_text("utf-8")
    return re.findall(r"^  ([^:\n]+): \{set:", text, re.MULTILINE)


def _at(values: Any, path: str) -> float | None:
    for step in path.split("."):
        values = values.get(step) if isinstance(values, dict) else None
    return values


def _spread(values: list[Any]) -> dict[str, Any]:
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {"mean": float(np.mean(values)), "sd": spread, "by_training": values}


def gather(runs: list[Path], found: dict[str, Rows], replaced: dict[str, Rows]) -> tuple[dict[str, Rows], ...]:
    """Data set → rows of all its blocks; and those that a later folder replaced."""
    for folder in runs:
        for name, rows in (_read(folder) if (folder / "results.json").exists() else from_metrics(folder)).items():
            newer = {row["name"]: row for row in rows}
            older = found.get(name, [])
            replaced.setdefault(name, []).extend(row for row in older if row["name"] in newer)
            kept = [newer.pop(row["name"], row) for row in older]
            found[name] = kept + list(newer.values())
    return found, {name: rows for name, rows in replaced.items() if rows}


def _read(folder: Path) -> dict[str, Rows]:
    """Rows of a comparison's results."""
    found: dict[str, Rows] = {}
    for data in read_json(folder / "results.json")["data"]:
        rows = found.setdefault(data["name"], [])
        for block in data["blocks"]:
            for row in block["rows"]:
                kept = {key: row.get(key) for key in ("name", "control_of", "method", "bypass", "trainings")}
                kept["measures"] = {
                    key: {part: row["measures"][key].get(part) for part in ("mean", "sd", "interval", "by_training")}
                    for key in MEASURES.values()
                    if row["measures"].get(key)
                }
                kept["numbers"] = {
                    key: {part: row["numbers"][key].get(part) for part in ("mean", "sd", "by_run")}
                    for key in NUMBERS.values()
                    if row["numbers"].get(key)
                }
                kept["seconds"] = (row["numbers"].get("seconds") or {}).get("mean")
                rows.append({"block": block["title"], **kept})
    return found


def lift(maps: dict[str, Any], data: str, row: str, target: str, kind: str) -> list[float]:
    """Lift of a row's maps by seed: how many times more mass than a uniform map puts on the target."""
    values = []
    for key, one in maps.items():
        of, name, _ = key.split(" | ")
        place = one.get("targets", {}).get(target, {}).get("maps", {}).get(kind)
        if (of, name) == (data, row) and place and place["lift"][0] is not None:
            values.append(place["lift"][0])
    return values


def beats(maps: dict[str, Any], data: str, row: str, target: str, kind: str) -> str:
    """Whether a map puts more on the target than a center prior does: yes, no, or not shown."""
    for key, one in maps.items():
        of, name, _ = key.split(" | ")
        found = one.get("targets", {}).get(target, {}).get("against", {}).get(f"{kind} - center_prior")
        if (of, name) == (data, row) and found and found[0] is not None:
            low, high = found[1] or 0, found[2] or 0
            return "yes" if low > 0 else "no" if high < 0 else "not shown"
    return NOTHING


def percent(found: dict[str, Any] | None) -> str:
    if not found or found.get("mean") is None:
        return NOTHING
    spread = "" if found.get("sd") is None else f" ± {100 * found['sd']:.1f}"
    return f"{100 * found['mean']:.1f}{spread}"


def number(found: dict[str, Any] | None) -> str:
    return NOTHING if not found or found.get("mean") is None else f"{found['mean']:.1f}"


def mean(values: list[float]) -> str:
    return f"{sum(values) / len(values):.2f}" if values else NOTHING


def table(data: str, rows: Rows, maps: dict[str, Any]) -> str:
    """One data set; methods by what told them about concepts."""
    places = [(target, kind) for target in ("object", "part") for kind in ("gradcam", "own")]
    judged = [each for each in places if any(lift(maps, data, row["name"], *each) for row in rows)]
    names = {"gradcam": "Grad-CAM", "own": "own map"}
    titles = [f"{target}: {names[kind]}" for target, kind in judged]
    head = [
        "method",
        "labels seen",
        *MEASURES,
        *NUMBERS,
        *titles,
        *(["own map beats a center prior"] if judged else []),
    ]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    block = None
    for row in rows:
        if row["block"] != block:
            block = row["block"]
            lines.append(f"| **{block}** |{' |' * (len(head) - 1)}")
        name = f"↳ {row['name']}" if row["control_of"] else f"`{row['name']}`" + (" †" if row["bypass"] else "")
        name += NOT_THEIRS if "-released" in row["name"] else ""
        cells = [
            name,
            "yes" if data in SEEN else "no",
            *(percent(row["measures"].get(key)) for key in MEASURES.values()),
        ]
        cells += [number(row["numbers"].get(key)) for key in NUMBERS.values()]
        cells += [mean(lift(maps, data, row["name"], *each)) for each in judged]
        if judged:
            target = "part" if ("part", "own") in judged else "object"
            cells.append(beats(maps, data, row["name"], target, "own"))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def beside_the_paper(found: dict[str, Rows]) -> str:
    """The paper's Tables 1 and 2, and ours: other encoder, other trainings; facts side by side."""
    paper = read_json(HERE / "paper.json")
    ours = {"ISIC": "HAM10000", "IDRiD": "IDRiD", "CUB": "CUB"}
    head = [f"{name}: paper | {ours[name]}: here" for name in paper["columns"]]
    lines = [f"| method | {' | '.join(head)} |", f"|{' --- |' * (1 + 2 * len(head))}"]
    for name, values in paper["rows"].items():
        cells = [name]
        for column, told in zip(paper["columns"], values, strict=True):
            cells.append(NOTHING if told is None else f"{told[0]:.1f}, {told[1]:.1f}")
            row = next((r for r in found.get(ours[column], []) if r["name"] == paper["ours"][name]), None)
            pair = (
                [percent(row["measures"].get(f"class.{key}")) for key in ("accuracy", "balanced_accuracy")]
                if row
                else []
            )
            cells.append(", ".join(pair) or NOTHING)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def figure(found: dict[str, Rows], maps: dict[str, Any]) -> bytes:
    """A line a method: concept AUC and class accuracy above, lift of Grad-CAM and of own maps below."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    told: dict[str, dict[str, dict[str, float]]] = {}  # method → data set → measure → value
    for data, rows in found.items():
        for row in rows:
            values = {key: (row["measures"].get(key) or {}).get("mean") for key in MEASURES.values()}
            if not row["control_of"] and values["concept.auc"] is not None:
                told.setdefault(row["name"], {})[data] = {k: 100 * v for k, v in values.items() if v is not None}
    methods = sorted(told, key=lambda name: np.mean([each["concept.auc"] for each in told[name].values()]))
    fig, axes = pyplot.subplots(
        2, max(len(found), 1), figsize=(2.2 + 2.6 * max(len(found), 1), 11), squeeze=False, sharey=True
    )
    for column, data in enumerate(found):
        above, below = axes[:, column]
        for place, name in enumerate(methods):
            values = dict(told[name].get(data, {}))
            for key, mark, color in (("concept.auc", "o", "tab:blue"), ("class.balanced_accuracy", "s", "tab:gray")):
                if key in values:
                    above.plot(values[key], place, mark, ms=4, color=color, label=key if place == 0 else None)
            for kind, mark, color in (("gradcam", "o", "tab:gray"), ("own", "^", "tab:orange")):
                lifts = lift(maps, data, name, "part", kind) or lift(maps, data, name, "object", kind)
                if lifts:
                    below.plot(sum(lifts) / len(lifts), place, mark, ms=4, color=color)
        parts = any(lift(maps, data, name, "part", "center_prior") for name in methods)
        priors = [
            value for name in methods for value in lift(maps, data, name, "part" if parts else "object", "center_prior")
        ]
        if priors:
            below.axvline(1, color="lightgrey", lw=0.8, zorder=0)
            below.axvline(priors[0], color="tab:red", lw=0.8, ls="--", zorder=0)
        else:
            below.text(
                0.5, 0.5, "nothing is marked\nin these images", transform=below.transAxes, ha="center", fontsize=8
            )
            below.set_xticks([])
        above.set(title=data, xlabel="% (● concept AUC, ■ class bal. acc.)")
        below.set(xlabel=f"lift on {'parts' if parts else 'the object'}" if priors else "")
        for axis in (above, below):
            axis.set_yticks(range(len(methods)), methods, fontsize=7)
            axis.grid(axis="y", lw=0.3)
    axes[1, 0].set_ylabel("lift: ▲ own map, ● Grad-CAM; gray line: uniform, red: a center prior")
    fig.tight_layout()
    pyplot.close(fig)
    return webp(fig)


def put(page: str, name: str, text: str) -> str:
    """The page with a marked part replaced."""
    marks = re.compile(rf"(<!-- table {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    assert marks.search(page), name
    return marks.sub(lambda found: found[1] + text + "\n" + found[2], page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--maps", type=Path, nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--keep", action="store_true", help="add to results.json.gz instead of writing it anew")
    given = parser.parse_args()
    kept = read_json(given.out / "results.json.gz") if given.keep else {"data": {}, "replaced": {}, "maps": {}}
    found, replaced = gather(given.runs, kept["data"], kept["replaced"])
    brought = {key: value for file in given.maps for key, value in read_json(file).items() if key != "schema"}
    maps = kept["maps"] | brought
    text = "\n\n".join(f"### {data}\n\n{table(data, rows, maps)}" for data, rows in found.items())
    given.out.mkdir(parents=True, exist_ok=True)
    write_json(given.out / "results.json.gz", {"data": found, "replaced": replaced, "maps": maps})
    write_bytes(given.out / "figure.webp", figure(found, maps))
    readme = given.out / "README.md"
    if readme.exists():
        picture = "\n\n![concept AUC against accuracy, and against lift](figure.webp)"
        page = put(readme.read_text("utf-8"), "ours", text + picture)
        if rows := fine_tuned.read():
            page = put(page, "fine-tuned", fine_tuned.table(rows))
            page = put(page, "fine-tuned-differences", fine_tuned.differences(rows))
            fine_tuned.draw(rows, given.out)
        write_text(readme, put(page, "paper", beside_the_paper(found)))
    print(text)


if __name__ == "__main__":
    main()
