"""What a trained model is worth on validation or test images: classes, concepts, and where its parts look.

Places are judged by the package's own measures (`conceptlens.evaluation.localization`), one map for each part. `pairs`
is the mean over all visible parts of all images, as the paper counts; `parts` has each part's own mean.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from bank import Bank, Labels, rows_of
from torch import Tensor

from conceptlens.concepts import UNKNOWN
from conceptlens.data.regions.regions import Regions
from conceptlens.evaluation.localization import center_prior_maps, fit_center_prior, mean_region_maps, measure, truth_of
from conceptlens.methods.pf_cbm.pf_cbm import PFCBM
from conceptlens.nn.grounding.gaussian_prior import GaussianPrior, mean_places, patch_centers

KEPT = ("pointing_patch", "pointing_tenth", "pointing_cells", "distance_patches", "distance_object", "energy")
BINS, CHUNK = 15, 512


@dataclass(frozen=True)
class Said:
    """What a model says of N images."""

    logits: Tensor  # (N, C)
    concept_logits: Tensor  # (N, K)
    probabilities: Tensor  # (N, K)
    attention: Tensor  # (N, P, L), in half precision
    gate: Tensor  # (N, L)


@torch.no_grad()
def said_of(model: PFCBM, bank: Bank, rows: npt.NDArray[np.int64]) -> Said:
    device, parts = bank.device, len(model.part_names)
    pieces = []
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        for tokens in bank.batches(rows, CHUNK):
            out = model(tokens)
            assert out.attention is not None
            assert out.gate is not None
            maps = out.attention[:, :parts].half()
            pieces.append(
                (out.logits.float(), out.concept_logits.float(), out.bottleneck.float(), maps, out.gate.float())
            )
    return Said(*(torch.cat(column) for column in zip(*pieces, strict=True)))


def aucs(scores: Tensor, truth: Tensor) -> Tensor:
    """Area under the ROC curve of each of K concepts, (K,): scores and 0 or 1 (N, K); NaN without both outcomes.

    Ranks with ties shared, over positives (Mann and Whitney).
    """
    values = scores.T.contiguous().double()
    ordered = values.sort(-1).values
    below, upto = (torch.searchsorted(ordered, values, right=right) for right in (False, True))
    ranks, marks = (below + upto + 1).double() / 2, truth.T.double()
    positives, everyone = marks.sum(-1), values.shape[1]
    pairs = positives * (everyone - positives)
    found = ((ranks * marks).sum(-1) - positives * (positives + 1) / 2) / pairs
    return torch.where(pairs > 0, found, torch.nan)


def calibration(stated: Tensor, truth: Tensor) -> Tensor:
    """Expected calibration error of each concept over 15 bins of equal width, (K,)."""
    cell = ((stated * BINS).ceil().long() - 1).clamp(0, BINS - 1)
    gaps = torch.zeros(BINS, stated.shape[1], dtype=torch.float64, device=stated.device)
    gaps.scatter_add_(0, cell, (stated - truth).double())
    return gaps.abs().sum(0) / len(stated)


def f1(stated: Tensor, truth: Tensor) -> Tensor:
    """At a threshold of a half, (K,); NaN where a concept never is present."""
    yes = stated >= 0.5
    right = (yes & (truth > 0)).sum(0).double()
    total = (yes.sum(0) + truth.sum(0)).double()
    return torch.where(truth.sum(0) > 0, 2 * right / total.clamp_min(1), torch.nan)


def classes_and_concepts(
    said: Said, model: PFCBM, bank: Bank, labels: Labels, rows: npt.NDArray[np.int64]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Numbers, and hits of each image."""
    device = bank.device
    answer = torch.from_numpy(labels.examples.labels[rows]).to(device)
    marks = torch.from_numpy(labels.examples.concepts[rows]).to(device)
    truth, known = marks.clamp_min(0).float(), bool((marks != UNKNOWN).all())
    right = said.logits.argmax(-1) == answer
    five = (said.logits.topk(min(5, said.logits.shape[1])).indices == answer[:, None]).any(-1)
    found: dict[str, Any] = {"top1": mean(right), "top5": mean(five), "concepts_known": known}
    found["auc"] = mean(aucs(said.concept_logits, truth))
    found["f1"], found["ece"] = mean(f1(said.probabilities, truth)), mean(calibration(said.probabilities, truth))

    def read(changed: Tensor) -> float:
        return mean(model.decide(changed).argmax(-1) == answer)

    # Every concept of one part says what is true of it, the others what the model says.
    corrected = {}
    for slot, part in enumerate(model.slot_names):
        own = model.concept_slot == slot
        corrected[part] = read(torch.where(own, truth, said.probabilities))
    draw = torch.Generator().manual_seed(0)
    half = torch.stack([torch.randperm(truth.shape[1], generator=draw) for _ in rows]).to(device) < truth.shape[1] // 2
    found["corrected"] = {**corrected, "all": read(truth)}
    found["half_wrong"] = read(torch.where(half, 1 - truth, said.probabilities))
    return found, {"correct": right.float()}


def mean(values: Tensor) -> float:
    return float(values.double().nanmean())


