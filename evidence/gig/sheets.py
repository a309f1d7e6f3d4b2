"""Concepts to be looked at: a row of nearest samples for each of some, and how often these share their class."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from dictionaries import Coder
from PIL import Image
from subjects import Subject

from conceptlens.gig.attribution.srd import Graph
from conceptlens.gig.dictionaries.clusters import nearest
from conceptlens.gig.receptive_field_crops import draw_crop
from conceptlens.gig.samples import Samples

CONCEPTS, NEAR = 10, 10
SIDE = 53


def draw_sheets(subject: Subject, layer: str, samples: Samples, coder: Coder, out: Path) -> dict[str, Any]:
    """A picture with a row for each of some concepts, drawn evenly; the class purity of all of them."""
    device = coder.vectors.device
    vectors = samples.features().to(device) - coder.center
    rows, cosines = nearest(coder.vectors, vectors, 4 * NEAR)
    images = samples.image.to(device)[rows]  # (k, 4 n): of each image only the best sample counts
    first = _first_of_each(images.cpu())
    lives = coder.vectors.norm(dim=1).cpu() > 1e-6
    classes = subject.learn.classes[samples.image]
    purity, near = [], []
    chosen: dict[int, list[int]] = {}
    spread = np.linspace(0, len(rows) - 1, min(CONCEPTS, len(rows))).round().astype(int).tolist()
    for concept in torch.nonzero(lives).flatten().tolist():
        places = torch.nonzero(first[concept]).flatten()[:NEAR]
        own = rows[concept].cpu()[places]
        counts = torch.bincount(classes[own])
        purity.append(float(counts.max()) / len(own))
        near.append(float(cosines[concept].cpu()[places].mean()))
        if concept in spread:
            chosen[concept] = own.tolist()
    page = Image.new("RGB", (NEAR * (SIDE + 3), max(1, len(chosen)) * (SIDE + 3)), (255, 255, 255))
    for line, members in enumerate(chosen.values()):
        numbers = samples.image[members].tolist()
        pixels = subject.learn.pixels[numbers].float() / 255
        graph = Graph(subject.network, pixels.to(device), [layer])
        fields = graph.receptive_field(layer, samples.position[members]).detach().double().cpu().numpy()
        for column, (number, field) in enumerate(zip(numbers, fields, strict=True)):
            picture = Image.fromarray(subject.learn.pixels[number].permute(1, 2, 0).numpy())
            page.paste(draw_crop(picture, field, SIDE), (column * (SIDE + 3), line * (SIDE + 3)))
    page.save(out, "WEBP", quality=70, method=6)
    chance = torch.bincount(classes).double() / len(classes)
    return {
        "layer": layer,
        "maker": coder.maker,
        "concepts": len(purity),
        "class_purity": float(np.mean(purity)),
        "largest_class": float(chance.max()),
        "mean_cosine": float(np.mean(near)),
        "shown": list(chosen),
        "file": out.name,
    }


def _first_of_each(images: torch.Tensor) -> torch.Tensor:
    """Whether an image is seen for the first time in its row, (k, n)."""
    order = images.sort(dim=1, stable=True)
    new = torch.ones_like(images, dtype=torch.bool)
    new[:, 1:] = order.values[:, 1:] != order.values[:, :-1]
    return torch.zeros_like(new).scatter_(1, order.indices, new)
