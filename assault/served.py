"""What a server is attacked with: a folder of every kind of result, in which every name that can be chosen is markup.

An element of the class `struck` or with the attribute `data-struck` in a page is a name that was taken for markup. Only
the builder of this module knows the names, so a page without the text `STRUCK` was not tested.
"""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
from PIL import Image

import conceptlens as cl
from conceptlens import api
from conceptlens.workflows.compare.compare import compare
from conceptlens.workflows.study.analyze import analyze_study
from conceptlens.workflows.study.key import Key
from conceptlens.workflows.study.simulate import Simulated, simulate
from tests.training.tiny import tiny
from tests.web.decomposition import draw_graph, write_decomposition
from tests.web.studio_world import make_studies
from tests.workflows.compare.fakes import comparison_file, finish, jobs_of
from tests.workflows.study.world import make_key, make_pack

STRUCK = "<img class=struck src=x onerror=window.struck=1>"
QUOTED = "\" ' data-struck=1 onfocus=window.struck=1 autofocus x="
ENDED = "</script></style></title><b class=struck>"
CONCEPTS = f"""
name: '{STRUCK}'
groups:
  '{STRUCK}': {{column: color, values: {{'{STRUCK} red': red, '{QUOTED.replace("'", "")} blue': blue}}}}
  marks: {{kind: independent, values: ['{ENDED}'], columns: {{'{ENDED}': spot}}}}
"""


def make_served(root: Path) -> Path:
    """The folder to serve; what the runs in it were made from lies beside it."""
    runs = root / "runs"
    run = _train(root, runs / f"model {STRUCK}")
    api.interventions(run, resamples=10)
    api.leakage(run, resamples=10, permutations=0)
    api.faithfulness(run, n=2, steps=2)
    api.audit(run, resamples=10)
    api.share(run, runs / "share.html", n=6)
    shutil.copytree(run, runs / "second")
    blind = {"method": {"name": "black-box"}, "regularizer": {"name": "none"}, "training__epochs": 1}
    cl.train(tiny(runs / "blind", **blind), quiet=True)
    (runs / "broken").mkdir()
    (runs / "broken" / "run.json").write_text(f'{{"schema": "{STRUCK}", "status":', "utf-8")
    write_decomposition(runs / "graph", {"graph.json": draw_graph(outputs=(STRUCK, QUOTED, ENDED))})
    _compare(root, runs)
    shutil.copytree(make_studies(root / "codes"), runs / "codes")
    _studies(runs)
    return runs


def _train(root: Path, out: Path) -> Path:
    """A model of two classes on a table of drawn images."""
    data = root / "data"
    data.mkdir(parents=True)
    generator = np.random.default_rng(0)
    with (data / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "class", "color", "spot"])
        for number in range(48):
            kind, red = number % 2, number // 2 % 2
            pixels = generator.integers(0, 60, (24, 32, 3), dtype=np.uint8)
            pixels[:, :, 0 if red else 2] += 150
            pixels[: 12 * kind + 6, :16, 1] += 150
            name = f"{STRUCK} {number}.png"
            Image.fromarray(pixels).save(data / name)
            color = f"{STRUCK} red" if red else f"{QUOTED.replace(chr(39), '')} blue"
            writer.writerow([name, (STRUCK, ENDED)[kind], color, ("yes", "no")[kind]])
    (root / "concepts.yaml").write_text(CONCEPTS, "utf-8")
    recipe = tiny(out, data={"source": str(data / "table.csv")}, training__epochs=2)
    return cl.train({**recipe, "concepts": str(root / "concepts.yaml")}, quiet=True).path


def _compare(root: Path, runs: Path) -> None:
    """Its names are checked when they are read from a recipe; whoever writes the result can choose others."""
    rows = {"good": {"random_text": False}, "poor": {"set": {"regularizer": "l2"}, "random_text": False}}
    shapes = {"source": "shapes", "shapes": {"n": 48, "size": 32}}
    file = comparison_file(root, name="three ways", recipes=rows, data={"drawn": shapes})
    jobs, places = jobs_of(file, runs / "compared")
    for number, job in enumerate(jobs):
        finish(job, places, quality=0.5 + number % 3, n=40, bypass="a way around")
    compare(file, out=runs / "compared", quiet=True)
    result = runs / "compared" / "results.json"
    text = result.read_text("utf-8")
    for old, new in {"good": STRUCK, "three ways": STRUCK, "drawn": ENDED, "a way around": QUOTED}.items():
        text = text.replace(old, json.dumps(new)[1:-1])
    result.write_text(text, "utf-8")
    api.rehash(runs / "compared")  # whoever changes a folder can write its hashes as well


def _studies(runs: Path) -> None:
    key = make_key(images=4, catch=2)
    for old, new in {"axis 0": STRUCK, "axis 1": QUOTED, "birds": STRUCK}.items():
        key = Key.model_validate_json(key.model_dump_json().replace(old, new.replace('"', '\\"')))
    for name in ("closed", "open"):
        pack = make_pack(runs / name, key)
        for rater in ("a", "b"):
            response = simulate(key, Simulated(rater)).model_copy(update={"comment": f"{STRUCK} {QUOTED}"})
            response.write(pack / "responses" / f"responses-{key.study}-{rater}.json")
    analyze_study(runs / "closed")
