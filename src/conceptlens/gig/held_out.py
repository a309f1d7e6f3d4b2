"""Which outputs a run is about, and the images of them that no concept is learned from: validation judges on these."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from conceptlens.core.files import read_json, write_json
from conceptlens.gig.work import Work, layer_file

FILE = "held-out.json"
MOST = 4  # one image of so many is held out at most


@dataclass(frozen=True)
class HeldOut:
    """Numbers of the images, by output."""

    images: dict[int, list[int]]

    @property
    def numbers(self) -> list[int]:
        return sorted({number for numbers in self.images.values() for number in numbers})

    def of(self, output: int) -> list[int]:
        return self.images.get(output, [])


def main_outputs(work: Work, scores: Tensor) -> list[int]:
    """The outputs of the main graph."""
    names = work.model.outputs
    if work.settings.outputs:
        return [names.index(name) for name in dict.fromkeys(work.settings.outputs)]
    if work.model.target == "probability":
        counts = torch.bincount(scores.argmax(1), minlength=len(names))
        return [number for number in counts.argsort(descending=True, stable=True)[:2].tolist() if counts[number] > 0]
    return (
        scores.float().std(0).argsort(descending=True, stable=True)[:2].tolist()
    )  # those that differ most between images


def surest(work: Work, scores: Tensor, output: int) -> list[int]:
    """Images, those first that the model is surest about; of a class, among those it is given to."""
    sure = scores[:, output].float()
    if work.model.target == "probability":  # the softmax of one column: no second table of all outputs
        sure = torch.cat([part.float().softmax(1)[:, output] for part in torch.split(scores, 4096)])
    if work.model.target == "probability" and bool((scores.argmax(1) == output).any()):
        sure = sure.masked_fill(scores.argmax(1) != output, -torch.inf)
    return [number for number in sure.argsort(descending=True).tolist() if sure[number] > -torch.inf]


def a_share(work: Work, main: list[int]) -> int:
    """Images of each output that validation looks at."""
    return max(1, work.settings.validate_on // len(main))


def most_held_out(work: Work) -> int:
    """So many images at most; known before the model has seen any."""
    outputs = len(work.settings.outputs or ()) or 2
    return min(max(work.settings.validate_on, outputs), len(work.gallery) // MOST) if work.settings.validate_on else 0


def choose(work: Work, scores: Tensor) -> HeldOut:
    """Of each main output the surest images after those that its graph is a mean over, as far as there are some."""
    if not work.settings.validate_on:
        return HeldOut({})
    main = main_outputs(work, scores)
    share = min(a_share(work, main), len(work.gallery) // (MOST * len(main)))
    found: dict[int, list[int]] = {}
    for output in main:
        ranked = [n for n in surest(work, scores, output) if all(n not in others for others in found.values())]
        after = ranked[work.settings.examples :]
        found[output] = (after or ranked[1:])[:share]
    return HeldOut(found)


def held_out_file(work: Work, run: Path, scores: Tensor) -> HeldOut:
    """Those of a run, chosen once: a run whose concepts were found before there was a choice holds out none."""
    path = run / FILE
    if not path.exists():
        begun = any(layer_file(run, layer).exists() for layer in work.network.layers)
        made = HeldOut({}) if begun else choose(work, scores)
        write_json(path, {"images": {str(output): numbers for output, numbers in made.images.items()}})
    return read_held_out(run)


def read_held_out(run: Path) -> HeldOut:
    """What `held_out_file` has written."""
    return HeldOut({int(output): numbers for output, numbers in read_json(run / FILE)["images"].items()})
