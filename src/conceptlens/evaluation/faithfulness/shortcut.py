"""A planted shortcut that a map must show.

A model was trained on images that carry a small square wherever a concept holds. Test images are read without and with
the square, at a place of chance. If it lifts the concept's probability, the model uses it, and the map of the concept
must lie on it more than blind maps do; if it does not, there is nothing to show.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from conceptlens.core.documents import Document, TableRow
from conceptlens.core.errors import UserError
from conceptlens.data.images.framing import cover_of_box, frame_of
from conceptlens.data.images.marked import Marked
from conceptlens.data.images.read import resize_square
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.faithfulness.checks import CENTER_SIGMA, maps_of
from conceptlens.evaluation.localization import center_prior_maps, differences, summarize
from conceptlens.evaluation.localization.energy import as_mass, energy
from conceptlens.evaluation.localization.pointing import peak, pointing
from conceptlens.evaluation.localization.summary import estimate_cells
from conceptlens.evaluation.localization.verdict import WORDS
from conceptlens.evaluation.verdict import Verdict
from conceptlens.nn.heads.probabilities import concept_probabilities
from conceptlens.runs.predictions import units_of

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

BATCH = 16
BLIND = ("uniform", "center_prior")


class PlantedShortcut(Document):
    """Whether a model took a planted shortcut, and whether its maps show it."""

    remedy = "Measure it again."

    run: str
    method: str
    concept: str
    images: int
    effect: dict[str, Any]  # of the square on the concept's probability, on the same images
    maps: dict[str, dict[str, Any]]  # energy on the square and pointing at it, of each map
    against: dict[str, dict[str, Any]]  # paired differences to blind maps
    verdict: Verdict

    def text(self) -> str:
        lines = [f"{self.run}: a square planted with {self.concept!r}, {self.images} images"]
        lines += [
            f"  {row['map']:13} {row['measure']}: {row['value']:.3f}"
            for row in self.table()
            if row["value"] is not None
        ]
        return "\n".join([*lines, "", self.verdict.text()])

    def table(self) -> list[TableRow]:
        rows: list[TableRow] = [{"map": "", "measure": "effect", **estimate_cells(self.effect)}]
        return rows + [
            {"map": name, "measure": measure, **estimate_cells(estimate)}
            for name, measures in self.maps.items()
            for measure, estimate in measures.items()
        ]


def measure_shortcut(run: "OpenedRun", source: Marked, *, n: int = 64) -> PlantedShortcut:
    """Read test images of a run with and without the square that it was trained with; nothing is written.

    Args:
        run: Trained on `source`.
        source: The marked images.
        n: Images at most.
    """
    card, device, grid = run.card, run.device, run.pipeline.encoder.grid(run.card.image_size, run.card.image_size)
    indices = spread(run.splits["test"], n)
    if not len(indices):
        raise UserError(f"{run.name}: there are no test images to read with and without the marker.")
    concept = source.position
    center = center_prior_maps([CENTER_SIGMA], grid).to(device)
    columns: dict[str, dict[str, list[Tensor]]] = {}
    effect: list[Tensor] = []
    for start in range(0, len(indices), BATCH):
        batch = indices[start : start + BATCH].tolist()
        plain, marked = (
            torch.stack([torch.from_numpy(resize_square(image, card.image_size, card.fit)) for image in images])
            for images in ([source.source.read(row) for row in batch], [source.marked(row) for row in batch])
        )
        shares = [_shares(run, pixels.to(device))[:, concept] for pixels in (plain, marked)]
        effect.append(shares[1] - shares[0])
        cover = torch.from_numpy(np.stack([_cover(source, row, card.image_size, card.fit, grid) for row in batch]))
        cover = cover.to(device)
        maps = maps_of(run.pipeline, marked.to(device), torch.full((len(batch),), concept, device=device))
        maps |= {"uniform": torch.ones_like(cover), "center_prior": center.expand(len(batch), -1)}
        for name, values in maps.items():
            mass = as_mass(values)
            into = columns.setdefault(name, {"energy": [], "pointing": []})
            into["energy"].append(energy(mass, cover))
            into["pointing"].append(pointing(peak(mass), cover))
    units, config = units_of(source, indices), run.recipe.metrics
    joined = {
        name: {key: torch.cat(parts).double().cpu().numpy()[:, None] for key, parts in measures.items()}
        for name, measures in columns.items()
    }
    lifted = torch.cat(effect).double().cpu().numpy()[:, None]
    kinds = [name for name in WORDS if name in joined]
    found: dict[str, Any] = {
        "effect": summarize({"effect": lifted}, [0], units, config)["effect"],
        "maps": {name: summarize(values, [0], units, config) for name, values in joined.items()},
        "against": {
            f"{kind} - {blind}": differences(joined[kind], joined[blind], [0], units, config)
            for kind in kinds
            for blind in BLIND
        },
    }
    return PlantedShortcut(
        run=run.name,
        method=run.info["method"],
        concept=source.concepts.names[concept],
        images=len(indices),
        verdict=judge_shortcut(found, kinds[0]),
        **found,
    )


def judge_shortcut(found: dict[str, Any], kind: str) -> Verdict:
    """The verdict on the map of that kind."""
    value, interval = found["effect"]["value"], found["effect"]["interval"]
    if interval is None:
        return Verdict(outcome="unmeasured", reason="Too few images to tell whether the shortcut was taken.")
    told = f"The planted square moves the concept's probability by {value:+.2f}."
    if interval[0] <= 0:
        return Verdict(outcome="unmeasured", reason=f"{told} The model did not take the shortcut: nothing to show.")
    ours = found["maps"][kind]
    numbers = f"{WORDS[kind]} puts {ours['energy']['value']:.2f} of its mass on it"
    shown = all(
        found["against"][f"{kind} - {blind}"][measure]["interval"][0] > 0
        for blind in BLIND
        for measure in ("energy", "pointing")
    )
    if shown:
        return Verdict(outcome="pass", reason=f"{told} {numbers}, more than any blind map.")
    return Verdict(outcome="finding", reason=f"{told} {numbers}, not more than blind maps: it hides what was used.")


def _shares(run: "OpenedRun", images: Tensor) -> Tensor:
    with torch.no_grad():
        return concept_probabilities(run.pipeline(images).concept_logits, run.concepts.groups)


def _cover(source: Marked, index: int, side: int, fit: Any, grid: tuple[int, int]) -> Any:
    size = source.source.read(index).size
    left, top, right, bottom = source.box(index, size)
    box = (float(left), float(top), float(right), float(bottom))
    return cover_of_box(box, frame_of(*size, side, fit), grid).ravel().astype(np.float32)
