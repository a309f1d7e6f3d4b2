"""All pictures of a run's graphs, each made once: crops of concepts, and where they are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from PIL import Image

from conceptlens.gig.attribution.srd import Graph as Shares
from conceptlens.gig.dictionaries.layer_concepts import LayerConcepts
from conceptlens.gig.document import Crop, Graph
from conceptlens.gig.images import Gallery
from conceptlens.gig.network import Network
from conceptlens.gig.pages.page import GraphPictures, address
from conceptlens.gig.receptive_field_crops import box_of, draw_crop, placed

BATCH = 8


@dataclass(frozen=True)
class Sampled:
    """Where the samples of a layer come from."""

    image: torch.Tensor  # (N,) number in the gallery
    position: torch.Tensor  # (N,)


@dataclass
class PictureCache:
    """Makes pictures of samples, and remembers them."""

    network: Network
    gallery: Gallery
    samples: Mapping[str, Sampled]
    concepts: Mapping[str, LayerConcepts]
    crops: int
    rule: str = "srd"
    taken: dict[tuple[str, int], tuple[str, tuple[float, float, float, float]]] = field(default_factory=dict)

    def fill(self, graph: Graph) -> None:
        """Write into a graph's nodes which samples show them."""
        wanted: dict[str, set[int]] = {}
        for node in graph.nodes:
            if node.kind == "concept" and node.layer is not None and node.concept is not None:
                wanted.setdefault(node.layer, set()).update(self._nearest(node.layer, node.concept))
        for layer, samples in wanted.items():
            self.take(layer, samples)
        for node in graph.nodes:
            if node.kind != "concept" or node.layer is None or node.concept is None:
                continue
            own = self.concepts[node.layer]
            node.samples = int((own.labels == node.concept).sum())
            node.crops = [
                Crop(
                    image=self.gallery.names[int(self.samples[node.layer].image[sample])],
                    position=int(self.samples[node.layer].position[sample]),
                    cosine=round(float(own.cosines[node.concept, place]), 4),
                    box=self.taken[node.layer, sample][1],
                )
                for place, sample in enumerate(self._nearest(node.layer, node.concept))
            ]

    def _nearest(self, layer: str, concept: int) -> list[int]:
        found: list[int] = self.concepts[layer].nearest[concept, : self.crops].tolist()
        return found

    def crops_of(self, layer: str, concept: int) -> list[str]:
        """Addresses of the pictures that show a concept, best first; `fill` has taken them."""
        return [self.taken[layer, sample][0] for sample in self._nearest(layer, concept)]

    def image(self, name: str) -> Image.Image:
        """An image of the gallery, by its name."""
        return self.gallery.picture(self.gallery.names.index(name))

    def take(self, layer: str, samples: Iterable[int]) -> None:
        """Pictures of samples that have none yet."""
        missing = sorted(sample for sample in samples if (layer, sample) not in self.taken)
        where = self.samples[layer]
        for start in range(0, len(missing), BATCH):
            some = missing[start : start + BATCH]
            numbers = where.image[some].tolist()
            pixels = torch.stack([self.gallery.pixels(number) for number in numbers])
            shares = Shares(self.network, pixels, [layer], self.rule, whole=False)  # type: ignore[arg-type]
            fields = shares.receptive_field(layer, where.position[some]).detach().double().cpu().numpy()
            for sample, number, field_ in zip(some, numbers, fields, strict=True):
                values = np.asarray(field_, dtype=np.float64)
                picture = draw_crop(self.gallery.picture(number), values)
                self.taken[layer, sample] = (address(picture), box_of(values))

    def of_graph(self, graph: Graph, pictures: Mapping[str, Image.Image] | None = None) -> GraphPictures:
        """Pictures of a graph; `pictures` are of images that are not in the gallery, such as disturbed ones."""
        numbers = {name: number for number, name in enumerate(self.gallery.names)}

        def picture(name: str) -> Image.Image:
            return pictures[name] if pictures and name in pictures else self.gallery.picture(numbers[name])

        crops: dict[str, list[tuple[str, str]]] = {}
        places: dict[str, list[tuple[str, str]]] = {}
        for node in graph.nodes:
            if node.kind != "concept" or node.layer is None or node.concept is None:
                continue
            crops[node.id] = [
                (f"{each.cosine:.2f} · {each.image}", self.taken[node.layer, sample][0])
                for each, sample in zip(node.crops, self._nearest(node.layer, node.concept), strict=True)
            ]
            places[node.id] = [(each.image, address(placed(picture(each.image), each))) for each in node.places]
        shown = graph.images if len(graph.images) <= 4 else []
        return GraphPictures(crops, places, [(name, address(picture(name), 160)) for name in shown])
