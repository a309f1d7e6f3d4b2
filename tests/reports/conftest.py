"""A run whose every name is hostile: classes, concepts and files that would be markup if a page let them."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import conceptlens as cl
from conceptlens.runs.folder import RunFolder
from tests.training.tiny import tiny

SCRIPT = "<script>alert(1)</script>"
CLASSES = (SCRIPT, 'a "quoted" & class')
CONCEPTS = """
groups:
  "<b>color</b>": {column: color, values: {"<i>red</i>": red, "blue' onload='x": blue}}
  marks: {kind: independent, values: ["</style><u>spot</u>"], columns: {"</style><u>spot</u>": spot}}
"""


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A finished run on a table; the data lies beside it, under `data/`."""
    root = tmp_path_factory.mktemp("hostile")
    (root / "data").mkdir()
    generator = np.random.default_rng(0)
    with (root / "data" / "table.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "class", "color", "spot"])
        for number in range(48):
            kind, red = number % 2, number // 2 % 2
            pixels = generator.integers(0, 60, (24, 32, 3), dtype=np.uint8)
            pixels[:, :, 0 if red else 2] += 150
            pixels[: 12 * kind + 6, :16, 1] += 150
            name = f'"><img src=x onerror=alert(1)> {number}.png'
            Image.fromarray(pixels).save(root / "data" / name)
            writer.writerow([name, CLASSES[kind], "<i>red</i>" if red else "blue' onload='x", ("yes", "no")[kind]])
    (root / "concepts.yaml").write_text(CONCEPTS)
    recipe = tiny(root / "run", data={"source": str(root / "data" / "table.csv")}, training__epochs=2)
    return cl.train({**recipe, "concepts": str(root / "concepts.yaml")}, quiet=True)


@pytest.fixture
def run(hostile: RunFolder, tmp_path: Path) -> RunFolder:
    """A copy that a test may damage; its data stays in place."""
    shutil.copytree(hostile.path, tmp_path / "run")
    return RunFolder.open(tmp_path / "run")
