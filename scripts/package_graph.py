"""Draws docs/pictures/packages.svg: the packages from top to bottom, and which imports from which.

python scripts/package_graph.py            # writes the picture
python scripts/package_graph.py --check    # exits with 1 if it is out of date
"""

import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "pictures" / "packages.svg"
BOX, ROW, LEFT = 26, 34, 190
ABOUT = {
    "core": "files, errors, registries, processes",
    "stats": "bootstrap, permutation tests, PCA",
    "pages": "HTML shell, charts",
    "recipes": "schema, parsing, ready recipes",
    "concepts": "the vocabulary",
    "data": "sources, images, labels, splits",
    "encoders": "image and text encoders, token store",
    "nn": "attention, quantization, heads",
    "methods": "one module for each paper",
    "runs": "run folders, OpenedRun",
    "explanations": "answer, maps, sentences",
    "evaluation": "every measure",
    "training": "one loop, stages, checkpoints",
    "gig": "GIG: concepts in every layer",
    "cortex": "CORTEX: tokens of a codebook",
    "reports": "the report of a run",
    "workflows": "compare, audit, refine, study",
    "model": "TrainedModel",
    "classifier": "scikit-learn estimator",
    "testing": "checks for plug-ins",
    "web": "server, page, share",
    "api": "the public functions",
    "cli": "the command line",
}


def layers() -> list[str]:
    """Packages from the top down, as import-linter's contract lists them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    return [re.sub(r"\W", "", name) for name in contracts[0]["layers"]]


def edges(names: list[str]) -> Counter[tuple[str, str]]:
    """How many imports lead from one package to another."""
    graph = grimp.build_graph("conceptlens", cache_dir=None)
    counts: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            pair = (module.split(".")[1:2], imported.split(".")[1:2])
            if all(pair) and pair[0] != pair[1] and pair[0][0] in names and pair[1][0] in names:
                counts[pair[0][0], pair[1][0]] += 1
    return counts


def svg(names: list[str], counts: Counter[tuple[str, str]]) -> str:
    """Boxes from top to bottom, an arc for each pair of packages, as wide as it has imports."""
    place = {name: 24 + ROW * row for row, name in enumerate(names)}
    height, width = 24 + ROW * len(names), 760
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="13" role="img" aria-label="Packages of conceptlens and their imports">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for (above, below), count in sorted(counts.items()):
        start, end = place[above] + BOX / 2, place[below] + BOX / 2
        reach = LEFT + 250 + min(250, 9 * abs(names.index(above) - names.index(below)) ** 1.15)
        stroke = 1 if count < 5 else 2.5 if count < 20 else 5  # in few steps, so that one import more changes nothing
        parts.append(
            f'<path d="M {LEFT + 236} {start} C {reach:.0f} {start}, {reach:.0f} {end}, {LEFT + 236} {end}" '
            f'fill="none" stroke="#3566a0" stroke-opacity="0.35" stroke-width="{stroke}">'
            f"<title>{above} imports {below}</title></path>"
        )
    for name, top in place.items():
        parts.append(
            f'<rect x="12" y="{top}" width="{LEFT + 224}" height="{BOX}" rx="5" fill="#eef3f9" stroke="#3566a0"/>'
            f'<text x="24" y="{top + 17}" font-weight="bold">{name}</text>'
            f'<text x="130" y="{top + 17}" fill="#333333">{ABOUT.get(name, "")}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def main() -> int:
    names = layers()
    drawing = svg(names, edges(names))
    if "--check" in sys.argv:
        if PICTURE.read_text("utf-8") != drawing:
            print(f"{PICTURE.relative_to(ROOT)} is out of date: run python scripts/package_graph.py", file=sys.stderr)
            return 1
        return 0
    PICTURE.write_text(drawing, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
