"""Records what small seeded runs of every method and workflow compute, and compares a later version with the record.

The record was made by version 0.1.0, before the packages were rearranged. A refactoring must reproduce it bit by bit
on the machine that wrote it, and within 1e-6 elsewhere.

    python scripts/golden.py make FOLDER      # writes FOLDER/record.json.xz
    python scripts/golden.py check FOLDER     # compares; --exact asks for equal bits, --only TEXT for some entries
"""

import argparse
import base64
import json
import lzma
import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from PIL import Image
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import conceptlens as cl
from conceptlens import api, cortex, gig
from conceptlens.core.registry import METHODS
from conceptlens.core.upgrades import upgrade
from conceptlens.cortex.extractors.trained import InformationExtractor
from tests.training.tiny import tiny
from tests.workflows.compare.fakes import comparison_file

ROOT = Path(__file__).resolve().parents[1]
# What differs between two runs of the same code, or names a place or a version rather than a result.
VOLATILE = {
    "seconds", "time", "took_ms", "created", "changed", "started", "finished", "version", "path", "folder", "out",
    "weights", "weights_hash", "hash", "recipe", "run", "id", "machine", "environment", "study", "command", "picture",
    "source", "file", "images_per_second", "memory_mb", "runs",
}  # fmt: skip
ENCODER = {
    "name": "builtin/vit-mini",
    "image_size": 32,
    "text": "builtin/random-text/16",
    "options": {"width": 32, "depth": 2, "heads": 2, "text_width": 16},
}
Record = dict[str, Any]


