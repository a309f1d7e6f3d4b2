"""Which pieces of magnet-cbm help, and whether it does what it is for: the table of `magnet.yaml`.

    python evidence/ivq-table1/magnet.py FILE RUNS [--maps maps.json] [--out FOLDER]

FILE and RUNS as for `conceptlens compare FILE --out RUNS`; maps from localize.py. Of each row: concept AUC, pooled and
within class, less that of the class token read by the same network (paired, images crossed with seeds), groups at
chance by seed, entropy of the assignment as a share of the largest, and lift of its own maps.
"""

import argparse
from pathlib import Path
from typing import Any

from table1 import NOTHING, lift, mean, percent, put

from conceptlens.core.files import read_json, write_json, write_text
from conceptlens.workflows.compare.compare import open_comparison
from conceptlens.workflows.compare.jobs import Job
from conceptlens.workflows.compare.state import Places, all_jobs

TOKEN = {True: "last block (class token)", False: "class token"}  # whether the last block learns
TOLD = ("auc", "auc_within_class", "balanced_accuracy", "balanced_accuracy_prior_corrected")
HEAD = (
    "row",
    "concept AUC",
    "less class token",
    "within class",
    "less class token, within class",
    "class bal. acc.",
    "groups at chance",
    "assignment entropy",
    "part: own map",
    "object: own map",
)


def by_run(file: Path, runs: Path) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """(data, row) → what each training's metrics say of slots and axes."""
    comparison, folder = open_comparison(file, runs)
    places = Places(folder)
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for job in all_jobs(comparison, folder):
        if isinstance(job, Job) and job.trial is None and places.state(job) == "done":
            splits = read_json(places.run(job) / "metrics.json")["splits"]
            told: dict[str, Any] = {
                "seed": job.recipe.seed,
                "entropy": (splits["test"].get("slots") or {}).get("assignment_entropy"),
                "chance": splits["test"]["concept"]["groups_at_chance"]["count"],
            }
            told |= {split: {key: splits[split]["concept"].get(key) for key in TOLD} for split in ("val", "test")}
            found.setdefault((job.cell.data, job.cell.entry.name), []).append(told)
    return found


def less(block: dict[str, Any], row: str, measure: str) -> str:
    """A row's difference from its class token, with its interval."""
    token = TOKEN[row.startswith("last block")]
    for each in block["comparisons"]:
        if each["measure"] == measure and {each["first"], each["second"]} == {row, token}:
            sign = 1 if each["first"] == row else -1
            low, high = sorted(sign * end for end in each["interval"])
            return f"{100 * sign * each['difference']:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})".replace("-", "−")
    return NOTHING


def table(data: dict[str, Any], said: dict[tuple[str, str], list[dict[str, Any]]], maps: dict[str, Any]) -> str:
    lines = [f"| {' | '.join(HEAD)} |", f"|{' --- |' * len(HEAD)}"]
    for block in data["blocks"]:
        for row in block["rows"]:
            name, runs = row["name"], said.get((data["name"], row["name"]), [])
            entropies = [each["entropy"] for each in runs if each["entropy"] is not None]
            cells = [
                name,
                percent(row["measures"].get("concept.auc")),
                less(block, name, "concept.auc"),
                percent(row["measures"].get("concept.auc_within_class")),
                less(block, name, "concept.auc_within_class"),
                percent(row["measures"].get("class.balanced_accuracy")),
                " ".join(str(each["chance"]) for each in runs) or NOTHING,
                mean(entropies),
                *(mean(lift(maps, data["name"], name, target, "own")) for target in ("part", "object")),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def kept(data: dict[str, Any]) -> dict[str, Any]:
    """What the table is made of: rows without their ranks by epoch, comparisons with a class token."""
    blocks = []
    for block in data["blocks"]:
        rows = [{key: value for key, value in row.items() if key != "ranks"} for row in block["rows"]]
        pairs = [each for each in block["comparisons"] if {each["first"], each["second"]} & set(TOKEN.values())]
        blocks.append({"title": block["title"], "rows": rows, "comparisons": pairs})
    return {"name": data["name"], "blocks": blocks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--maps", type=Path)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent, help="README.md and magnet.json.gz lie there"
    )
    given = parser.parse_args()
    said = by_run(given.file, given.runs)
    maps = read_json(given.maps) if given.maps and given.maps.exists() else {}
    maps.pop("schema", None)
    results = read_json(given.runs / "results.json")
    text = "\n\n".join(f"#### {data['name']}\n\n{table(data, said, maps)}" for data in results["data"])
    page = (given.out / "README.md").read_text("utf-8")
    write_text(given.out / "README.md", put(page, "magnet", text))
    runs_told = {f"{data} | {row}": each for (data, row), each in said.items()}
    found = {"results": [kept(data) for data in results["data"]], "runs": runs_told, "maps": maps}
    write_json(given.out / "magnet.json.gz", found)
    print(text)


if __name__ == "__main__":
    main()