def places(
    maps: Callable[[slice], Tensor], regions: Regions, parts: tuple[str, ...], device: torch.device
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Measures of maps (n, P, L) of some rows of the regions, and the mean over visible parts of each image."""
    at = torch.tensor([regions.parts.index(part) for part in parts], device=device)
    columns: dict[str, list[Tensor]] = {name: [] for name in (*KEPT, "energy_object", "pointing_other")}
    for start in range(0, len(regions), CHUNK):
        rows = slice(start, start + CHUNK)
        some, shown = rows_of(regions, rows), maps(rows).float()
        truth = truth_of(some, at)
        measured = measure(shown, truth)
        cover = torch.as_tensor(some.cover[:, :1]).to(device)  # of the object: its box
        box = (shown / shown.sum(-1, keepdim=True) * cover).sum(-1)
        for name in KEPT:
            columns[name].append(measured[name])
        columns["energy_object"].append(torch.where(truth.seen, box, torch.nan))
        columns["pointing_other"].append(torch.where(truth.seen, others(shown, truth.gap), torch.nan))
    joined = {name: torch.cat(found) for name, found in columns.items()}
    numbers: dict[str, Any] = {"pairs": {name: mean(values) for name, values in joined.items()}}
    each = joined["pointing_patch"].double().nanmean(0), joined["distance_patches"].double().nanmean(0)
    numbers["parts"] = {
        part: {"pointing_patch": float(each[0][row]), "distance_patches": float(each[1][row])}
        for row, part in enumerate(parts)
    }
    numbers["visible"] = int((~joined["energy"].isnan()).sum())
    return numbers, {name: joined[name].nanmean(-1) for name in KEPT[:2]}


def others(maps: Tensor, gap: Tensor) -> Tensor:
    """How often the peaks of the *other* parts' maps are within one patch of a part, (n, P).

    Where queries have not become those of parts, a part's own map points at it no more often than the others' do.
    """
    peaks = maps.argmax(-1)[:, None].expand(-1, gap.shape[1], -1)
    near = (gap.gather(-1, peaks) <= 1).float()  # (n, part, map)
    return (near.sum(-1) - near.diagonal(dim1=1, dim2=2)) / max(near.shape[-1] - 1, 1)


def judged(bank: Bank, split: str) -> Regions | None:
    """The regions of validation or test images."""
    if bank.judged is None:
        return None
    cut = len(bank.splits.val)
    return rows_of(bank.judged, slice(0, cut) if split == "val" else slice(cut, None))


def evaluate(model: PFCBM, bank: Bank, labels: Labels, split: str) -> tuple[dict[str, Any], dict[str, Tensor], Said]:
    """Everything, the numbers of single images, and what the model said."""
    rows = bank.splits[split]
    said = said_of(model, bank, rows)
    found, images = classes_and_concepts(said, model, bank, labels, rows)
    regions = judged(bank, split)
    if regions is not None:
        found["places"], near = places(lambda part: said.attention[part], regions, model.part_names, bank.device)
        images |= near
        middles = said.attention.float() @ patch_centers(bank.grid, said.attention)
        apart = (middles[:, :, None] - middles[:, None]).norm(dim=-1).sum((1, 2)) / (
            middles.shape[1] * (middles.shape[1] - 1)
        )
        found["places"]["apart"] = mean(apart)  # patches between the centers of two parts: 0 where all queries agree
    if bank.known.boxed.any():
        cover = torch.from_numpy(bank.known.boxes[rows]).to(bank.device)
        gate = said.gate.sigmoid()
        found["gate_in_box"] = mean((gate * cover).sum(-1) / gate.sum(-1))
        found["gate_auc"] = mean(aucs(said.gate.T, (cover > 0.5).float().T))
    return found, images, said


def blind(bank: Bank, parts: tuple[str, ...], sigma: float, split: str = "test") -> dict[str, Any]:
    """The same of maps that look at no image: uniform, the middle, mean regions, and Gaussians at the mean points."""
    regions, train = judged(bank, split), bank.splits.train
    assert regions is not None
    assert bank.known.judged is not None
    fit = rows_of(bank.known.judged, slice(0, len(bank.splits.val)))
    device, number = bank.device, len(parts)
    rows = [fit.parts.index(part) for part in parts]
    widths, columns = fit_center_prior(fit), [bank.known.parts.index(part) for part in parts]
    prior = GaussianPrior(number, sigma=sigma)
    points, seen = (torch.from_numpy(values[train][:, columns]) for values in (bank.known.points, bank.known.seen))
    prior.start(mean_places(points, seen))
    still: Mapping[str, Tensor] = {
        "uniform": torch.ones(number, bank.grid[0] * bank.grid[1]),
        "center": center_prior_maps([widths.get(part, 0.25) for part in parts], bank.grid),
        "mean region": torch.from_numpy(mean_region_maps(fit)[rows]).float(),
        "blind": prior(patch_centers(bank.grid, points)).softmax(-1).detach(),
    }
    found = {}
    for name, maps in still.items():

        def shown(part: slice, maps: Tensor = maps) -> Tensor:
            return maps.to(device).expand(len(range(*part.indices(len(regions)))), -1, -1)

        found[name] = places(shown, regions, parts, device)[0]
    return found
