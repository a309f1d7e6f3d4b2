"""Judge the rows of each table of the paper among themselves, from the trainings that `conceptlens compare` made.

    cd data/ivq-rank
    conceptlens compare ../../evidence/ivq-ablations/compare.yaml --out runs/ivq-ablations --jobs 15
    python ../../evidence/ivq-ablations/tables.py --runs runs/ivq-ablations --out ../../evidence/ivq-ablations

A test over all rows at once would be corrected for two hundred pairs that nobody asks about. Writes DATA.json.gz and
DATA.md for each data set; nothing is trained.
"""

import argparse
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from conceptlens.core.files import dump_yaml, read_yaml, write_json, write_text
from conceptlens.workflows.compare.file import slug
from conceptlens.workflows.compare.jobs import Comparison
from conceptlens.workflows.compare.results import results
from conceptlens.workflows.compare.state import Places, all_jobs
from conceptlens.workflows.compare.table import markdown

HERE = Path(__file__).parent
TABLES = {
    "table3": ["IVQ", "no regularizer", "class token + IVQ", "class token", "mean + IVQ", "cross-attention + IVQ"],
    "table3-weighed": [
        "IVQ (concepts weighed)",
        "no regularizer (concepts weighed)",
        "class token + IVQ (concepts weighed)",
        "class token (concepts weighed)",
    ],
    "table4": ["IVQ", "explicit VQ", "explicit VQ (moving averages)", "explicit VQ (rotation)"],
    "table5": [
        "IVQ",
        "no regularizer",
        "plain L2",
        "Barlow Twins",
        "Barlow Twins over patches",
        "spectral norm",
        "Gram",
    ],
    "figure3": ["one code", "IVQ", "5 K codes", "10 K codes", "20 K codes"],
    "table10": ["beta 0.1", "IVQ", "beta 0.5", "beta 1"],
}


def judged(whole: dict[str, Any], runs: Path, data: str, table: str) -> dict[str, Any]:
    """What `conceptlens compare` finds in these rows alone."""
    part = {
        **whole,
        "name": f"{whole['name']}: {table}",
        "recipes": {row: whole["recipes"][row] for row in TABLES[table]},
        "data": {data: whole["data"][data]},
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{table}.yaml"
        file.write_text(dump_yaml(part), "utf-8")
        comparison = Comparison(file)
        return results(comparison, all_jobs(comparison, runs), Places(runs))


def write(whole: dict[str, Any], runs: Path, out: Path, data: str) -> str:
    found = {table: judged(whole, runs, data, table) for table in TABLES}
    write_json(out / f"{slug(data)}.json.gz", {"schema": 1, "tables": found})
    write_text(out / f"{slug(data)}.md", "\n".join(markdown(each) for each in found.values()))
    return f"{data}: " + ", ".join(
        f"{name} {each['jobs']['done']}/{each['jobs']['of']}" for name, each in found.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the comparison's folder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--file", type=Path, default=HERE / "compare.yaml")
    parser.add_argument("--data", nargs="*", help="these data sets alone")
    given = parser.parse_args()
    whole = read_yaml(given.file)
    assert isinstance(whole, dict)
    with ProcessPoolExecutor() as pool:
        for line in pool.map(partial(write, whole, given.runs, given.out), given.data or whole["data"]):
            print(line, flush=True)


if __name__ == "__main__":
    main()