def leaves(tree: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every number and word of a document with the way to it."""
    if isinstance(tree, dict):
        for key in sorted(tree):
            if key not in VOLATILE:
                yield from leaves(tree[key], f"{place}/{key}")
    elif isinstance(tree, list):
        for index, entry in enumerate(tree):
            yield from leaves(entry, f"{place}/{index}")
    else:
        yield place, tree


def document(path: Path) -> Record:
    return dict(leaves(json.loads(path.read_text(encoding="utf-8"))))


def tensors(path: Path) -> Record:
    arrays = load_file(path)
    return {
        name: {
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "data": base64.b64encode(value.tobytes()).decode(),
        }
        for name, value in sorted(arrays.items())
    }


# What the class head of each preset read in version 0.1, trained jointly
FIRST_BOTTLENECK = dict.fromkeys(("cbm", "coop-cbm", "dot-cbm", "ivq-cbm", "magnet-cbm", "mvp-cbm"), "logit") | {
    "explicd": "probability",
    "pf-cbm": "probability",
}


def train(folder: Path, method: str) -> Path:
    recipe = tiny(folder, encoder=ENCODER, training__epochs=2)
    recipe["method"] = {"name": method}
    if method in FIRST_BOTTLENECK:
        old = {"class_gradient": 1.0, "randint": 0.0, "calibrate": False, "head_rate": 1.0}
        recipe["method"] |= {"space": FIRST_BOTTLENECK[method], **old}
    if method == "cbm":
        recipe["regularizer"] = {"name": "none"}
    if method.startswith("pf-cbm"):
        recipe["method"] |= {"sigma": 5.0}  # whatever the grid
    if method == "ivq-cbm":  # as its defaults were in version 0.1
        recipe["regularizer"] = {"name": "ivq", "weight": 1.0}
        recipe["training"]["loss"] = {"concept_weight": 1.0}
    recipe.pop("training" if method.startswith(("pcbm", "lf-", "labo", "clear", "pf-", "zero")) else "seed", None)
    recipe.setdefault("training", {"threads": 1})
    return Path(cl.train(recipe, quiet=True).path)


def method_entry(folder: Path, method: str) -> Record:
    """Metrics, kept predictions, and explanations of three test images, of one method."""
    run = train(folder / method, method)
    record: Record = {
        "metrics": document(run / "metrics.json"),
        "predictions": tensors(run / "predictions/test.safetensors"),
    }
    if method != "black-box":
        told = api.explain(run, n=3)
        record["explanations"] = [document(item.path) for item in told.items if item.path]
    images = folder / "some"
    if not images.exists():
        images.mkdir()
        for number in range(3):
            pixels = np.random.default_rng(number).integers(0, 255, (40, 36, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(images / f"{number}.png")
    predicted = folder / f"{method}.json"
    api.predict(run, [images], out=predicted)
    answers = json.loads(predicted.read_text("utf-8"))["predictions"]
    record["files"] = dict(leaves([{key: row[key] for key in row if key != "image"} for row in answers]))
    return record


def measures_entry(folder: Path) -> Record:
    """What is measured of one run: corrections, leakage, audit, localization, faithfulness, evaluation."""
    run = train(folder / "measured", "ivq-cbm")
    api.interventions(run, to="quantile")  # as version 0.1 wrote answers
    api.leakage(run, permutations=99)
    api.localize(run)
    api.faithfulness(run, n=4, steps=14)  # as version 0.1 did
    api.audit(run)
    evaluation = folder / "evaluation.json"
    api.evaluate(run, split="val", out=evaluation)
    # By the names that version 0.1 gave them.
    files = {
        "trust/interventions.json": "trust/interventions.json",
        "trust/leakage.json": "trust/leakage.json",
        "localisation.json": "localization.json",
        "faithfulness.json": "faithfulness.json",
        "audit/audit.json": "audit/audit.json",
    }
    return {old: document(run / new) for old, new in files.items()} | {"evaluation": document(evaluation)}


def decompose_entry(folder: Path) -> Record:
    images = folder / "images"
    images.mkdir()
    draw = np.random.default_rng(0)
    for number in range(18):
        pixels = draw.integers(0, 80, (24, 24, 3))
        x, y = draw.integers(0, 14, 2)
        pixels[y : y + 10, x : x + 10, number % 3] = 250
        Image.fromarray(pixels.astype(np.uint8)).save(images / f"{number:02d}.png")
    few: dict[str, Any] = {"per_image": 2, "k": 6, "examples": 2, "validate_on": 2, "crops": 3, "most_steps": 16}
    own = ROOT / "tests/gig/own_model.py"
    made = folder / "decompose"
    gig.decompose(f"{own}:build", images, layers=["one", "two"], out=made, **few)
    return {name: document(made / name) for name in ("graph.json", "validation.json")}


def codebook_entry(folder: Path) -> Record:
    run, study = train(folder / "codes", "ivq-cbm"), folder / "codebook"

    def drawn_anywhere(model: Any, concepts: Any, network: str, options: Any, seed: int) -> InformationExtractor:
        """Version 0.1 drew the first weights from wherever torch's generator stood."""
        return InformationExtractor.make(network, model.codebook, model.grid, concepts, **options)

    with mock.patch("conceptlens.cortex.study.new_extractor", drawn_anywhere):
        cortex.extract(
            run, out=study, data="shapes", samples_per_concept=12, epochs=1, batch_size=8, filters=4, hidden=8
        )
    cortex.tokens(study, tokens_per_image=4, noise_samples=2, samples_per_concept=5)
    return {name: document(study / "codebook" / name) for name in ("tokens.json", "grids.json")}


def compare_entry(folder: Path) -> Record:
    old: dict[str, Any] = {  # ivq-cbm's in version 0.1
        "training.learning_rate": 1e-4,
        "training.loss.concept_weight": 1.0,
        "method.space": "logit",
        "method.class_gradient": 1.0,
        "method.randint": 0.0,
        "method.calibrate": False,
        "method.head_rate": 1.0,
    }
    rows = {"one": {"name": "ivq", "weight": 1.0}, "two": {"name": "l2"}}
    recipes = {name: {"set": {**old, "regularizer": kind}, "random_text": False} for name, kind in rows.items()}
    api.compare(comparison_file(folder, recipes=recipes), out=folder / "compare", quiet=True)
    return {"results": document(folder / "compare/results.json")}


def study_entry(folder: Path) -> Record:
    run = train(folder / "shown", "ivq-cbm")
    api.make_study(run, out=folder / "study", n=12, attention=2, catch_share=0.25, seed=3)
    return {"key": document(folder / "study/key.json")}


def entries() -> dict[str, Callable[[Path], Record]]:
    methods = {f"method/{name}": lambda folder, name=name: method_entry(folder, name) for name in METHODS.names()}
    return {
        **methods,
        "measures": measures_entry,
        "decompose": decompose_entry,
        "codebook": codebook_entry,
        "compare": compare_entry,
        "study": study_entry,
    }


def tree_of(record: Record) -> Any:
    """The document that `leaves` took apart."""
    if "" in record:
        return record[""]
    parts: dict[str, Record] = {}
    for place, value in record.items():
        key, _, rest = place[1:].partition("/")
        parts.setdefault(key, {})[f"/{rest}" if rest else ""] = value
    tree = {key: tree_of(inner) for key, inner in parts.items()}
    numbers = [str(place) for place in range(len(tree))]
    return [tree[number] for number in numbers] if set(tree) == set(numbers) else tree


def upgraded(record: Any) -> Any:
    """Documents of version 0.1 by today's keys."""
    if isinstance(record, list):
        return [upgraded(entry) for entry in record]
    if not isinstance(record, dict) or "dtype" in record:
        return record
    if not record or not all(key.startswith("/") for key in record):
        return {key: upgraded(value) for key, value in record.items()}
    return dict(leaves(upgrade(tree_of(record), where="record", schema=1)))


def differences(expected: Any, current: Any, place: str, exact: bool) -> Iterator[str]:
    """What differs: numbers by more than 1e-6 of their size unless bits must be equal, and the classes that are named.

    Other words may change.
    """
    if isinstance(expected, dict) and "dtype" in expected:
        if expected == current:
            return
        first, second = (
            np.frombuffer(base64.b64decode(entry["data"]), entry["dtype"]).reshape(entry["shape"])
            for entry in (expected, current)
        )
        if exact or first.shape != second.shape or not np.allclose(first, second, rtol=1e-6, atol=1e-6, equal_nan=True):
            yield f"{place}: arrays differ"
    elif isinstance(expected, dict):
        for key, value in expected.items():
            words = isinstance(value, str) and not key.endswith(("/predicted", "/about", "/rival"))
            if words or key == "/schema":
                continue
            if key not in current:
                yield f"{place}{key}: only in the record"
            else:
                yield from differences(value, current[key], f"{place}{key} ", exact)
    elif isinstance(expected, list) and len(expected) == len(current):
        for index, (first, second) in enumerate(zip(expected, current, strict=True)):
            yield from differences(first, second, f"{place}{index} ", exact)
    elif isinstance(expected, float) and isinstance(current, float) and not exact:
        if not math.isclose(expected, current, rel_tol=1e-6, abs_tol=1e-6):
            yield f"{place}: {expected} became {current}"
    elif expected != current:
        yield f"{place}: {expected!r} became {current!r}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "check"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    torch.set_num_threads(1)
    chosen = {name: make for name, make in entries().items() if args.only in name}
    record: Record = {}
    for name, make in chosen.items():
        with tempfile.TemporaryDirectory() as folder:
            record[name] = make(Path(folder))
        print(name, flush=True)
    path = args.folder / "record.json.xz"
    if args.what == "make":
        args.folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.compress(json.dumps(record, sort_keys=True).encode(), preset=9 | lzma.PRESET_EXTREME))
        return 0
    expected = {name: value for name, value in json.loads(lzma.decompress(path.read_bytes())).items() if name in record}
    found = json.loads(json.dumps(record, sort_keys=True))
    wrong = list(differences(upgraded(expected), found, "", args.exact))
    print("\n".join(wrong) or f"equal: {len(found)} entries")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
