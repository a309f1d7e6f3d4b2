"""What clustering a part of the vectors costs: mean cosine and relative l2 against clustering all of them at once.

python evidence/real-models/clustering.py RUN OUT.jsonl

RUN is a finished or running `conceptlens decompose`: its samples are read. μ_BN is left out (zero) on both sides.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from conceptlens.gig.dictionaries.clusters import cluster
from conceptlens.gig.dictionaries.large import large_concepts
from conceptlens.gig.dictionaries.lasso import Dictionary, decompose, lambda_for
from conceptlens.gig.samples import Samples

SHARES = (0.5, 0.25, 0.125)


def relative_l2(vectors: torch.Tensor, concepts: torch.Tensor, penalty: float) -> float:
    u = decompose(vectors, Dictionary(concepts), penalty).dense()
    return float(((vectors - u @ concepts).norm(dim=1) / vectors.norm(dim=1)).mean())


def write_rows(run: Path, out: Path) -> None:
    files = tuple(sorted((run / "samples").glob("*.safetensors")))
    with safe_open(files[0], "pt") as file:
        layers = sorted(name.removeprefix("features ") for name in file.keys() if name.startswith("features "))  # noqa: SIM118
    for layer in layers:
        numbers = []
        for path in files:
            with safe_open(path, "pt") as file:
                numbers.append(file.get_tensor(f"image {layer}").long())
        samples = Samples(layer, torch.cat(numbers), torch.empty(0), torch.empty(0), files)
        vectors = samples.features()
        zero = torch.zeros(vectors.shape[1])
        k = min(len(vectors) // 16, 512)
        began = time.perf_counter()
        whole = cluster(vectors, k, zero)
        seconds = time.perf_counter() - began
        judged = vectors[:: max(1, len(vectors) // 400)]
        penalty = lambda_for(vectors, whole.concepts, 0.05)
        row: dict[str, Any] = {"layer": layer, "vectors": len(vectors), "k": k, "seconds": round(seconds, 2)}
        row["whole"] = [whole.mean_cosine, relative_l2(judged, whole.concepts, penalty)]
        for share in SHARES:
            part = large_concepts("clusters", samples, zero, k, 1, most=int(share * vectors.numel()))
            row[str(share)] = [part.mean_cosine, relative_l2(judged, part.vectors, penalty)]
        print(row, flush=True)
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    write_rows(Path(sys.argv[1]), Path(sys.argv[2]))
