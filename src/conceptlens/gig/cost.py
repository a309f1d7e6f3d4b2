"""What a decomposition will cost, said before it starts: one batch is timed, the rest is counted."""

import time
from dataclasses import dataclass

from conceptlens.gig.attribution.srd import Graph
from conceptlens.gig.images import Gallery
from conceptlens.gig.network import Network
from conceptlens.gig.settings import Settings

STEPS = 32  # of a typical integral


@dataclass(frozen=True)
class Cost:
    """Seconds and bytes."""

    images: int
    sampling: float  # outputs and samples of all images
    graphs: float  # integrals of all graphs, roughly
    samples: int  # bytes on disk

    def text(self) -> str:
        return (
            f"estimate: about {_time(self.sampling)} for outputs and samples of {self.images:,} images, in the order "
            f"of {_time(self.graphs)} for graphs; samples need {self.samples / 1e6:,.0f} MB on disk"
        )


def estimate(network: Network, gallery: Gallery, settings: Settings, batch_size: int) -> Cost:
    """Time one batch of images through reading, the model and its gradients."""
    numbers = list(range(min(batch_size, len(gallery))))
    seconds = []
    for _ in range(2):  # the first finds memory and kernels
        began = time.perf_counter()
        _, pixels = next(gallery.batches(batch_size, numbers))
        graph = Graph(network, pixels, list(network.layers), settings.rule)
        top = graph.logits.max(1, keepdim=True).values
        graph.down(top, list(network.layers), pixels=False)
        seconds.append(time.perf_counter() - began)
    an_image = min(seconds) / len(numbers)
    layers = len(network.layers)
    outputs = len(settings.outputs or ()) or 2
    images = outputs * settings.examples + ("image" in settings.graphs)
    images += ("data" in settings.graphs) * 8 * max(1, settings.examples // 4)
    integrals = images * (2 * layers - 1) + settings.validate_on * layers * 4  # to outputs, and between layers
    points = [network.hook_point(layer) for layer in network.layers]
    a_sample = sum(
        min(settings.per_image, point.positions - point.prefix) * (2 * point.channels + 12) for point in points
    )
    return Cost(len(gallery), 1.1 * an_image * len(gallery), integrals * STEPS * an_image / 2, a_sample * len(gallery))


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
