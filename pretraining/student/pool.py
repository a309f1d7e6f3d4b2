"""All training images on the accelerator, and random views of them with what is known of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from pretraining.student.views import ViewStyle, draw_views, render, whole_views

STYLES = {
    "tiny": ViewStyle(scale=0.4),
    "imagenette": ViewStyle(scale=0.16),
    "samples": ViewStyle(scale=0.25),
    # Attributes such as size and color must survive the view.
    "blood": ViewStyle(scale=0.7, turns=True, color=0.12, gray=0.0),
}


# Weight of the true class beside the teachers' opinion. On 64 pixels they are often wrong; on larger images they are
# right, and a label given again and again would be learned by heart.
LABELS = {"tiny": 0.6, "imagenette": 0.2, "samples": 0.5, "blood": 0.0}


@dataclass
class Source:
    """Images of one source.

    Args:
        pixels: (N, 3, side, side), bytes.
        classes: (N,) index among the 1,000 ImageNet classes, −1 for none.
        attributes: (N, A) value of each axis of the blood cells, −1 for none.
        label: Weight of the true class beside the teachers' probabilities, 0 to 1.
    """

    pixels: Tensor
    classes: Tensor
    attributes: Tensor
    style: ViewStyle
    label: float = 0.5

    def to(self, device: torch.device) -> "Source":
        return replace(
            self, pixels=self.pixels.to(device), classes=self.classes.to(device), attributes=self.attributes.to(device)
        )


class Pool:
    """Draws views from several sources in fixed proportion."""

    def __init__(self, sources: Mapping[str, Source], shares: Mapping[str, float], fresh: int) -> None:
        """`shares`: how often each source is drawn; `fresh`: views a step."""
        missing = [name for name in shares if name not in sources]
        if missing:
            raise UserError(f"No shards of {', '.join(missing)} given. Pack them, or leave them out of the shares.")
        self.sources = dict(sources)
        whole = sum(shares.values())
        counts = {name: int(fresh * share / whole) for name, share in shares.items()}
        counts[max(counts, key=lambda name: counts[name])] += fresh - sum(counts.values())
        self.counts = counts

    def draw(self, generator: torch.Generator, sizes: Sequence[int]) -> tuple[list[Tensor], dict[str, Tensor]]:
        """`fresh` views at each of the sizes (the same crops), and their labels."""
        views: list[list[Tensor]] = [[] for _ in sizes]
        labels: dict[str, list[Tensor]] = {"label": [], "attributes": [], "trust": [], "colour": [], "gray": []}
        for name, count in self.counts.items():
            source = self.sources[name]
            chosen = torch.randint(len(source.pixels), (count,), generator=generator, device=generator.device)
            maps = draw_views(count, source.style, generator)
            for part, size in zip(views, sizes, strict=True):
                part.append(render(source.pixels[chosen], maps, size))
            labels["label"].append(source.classes[chosen])
            labels["attributes"].append(source.attributes[chosen])
            for key, value in (("trust", source.label), ("colour", source.style.color), ("gray", source.style.gray)):
                labels[key].append(torch.full((count,), value, device=generator.device))
        return [torch.cat(part) for part in views], {name: torch.cat(parts) for name, parts in labels.items()}


def split_off(source: Source, number: int) -> tuple[Source, Source]:
    """(rest, `number` images evenly spread over the source): the latter never train, they watch."""
    keep = torch.ones(len(source.pixels), dtype=torch.bool)
    keep[torch.linspace(0, len(keep) - 1, number).long()] = False

    def part(chosen: Tensor) -> Source:
        return replace(
            source, pixels=source.pixels[chosen], classes=source.classes[chosen], attributes=source.attributes[chosen]
        )

    return part(keep), part(~keep)


def whole_images(source: Source, size: int) -> Tensor:
    """A source's images, uncropped, (N, 3, size, size) in [0, 1]."""
    return render(source.pixels, whole_views(len(source.pixels), source.pixels.device), size)
