"""Minutes rather than seconds: `make test-all`."""

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

import conceptlens as cl
from conceptlens.core.files import read_json, write_text
from conceptlens.recipes.parse import load_recipe, recipe_yaml
from tests.training.test_resume import same
from tests.training.tiny import tiny

pytestmark = pytest.mark.slow


def test_the_demo_keeps_its_promise(tmp_path: Path) -> None:
    run = cl.train("blood-cells/ivq-cbm", {"out": str(tmp_path / "demo")}, quiet=True)
    test = read_json(run.path / "metrics.json")["splits"]["test"]
    assert test["class"]["balanced_accuracy"] >= 0.93
    assert test["concept"]["balanced_accuracy"] >= 0.80
    assert test["concept"]["groups_at_chance"]["count"] == 0
    assert test["slots"]["empty_slots"] == []
    assert test["codebook"]["use"] > 0.9
    assert test["slots"]["assignment_entropy"] > 0.3
    _warns_of_other_images(run)


def _warns_of_other_images(run: cl.TrainedModel) -> None:
    """A screenshot is no blood cell; cells that nobody has seen are."""
    page = Image.new("RGB", (640, 480), "white")
    draw = ImageDraw.Draw(page)
    for line in range(20):
        draw.text((10, 10 + 22 * line), "File  Edit  View  The quick brown fox jumps over the lazy dog", fill="black")
    noise = np.random.default_rng(0).integers(0, 256, (256, 256, 3), dtype=np.uint8)
    others = [page, noise, Image.new("RGB", (256, 256), "white"), Image.new("RGB", (256, 256), (230, 200, 205))]
    assert all(item.unlike_training for item in run.predict(others))
    _, rows = run.reported_images()
    cells = run.predict([run.source.read(row) for row in rows.tolist()])
    assert np.mean([item.unlike_training for item in cells]) <= 0.03
    truth = [run.classes[label] for label in run.source.examples.labels[rows]]
    covered = [name in item.prediction_set for name, item in zip(truth, cells, strict=True)]
    assert np.mean(covered) >= 0.86  # 0.9, and the chance of a calibration with 200 images


def test_shapes_teach_colors_and_patterns(tmp_path: Path) -> None:
    """From scratch on 1,800 drawings, the small encoder reads colors and patterns; the shapes of parts need more."""
    run = cl.train("shapes/ivq-cbm", {"out": str(tmp_path / "shapes"), "training": {"epochs": 15}}, quiet=True)
    test = read_json(run.path / "metrics.json")["splits"]["test"]
    auc = {row["group"]: row["auc"] for row in test["concept"]["per_group"]}
    assert test["class"]["balanced_accuracy"] > 0.6  # chance: 0.25
    assert min(auc["body colour"], auc["leg colour"]) > 0.9
    assert auc["body pattern"] > 0.85


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Whatever the moment, the result is that of an uninterrupted run, bit for bit."""
    changes = {"training__epochs": 40, "training__ema": 0.9}
    whole = cl.train(tiny(tmp_path / "whole", **changes), quiet=True).path
    out, recipe = tmp_path / "torn", tmp_path / "recipe.yaml"
    write_text(recipe, recipe_yaml(load_recipe(tiny(out, **changes))))
    chance, kills, words = random.Random(0), 0, ["train", str(recipe)]
    for _ in range(40):
        process = subprocess.Popen([sys.executable, "-m", "conceptlens", *words, "--quiet"], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not (out / "history.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        started = len((out / "history.jsonl").read_bytes()) if (out / "history.jsonl").exists() else 0
        while process.poll() is None and len((out / "history.jsonl").read_bytes()) == started:
            time.sleep(0.02)  # until this process trains
        time.sleep(chance.uniform(0.0, 1.5))
        kills += process.poll() is None
        process.kill()
        process.wait()
        words = ["resume", str(out)]
        if read_json(out / "run.json")["status"] == "done":
            break
    assert kills >= 3
    cl.resume(out, quiet=True)
    same(whole, out)


MEMORY = """
import resource, sys
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.shapes import Shapes
from conceptlens.recipes import ShapesConfig
import numpy as np
source = Shapes(ShapesConfig(n=int(sys.argv[1]), size=64))
reader = PixelReader(source, 64, cache_mb=1)
rng = np.random.default_rng(0)
for _ in range(60):
    reader.batch(rng.integers(len(source), size=32))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def test_memory_does_not_grow_with_the_images() -> None:
    few, many = (
        float(subprocess.check_output([sys.executable, "-c", MEMORY, str(n)], text=True)) for n in (1_000, 100_000)
    )
    assert many - few < 150  # megabytes: names and labels of 99,000 images more; their pixels would be 1,200
