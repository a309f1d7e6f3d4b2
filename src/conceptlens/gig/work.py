"""What a decomposition works on, and the stages that several processes can share: outputs and concepts of layers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from conceptlens.core.devices import best_device
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.progress import Note
from conceptlens.encoders.weights_file import read_weights
from conceptlens.gig.dictionaries.clusters import nearest
from conceptlens.gig.dictionaries.concept_vectors import concept_vectors
from conceptlens.gig.dictionaries.large import MOST_NUMBERS, large_concepts
from conceptlens.gig.dictionaries.lasso import lambda_for
from conceptlens.gig.dictionaries.layer_concepts import LayerConcepts
from conceptlens.gig.graph import Drawn, Seen
from conceptlens.gig.hook_points import block_names
from conceptlens.gig.images import Gallery, from_folder, from_objects, from_recipe
from conceptlens.gig.load_model import open_model
from conceptlens.gig.models.loaded import Asked, LoadedModel, class_names
from conceptlens.gig.models.own import open_module
from conceptlens.gig.network import Network, open_network
from conceptlens.gig.samples import Samples
from conceptlens.gig.settings import Settings

LAYERS = 4  # if none are named
MOST_OUTPUTS = 2 * 10**8  # numbers of all images and outputs that are kept in single precision
COPIES = 10  # of a layer's vectors: clusters, nearest samples and λ have at once in memory, with room to spare


@dataclass(frozen=True)
class Work:
    """What is open while a run lasts."""

    settings: Settings
    model: LoadedModel
    gallery: Gallery
    network: Network
    note: Note
    batch_size: int

    @classmethod
    def open(
        cls,
        settings: Settings,
        note: Note,
        trusted: bool,
        module: nn.Module | None,
        images: Any,
        batch_size: int,
        workers: int,
    ) -> "Work":
        asked = Asked(
            settings.weights,
            class_names(settings.classes),
            settings.prompt,
            settings.image_size,
            settings.normalize,
            settings.seed,
        )
        if module is not None:
            model = open_module(module, settings.model, asked)
        else:
            model = open_model(settings.model, asked)
        note(f"{model.name}: images of {model.image_size} pixels; {model.preprocessing.text()}")
        for name in settings.outputs or ([settings.attack] if settings.attack else []):
            if name not in model.outputs:
                raise unknown_name(model.what, name, model.outputs)
        if images is not None:
            gallery = from_objects(images, model, most=settings.n)
        elif settings.images is not None:
            gallery = from_folder(settings.images, model, most=settings.n)
        else:
            gallery = from_recipe(str(settings.data), model, most=settings.n, trusted=trusted)
        if images is None:  # objects in memory may not be made for several threads
            gallery = replace(gallery, workers=workers)
        if settings.image is not None and settings.image not in gallery.names:
            raise unknown_name("image", settings.image, gallery.names)
        device = best_device()
        layers = settings.layers or some_blocks(model)
        network = open_network(model.module.to(device), layers, image_size=model.image_size)
        return cls(settings, model, gallery, network, note, batch_size)

    @property
    def how(self) -> Drawn:
        s = self.settings
        return Drawn(
            concepts=s.concepts,
            shared=s.shared,
            path=s.path,
            target=s.target or self.model.target,
            tolerance=s.tolerance,
            most=s.most_steps,
        )

    def seen(self, number: int) -> Seen:
        return Seen(self.gallery.names[number], self.gallery.pixels(number).to(self.network.device))


def some_blocks(model: LoadedModel) -> list[str]:
    """A few of the network's blocks, evenly spread, with the last."""
    names = list(block_names(model.module))
    if len(names) <= LAYERS:
        return names
    return [names[round((place + 1) * len(names) / LAYERS) - 1] for place in range(LAYERS)]


