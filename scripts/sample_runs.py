"""Makes small run folders of every kind as this version writes them, and keeps them for the tests of later versions.

    python scripts/sample_runs.py [tests/golden]     # writes schema-N.tar.xz, N the schema of run folders

Made once for each schema, when it changes: `tests/golden/test_samples.py` opens, evaluates, explains and migrates the
samples of every schema. What is in them names no place of the machine they were made on.
"""

import argparse
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import conceptlens as cl
from conceptlens import api, cortex, gig
from conceptlens.core.upgrades import SCHEMA
from tests.training.tiny import tiny
from tests.workflows.compare.fakes import comparison_file

ROOT = Path(__file__).resolve().parents[1]
ENCODER = {
    "name": "builtin/vit-mini",
    "image_size": 32,
    "text": "builtin/random-text/16",
    "options": {"width": 16, "depth": 1, "heads": 2, "text_width": 16},
}
PICTURES = (".png", ".jpg", ".svg", ".pdf", ".html")  # left out, but for the page of a study


def make() -> None:
    """Every kind of folder, in the present one."""
    data = {"source": "shapes", "shapes": {"n": 80, "size": 32}}
    cl.train(tiny("run", encoder=ENCODER, data=data, training__epochs=2), quiet=True)
    api.interventions("run", resamples=10)
    api.leakage("run", permutations=99, resamples=10)
    api.localize("run")
    api.faithfulness("run", n=2)
    api.audit("run", resamples=10)
    api.explain("run", n=2)
    few = {"samples_per_concept": 12, "epochs": 1, "batch_size": 8, "filters": 4, "hidden": 8}
    cortex.extract("run", out="codebook", data="shapes", **few)  # type: ignore[arg-type]
    cortex.tokens("codebook", tokens_per_image=4, noise_samples=2, samples_per_concept=5)
    api.make_study("run", out="study", n=10, attention=2, catch_share=0.25, seed=3)
    shutil.copy(ROOT / "tests/gig/own_model.py", "network.py")
    Path("images").mkdir()
    draw = np.random.default_rng(0)
    for number in range(18):
        pixels = draw.integers(0, 80, (24, 24, 3))
        x, y = draw.integers(0, 14, 2)
        pixels[y : y + 10, x : x + 10, number % 3] = 250
        Image.fromarray(pixels.astype(np.uint8)).save(f"images/{number:02d}.png")
    graph = {"per_image": 2, "k": 6, "examples": 2, "validate_on": 2, "crops": 3, "most_steps": 16}
    gig.decompose("network.py:build", "images", layers=["one", "two"], out="decompose", **graph)  # type: ignore[arg-type]
    api.compare(comparison_file(Path(), seeds=[0]), out="compare", quiet=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "tests" / "golden")
    archive = parser.parse_args().folder.resolve() / f"schema-{SCHEMA}.tar.xz"
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        make()
        for file in Path().rglob("*"):
            if file.suffix in PICTURES and file.name != "study.html":
                file.unlink()
        for run in Path().rglob("manifest.jsonl"):
            api.rehash(run.parent)
        with tarfile.open(archive, "w:xz", preset=9) as packed:
            for name in ("run", "codebook", "study", "decompose", "compare"):
                packed.add(name, filter=_of_nobody)
        os.chdir(ROOT)
    return 0


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uname = entry.gname = ""
    entry.uid = entry.gid = 0
    return None if Path(entry.name).name == ".lock" else entry


if __name__ == "__main__":
    raise SystemExit(main())
