"""Finished runs without training: the files that a comparison reads, with predictions of a known quality."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save, save_file

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import dump_yaml, write_bytes, write_json, write_text
from conceptlens.recipes.parse import recipe_yaml
from conceptlens.runs.folder import RunFolder
from conceptlens.training.paths import with_absolute_paths
from conceptlens.workflows.compare.compare import open_comparison
from conceptlens.workflows.compare.jobs import Job
from conceptlens.workflows.compare.state import Places, all_jobs

CONCEPTS = ConceptSet.from_yaml(
    "classes: [left, right]\ngroups:\n  size: {values: [big, small]}\n  extras: {kind: independent, values: [spots]}\n"
)


def comparison_file(folder: Path, **changes: Any) -> Path:
    """A comparison of two rows on drawn shapes; nothing of it is trained unless a test does."""
    tree: dict[str, Any] = {
        "schema": 1,
        "base": {
            "encoder": {
                "name": "builtin/vit-mini",
                "image_size": 32,
                "text": "builtin/hashed-text",
                "options": {"width": 16, "depth": 1, "heads": 2},
            },
            "method": "ivq-cbm",
            "training": {"epochs": 1, "batch_size": 16, "warmup": 0, "rank_every": 0, "threads": 1},
            "metrics": {"bootstrap": 0, "rank_images": 2},
        },
        "recipes": {"one": {"random_text": False}, "two": {"set": {"regularizer": "l2"}, "random_text": False}},
        "data": {"shapes": {"source": "shapes", "shapes": {"n": 48, "size": 32}}},
        "seeds": [0, 1],
        "statistics": {"resamples": 100, "permutations": 200},
    } | changes
    path = folder / "comparison.yaml"
    write_text(path, dump_yaml(json.loads(json.dumps(tree))))  # copied, so that YAML needs no aliases
    return path


def jobs_of(path: Path, out: Path) -> tuple[list[Job], Places]:
    comparison, folder = open_comparison(path, out)
    return [job for job in all_jobs(comparison, folder) if isinstance(job, Job)], Places(folder)


def answers(n: int, quality: float, seed: int) -> dict[str, npt.NDArray[Any]]:
    """Scores of n images whose truth depends on n only; higher quality, better scores."""
    truth = np.random.default_rng(0)
    labels = truth.integers(2, size=n)
    marks = truth.integers(2, size=(n, 2))
    concepts = np.stack([marks[:, 0], 1 - marks[:, 0], marks[:, 1]], axis=1).astype(np.int8)
    noise = np.random.default_rng(seed + 1)
    logits = noise.normal(size=(n, 2)) + quality * np.eye(2)[labels]
    return {
        "logits": logits.astype(np.float32),
        "concept_logits": (noise.normal(size=(n, 3)) + quality * concepts).astype(np.float32),
        "labels": labels.astype(np.int64),
        "concepts": concepts,
    }


def write_predictions(
    path: Path, tensors: Mapping[str, npt.NDArray[Any]], ids: Sequence[str], units: Sequence[str]
) -> None:
    words = {"ids": ids, "units": units, "classes": ["left", "right"], "task": "single", "thresholds": [0.5, 0.5]}
    header = {key: json.dumps(value) for key, value in (words | {"schema": 1}).items()}
    write_bytes(path, save({name: np.ascontiguousarray(value) for name, value in tensors.items()}, header))


def finish(
    job: Job,
    places: Places,
    *,
    quality: float = 1.0,
    n: int = 60,
    val: float = 0.5,
    rows: slice | None = None,
    by_class: bool = False,
    bypass: str | None = None,
) -> Path:
    """The run of a job as training would leave it."""
    folder = places.run(job)
    folder.mkdir(parents=True)
    concepts = dict(CONCEPTS.source)
    if by_class:
        concepts["by_class"] = {"left": {"size": "big"}, "right": {"size": "small"}}
    write_text(folder / "recipe.yaml", recipe_yaml(with_absolute_paths(job.recipe)))
    write_text(folder / "concepts.yaml", dump_yaml(concepts))
    splits: dict[str, Any] = {"val": {"class": {"balanced_accuracy": val}}}
    if job.trial is None:
        rows = rows or slice(None)
        seed = job.recipe.seed + 100 * len(job.cell.entry.name) + (job.cell.repeat or 0)
        tensors = answers(n, quality, seed)
        if by_class:
            labels = tensors["labels"]
            tensors["concepts"] = np.stack([labels == 0, labels == 1, labels == 1], axis=1).astype(np.int8)
        ids = [f"image {number:04}" for number in range(n)]
        units = [f"patient {number // 2}" for number in range(n)]
        kept = {name: value[rows] for name, value in tensors.items()}
        write_predictions(folder / "predictions" / "test.safetensors", kept, ids[rows], units[rows])
        splits["test"] = {"rank": {"effective": 7.0 + job.recipe.seed}}
    write_json(folder / "metrics.json", {"splits": splits})
    (folder / "model").mkdir()
    save_file({"model.head.weight": np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 3.0]])}, folder / "model/weights.safetensors")
    lines = [{"epoch": e, "split": "val", "rank.effective": 5.0 + e, "time": 2.0 * e} for e in range(3)]
    write_text(folder / "history.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    RunFolder(folder).update(
        status="done", data={"name": "shapes"}, method=job.recipe.method["name"], regularizer="none", bypass=bypass
    )
    write_json(places.out / "run.json", {"kind": "compare", "status": "running", "data": {}})
    write_json(places.record(job), {"id": job.id, "status": "done", "reason": None, "seconds": 12.0})
    return folder