class Outputs:
    """What the model says of images, (N, outputs), put together from batches."""

    def __init__(self, work: Work, numbers: Sequence[int]) -> None:
        small = torch.float16 if len(work.gallery) * len(work.model.outputs) > MOST_OUTPUTS else torch.float32
        self.work = work
        self._row = {number: row for row, number in enumerate(numbers)}
        self._values = torch.zeros(len(numbers), len(work.model.outputs), dtype=small)

    def add(self, numbers: Sequence[int], outputs: Tensor) -> None:
        """Outputs (B, outputs) of some images."""
        self._values[[self._row.pop(number) for number in numbers]] = _finite(self.work, outputs.cpu()).to(self._values)

    def whole(self) -> Tensor:
        """All of them, in order; images that no batch held pass the model now."""
        missing = list(self._row)
        for some, pixels in self.work.gallery.batches(self.work.batch_size, missing) if missing else ():
            self.add(some, self.work.network.logits(pixels))
            if (some[-1] + 1) % 256 < self.work.batch_size:
                self.work.note(f"outputs: {some[-1] + 1} of {len(self.work.gallery)} images")
        return self._values


def check_predictions(work: Work, outputs: Tensor) -> Tensor:
    """Outputs in which there is something to explain."""
    if len(_finite(work, outputs)) > 1 and not bool((outputs - outputs[0]).any()):
        raise UserError(
            f"{work.model.name} has exactly the same outputs for all {len(outputs)} images: its features are "
            "constant, and there are no concepts to find. Check its weights and whether the images differ."
        )
    return outputs


def _finite(work: Work, outputs: Tensor) -> Tensor:
    if not outputs.isfinite().all():
        raise UserError(f"{work.model.name} returns values that are not finite. Check that its weights are loaded.")
    return outputs


def read_predictions(path: Path, work: Work, images: int) -> Tensor:
    """What the model said of so many images, (images, outputs), from a file."""
    outputs = read_weights(path).get("outputs")
    expected = (images, len(work.model.outputs))
    if outputs is None or outputs.shape != expected or not outputs.isfinite().all():
        found = "none" if outputs is None else f"{tuple(outputs.shape)}, not all of them finite"
        raise UserError(f"{path}: expected outputs of shape {expected}, found {found}. Delete it and run again.")
    return outputs


def layer_file(run: Path, layer: str) -> Path:
    """Where a layer's concepts are kept."""
    slug = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in layer)
    return run / "layers" / f"{slug}.safetensors"


def find_concepts(work: Work, layer: str, taken: Samples) -> LayerConcepts:
    """Concepts of a layer; of more samples than memory holds, see `dictionaries.large`."""
    s, shift = work.settings, work.network.bias_shift(layer).float()
    in_memory = min(len(taken) * len(shift), MOST_NUMBERS)
    shift = shift.to(_where_to_cluster(work.network.device, in_memory))
    crops = min(s.crops, len(taken))
    first = next(taken.chunks(1))[1]
    if not bool((first - first[0]).any()) and not any(bool((part - first[0]).any()) for _, part in taken.chunks()):
        raise UserError(
            f"{layer}: its features are the same everywhere, so there are no concepts to find. Check that the model's "
            "weights are loaded, or choose another layer."
        )
    if len(taken) * len(shift) > MOST_NUMBERS:
        large = large_concepts(s.dictionary, taken, shift, s.k, crops, seed=s.seed, most=MOST_NUMBERS)
        found, labels, near, cosines, some = large.vectors, large.labels, large.nearest, large.cosines, large.some
    else:
        some = taken.features().to(shift.device)
        found, labels = concept_vectors(s.dictionary, some, shift, s.k, seed=s.seed)
        some = some - shift
        near, cosines = nearest(found, some, crops)
    penalty = lambda_for(some, found, s.sparsity)
    work.note(f"{layer}: {len(found):,} concepts of {len(taken):,} samples")
    return LayerConcepts(found, shift, penalty, labels, near, cosines)


def _where_to_cluster(device: torch.device, numbers: int) -> torch.device:
    """The GPU if what clustering makes of so many numbers fits there, else the CPU."""
    if device.type == "cuda" and torch.cuda.mem_get_info(device)[0] > COPIES * 4 * numbers:
        return device
    return torch.device("cpu")
