"""LaBo's selection: 50 of 500 candidates for each of 200 classes, beside greedy selections one would write first.

    python bench/labo.py [--classes 200] [--candidates 500] [--k 50] [--images 6000] [--threads 2] [--json FILE]

Texts are unit vectors of 512 entries in clusters of ten near-paraphrases, images are texts of their class with noise.
Ours is everything from image and text vectors to the choice: class means, discriminability, coverage, lazy greedy.
`dense` computes the gains of all candidates at every pick, vectorized; `naive` computes the objective of every set that
is one larger from its definition. Both are given discriminability and cosines, and run for a few classes; the rest is
extrapolated, as the table says. Choices must be the same.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conceptlens.core.files import write_json
from conceptlens.methods.fitted.data import FitImages
from conceptlens.methods.fitted.data import Floats as Texts
from conceptlens.methods.labo import class_vectors
from conceptlens.nn.selection.submodular import Floats, greedy, likelihood, negative_entropy, objective

WIDTH, PARAPHRASES = 512, 10
PROMISE = 60.0  # seconds, on two cores


def make(classes: int, candidates: int, images: int) -> tuple[FitImages, Texts]:
    """Images with classes, and texts (classes · candidates, 512): those of a class stand together."""
    chance = np.random.default_rng(0)
    topics = chance.standard_normal((classes * -(-candidates // PARAPHRASES), WIDTH), np.float32)
    topics += 2 * chance.standard_normal(WIDTH, np.float32)  # texts on one subject are alike
    per_class = np.repeat(topics.reshape(classes, -1, WIDTH), PARAPHRASES, 1)[:, :candidates]
    text = per_class + 0.5 * chance.standard_normal(per_class.shape, np.float32)
    text /= np.linalg.norm(text, axis=-1, keepdims=True)
    labels = chance.integers(0, classes, images)
    shown = text[labels, chance.integers(0, candidates, images)]
    vectors = shown + 0.1 * chance.standard_normal(shown.shape, np.float32)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    return FitImages(vectors, labels, np.zeros((images, 0), np.int8)), text.reshape(-1, WIDTH)


def ours(images: FitImages, text: Texts, classes: int, k: int) -> tuple[list[list[int]], Floats, dict[str, float]]:
    """The choice of every class, the discriminability, and the seconds of each step."""
    start = time.perf_counter()
    similarity = (class_vectors(images, classes) @ text.T).astype(np.float64)
    value = negative_entropy(likelihood(similarity, "softmax"))
    middle = time.perf_counter()
    chosen = [greedy(value[at], likeness(text[at]), k).tolist() for at in rows(len(text), classes)]
    end = time.perf_counter()
    return chosen, value, {"measures": middle - start, "greedy": end - middle, "all": end - start}


def rows(n: int, classes: int) -> list[slice]:
    return [slice(start, start + n // classes) for start in range(0, n, n // classes)]


def likeness(text: Texts) -> Floats:
    return (text @ text.T).astype(np.float64)


def dense(value: Floats, covers: Floats, k: int) -> list[int]:
    covered, chosen, gone = np.zeros(len(value)), [], np.zeros(len(value))
    for _ in range(k):
        gains = value + np.maximum(np.maximum(covers, 0) - covered, 0).sum(1) + gone
        chosen.append(int(gains.argmax()))
        gone[chosen[-1]] = -np.inf
        covered = np.maximum(covered, covers[chosen[-1]])
    return chosen


def naive(value: Floats, covers: Floats, k: int) -> list[int]:
    chosen: list[int] = []
    for _ in range(k):
        left = [at for at in range(len(value)) if at not in chosen]
        reached = [objective(np.array([*chosen, at]), value, covers, alpha=1, beta=1) for at in left]
        chosen.append(left[int(np.argmax(reached))])
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for option, default in (("classes", 200), ("candidates", 500), ("k", 50), ("images", 6000), ("threads", 2)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--naive-classes", type=int, default=2, help="classes that the other two select for")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    images, text = make(given.classes, given.candidates, given.images)
    chosen, value, seconds = ours(images, text, given.classes, given.k)
    print(f"{given.classes} classes × {given.candidates} candidates, {given.k} each, {os.cpu_count()} cores")
    print(f"ours    {seconds['all']:8.2f} s  (measures {seconds['measures']:.2f}, greedy {seconds['greedy']:.2f})")
    result: dict[str, Any] = {"settings": {key: value for key, value in vars(given).items() if key != "json"}}
    result |= {"cores": os.cpu_count(), "seconds": seconds, "promise": PROMISE, "kept": seconds["all"] <= PROMISE}
    for name, select in (("dense", dense), ("naive", naive)):
        start, same = time.perf_counter(), 0
        for number, at in list(enumerate(rows(len(text), given.classes)))[: given.naive_classes]:
            same += select(value[at], likeness(text[at]), given.k) == chosen[number]
        some = time.perf_counter() - start
        whole = some / given.naive_classes * given.classes
        times = whole / seconds["greedy"]
        print(
            f"{name:7} {whole:8.2f} s  (from {given.naive_classes} classes in {some:.2f} s), {times:.1f} times "
            f"our greedy; the same choice for {same} of {given.naive_classes}"
        )
        result[name] = {"seconds": some, "classes": given.naive_classes, "extrapolated": whole, "same": same}
    if given.json:
        write_json(given.json, result)


if __name__ == "__main__":
    main()
