"""Judge the rows of each table of the paper among themselves, from the trainings that `conceptlens compare` made.

    cd data/ivq-rank
    conceptlens compare ../../evidence/ivq-ablations/compare.yaml --out runs/ivq-ablations --jobs 12
    python ../../evidence/ivq-ablations/tables.py --runs runs/ivq-ablations --out ../../evidence/ivq-ablations

A test over all rows at once would be corrected for two hundred pairs that nobody asks about.
"""

import argparse
import shutil
import tempfile
from pathlib import Path

from conceptlens.compare.compare import compare
from conceptlens.files import dump_yaml, read_yaml

HERE = Path(__file__).parent
TABLES = {
    "table3": ["IVQ", "no regulariser", "class token + IVQ", "class token", "mean + IVQ", "cross-attention + IVQ"],
    "table4": ["IVQ", "explicit VQ", "explicit VQ (moving averages)", "explicit VQ (rotation)"],
    "table5": [
        "IVQ",
        "no regulariser",
        "plain L2",
        "Barlow Twins",
        "Barlow Twins over patches",
        "spectral norm",
        "Gram",
    ],
    "figure3": ["one code", "IVQ", "5 K codes", "10 K codes", "20 K codes"],
    "table10": ["beta 0.1", "IVQ", "beta 0.5", "beta 1"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="the comparison's folder")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--file", type=Path, default=HERE / "compare.yaml")
    given = parser.parse_args()
    whole = read_yaml(given.file)
    assert isinstance(whole, dict)
    for name, rows in TABLES.items():
        part = {**whole, "name": f"{whole['name']}: {name}", "recipes": {row: whole["recipes"][row] for row in rows}}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"{name}.yaml"
            file.write_text(dump_yaml(part), "utf-8")
            found = compare(file, out=given.runs, quiet=True)
        assert not found.failed, found.failed
        for kind in ("json", "md"):
            shutil.copy(given.runs / f"{'results' if kind == 'json' else 'table'}.{kind}", given.out / f"{name}.{kind}")
        shutil.rmtree(given.out / "figures" / name, ignore_errors=True)
        shutil.copytree(given.runs / "figures", given.out / "figures" / name)
        print(found.table)


if __name__ == "__main__":
    main()
